//! Tenants whose processes need memory of several devices at once: in which order they ask for it.
//!
//! A call waits until all that its process has is on the card, on whatever device. Two that each had one device and waited for
//! the other's would wait in a circle, or give both up at the same time, again and again. So a process asks for a device
//! once it has all before in an order that is the same for all, and its turn there begins when it has the rest.
//!
//! Promises: plain values. Does not know what a device is: its caller numbers them, a bit each.

/// Devices of a tenant beside one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceSpan {
    /// Those that are asked for before this one.
    pub earlier: u32,
    /// Those that are asked for after it.
    pub later: u32,
}

impl DeviceSpan {
    /// Whether calls of a process with memory on the devices `has` may ask for this one, in a tenant that has its turn on
    /// those of `runs`.
    pub fn may_ask(&self, has: u32, runs: u32) -> bool {
        has & self.earlier & !runs == 0
    }

    /// Whether such calls need another device after this one.
    pub fn waits_for_more(&self, has: u32, runs: u32) -> bool {
        self.may_ask(has, runs) && has & self.later & !runs != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_asked_for_once_all_before_are_there() {
        let middle = DeviceSpan { earlier: 0b001, later: 0b100 };
        let asks = |has, runs| (middle.may_ask(has, runs), middle.waits_for_more(has, runs));
        assert_eq!(asks(0b111, 0b000), (false, false));
        assert_eq!(asks(0b111, 0b001), (true, true));
        assert_eq!(asks(0b111, 0b110), (false, false), "what comes later gives no right");
        assert_eq!(asks(0b111, 0b111), (true, false));
        assert_eq!(asks(0b010, 0b000), (true, false), "it has memory here alone");
        assert_eq!(asks(0b011, 0b001), (true, false));
        assert_eq!(DeviceSpan::default(), DeviceSpan { earlier: 0, later: 0 });
    }

    /// Two that need all of three devices: neither keeps what the other waits for while it waits for what that one keeps.
    #[test]
    fn no_two_wait_in_a_circle() {
        let span = |at: u32| DeviceSpan { earlier: (1 << at) - 1, later: 0b111 & !((2 << at) - 1) };
        let keeps = |runs: u32, at| runs >> at & 1 == 1 && span(at).waits_for_more(0b111, runs);
        let asks = |runs: u32, at| runs >> at & 1 == 0 && span(at).may_ask(0b111, runs);
        for (one, other) in (0..8).flat_map(|one| (0..8).map(move |other| (one, other))) {
            for (first, second) in (0..3).flat_map(|at| (0..3).map(move |to| (at, to))) {
                let is_circle = keeps(one, first)
                    && asks(other, first)
                    && keeps(other, second)
                    && asks(one, second);
                assert!(!is_circle, "{one:b} and {other:b}");
            }
        }
    }
}
