//! Devices that a program sees. `CUDA_DEVICE_ORDER` says how they are numbered: the fastest first, which is the default, or
//! by bus address (`PCI_BUS_ID`); `CUDA_VISIBLE_DEVICES` selects by such a number or by a UUID prefix and stops at the
//! first entry that names no device, as the driver does.
//!
//! Promises: devices of one speed keep the order of the bus, as NVML always does; where cards are partitioned (MIG), a program has one instance and no card.

use std::cmp::Reverse;

use super::machine::DeviceInfo;
use crate::machine::notation::uuid_text;
use crate::partition::Partition;

fn is_instance(device: &DeviceInfo) -> bool {
    matches!(device.partition, Partition::Instance { .. })
}

/// The machine's devices a program may see, in the order it asked for: cards, or one instance where there are any.
pub(super) fn choose(
    devices: &[DeviceInfo],
    visible: Option<&str>,
    order: Option<&str>,
) -> Vec<usize> {
    let has_instances = devices.iter().any(is_instance);
    let mut offered: Vec<usize> = (0..devices.len())
        .filter(|index| match devices[*index].partition {
            Partition::Whole => !has_instances,
            Partition::Parted => false,
            Partition::Instance { .. } => true,
        })
        .collect();
    if order != Some("PCI_BUS_ID") {
        offered.sort_by_key(|index| Reverse(devices[*index].speed_percent));
    }
    let mut chosen = choose_of(devices, &offered, visible);
    if has_instances {
        chosen.truncate(1);
    }
    chosen
}

fn choose_of(devices: &[DeviceInfo], offered: &[usize], visible: Option<&str>) -> Vec<usize> {
    let Some(visible) = visible else { return offered.to_vec() };
    let mut chosen = Vec::new();
    for entry in visible.split(',').map(str::trim) {
        let found = if entry.starts_with("GPU-") || entry.starts_with("MIG-") {
            let is_named = |index: &&usize| {
                let device = &devices[**index];
                uuid_text(is_instance(device), &device.uuid).starts_with(entry)
            };
            let mut matching = offered.iter().filter(is_named);
            matching.next().filter(|_| matching.next().is_none()).copied()
        } else {
            entry.parse::<usize>().ok().and_then(|index| offered.get(index)).copied()
        };
        match found {
            // A device named twice makes the whole list invalid.
            Some(index) if chosen.contains(&index) => return Vec::new(),
            Some(index) => chosen.push(index),
            None => break,
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<DeviceInfo> {
        let device = |index: u8| DeviceInfo {
            name: String::new(),
            uuid: [index; 16],
            total_bytes: 1,
            pci_bus: u32::from(index),
            pci_domain: 0,
            pci_device: 0,
            speed_percent: 100,
            partition: Partition::Whole,
        };
        (0..3).map(device).collect()
    }

    #[test]
    fn visible_devices_are_chosen_as_the_driver_does() {
        let devices = three();
        assert_eq!(choose(&devices, None, None), [0, 1, 2]);
        assert_eq!(choose(&devices, Some("2,0"), None), [2, 0]);
        assert_eq!(choose(&devices, Some("1,-1,0"), None), [1]);
        assert_eq!(choose(&devices, Some("GPU-0202"), None), [2]);
        assert_eq!(choose(&devices, Some("1,1"), None), Vec::<usize>::new());
        assert_eq!(choose(&devices, Some(""), None), Vec::<usize>::new());
        assert_eq!(choose(&devices, Some("7"), None), Vec::<usize>::new());
    }

    #[test]
    fn the_fastest_device_is_first_unless_the_bus_is_asked_for() {
        let mut devices = three();
        (devices[0].speed_percent, devices[1].speed_percent) = (50, 80);
        let by_bus = Some("PCI_BUS_ID");
        assert_eq!(choose(&devices, None, None), [2, 1, 0]);
        assert_eq!(choose(&devices, None, Some("FASTEST_FIRST")), [2, 1, 0]);
        assert_eq!(choose(&devices, None, by_bus), [0, 1, 2]);
        assert_eq!(choose(&devices, Some("0"), None), [2]);
        assert_eq!(choose(&devices, Some("0,2"), by_bus), [0, 2]);
        assert_eq!(choose(&devices, Some("GPU-0000"), None), [0]);
    }

    #[test]
    fn of_partitioned_cards_one_instance_is_seen() {
        let mut devices = three();
        devices[0].partition = Partition::Parted;
        for number in 0..2 {
            let partition = Partition::Instance { card: 0, number, slices: 1 };
            let uuid = [0x30 + u8::try_from(number).unwrap(); 16];
            devices.push(DeviceInfo { uuid, partition, ..devices[0].clone() });
        }
        assert_eq!(choose(&devices, None, None), [3]);
        assert_eq!(choose(&devices, Some("1"), None), [4]);
        assert_eq!(choose(&devices, Some("MIG-3131"), None), [4]);
        assert_eq!(choose(&devices, Some("MIG-3131,MIG-3030"), None), [4]);
        for none in ["GPU-0000", "GPU-0101", "GPU-3131", "MIG-3", "2"] {
            assert_eq!(choose(&devices, Some(none), None), Vec::<usize>::new(), "{none}");
        }
        devices.truncate(1);
        assert_eq!(choose(&devices, None, None), Vec::<usize>::new());
    }
}
