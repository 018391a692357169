//! Length of a launch, as shown by the time between its probe's two events.
//!
//! Promises: no length where the host was in the way, and that is seen; never less than an eighth of the time. Figures
//! are an H200's. Does not ask for the time: `settle` does, and `among` and `beside`.

use super::lane::Lane;
use super::marks::Probe;
use super::tuning;
use crate::cost;

/// A launch's length, as its probe shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shown {
    pub(super) took_ns: u64,
    /// True if the host was in the way: the next probe will show more.
    pub(super) is_rough: bool,
}

impl Lane {
    /// Returns the device time that an event of its launches' marks adds: marks of several streams are the context's.
    pub(super) fn event_ns(&self) -> u64 {
        if self.has_streams_apart() { tuning::CONTEXT_BIAS_NS } else { tuning::BUSY_BIAS_NS }
    }
}

impl Probe {
    /// Returns the length of a launch that the time between its probe's events shows, where something `is_known` of it,
    /// and that firmly if `is_firm`; `None` where the known length is as good.
    ///
    /// A first launch loads code, or makes a graph ready, and the device begins as its call ends. Else a kernel's call
    /// that takes long was held up, and its gap is inexact, while a graph's may be so long by itself; then the device
    /// begins in its midst.
    pub(super) fn shows(&self, between_ns: u64, is_known: bool, is_firm: bool) -> Option<Shown> {
        let gap_ns = self.gap_ns;
        let is_graph = cost::is_graph(self.key);
        let is_long = match is_graph {
            true => gap_ns > tuning::GRAPH_AT_ONCE_NS,
            false => gap_ns > tuning::USUAL_GAP_NS && gap_ns > between_ns / 16,
        };
        // A graph that ended before its call shows no end.
        let has_ended = between_ns < gap_ns.saturating_add(tuning::USUAL_GAP_NS);
        let shows_nothing = if is_graph { is_known && has_ended } else { is_firm };
        if is_long && shows_nothing {
            return None;
        }
        let bias_ns = match gap_ns {
            0 => tuning::BUSY_BIAS_NS,
            _ if is_graph && is_known && is_long => {
                tuning::GRAPH_BEGINS_NS + tuning::DRAINED_BIAS_NS
            }
            _ => gap_ns.saturating_add(tuning::DRAINED_BIAS_NS),
        };
        let took_ns = between_ns.saturating_sub(bias_ns).max(between_ns / 8).max(500);
        Some(Shown { took_ns, is_rough: is_long && !is_known })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::cost::{WorkKind, key};

    #[test]
    fn what_a_call_takes_is_taken_off_as_far_as_the_device_waits_for_it() {
        const US: u64 = 1_000;
        let firmly = |ns| Some(Shown { took_ns: ns, is_rough: false });
        let roughly = |ns| Some(Shown { took_ns: ns, is_rough: true });
        let (not, little, well) = ((false, false), (true, false), (true, true));
        for (kind, gap_us, between_us, (is_known, is_firm), expected) in [
            (WorkKind::Kernel, 3, 103, well, firmly(100 * US - tuning::DRAINED_BIAS_NS)),
            (WorkKind::Kernel, 0, 100, well, firmly(100 * US - tuning::BUSY_BIAS_NS)),
            // A call that was held up is worth measuring only where little is known of the launch, or the delay is a
            // small part of it.
            (WorkKind::Kernel, 50, 150, well, None),
            (WorkKind::Kernel, 50, 150, little, firmly(100 * US - tuning::DRAINED_BIAS_NS)),
            (WorkKind::Kernel, 50, 150, not, roughly(100 * US - tuning::DRAINED_BIAS_NS)),
            (WorkKind::Kernel, 3_000, 3_100, not, roughly(3_100 * US / 8)),
            (WorkKind::Kernel, 50, 1_050, well, firmly(1_000 * US - tuning::DRAINED_BIAS_NS)),
            // A graph begins as a short call ends, as its first ends, and in the midst of a long one.
            (WorkKind::Graph, 43, 143, well, firmly(100 * US - tuning::DRAINED_BIAS_NS)),
            (WorkKind::Graph, 43, 143, not, firmly(100 * US - tuning::DRAINED_BIAS_NS)),
            (WorkKind::Graph, 406, 906, not, roughly(500 * US - tuning::DRAINED_BIAS_NS)),
            (WorkKind::Graph, 406, 20_050, little, firmly(20_000 * US - tuning::DRAINED_BIAS_NS)),
            (WorkKind::Graph, 406, 450, well, firmly(400 * US - tuning::DRAINED_BIAS_NS)),
            (WorkKind::Graph, 406, 416, well, None),
        ] {
            let key = key(kind, [1, 2, 3]);
            let probe = Probe {
                key,
                charged_ns: 0,
                stands_ns: 0,
                at_ns: 0,
                event: 0,
                gap_ns: gap_us * US,
                is_behind: false,
            };
            let shown = probe.shows(between_us * US, is_known, is_firm);
            assert_eq!(shown, expected, "{kind:?}, call of {gap_us} us, {between_us} us between");
        }
    }
}
