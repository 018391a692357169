//! Scope of a run: the code that is changed, and the tests that judge.
//!
//! Two questions: whether the searcher alone notices what goes wrong in how time is shared, and whether all tests
//! together notice what goes wrong in any decision, or in what processes say to each other by the tenant's files.
//!
//! Pure.

/// The module of the switches, from the workspace's root.
pub(super) const SWITCHES: &str = "crates/policy/src/mutant.rs";

/// One of the two questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// Policy's gates, turns and pace, by the searcher.
    Share,
    /// Policy and page, by their own tests and the searcher's.
    Whole,
}

/// A crate that has mutants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed {
    pub(super) package: &'static str,
    /// Its root.
    pub(super) library: &'static str,
    /// The module that the switches are declared before.
    pub(super) first: &'static str,
    /// Their declaration.
    pub(super) switches: &'static str,
}

const POLICY: Changed = Changed {
    package: "divvy-policy",
    library: "crates/policy/src/lib.rs",
    first: "atomic",
    switches: "extern crate std as mutant_std;\n#[doc(hidden)]\npub mod mutant;\n",
};

const PAGE: Changed = Changed {
    package: "divvy-page",
    library: "crates/page/src/lib.rs",
    first: "admission",
    switches: "#[doc(hidden)]\npub use divvy_policy::mutant;\n",
};

impl Scope {
    /// Name of the results, and of the copy's folder.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Share => "mutants",
            Self::Whole => "mutants-whole",
        }
    }

    /// The crates with mutants.
    pub(super) const fn changed(self) -> &'static [Changed] {
        match self {
            Self::Share => &[POLICY],
            Self::Whole => &[POLICY, PAGE],
        }
    }

    /// Their files; all where none is named.
    pub(super) const fn files(self) -> &'static [&'static str] {
        match self {
            Self::Share => &[
                "crates/policy/src/gate/**",
                "crates/policy/src/turns/**",
                "crates/policy/src/pace.rs",
            ],
            Self::Whole => &[],
        }
    }

    /// Members of the copy.
    pub(super) const fn members(self) -> &'static [&'static str] {
        match self {
            Self::Share => &["crates/abi", "crates/policy", "crates/searcher"],
            Self::Whole => &["crates/abi", "crates/policy", "crates/page", "crates/searcher"],
        }
    }

    /// The packages whose tests judge.
    pub(super) const fn judges(self) -> &'static [&'static str] {
        match self {
            Self::Share => &["divvy-searcher"],
            Self::Whole => &["divvy-policy", "divvy-page", "divvy-searcher"],
        }
    }
}
