//! Host memory that a new tenant's limit would need, beside what a daemon can still promise.
//!
//! Memory beyond the room that a card has needs room on the host, or is refused when it is asked for. That is said
//! before the program starts. Pure.

use divvy_abi::config::Rule;

use crate::machine::cards::Card;
use crate::output::sizes;
use crate::wire::{DeviceView, View};

/// A line for each device of a daemon's on which a tenant with the limits `rules` could not have them, as things are. `cards`
/// are those that are known.
pub(crate) fn notes(rules: &[Rule], cards: &[Card], views: &[View]) -> Vec<String> {
    let devices = views.iter().flat_map(|view| view.devices.iter().map(move |d| (view, d)));
    devices.filter_map(|(view, device)| note(rules, cards, view, device)).collect()
}

fn note(rules: &[Rule], cards: &[Card], view: &View, device: &DeviceView) -> Option<String> {
    let memory = device.memory.as_ref()?;
    let unknown = || Card { uuid: device.uuid.clone(), ..Card::default() };
    let card = cards.iter().find(|card| card.uuid == device.uuid);
    let limit_bytes = card.cloned().unwrap_or_else(unknown).limit_bytes(rules)?;
    let there_bytes = memory.resident_bytes.saturating_add(memory.away_bytes);
    let card_bytes = memory.capacity_bytes.saturating_sub(there_bytes);
    let beyond_bytes = limit_bytes.saturating_sub(card_bytes);
    let host_bytes = view.host.free_bytes;
    (beyond_bytes > host_bytes).then(|| {
        let [limit, card, beyond, host, all] = [
            limit_bytes,
            card_bytes,
            beyond_bytes,
            host_bytes,
            card_bytes.saturating_add(host_bytes),
        ]
        .map(sizes::text);
        format!(
            "device {} has {card} free for memory that may leave: of the {beyond} that {limit} are beyond that, the host \
             has room for {host}; from about {all} on memory is refused (DV213) until other tenants give some back; give a \
             smaller --memory, or the host more",
            device.uuid
        )
    })
}

#[cfg(test)]
mod tests {
    use divvy_policy::limit::Rules;

    use super::*;
    use crate::tenants::limits;
    use crate::wire::{HostView, MemoryView};

    const GIB: u64 = 1 << 30;

    fn rules(text: &str) -> Rules {
        limits::rules(&[text.to_owned()], &[]).unwrap()
    }

    #[test]
    fn what_neither_card_nor_host_has_is_said() {
        let memory = MemoryView {
            capacity_bytes: 100 * GIB,
            resident_bytes: 70 * GIB,
            away_bytes: 0,
            ..MemoryView::default()
        };
        let uuid = "GPU-0aaaaaaa-0000-0000-0000-000000000001".to_owned();
        let device = DeviceView { uuid, memory: Some(memory), ..DeviceView::default() };
        let host = HostView { promised_bytes: 0, free_bytes: 20 * GIB };
        let view = View { host, devices: vec![device], ..View::default() };
        let of = |text: &str, view: &View| {
            notes(rules(text).as_slice(), &[], std::slice::from_ref(view))
        };
        assert_eq!(of("50GiB", &view), [""; 0]);
        let said = of("51GiB", &view).join("");
        for figure in ["30 GiB free", "21 GiB that 51 GiB", "for 20 GiB", "50 GiB on"] {
            assert!(said.contains(figure), "{figure} in {said}");
        }
        // A part of a card whose size is not known here is not judged, nor a card where nobody oversubscribes.
        assert_eq!(of("90%", &view), [""; 0]);
        let mut idle = view;
        idle.devices[0].memory = None;
        assert_eq!(of("90GiB", &idle), [""; 0]);
    }
}
