//! The share gate where contexts work on one device at once and no daemon makes turns: on a simulated
//! card that slices contexts as an H200 does, tenants and processes of a tenant keep their caps.
//!
//! Each program is a thread with a clock of its own. One that asks or tells the card anything waits
//! until no other's clock is behind its own, so that runs are the same each time.

mod sliced;

use sliced::{Mode, Program, run};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const WALL_NS: u64 = 3_000_000_000;
const POINTS: f64 = 5.0;

const CELLS: [(Mode, u64); 6] = [
    (Mode::Sync, 20 * US),
    (Mode::Sync, 100 * US),
    (Mode::Sync, 5 * MS),
    (Mode::Async, 20 * US),
    (Mode::Async, 100 * US),
    (Mode::Async, 5 * MS),
];

/// What one program without a cap gets of the device's time, in percent.
fn alone(mode: Mode, length_ns: u64) -> f64 {
    let program = Program { tenant: 0, percent: 0, mode, length_ns, meets: false };
    run(&[program], WALL_NS)[0]
}

/// The smaller cap is reached, and the larger one, or what the smaller leaves of the device.
#[test]
fn tenants_that_meet_keep_their_caps() {
    for (mode, length_ns) in CELLS {
        let alone = alone(mode, length_ns);
        for (low, high) in [(30, 70), (20, 80)] {
            let program =
                |tenant, percent| Program { tenant, percent, mode, length_ns, meets: true };
            let reached = run(&[program(0, low), program(1, high)], WALL_NS);
            let left = alone - low as f64;
            let wanted = [low as f64, left.min(high as f64)];
            let us = length_ns / US;
            println!("{mode:?} {us:>5} us: {reached:.1?} of {wanted:.1?}, {alone:.1} alone");
            for (reached, wanted) in reached.iter().zip(wanted) {
                assert!((reached - wanted).abs() <= POINTS, "{mode:?} {us} us: {reached}");
            }
        }
    }
}

#[test]
fn processes_of_a_tenant_that_meet_share_its_cap() {
    for (mode, length_ns) in CELLS {
        let program = Program { tenant: 0, percent: 40, mode, length_ns, meets: true };
        let reached = run(&[program; 2], WALL_NS);
        let us = length_ns / US;
        println!("{mode:?} {us:>5} us: {reached:.1?}");
        let sum: f64 = reached.iter().sum();
        assert!((sum - 40.0).abs() <= POINTS, "{mode:?} {us} us: {reached:?}");
    }
}

/// Sliced, they reach what the driver leaves them, and are charged about that. Without the count of
/// those at work they were charged each other's slices, and got 16 of 40 on an H200.
#[test]
fn processes_of_a_tenant_that_do_not_meet_are_charged_what_they_use() {
    for (mode, length_ns) in CELLS {
        let program = Program { tenant: 0, percent: 40, mode, length_ns, meets: false };
        let reached = run(&[program; 2], WALL_NS);
        let us = length_ns / US;
        println!("{mode:?} {us:>5} us: {reached:.1?}");
        let sum: f64 = reached.iter().sum();
        assert!(sum <= 40.0 + POINTS, "{mode:?} {us} us: {reached:?}");
        if (mode, length_ns) != (Mode::Sync, 20 * US) {
            assert!(sum >= 25.0, "{mode:?} {us} us: {reached:?}");
        }
    }
}
