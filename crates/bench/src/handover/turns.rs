//! Memory that leaves and comes back: of one tenant by a wish, and of two by turns.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::grants;
use super::keeper::{IDLE, Keeper, patience, settle};
use super::way::{GIB, Link, MIB, SPARE_BYTES, Way, capacity, fails};
use crate::daemon::Daemon;
use crate::matrices::{BESIDE_BYTES, wait};
use crate::report::{Figure, Goal};
use crate::room::Room;
use crate::running::Bench;
use crate::side::{Side, Tenancy};
use divvy_command::output::sizes;
use divvy_command::wire::LimitChange;

/// Size and time of the hand-over that has a goal, on a real card.
const GOAL_BYTES: u64 = 12 * GIB;
const GOAL_MS: f64 = 280.0;

/// Leaves by `divvy freeze`, and comes back by the program's own call into room that is free.
pub(super) fn one_way(bench: &mut Bench, side: &Side, room: &Room, link: &Link, bytes: u64) {
    let size = sizes::text(bytes);
    let (leave, back) = (format!("{size}, leaves"), format!("{size}, comes back"));
    let what = format!("{size} leaves and comes back");
    bench.step(&what);
    let (mut leaves, mut returns) = (Way::new(&leave), Way::new(&back));
    let mut rounds = || -> Result<()> {
        let mut holder = Keeper::start(bench, side, room, bytes, &what)?;
        for _ in 0..bench.rounds {
            let mut meter = holder.meter()?;
            let begun = Instant::now();
            freeze(&holder.tenancy, true)?;
            wait(bench, &what, patience(bytes), || {
                meter.look(&holder.tenancy)?;
                Ok(meter.is_away().then_some(()))
            })?;
            let ns = begun.elapsed().as_nanos() as f64;
            leaves.take(&side.name, link, [meter.out_bytes(), 0], ns);
            let meter = holder.meter()?;
            let ns = holder.wants(bench, bytes, &what)?;
            let [_, in_bytes] = holder.moved(bench, meter, &what)?;
            returns.take(&side.name, link, [0, in_bytes], ns);
            freeze(&holder.tenancy, false)?;
        }
        holder.finish();
        Ok(())
    };
    let ended = rounds();
    if let Err(error) = ended {
        fails(bench, &mut leaves.time, side, error);
    }
    leaves.keep(bench, &side.name);
    returns.keep(bench, &side.name);
}

fn freeze(tenancy: &Tenancy, frozen: bool) -> Result<()> {
    tenancy.change(&LimitChange { frozen: Some(frozen), ..LimitChange::default() })
}

/// Figures of two tenants by turns.
struct Turns {
    /// The holder has been idle for [`IDLE`].
    idle: Way,
    /// The holder has just given an answer.
    hot: Way,
    moved: Figure,
    /// The holder's own call, whose memory is there.
    own: Figure,
}

/// Two tenants by turns on a card that one fits.
pub(super) fn out_and_in(bench: &mut Bench, side: &Side, room: &Room, link: &Link, bytes: u64) {
    let size = sizes::text(bytes);
    let name = format!("{size}, out and in");
    bench.step(&name);
    let has_goal = bytes == GOAL_BYTES && !bench.stage.is_simulated();
    let goal = if has_goal { Goal::AtMost(GOAL_MS) } else { Goal::None };
    let mut turns = Turns {
        idle: Way::new(&name).within(goal),
        hot: Way::new(&format!("{size}, right behind an answer")),
        moved: Figure::new(format!("{name}: moved"), "MiB", Goal::None),
        own: Figure::new(format!("{size}, its own memory there: grant"), "ms", grants::GOAL),
    };
    if let Err(error) = turns.measure(bench, side, room, link, bytes) {
        fails(bench, &mut turns.idle.time, side, error);
    }
    let Turns { idle, hot, moved, own } = turns;
    idle.keep(bench, &side.name);
    hot.keep(bench, &side.name);
    bench.keep_told([moved, own]);
}

impl Turns {
    fn measure(
        &mut self,
        bench: &Bench,
        side: &Side,
        room: &Room,
        link: &Link,
        bytes: u64,
    ) -> Result<()> {
        let what = &*self.idle.time.name.clone();
        let _daemon = Daemon::start_smaller(&bench.stage, capacity(room, bytes))?;
        // Bytes for which the card has room to spare may stay; the rest must go.
        let least = bytes.saturating_sub(SPARE_BYTES + 2 * BESIDE_BYTES) / 2;
        let first = Keeper::start(bench, side, room, bytes, what)?;
        let second = Keeper::start(bench, side, room, bytes, what)?;
        let mut holders = [first, second];
        // Thrown away: memory of the host is made while each leaves for the first time.
        for turn in 0..2 {
            bench.say(&format!("{what}: round that does not count, {} of 2", turn + 1));
            let [comes, _] = &mut holders;
            comes.wants(bench, bytes, what)?;
            holders.reverse();
            settle(bench, &holders, least, what)?;
        }
        for _ in 0..2 * bench.rounds {
            settle(bench, &holders, least, what)?;
            let [comes, leaves] = &mut holders;
            self.own.take(&side.name, Ok(leaves.wants(bench, bytes, what)? / 1e6));
            std::thread::sleep(IDLE);
            let [left, came] = [leaves.meter()?, comes.meter()?];
            let ns = comes.wants(bench, bytes, what)?;
            let ([out, _], [_, back]) =
                (leaves.moved(bench, left, what)?, comes.moved(bench, came, what)?);
            check_left(out, least)?;
            self.idle.take(&side.name, link, [out, back], ns);
            self.moved.take(&side.name, Ok((out + back) as f64 / MIB as f64));
            holders.reverse();
        }
        let what = &*self.hot.time.name.clone();
        for turn in 0..=2 * bench.rounds {
            let [comes, leaves] = &mut holders;
            let [mut left, mut came] = [leaves.meter()?, comes.meter()?];
            let ns = comes.wants(bench, bytes, what)?;
            let ([out, _], [_, back]) =
                (leaves.moved_by_now(&mut left)?, comes.moved_by_now(&mut came)?);
            check_left(out, least)?;
            // The first is behind the looks at where memory was.
            if turn > 0 {
                self.hot.take(&side.name, link, [out, back], ns);
            }
            holders.reverse();
        }
        for holder in holders {
            holder.finish();
        }
        Ok(())
    }
}

fn check_left(out_bytes: u64, least_bytes: u64) -> Result<()> {
    ensure!(
        out_bytes >= least_bytes,
        "void: {} left the card, where {} should have: nothing was handed over",
        sizes::text(out_bytes),
        sizes::text(least_bytes)
    );
    Ok(())
}
