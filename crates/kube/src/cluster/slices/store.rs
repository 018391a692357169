//! Slices that the API server has told of: those of this node, ours and other drivers'. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::ResourceSlice;

use crate::cluster::node;
use crate::cluster::objects::{KeptObject, ObjectStore};
use crate::driver::DRIVER;

/// Slices of the node, by name.
pub(in crate::cluster) type SliceStore = ObjectStore<ResourceSlice>;

impl KeptObject for ResourceSlice {
    fn key(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }

    fn uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }

    fn version(&self) -> Option<u64> {
        self.metadata.resource_version.as_ref()?.parse().ok()
    }
}

impl SliceStore {
    /// Our slices, by name.
    pub(in crate::cluster) fn own(&self) -> impl Iterator<Item = (&String, &ResourceSlice)> {
        self.all().filter(|(_, slice)| slice.spec.driver == DRIVER)
    }

    /// Cards that other drivers sell, by UUID in lower case, and the driver.
    pub(in crate::cluster) fn foreign(&self) -> BTreeMap<String, String> {
        let others = self.all().filter(|(_, slice)| slice.spec.driver != DRIVER);
        let cards = others.flat_map(|(_, slice)| {
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

    #[test]
    fn ours_and_those_of_others_are_told_apart() {
        let mut store = SliceStore::default();
        for (name, driver) in [("a", DRIVER), ("b", "gpu.nvidia.com")] {
            let slice = json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "7" },
                "spec": { "driver": driver, "pool": { "name": "n", "generation": 1, "resourceSliceCount": 1 },
                "devices": [{ "name": "d", "attributes": { "uuid": { "string": "GPU-A" } } }] } });
            store.enter(serde_json::from_value(slice).unwrap());
        }
        assert_eq!(store.own().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a"]);
        let sold = BTreeMap::from([("gpu-a".to_owned(), "gpu.nvidia.com".to_owned())]);
        assert_eq!(store.foreign(), sold);
    }
}
