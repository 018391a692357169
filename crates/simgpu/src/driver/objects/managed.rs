//! Managed memory of this process, and parts of it: what was said about it, which of it has content, and
//! what comes to a device or goes back.
//!
//! A page has content if the system has it in memory: the program or work has written or read it. Memory that
//! nobody has touched comes without a copy. Takes no time: see [`crate::driver::managed`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::advice::{Advice, Advised, Location};
use crate::calibration::GRANULE_BYTES;
use crate::driver::machine::Residence;
use crate::machine::managed::Run;
use crate::sys::driver::Answer;
use crate::sys::mapping::Span;

/// Managed memory of this process.
pub(crate) struct Managed {
    residence: Arc<dyn Residence>,
    bytes: Span,
    advised: Mutex<Advised>,
}

/// A part of managed memory: from and to, in bytes from its start.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) managed: Arc<Managed>,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Bytes that had to travel for work of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Migration {
    pub(crate) copied_bytes: u64,
    pub(crate) evicted_bytes: u64,
}

impl Managed {
    pub(crate) fn new(residence: Arc<dyn Residence>, bytes: Span) -> Self {
        Self { residence, bytes, advised: Mutex::default() }
    }

    pub(crate) fn advised(&self) -> MutexGuard<'_, Advised> {
        self.advised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes of the pages in a run of granules have content.
    fn populated_bytes(&self, (first, count): Run) -> u64 {
        let bytes = self.bytes.bytes() as u64;
        let from = (first * GRANULE_BYTES).min(bytes);
        let to = ((first + count) * GRANULE_BYTES).min(bytes);
        let part = self.bytes.part(from as usize, (to - from) as usize);
        part.map_or(0, |part| part.populated_bytes() as u64)
    }
}

impl Part {
    /// The granules it shares.
    pub(crate) fn run(&self) -> Run {
        granules(self.from, self.to)
    }

    /// Whether more of it is on a device than not.
    pub(crate) fn is_on_device(&self) -> Answer<bool> {
        let (first, count) = self.run();
        let resident_bytes = self.managed.residence.resident_bytes((first, count))?;
        Ok(resident_bytes * 2 > count * GRANULE_BYTES)
    }

    /// The granules that come to a device when it touches them: all but those that advice keeps on the host.
    pub(crate) fn wanted(&self, device: i32) -> Vec<Run> {
        let advised = self.managed.advised();
        let mut runs: Vec<Run> = Vec::new();
        for (from, to, advice) in advised.pieces(self.from, self.to) {
            let (first, count) = granules(from, to);
            if stays(advice) {
                continue;
            }
            // Where the device has a mapping of the host's pages it does not fault, but for those that are none.
            let is_mapped = advice.accessed_by.contains(&device);
            let comes = |index: &u64| !is_mapped || self.managed.populated_bytes((*index, 1)) == 0;
            for index in (first..first + count).filter(comes) {
                match runs.last_mut() {
                    Some((start, length)) if *start + *length == index => *length += 1,
                    Some((start, length)) if *start + *length > index => {}
                    _ => runs.push((index, 1)),
                }
            }
        }
        runs
    }

    /// Brings it to the host; answers how many bytes of content that were.
    pub(crate) fn leave(&self) -> Answer<u64> {
        let moved = self.managed.residence.leave(self.run())?;
        Ok(moved.came.iter().map(|run| self.managed.populated_bytes(*run)).sum())
    }

    /// Brings granules to a device of the machine.
    pub(crate) fn bring(&self, machine_index: usize, runs: &[Run]) -> Answer<Migration> {
        let mut migration = Migration::default();
        for run in runs {
            let moved = self.managed.residence.bring(machine_index, *run)?;
            let copied = moved.came.iter().map(|run| self.managed.populated_bytes(*run));
            migration.copied_bytes += copied.sum::<u64>();
            migration.evicted_bytes += moved.evicted_bytes;
        }
        Ok(migration)
    }
}

/// The granules that `from..to` shares.
fn granules(from: u64, to: u64) -> Run {
    let first = from / GRANULE_BYTES;
    (first, to.div_ceil(GRANULE_BYTES).saturating_sub(first))
}

/// Whether advice keeps pages on the host when a device touches them.
fn stays(advice: &Advice) -> bool {
    matches!(advice.preferred, Some(Location::Host | Location::Node(_)))
}
