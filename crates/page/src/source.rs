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
}
