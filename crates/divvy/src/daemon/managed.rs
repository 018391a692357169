//! Managed memory of the tenants of one device: how much each of their processes may have.
//!
//! Promises: what stands in a tenant's file is taken for granted as long as it may be gone by; of a process whose ceiling
//! nobody here has written, anything may stand, so that nothing is granted in the step in which it is met. What processes say
//! is believed: one that lies takes of the driver's memory what nobody can keep from it.
//!
//! Does not decide: [`divvy_policy::residence::divide_managed`] does.

use divvy_abi::config::MANAGED_REFUSED;
use divvy_page::owner::Owner;
use divvy_page::{AttachError, ResidenceEntry};
use divvy_policy::residence::{ManagedCeiling, ManagedUse, divide_managed};
use divvy_policy::slab::MAX_BYTES;

/// Managed memory of one tenant.
#[derive(Debug, Default)]
pub(super) struct ManagedRow {
    /// Its processes: slots, what they say, and what they are given.
    slots: Vec<usize>,
    uses: Vec<ManagedUse>,
    given: Vec<ManagedCeiling>,
    /// The words that stand, by slot.
    words: Vec<(usize, u64)>,
}

/// Divides `limit_bytes` among the processes of all tenants.
pub(super) fn divide_rows<'a>(limit_bytes: u64, rows: impl Iterator<Item = &'a mut ManagedRow>) {
    let mut rows: Vec<_> = rows.collect();
    let uses: Vec<ManagedUse> = rows.iter().flat_map(|row| row.uses.iter().copied()).collect();
    let mut given = vec![ManagedCeiling::default(); uses.len()];
    divide_managed(limit_bytes, &uses, &mut given);
    let mut given = given.into_iter();
    for row in &mut rows {
        row.given.clear();
        row.given.extend(given.by_ref().take(row.uses.len()));
    }
}

impl ManagedRow {
    /// A sample begins.
    pub(super) fn begin(&mut self) {
        self.slots.clear();
        self.uses.clear();
    }

    /// Takes in what the process in `slot` says.
    pub(super) fn push(&mut self, slot: usize, entry: ResidenceEntry) {
        let stands = self.words.iter().find(|(other, _)| *other == slot).map(|(_, word)| *word);
        self.slots.push(slot);
        self.uses.push(ManagedUse {
            managed_bytes: entry.managed_bytes,
            asked_bytes: entry.asked_managed_bytes,
            ceiling_bytes: match stands {
                Some(word) if word & MANAGED_REFUSED != 0 => Some(0),
                stands => stands,
            },
        });
    }

    /// Bytes that its processes have.
    pub(super) fn bytes(&self) -> u64 {
        self.uses.iter().map(|process| process.managed_bytes).fold(0, u64::saturating_add)
    }

    /// Whether a call waits to have more.
    pub(super) fn asks(&self) -> bool {
        self.uses.iter().any(|process| process.asked_bytes > 0)
    }

    /// Bytes that may be missing where the tenant can run with a part of its memory away, which needs all of it to be
    /// managed: no more than one piece of it.
    pub(super) fn spare_bytes(&self, sum: &ResidenceEntry) -> u64 {
        let is_all = sum.managed_bytes > 0 && sum.movable_bytes <= sum.managed_bytes;
        if is_all { MAX_BYTES } else { 0 }
    }

    /// Writes what is not as it stands; whether there was anything.
    ///
    /// # Errors
    /// As [`Owner::set_managed`].
    pub(super) fn put(&mut self, owner: &Owner, row: usize) -> Result<bool, AttachError> {
        let mut is_news = false;
        for (slot, _) in self.words.extract_if(.., |(slot, _)| !self.slots.contains(slot)) {
            owner.set_managed(row, slot, 0)?;
        }
        for ((slot, process), given) in self.slots.iter().zip(&self.uses).zip(&self.given) {
            let word = match given.refused {
                false => given.bytes,
                true => MANAGED_REFUSED | process.managed_bytes.saturating_add(process.asked_bytes),
            };
            match self.words.iter_mut().find(|(other, _)| other == slot) {
                Some((_, stands)) if *stands == word => continue,
                Some((_, stands)) => *stands = word,
                None => self.words.push((*slot, word)),
            }
            owner.set_managed(row, *slot, word)?;
            is_news = true;
        }
        Ok(is_news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(managed_bytes: u64, asked_managed_bytes: u64) -> ResidenceEntry {
        ResidenceEntry { managed_bytes, asked_managed_bytes, ..ResidenceEntry::default() }
    }

    #[test]
    fn nothing_is_granted_while_a_ceiling_is_not_known() {
        let [mut one, mut other] = [ManagedRow::default(), ManagedRow::default()];
        one.push(3, says(10, 0));
        other.words.push((5, 0));
        other.push(5, says(0, 20));
        divide_rows(100, [&mut one, &mut other].into_iter());
        assert_eq!(one.given, [ManagedCeiling { bytes: 10, refused: false }]);
        assert_eq!(other.given, [ManagedCeiling::default()], "not refused either");
        one.words.push((3, 10));
        one.begin();
        one.push(3, says(10, 0));
        divide_rows(100, [&mut one, &mut other].into_iter());
        assert_eq!(other.given, [ManagedCeiling { bytes: 20, refused: false }]);
        assert!(other.asks() && !one.asks());
        assert_eq!((one.bytes(), other.bytes()), (10, 0));
    }

    #[test]
    fn only_what_is_managed_as_a_whole_runs_with_a_part_away() {
        let row = ManagedRow::default();
        let of = |movable_bytes, managed_bytes| {
            let sum = ResidenceEntry { movable_bytes, managed_bytes, ..ResidenceEntry::default() };
            row.spare_bytes(&sum) > 0
        };
        assert!(of(10, 10) && of(10, 12) && !of(10, 9) && !of(0, 0));
    }
}
