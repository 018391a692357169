//! Tenants on disk, and their limits in words: where they lie, what they hold, what is changed of them.
//!
//! Does not schedule anybody: that is [`crate::daemon`]'s.

pub(crate) mod asked_limits;
pub(crate) mod by_id;
pub mod cause;
pub mod change;
pub(crate) mod dir;
pub(crate) mod discover;
pub(crate) mod host_promise;
pub mod ledger;
pub mod limits;
pub(crate) mod promised;
pub(crate) mod reap;
pub(crate) mod share_args;
pub(crate) mod snapshot;
pub(crate) mod started;
pub mod tenant_dir;
pub(crate) mod why;
