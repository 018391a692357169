//! Any samples, any constants, any clock: the planner does not panic, raises nothing beyond the room, and ends.
#![cfg(not(loom))]

use divvy_policy::residence::{
    DeviceRoom, Freeze, Holder, HolderOrder, HolderState, ResidencePlanner, ResidenceState,
    ResidenceTuning,
};
use proptest::prelude::*;

/// Numbers as a broken or hostile writer would leave them.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0_u64..100, 1_u64 << 20..1 << 36, any::<u64>(),]
}

fn holder() -> impl Strategy<Value = Holder> {
    let freeze = prop::sample::select(vec![Freeze::No, Freeze::Held, Freeze::UntilWanted]);
    let numbers = prop::array::uniform10(number());
    (0_u64..4, numbers, any::<u32>(), freeze).prop_map(|(tenant, numbers, weight, freeze)| {
        let [size, asked, resident, ceiling, wants, submitted, busy, quantum, spare, copies] =
            numbers;
        Holder {
            tenant,
            size_bytes: size,
            asked_bytes: asked,
            spare_bytes: spare,
            resident_bytes: resident,
            returning_bytes: submitted,
            stayed: wants,
            copies_due_bytes: copies,
            ceiling_bytes: ceiling,
            wants_since_ns: wants,
            submitted_ns: submitted,
            waits_elsewhere: busy.is_multiple_of(2),
            busy_until_ns: busy,
            weight,
            quantum_ns: quantum,
            freeze,
        }
    })
}

fn tuning() -> impl Strategy<Value = ResidenceTuning> {
    (prop::array::uniform12(number()), any::<bool>(), any::<bool>()).prop_map(
        |(numbers, together, default)| match default {
            true => ResidenceTuning { together, ..ResidenceTuning::default() },
            false => {
                let [a, b, c, d, e, f, g, h, i, j, k, l] = numbers;
                ResidenceTuning {
                    release_ahead_ns: a,
                    idle_ns: b,
                    start_ns: k,
                    min_quantum_ns: c,
                    max_wait_ns: d,
                    overhead_ppm: e,
                    patience_ns: f,
                    slowest_bytes_per_s: g,
                    lead_bytes: l,
                    copies_bytes_per_s: l,
                    link_bytes_per_s: h,
                    together,
                    moving_poll_ns: i,
                    waiting_poll_ns: j,
                    short_poll_ns: l,
                    calm_poll_ns: a,
                }
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_harms_nothing(
        tuning in tuning(),
        steps in prop::collection::vec(
            (number(), number(), prop::collection::vec(holder(), 0..9), any::<bool>()),
            1..30,
        ),
    ) {
        let mut rows = vec![HolderState::default(); 8];
        let mut state = ResidenceState::default();
        let mut orders = vec![HolderOrder::default(); 8];
        let mut now_ns = 0_u64;
        for (time, capacity_bytes, mut holders, back) in steps {
            now_ns = if back { time } else { now_ns.saturating_add(time % 1_000_000_000) };
            for (holder, order) in holders.iter_mut().zip(&orders) {
                // The ceiling is the daemon's own.
                holder.ceiling_bytes = order.allowed_bytes;
            }
            let room = DeviceRoom { capacity_bytes, room_bytes: capacity_bytes };
            let mut planner = ResidencePlanner { tuning: &tuning, rows: &mut rows, state: &mut state };
            let next_ns = planner.step(now_ns, room, &holders, &mut orders);
            prop_assert!(next_ns > now_ns || now_ns == u64::MAX);
            // Claims at first sight may exceed the device; nothing rises then.
            let standing = |h: &Holder| h.ceiling_bytes.max(h.resident_bytes.min(h.size_bytes));
            let rises = |(o, h): (&HolderOrder, &Holder)| o.allowed_bytes > standing(h);
            let sum: u128 = orders.iter().map(|o| u128::from(o.allowed_bytes)).sum();
            prop_assert!(
                sum <= u128::from(capacity_bytes) || !orders.iter().zip(&holders).any(rises),
                "{sum} of {capacity_bytes}"
            );
            for (row, order) in orders.iter().enumerate() {
                let size_bytes = holders.get(row).filter(|h| h.tenant != 0).map_or(0, |h| h.size_bytes);
                prop_assert!(order.allowed_bytes <= size_bytes.max(capacity_bytes));
                let is_there = holders.get(row).is_some_and(|h| h.tenant != 0);
                prop_assert!(is_there || order.allowed_bytes == 0);
                let may_be_larger = holders.get(row).is_some_and(|h| h.spare_bytes > 0);
                prop_assert!(!order.run || size_bytes <= capacity_bytes || may_be_larger);
            }
        }
    }
}
