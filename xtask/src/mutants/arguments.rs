//! Arguments of `cargo xtask mutants`.
//!
//! Pure.

/// Which mutants, and how.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// So many, drawn at random; by default all.
    #[arg(long)]
    pub(super) sample: Option<usize>,
    /// Which draw.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Only those whose names contain one of these: files, functions, changes.
    #[arg(long)]
    only: Vec<String>,
    /// All of policy and page, judged by their own tests and the searcher's.
    #[arg(long)]
    pub(super) whole: bool,
    /// Faults that are planted instead, each in the test that must find it.
    #[arg(long, conflicts_with_all = ["sample", "each", "known", "anew", "whole"])]
    pub(super) faults: bool,
    /// With the one fault that `--only` names: make a case that fails with it alone small, and keep it. As `soak share`'s.
    #[arg(long, num_args = 2, value_names = ["KIND", "SEED"], requires = "faults")]
    pub(super) shrink: Vec<String>,
    /// How many are run at once.
    #[arg(long, default_value_t = 1)]
    pub(super) jobs: usize,
    /// Only tests that take so many seconds or less, which makes a kill rate a lower bound.
    #[arg(long, default_value_t = f64::MAX, hide_default_value = true)]
    pub(super) each: f64,
    /// Forget what earlier runs over the same source found.
    #[arg(long)]
    pub(super) anew: bool,
    /// Run none: say what is known of those chosen.
    #[arg(long)]
    pub(super) known: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Keep the result under bench/results.
    #[arg(long)]
    pub(super) keep: bool,
}

#[cfg(feature = "mutants")]
impl Arguments {
    /// Whether a mutant of this name is asked for.
    pub(super) fn names(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }
}
