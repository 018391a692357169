//! The machine's cards in words, for people, as the daemon tells them.

use crate::output::{plain, sizes};
use crate::wire::cards::{CardList, CardReport, DeviceHealth};

pub(super) fn words(list: &CardList) -> String {
    let mut lines: Vec<String> = list.cards.iter().flat_map(card).collect();
    match (&list.detail, lines.is_empty()) {
        (Some(why), _) => lines.push(format!("the driver could not be asked: {why}")),
        (None, true) => lines.push("the machine has no card".to_owned()),
        (None, false) => {
            let driver = list.driver.as_deref().unwrap_or("of unknown version");
            lines.push(format!("driver {driver}"));
        }
    }
    lines.iter().map(|line| format!("{}\n", plain::line(line))).collect()
}

fn card(card: &CardReport) -> Vec<String> {
    let health = match card.health {
        DeviceHealth::Healthy => "healthy",
        DeviceHealth::Unhealthy => "unhealthy",
        DeviceHealth::Unknown => "health unknown",
    };
    let memory = match card.memory_bytes {
        0 => "memory unknown".to_owned(),
        bytes => sizes::text(bytes),
    };
    let mut lines = vec![format!("{}: {}, {memory}, {health}", card.uuid, card.name)];
    let place = [
        card.pci_bus_id.as_ref().map(|bus| format!("bus {bus}")),
        card.pcie_root.as_ref().map(|root| format!("root {root}")),
        card.numa_node.map(|node| format!("NUMA node {node}")),
        card.architecture.clone(),
        card.compute_capability.as_ref().map(|number| format!("compute capability {number}")),
    ];
    let place: Vec<String> = place.into_iter().flatten().collect();
    if !place.is_empty() {
        lines.push(format!("  {}", place.join(", ")));
    }
    lines.extend(card.detail.iter().map(|why| format!("  {why}")));
    if card.mig && card.instances.is_empty() {
        lines.push("  partitioned (MIG), without instances".to_owned());
    }
    for instance in &card.instances {
        let profile = instance.profile.as_deref().unwrap_or("of unknown profile");
        let memory = sizes::text(instance.memory_bytes);
        lines.push(format!("  {}: {profile}, {memory}", instance.uuid));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::cards::CardInstance;

    #[test]
    fn a_list_says_what_is_known_and_what_is_not() {
        let full = CardReport {
            uuid: "GPU-1".to_owned(),
            name: "NVIDIA H200".to_owned(),
            memory_bytes: 140 << 30,
            compute_capability: Some("9.0".to_owned()),
            pci_bus_id: Some("0000:17:00.0".to_owned()),
            pcie_root: Some("pci0000:16".to_owned()),
            numa_node: Some(1),
            health: DeviceHealth::Healthy,
            ..CardReport::default()
        };
        let instance = CardInstance {
            uuid: "MIG-1".to_owned(),
            profile: Some("1g.18gb".to_owned()),
            memory_bytes: 16 << 30,
        };
        let lost = CardReport {
            uuid: "GPU-2".to_owned(),
            health: DeviceHealth::Unhealthy,
            detail: Some("lost\u{1b}".to_owned()),
            mig: true,
            instances: vec![instance],
            ..CardReport::default()
        };
        let mut list = CardList { driver: Some("580.82.07".to_owned()), ..CardList::default() };
        list.cards = vec![full, lost];
        let told = words(&list);
        assert!(told.starts_with(
            "GPU-1: NVIDIA H200, 140 GiB, healthy\n  bus 0000:17:00.0, root pci0000:16, NUMA node 1, \
             compute capability 9.0\nGPU-2: , memory unknown, unhealthy\n"
        ));
        assert!(told.ends_with("\n  MIG-1: 1g.18gb, 16 GiB\ndriver 580.82.07\n"), "{told}");
        assert!(!told.contains('\u{1b}'));
        assert_eq!(words(&CardList::default()), "the machine has no card\n");
        let unknown = CardList { detail: Some("no NVML".to_owned()), ..CardList::default() };
        assert_eq!(words(&unknown), "the driver could not be asked: no NVML\n");
    }
}
