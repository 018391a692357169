//! The command line of `cargo xtask release`.

use std::path::PathBuf;

use clap::ValueEnum;

/// See [`super`].
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Where to write; by default `release` in the target directory.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Only for these processors.
    #[arg(long, value_enum, default_values = ["x86-64", "aarch64"])]
    pub(crate) arch: Vec<Arch>,
    /// Build HEAD in two other directories as well, and compare every byte.
    #[arg(long)]
    pub(crate) twice: bool,
    /// Only fetch the linker, and end.
    #[arg(long)]
    pub(crate) fetch: bool,
}

/// A processor that there are artefacts for, by the names that it has elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Arch {
    /// Intel's and AMD's, 64 bits.
    #[value(name = "x86-64")]
    X86_64,
    /// Arm's, 64 bits.
    Aarch64,
}

#[cfg(feature = "release")]
impl Arch {
    /// As rustc, file names and rpm have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// As dpkg and container images have it.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The target of rustc.
    pub(super) fn triple(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }
}
