//! Decision: what is to be written so that the API server has the pool that is wanted. Pure.
//!
//! The scheduler takes the slices of the highest generation, once there are as many as each of them says. So a set that changes
//! gets the next generation, in all of its slices; a set that is the same keeps its generation, whoever wiped or edited a
//! slice. Slices have fixed names, by their place: one whose answer was lost is found again instead of made twice.
//!
//! Promises: what is decided of its own result is nothing; writes come in an order in which the scheduler never sees a whole
//! pool that is neither the old nor the new one.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Device, ResourceSlice};

use super::pool::NodePool;
use super::same::is_same;

/// Set that was decided on last by this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cluster) struct DecidedSet {
    generation: i64,
    devices: Vec<Vec<Device>>,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cluster) struct SliceWrite {
    pub(in crate::cluster) verb: WriteVerb,
    /// As it is to be; of one that is removed, the version that is.
    pub(in crate::cluster) slice: ResourceSlice,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum WriteVerb {
    Create,
    /// In the place of the version that the slice names.
    Replace,
    Delete,
}

/// Requests that make it so, in this order.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cluster) struct Decision {
    pub(in crate::cluster) set: DecidedSet,
    pub(in crate::cluster) writes: Vec<SliceWrite>,
}

impl DecidedSet {
    /// Its generation.
    pub(in crate::cluster) fn generation(&self) -> i64 {
        self.generation
    }
}

/// Decides, of the slices that are `seen`, all ours, and of what was decided `last`.
pub(in crate::cluster) fn decide<'a>(
    pool: &NodePool,
    seen: impl Iterator<Item = (&'a String, &'a ResourceSlice)>,
    last: Option<&DecidedSet>,
) -> Decision {
    use WriteVerb::{Create, Delete, Replace};
    let mut seen: BTreeMap<&str, &ResourceSlice> =
        seen.map(|(name, slice)| (name.as_str(), slice)).collect();
    let generation = generation(pool, &seen, last);
    let (mut writes, mut later) = (Vec::new(), Vec::new());
    for at in 0..pool.devices.len() {
        let Some(wanted) = pool.slice(at, generation) else { continue };
        match seen.remove(pool.name(at).as_str()) {
            None => writes.push(SliceWrite { verb: Create, slice: wanted }),
            // Going already: made again when it is gone.
            Some(slice) if slice.metadata.deletion_timestamp.is_some() => {}
            Some(slice) if is_same(slice, &wanted) => {}
            Some(slice) => {
                let slice = instead_of(slice, wanted);
                writes.push(SliceWrite { verb: Replace, slice });
            }
        }
    }
    let mut first = Vec::new();
    for slice in seen.into_values().filter(|slice| slice.metadata.deletion_timestamp.is_none()) {
        let delete = SliceWrite { verb: Delete, slice: slice.clone() };
        // One more of the generation makes the pool look wrong; one of an older is passed over.
        let is_current = slice.spec.pool.generation >= generation;
        if is_current { first.push(delete) } else { later.push(delete) }
    }
    first.append(&mut writes);
    first.append(&mut later);
    Decision { set: DecidedSet { generation, devices: pool.devices.clone() }, writes: first }
}

fn generation(
    pool: &NodePool,
    seen: &BTreeMap<&str, &ResourceSlice>,
    last: Option<&DecidedSet>,
) -> i64 {
    let of_pool = seen.values().filter(|slice| slice.spec.pool.name == pool.node);
    let highest = of_pool.map(|slice| slice.spec.pool.generation).max().unwrap_or(0);
    let is_whole = |generation: i64| {
        (0..pool.devices.len()).all(|at| {
            let wanted = pool.slice(at, generation);
            let slice = seen.get(pool.name(at).as_str());
            matches!((slice, wanted), (Some(slice), Some(wanted)) if is_same(slice, &wanted))
        })
    };
    match last {
        // A slice that another has raised above ours.
        Some(last) if highest > last.generation => highest.saturating_add(1),
        Some(last) if last.devices == pool.devices => last.generation,
        Some(last) => last.generation.saturating_add(1),
        None if highest > 0 && is_whole(highest) => highest,
        None => highest.saturating_add(1),
    }
}

/// `wanted` with what the API server needs to know which version it replaces, and with what others have written beside it.
fn instead_of(slice: &ResourceSlice, wanted: ResourceSlice) -> ResourceSlice {
    let mut metadata = slice.metadata.clone();
    metadata.owner_references = wanted.metadata.owner_references;
    metadata.managed_fields = None;
    ResourceSlice { metadata, spec: wanted.spec }
}
