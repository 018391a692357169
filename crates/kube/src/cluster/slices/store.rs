//! Slices that the API server has told of: those of this node, ours and other drivers'. Pure.
//!
//! A slice that was written is entered at once, before the watch tells of it; the watch's older word does not undo that. Promises: a
//! list that begins anew counts when it is complete, so that a dropped watch is not taken for an empty one.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::runtime::watcher::Event;

use crate::cluster::node;
use crate::driver::DRIVER;

/// Slices of the node.
#[derive(Clone, Debug, Default)]
pub(in crate::cluster) struct SliceStore {
    slices: BTreeMap<String, ResourceSlice>,
    /// Those of a list that is not complete.
    listing: BTreeMap<String, ResourceSlice>,
    /// UIDs of slices that were removed, of which the watch may still tell older things.
    gone: BTreeSet<String>,
    /// Whether a list was ever complete.
    pub(in crate::cluster) is_synced: bool,
}

fn name(slice: &ResourceSlice) -> String {
    slice.metadata.name.clone().unwrap_or_default()
}

/// Number of a resource's version; the API server compares them so.
fn version(slice: &ResourceSlice) -> Option<u64> {
    slice.metadata.resource_version.as_ref()?.parse().ok()
}

/// Whether `one` is known to be older than `other`.
fn is_older(one: &ResourceSlice, other: &ResourceSlice) -> bool {
    matches!((version(one), version(other)), (Some(one), Some(other)) if one < other)
}

impl SliceStore {
    /// Enters the watch's word.
    pub(in crate::cluster) fn hear(&mut self, event: Event<ResourceSlice>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(slice) => drop(self.listing.insert(name(&slice), slice)),
            Event::InitDone => {
                self.slices = std::mem::take(&mut self.listing);
                self.gone.clear();
                self.is_synced = true;
            }
            Event::Apply(slice) => {
                if !slice.metadata.uid.as_ref().is_some_and(|uid| self.gone.contains(uid)) {
                    self.enter(slice);
                }
            }
            Event::Delete(slice) => {
                if let Some(uid) = &slice.metadata.uid {
                    self.gone.remove(uid);
                }
                let is_it = |known: &ResourceSlice| !is_older(&slice, known);
                if self.slices.get(&name(&slice)).is_some_and(is_it) {
                    self.slices.remove(&name(&slice));
                }
            }
        }
    }

    /// Enters a slice as it was written or read.
    pub(in crate::cluster) fn enter(&mut self, slice: ResourceSlice) {
        let is_news = |known: &ResourceSlice| !is_older(&slice, known);
        if self.slices.get(&name(&slice)).is_none_or(is_news) {
            self.slices.insert(name(&slice), slice);
        }
    }

    /// Takes out a slice that is gone.
    pub(in crate::cluster) fn forget(&mut self, name: &str) {
        self.gone.extend(self.slices.remove(name).and_then(|slice| slice.metadata.uid));
    }

    /// Our slices, by name.
    pub(in crate::cluster) fn own(&self) -> impl Iterator<Item = (&String, &ResourceSlice)> {
        self.slices.iter().filter(|(_, slice)| slice.spec.driver == DRIVER)
    }

    /// Cards that other drivers sell, by UUID in lower case, and the driver.
    pub(in crate::cluster) fn foreign(&self) -> BTreeMap<String, String> {
        let others = self.slices.values().filter(|slice| slice.spec.driver != DRIVER);
        let cards = others.flat_map(|slice| {
            let driver = slice.spec.driver.clone();
            node::cards_of(slice).into_iter().map(move |card| (card, driver.clone()))
        });
        cards.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(name: &str, version: &str, driver: &str) -> ResourceSlice {
        serde_json::from_value(json!({ "metadata": { "name": name, "uid": name, "resourceVersion": version },
            "spec": { "driver": driver, "pool": { "name": "n", "generation": 1, "resourceSliceCount": 1 },
            "devices": [{ "name": "d", "attributes": { "uuid": { "string": "GPU-A" } } }] } }))
        .unwrap()
    }

    fn versions(store: &SliceStore) -> Vec<&str> {
        let versions = store.own().map(|(_, slice)| slice.metadata.resource_version.as_deref());
        versions.map(Option::unwrap).collect()
    }

    #[test]
    fn an_older_word_does_not_undo_what_was_written() {
        let mut store = SliceStore::default();
        store.enter(slice("a", "9", DRIVER));
        for event in [Event::Apply, Event::Delete] {
            store.hear(event(slice("a", "8", DRIVER)));
            assert_eq!(versions(&store), ["9"]);
        }
        store.hear(Event::Apply(slice("a", "10", DRIVER)));
        assert_eq!(versions(&store), ["10"]);
        store.forget("a");
        store.hear(Event::Apply(slice("a", "10", DRIVER)));
        assert_eq!(store.own().count(), 0, "it was removed");
        store.hear(Event::Delete(slice("a", "11", DRIVER)));
        assert_eq!((store.own().count(), store.gone.len()), (0, 0));
    }

    #[test]
    fn a_list_counts_when_it_is_complete() {
        let mut store = SliceStore::default();
        store.enter(slice("a", "9", DRIVER));
        store.hear(Event::Init);
        store.hear(Event::InitApply(slice("b", "7", DRIVER)));
        assert!(!store.is_synced && versions(&store) == ["9"]);
        // The watch drops, and the list begins anew.
        store.hear(Event::Init);
        store.hear(Event::InitApply(slice("c", "8", "gpu.nvidia.com")));
        store.hear(Event::InitDone);
        assert!(store.is_synced && store.own().count() == 0);
        let sold = BTreeMap::from([("gpu-a".to_owned(), "gpu.nvidia.com".to_owned())]);
        assert_eq!(store.foreign(), sold);
    }
}
