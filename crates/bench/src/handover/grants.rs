//! Calls for which nothing has to move: what a grant takes by itself.

use anyhow::{Result, ensure};

use super::keeper::{IDLE, Keeper};
use super::way::{MIB, SPARE_BYTES, fails};
use crate::daemon::Daemon;
use crate::report::{Figure, Goal};
use crate::room::Room;
use crate::running::Bench;
use crate::side::Side;

/// The figure's name.
pub(super) const NAME: &str = "grant, memory is there";
/// Most that it may take, in ms.
pub(super) const GOAL: Goal = Goal::AtMost(3.0);
/// Memory of each of the two tenants: matrices that lie in handles of their own, not in slabs, which take more room.
const BYTES: u64 = 256 * MIB;

/// Two tenants that fit the card together, each called by turns after a pause of all: from the call to the end of
/// its first kernel, beside the same on the bare driver.
pub(super) fn measure(bench: &mut Bench, ours: &Side, room: &Room) {
    bench.step(NAME);
    let mut figure = Figure::new(NAME, "ms", GOAL);
    let natives = bench.native();
    for side in natives.into_iter().chain([ours.clone()]) {
        if let Err(error) = measure_side(bench, &side, room, &mut figure) {
            fails(bench, &mut figure, &side, error);
        }
    }
    bench.report.figures.push(figure);
}

fn measure_side(bench: &Bench, side: &Side, room: &Room, figure: &mut Figure) -> Result<()> {
    let capacity_bytes = room.capacity_for(2 * BYTES, 2) + SPARE_BYTES;
    let _daemon = match side.is_ours() {
        true => Some(Daemon::start_smaller(&bench.stage, capacity_bytes)?),
        false => None,
    };
    let start = || Keeper::start(bench, side, room, BYTES, NAME);
    let mut both = [start()?, start()?];
    for round in 0..=bench.rounds {
        for keeper in &mut both {
            std::thread::sleep(IDLE / 2);
            let mut meter = keeper.meter()?;
            let ns = keeper.wants(bench, BYTES, NAME)?;
            let moved = keeper.moved_by_now(&mut meter)?;
            ensure!(moved == [0, 0], "void: memory moved: {moved:?} bytes out and in");
            // A driver's first launches load what later ones find.
            if round > 0 {
                figure.take(&side.name, Ok(ns / 1e6));
            }
        }
    }
    for keeper in both {
        keeper.finish();
    }
    Ok(())
}
