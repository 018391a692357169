//! Where a tenant's limits come from, as the process that joins says.
//!
//! Does not read or write them: that is [`crate::settle`].

use divvy_abi::config::Config;

/// Where a tenant's limits come from.
#[derive(Debug)]
pub enum ConfigSource<'a> {
    /// Its owner has written them.
    Owner,
    /// The first process of a tenant without an owner writes them, from its environment.
    FirstProcess(&'a Config),
    /// The tenant's only process does, and its forked children: where another lives in it, this one does not join.
    OnlyProcess(&'a Config),
}

impl<'a> ConfigSource<'a> {
    /// The limits that the process that joins would write.
    pub(crate) fn own(&self) -> Option<&'a Config> {
        match self {
            Self::Owner => None,
            Self::FirstProcess(config) | Self::OnlyProcess(config) => Some(config),
        }
    }
}
