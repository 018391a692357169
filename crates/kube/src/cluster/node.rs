//! Node: whether this node may have devices of ours, and if not, why. Pure.
//!
//! **Fail closed**: a container runtime that does not know the Container Device Interface (CDI) starts the pod all the same, with
//! no limits. So a node is refused until its runtime is known to know it. A card that another plugin sells is refused too: the
//! two would give it away twice.
//!
//! Does not ask: that is [`super::run`]'s.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;

use super::runtime;
use super::verdict::{NodeReason, NodeRefusal, NodeVerdict, PluginNode};
use crate::quantity;

/// Extended resources of plugins that hand out NVIDIA's cards.
const SOLD: [&str; 2] = ["nvidia.com/gpu", "nvidia.com/gpu.shared"];
/// Beginning of those that are instances of partitioned cards.
const SOLD_INSTANCES: &str = "nvidia.com/mig-";
/// Beginning of those that our own device plugin sells.
const SOLD_BY_OURS: &str = "divvy.dev/gpu-";
/// First version of a kubelet that gives the runtime the CDI devices of a device plugin without a gate.
const KUBELET_WITH_CDI: (u32, u32) = (1, 29);
/// Attributes, of whichever driver, that say which card a device is.
const CARD_ATTRIBUTES: [&str; 2] = ["uuid", "parentUUID"];
/// First version of Kubernetes that has what we publish, and the first that needs no gate for it.
const KUBERNETES: (u32, u32) = (1, 34);
const KUBERNETES_UNGATED: (u32, u32) = (1, 36);

/// Facts about the node that the verdict depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeFacts {
    pub(super) uid: String,
    runtime: String,
    kubelet: String,
    /// Extended resources that sell cards, each with the amount.
    sold: BTreeMap<String, String>,
}

impl NodeFacts {
    pub(super) fn of(node: &Node) -> Self {
        let status = node.status.clone().unwrap_or_default();
        let info = status.node_info.unwrap_or_default();
        let mut sold = BTreeMap::new();
        for (name, amount) in status.capacity.into_iter().chain(status.allocatable).flatten() {
            let sells = SOLD.contains(&name.as_str())
                || name.starts_with(SOLD_INSTANCES)
                || name.starts_with(SOLD_BY_OURS);
            // An amount that is not understood is some.
            if sells && quantity::whole_text(&amount.0) != Ok(0) {
                sold.insert(name, amount.0);
            }
        }
        Self {
            uid: node.metadata.uid.clone().unwrap_or_default(),
            runtime: info.container_runtime_version,
            kubelet: info.kubelet_version,
            sold,
        }
    }

    fn refusal(&self, node: &str, runtimes: &[String]) -> Option<NodeRefusal> {
        let refuse = |reason, words: String| Some(NodeRefusal { reason, words });
        if let Err((reason, words)) = runtime::judge(&self.runtime, runtimes) {
            return refuse(reason, format!("node {node}: {words}"));
        }
        let kubelet = &self.kubelet;
        if runtime::version(kubelet).is_some_and(|version| version < KUBERNETES) {
            let words = format!(
                "node {node}: the kubelet {kubelet} has no shared devices, which begin with 1.34: run `divvy-kube plugin` there"
            );
            return refuse(NodeReason::KubeletTooOld, words);
        }
        let (name, amount) = self.sold.first_key_value()?;
        let whose = match name.starts_with(SOLD_BY_OURS) {
            true => "`divvy-kube plugin`",
            false => "a device plugin (NVIDIA's, or HAMi's)",
        };
        refuse(NodeReason::SoldByPlugin, sold_twice(node, whose, name, amount))
    }

    /// The node, as our own device plugin needs to know it.
    pub(super) fn for_plugin(&self, node: &str) -> PluginNode {
        let others = self.sold.iter().find(|(name, _)| !name.starts_with(SOLD_BY_OURS));
        let refusal = others.map(|(name, amount)| NodeRefusal {
            reason: NodeReason::SoldByPlugin,
            words: sold_twice(node, "a device plugin (NVIDIA's, or HAMi's)", name, amount),
        });
        let kubelet = runtime::version(&self.kubelet);
        let is_sure = runtime::judge(&self.runtime, &[]).is_ok();
        let has_cdi = is_sure && kubelet.is_some_and(|version| version >= KUBELET_WITH_CDI);
        PluginNode { refusal, has_cdi }
    }

    fn notes(&self) -> Vec<String> {
        match runtime::version(&self.kubelet) {
            Some(version) if version < KUBERNETES_UNGATED => vec![format!(
                "the kubelet {} shares devices with the feature gate DRAConsumableCapacity alone: set it on API server, \
                 scheduler, controller manager and kubelet",
                self.kubelet
            )],
            Some(_) => Vec::new(),
            None => vec![format!("the kubelet's version {:?} is none", self.kubelet)],
        }
    }
}

fn sold_twice(node: &str, whose: &str, name: &str, amount: &str) -> String {
    format!(
        "node {node}: {whose} sells {name}: {amount} there, and would give the same cards away twice: take that plugin off the \
         node, which is seen some minutes later"
    )
}

impl NodeVerdict {
    /// The verdict on `node`, with slices of other drivers on it, and whether the API server drops what makes a device shared.
    /// `runtimes` are names of runtimes that somebody vouches for.
    pub(super) fn of(
        node: &str,
        facts: Option<&NodeFacts>,
        foreign: &BTreeMap<String, String>,
        drops_shares: bool,
        runtimes: &[String],
    ) -> Self {
        let Some(facts) = facts else { return Self::default() };
        let gate = || {
            let words = format!(
                "node {node}: the API server drops allowMultipleAllocations from devices: turn the feature gate \
                 DRAConsumableCapacity on there, and in scheduler, controller manager and kubelet"
            );
            drops_shares.then_some(NodeRefusal { reason: NodeReason::GateOff, words })
        };
        let refusal = facts.refusal(node, runtimes).or_else(gate);
        // A refusal says what is to be done first.
        let notes = if refusal.is_none() { facts.notes() } else { Vec::new() };
        Self { refusal, sold: foreign.clone(), notes }
    }
}

/// Cards of a slice of another driver, by UUID in lower case.
pub(super) fn cards_of(slice: &ResourceSlice) -> BTreeSet<String> {
    let devices = slice.spec.devices.iter().flatten();
    let attributes = devices.filter_map(|device| device.attributes.as_ref()).flatten();
    let is_card = |name: &str| {
        let own = name.rsplit('/').next().unwrap_or(name);
        CARD_ATTRIBUTES.contains(&own)
    };
    let cards = attributes.filter(|(name, _)| is_card(name));
    cards.filter_map(|(_, value)| Some(value.string.as_ref()?.to_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(runtime: &str, kubelet: &str, resources: &Value) -> NodeFacts {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": "n1", "uid": "u-1" },
            "status": { "allocatable": resources, "nodeInfo": {
                "containerRuntimeVersion": runtime, "kubeletVersion": kubelet,
                "architecture": "amd64", "bootID": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "",
                "operatingSystem": "linux", "osImage": "", "systemUUID": "" } } }))
        .unwrap();
        NodeFacts::of(&node)
    }

    fn reason(facts: &NodeFacts) -> Option<NodeReason> {
        NodeVerdict::of("n1", Some(facts), &BTreeMap::new(), false, &[]).refusal.map(|it| it.reason)
    }

    #[test]
    fn a_node_is_refused_until_it_is_known_to_be_good() {
        assert_eq!(
            NodeVerdict::default().check("GPU-1").unwrap_err().reason,
            NodeReason::NotLooked
        );
        let (new, none) = ("containerd://2.1.0", json!({ "cpu": "8" }));
        assert_eq!(reason(&node(new, "v1.36.1", &none)), None);
        assert_eq!(reason(&node(new, "v1.33.9", &none)), Some(NodeReason::KubeletTooOld));
        assert_eq!(reason(&node(new, "v1.34.2+k3s1", &none)), None);
        assert_eq!(node(new, "v1.35.0", &none).notes().len(), 1);
        assert_eq!(node(new, "v1.36.0-eks-1", &none).notes().len(), 0);
        assert_eq!(node(new, "nightly", &none).notes().len(), 1);
        for old in ["containerd://1.6.20~ds1", "containerd://1.7.27"] {
            let found = reason(&node(old, "v1.36.1", &none));
            assert_eq!(found, Some(NodeReason::RuntimeWithoutCdi), "{old}");
        }
        let facts = node(new, "v1.36.1", &none);
        let off = NodeVerdict::of("n1", Some(&facts), &BTreeMap::new(), true, &[]);
        assert_eq!(off.refusal.unwrap().reason, NodeReason::GateOff);
    }

    #[test]
    fn cards_that_a_plugin_sells_are_refused_and_recover() {
        for (resources, sold) in [
            (json!({ "nvidia.com/gpu": "8" }), true),
            (json!({ "nvidia.com/gpu": "0" }), false),
            (json!({ "nvidia.com/gpu.shared": "16" }), true),
            (json!({ "nvidia.com/mig-1g.18gb": "7" }), true),
            (json!({ "nvidia.com/gpu": "many" }), true),
            (json!({ "divvy.dev/gpu-8g-30c": "3" }), true),
            (json!({ "divvy.dev/gpu-8g-30c": "0" }), false),
            (json!({ "nvidia.com/gpumem": "80000", "amd.com/gpu": "8" }), false),
        ] {
            let facts = node("cri-o://1.30.0", "v1.37.0", &resources);
            let expected = sold.then_some(NodeReason::SoldByPlugin);
            assert_eq!(reason(&facts), expected, "{resources}");
        }
    }

    #[test]
    fn our_plugin_gives_cdi_devices_where_they_surely_reach_the_runtime() {
        let none = json!({});
        for (runtime, kubelet, has_cdi) in [
            ("containerd://2.1.0", "v1.31.4", true),
            ("containerd://2.1.0", "v1.29.0", true),
            ("containerd://2.1.0", "v1.28.9", false),
            ("containerd://1.7.27", "v1.33.0", false),
            ("containerd://1.6.20", "v1.33.0", false),
            ("cri-o://1.30.0", "v1.30.0+k3s", true),
            ("docker://28.0.0", "v1.30.0", false),
            ("", "", false),
        ] {
            let plugin = node(runtime, kubelet, &none).for_plugin("n1");
            assert_eq!(plugin, PluginNode { refusal: None, has_cdi }, "{runtime} {kubelet}");
        }
        let sold = json!({ "divvy.dev/gpu-8g-30c": "3", "nvidia.com/gpu": "8" });
        let refusal =
            node("containerd://2.1.0", "v1.31.4", &sold).for_plugin("n1").refusal.unwrap();
        assert_eq!(refusal.reason, NodeReason::SoldByPlugin);
        assert!(refusal.words.contains("nvidia.com/gpu: 8"), "{}", refusal.words);
        let own = json!({ "divvy.dev/gpu-8g-30c": "3" });
        assert_eq!(node("containerd://2.1.0", "v1.31.4", &own).for_plugin("n1").refusal, None);
        assert!(PluginNode::default().refusal.is_some(), "refused until it was looked at");
    }

    #[test]
    fn a_card_of_another_driver_is_refused_by_its_uuid() {
        let slice = json!({ "metadata": {}, "spec": { "driver": "gpu.nvidia.com",
            "pool": { "name": "n1", "generation": 1, "resourceSliceCount": 1 }, "devices": [
                { "name": "gpu-0", "attributes": { "uuid": { "string": "GPU-0A" }, "index": { "int": 0 } } },
                { "name": "mig-1", "attributes": { "gpu.nvidia.com/uuid": { "string": "MIG-1" },
                  "parentUUID": { "string": "GPU-0b" } } }, { "name": "bare" } ] } });
        let cards = cards_of(&serde_json::from_value(slice).unwrap());
        assert_eq!(
            cards.iter().map(String::as_str).collect::<Vec<_>>(),
            ["gpu-0a", "gpu-0b", "mig-1"]
        );
        let sold = cards.into_iter().map(|card| (card, "gpu.nvidia.com".to_owned())).collect();
        let facts = node("containerd://2.1.0", "v1.36.1", &json!({}));
        let verdict = NodeVerdict::of("n1", Some(&facts), &sold, false, &[]);
        let refused = verdict.check("GPU-0a").unwrap_err();
        assert_eq!(refused.reason, NodeReason::SoldByDriver);
        assert!(refused.words.contains("gpu.nvidia.com"), "{}", refused.words);
        assert_eq!(verdict.check("GPU-0c"), Ok(()));
    }

    #[test]
    fn every_reason_has_words_of_its_own() {
        let mut words: Vec<_> =
            NodeReason::ALL.iter().flat_map(|(_, word, event)| [*word, *event]).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 2 * NodeReason::ALL.len());
        // The last is declared last: none is left out of the table.
        assert_eq!(NodeReason::GateOff as usize + 1, NodeReason::ALL.len());
    }
}
