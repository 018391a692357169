//! News of tenants' memory, as lines of the log: hand-overs that fail, and tenants without room on the card.
//!
//! Compares the states that people are shown with those before, ten times a second. If a tenant's memory did not leave in time,
//! or the tenant lost its turn because it did not come back in time, the hand-over failed; a tenant that can never run gets a
//! line with the reason. Promises: a state that lasts is one line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::adopted::Hand;
use crate::log::change::Subject;
use crate::log::journal::Journal;
use crate::log::line::{Event, LogLine};
use crate::wire::{DeviceView, TenantView};

/// Devices and tenants, as they were last.
#[derive(Debug, Default)]
pub(super) struct MemoryNews {
    status: BTreeMap<(String, String), String>,
    lost_turns: BTreeMap<String, u64>,
}

/// Event and words for a state of a tenant's memory; `None` for a state that is as it should be.
fn event_of(status: &str) -> Option<(Event, &'static str)> {
    match status {
        "bypassed" => Some((
            Event::HandOverFailed,
            "its memory did not leave the card in its time, and counts as memory that stays until it leaves",
        )),
        "larger" => Some((
            Event::NoRoom,
            "its memory is larger than the room that the card has for memory that may leave",
        )),
        "pinned-out" => Some((
            Event::NoRoom,
            "memory of others that cannot leave the card takes the room that its own needs",
        )),
        _ => None,
    }
}

impl MemoryNews {
    /// Tells what is new.
    pub(super) fn look(
        &mut self,
        tenants: &[TenantView],
        devices: &[DeviceView],
        hands: &[Arc<Hand>],
        journal: &Journal,
    ) {
        let mut now = BTreeMap::new();
        for (tenant, hand) in tenants.iter().zip(hands) {
            for memory in &tenant.memories {
                let key = (tenant.directory.clone(), memory.gpu.clone());
                let is_new = self.status.get(&key) != Some(&memory.status);
                if let Some((event, words)) = event_of(&memory.status).filter(|_| is_new) {
                    let config = hand.owner.read().ok();
                    let path = PathBuf::from(&tenant.directory);
                    journal.tell(LogLine {
                        device: Some(memory.gpu.clone()),
                        message: Some(memory.detail.clone().unwrap_or_else(|| words.to_owned())),
                        ..Subject::of(&path, config.as_ref(), tenant.uid).line(event)
                    });
                }
                now.insert(key, memory.status.clone());
            }
        }
        self.status = now;
        let lost =
            |device: &DeviceView| device.memory.as_ref().map_or(0, |memory| memory.lost_turns);
        for device in devices {
            let before = self.lost_turns.insert(device.uuid.clone(), lost(device)).unwrap_or(0);
            if let count @ 1.. = lost(device).saturating_sub(before) {
                journal.tell(LogLine {
                    device: Some(device.uuid.clone()),
                    count: (count > 1).then_some(count),
                    message: Some(
                        "a tenant lost its turn: its memory did not come back in time".to_owned(),
                    ),
                    ..LogLine::new(Event::HandOverFailed)
                });
            }
        }
        self.lost_turns.retain(|uuid, _| devices.iter().any(|device| device.uuid == *uuid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_went_wrong_is_an_event() {
        let good = ["runs", "restores", "waits", "rests", "frozen", "stays"];
        assert!(good.iter().all(|status| event_of(status).is_none()));
        for (status, event) in [
            ("bypassed", Event::HandOverFailed),
            ("larger", Event::NoRoom),
            ("pinned-out", Event::NoRoom),
        ] {
            assert_eq!(event_of(status).map(|(event, _)| event), Some(event));
        }
    }
}
