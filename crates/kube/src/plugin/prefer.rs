//! Preference among devices: the fullest card first, so that whole cards stay free for large shares. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::book::ShareBook;
use super::ids::ShareDevice;

/// The `count` devices that are best of those `available`, with all that `must` be among them. The kubelet takes as many of
/// them as it needs, and others where they are too few.
pub(super) fn preferred(
    book: &ShareBook,
    available: &[String],
    must: &[String],
    count: usize,
) -> Vec<String> {
    let mut chosen: Vec<String> = Vec::new();
    let mut on_card: BTreeMap<String, u32> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for id in must.iter().filter(|id| seen.insert((*id).clone())) {
        if let Ok(device) = id.parse::<ShareDevice>() {
            *on_card.entry(device.card).or_default() += 1;
        }
        chosen.push(id.clone());
    }
    let mut devices: Vec<(ShareDevice, &String)> = available
        .iter()
        .filter(|id| seen.insert((*id).clone()))
        .filter_map(|id| Some((id.parse().ok()?, id)))
        .collect();
    devices.sort();
    while chosen.len() < count {
        // Cards that the container has already, then the fullest; of each no more than fit.
        let best = devices.iter().enumerate().filter_map(|(at, (device, _))| {
            let room = book.room_of(&device.card)?;
            let chosen_on = on_card.get(&device.card).copied().unwrap_or(0);
            let fits = chosen_on < room.fits(device.size);
            Some(((!fits, chosen_on == 0, room.memory_bytes, room.cores_percent, at), at))
        });
        let Some((_, at)) = best.min() else { break };
        let (device, id) = devices.remove(at);
        *on_card.entry(device.card).or_default() += 1;
        chosen.push(id.clone());
    }
    chosen
}
