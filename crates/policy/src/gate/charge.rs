//! Charging of a lane's work: to the process's account, and to the tenant's cap where it has one.
//!
//! Promises: a cap keeps its savings while a charge may turn out wrong, and while its tenant waits for others. Does not
//! say how much work is worth, nor when the cap is open: the latter is [`crate::pace`]'s.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::{GateLine, gate};

use super::driver::{Driver, Terms, Words};
use super::here::Here;
use super::lane::Lane;
use super::rivals::has_rivals;
use super::tuning;
use crate::pace::{Cap, agreed_ns};

impl Lane {
    /// Returns the tenant's cap. A tenant that waits for its turn must not lose the savings of its cap meanwhile, up to
    /// a launch as long as any of late and the next like it.
    pub(super) fn cap<D: Driver>(
        &self,
        here: &Here<'_, D>,
        terms: Terms,
        line: &GateLine,
        now_ns: u64,
        unsettled_since_ns: u64,
    ) -> Option<Cap> {
        let unsettled_since_ns = match self.has_one_stream() {
            true => unsettled_since_ns,
            false => unsettled_since_ns.min(now_ns.saturating_sub(tuning::SAVED_KEPT_NS)),
        };
        let long_ns = self.long_ns.load(Relaxed).saturating_mul(2);
        let saved_ns = match line.gate {
            gate::FREE => 0,
            // A burst fills a turn: a tenant that gets one kernel into each would wait for another's behind it.
            _ if has_rivals(line) => long_ns.saturating_mul(2).max(tuning::BESIDE_SAVED_NS),
            _ => long_ns,
        };
        let quantum_ns = line.quantum_ns.max(tuning::QUANTUM_NS).max(saved_ns);
        let share_ppm = terms.share_ppm;
        (share_ppm != 0).then(|| {
            let unsettled_since_ns = here.inside().map_or(unsettled_since_ns, |inside| {
                inside.unsettled_since_ns(unsettled_since_ns, now_ns)
            });
            let quantum_ns = agreed_ns(&here.words, now_ns, quantum_ns);
            Cap { share_ppm, quantum_ns, unsettled_since_ns }
        })
    }

    /// Charges the tenant, against its cap where it has one, for work of which the oldest is unsettled since
    /// `unsettled_since_ns`.
    pub(super) fn charge<D: Driver>(
        &self,
        here: &Here<'_, D>,
        line: &GateLine,
        unsettled_since_ns: u64,
        ns: i64,
    ) {
        here.words.add_used(ns);
        let now_ns = here.now_ns();
        if let Some(cap) = self.cap(here, here.terms(), line, now_ns, unsettled_since_ns) {
            cap.charge(&here.words, now_ns, ns);
        }
    }
}
