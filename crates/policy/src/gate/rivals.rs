//! Rivals: others that use the device of a lane's context, in turn with it, at once, or of late.
//!
//! Promises: every statement about others is from the owner's line and the tenant's words; the line may come late,
//! which is noticed for a context that has just come back. Does not ask who they are.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::{GateLine, gate};

use super::driver::Driver;
use super::here::Here;
use super::lane::Lane;
use super::tuning;
use crate::atomic::AtomicU64;

/// True if this process has the device in turn with others.
pub(super) fn in_turns<D: Driver>(here: &Here<'_, D>, line: &GateLine) -> bool {
    line.gate != gate::FREE || here.has_turns()
}

/// True if others use the device in turn, or at once.
pub(super) fn has_rivals(line: &GateLine) -> bool {
    line.active > 1 || line.gate == gate::CLOSED || line.turn_end_ns != 0
}

impl Lane {
    /// True if no one else's work has been on the device since then, as far as is known: where an owner makes turns,
    /// since the beginning of ours.
    pub(super) fn is_quiet_since<D: Driver>(
        &self,
        here: &Here<'_, D>,
        line: &GateLine,
        since_ns: u64,
    ) -> bool {
        let began_ns = self.epoch_at_ns.load(Relaxed);
        let is_ours = !in_turns(here, line) || began_ns <= since_ns;
        line.active <= 1 && is_ours && here.is_alone_since(since_ns)
    }

    /// True if this context has had no work for a while, and its owner, who makes turns where others have, may not have
    /// seen yet that it does again.
    pub(super) fn is_just_back<D: Driver>(
        &self,
        here: &Here<'_, D>,
        line: &GateLine,
        now_ns: u64,
    ) -> bool {
        // Between turns inside the tenant the tenant itself was not away.
        let is_open = line.gate != gate::FREE && line.turn_end_ns == 0 && !here.has_turns();
        let is_within = |at: &AtomicU64, ns| now_ns.saturating_sub(at.load(Relaxed)) < ns;
        is_open
            && is_within(&self.back_ns, tuning::UNSEEN_NS)
            && is_within(&self.rivals_ns, tuning::RIVALS_NS)
    }
}
