//! Preemption for claims: pods of lower priority are evicted where one of higher priority waits for a share of a card. The
//! scheduler does that for processors and memory; up to Kubernetes 1.37 it does not for claims.
//!
//! [`decide`] chooses, [`node`] and [`words`] say whether anything else stands in the way, [`read`] turns
//! objects into what is decided on, [`run`] looks and evicts.
//!
//! Promises: claims and slices are listed when a pod is there that waits for them, never watched. Pods are evicted by the Eviction
//! API alone, which knows their disruption budgets.

mod decide;
mod node;
mod nominate;
mod read;
mod run;
#[cfg(test)]
mod tests;
mod words;

pub(super) use self::run::{PreemptOptions, PreemptTask};
