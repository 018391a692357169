//! A tenant that keeps memory and wants it when it is told, and where that memory is.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::way::GIB;
use crate::client::number;
use crate::matrices::{Matrices, wait};
use crate::moved::Meter;
use crate::room::Room;
use crate::running::Bench;
use crate::side::{Side, Tenancy, TenantTerms};
use divvy_command::output::sizes;

/// Time without movement after which a movement is over.
const STILL: Duration = Duration::from_millis(50);

/// Time for which a model that answers now and then is idle at least, before the next request comes to another.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// A tenant and its program.
pub(super) struct Keeper {
    pub(super) tenancy: Tenancy,
    program: Matrices,
}

impl Keeper {
    /// Starts one, whose memory may leave where the side is ours.
    pub(super) fn start(
        bench: &Bench,
        side: &Side,
        room: &Room,
        bytes: u64,
        what: &str,
    ) -> Result<Self> {
        let terms = TenantTerms::memory(room.limit_for(bytes)).oversubscribed();
        let tenancy = side.tenancy_of(&bench.stage, &terms)?;
        let mut program = Matrices::start(bench, &tenancy, "touch", &[bytes.to_string()])?;
        program.await_ready(bench, what, patience(bytes))?;
        Ok(Self { tenancy, program })
    }

    /// Tells it to want its memory: nanoseconds from its call until its first kernel is done.
    pub(super) fn wants(&mut self, bench: &Bench, bytes: u64, what: &str) -> Result<f64> {
        number(&self.program.ask(bench, what, patience(bytes))?, "first_ns")
    }

    pub(super) fn meter(&self) -> Result<Meter> {
        let mut meter = Meter::default();
        meter.look(&self.tenancy)?;
        Ok(meter)
    }

    /// Waits until nothing more moves; bytes that left and came back since the meter's first look.
    pub(super) fn moved(&self, bench: &Bench, mut meter: Meter, what: &str) -> Result<[u64; 2]> {
        let (mut moved, mut since) = ([0; 2], Instant::now());
        wait(bench, what, Duration::from_secs(60), || {
            let now = self.moved_by_now(&mut meter)?;
            if now != moved {
                (moved, since) = (now, Instant::now());
            }
            Ok((since.elapsed() >= STILL).then_some(moved))
        })
    }

    /// Bytes that have left and come back by now since the meter's first look.
    pub(super) fn moved_by_now(&self, meter: &mut Meter) -> Result<[u64; 2]> {
        meter.look(&self.tenancy)?;
        Ok([meter.out_bytes(), meter.in_bytes()])
    }

    pub(super) fn finish(self) {
        self.program.finish();
    }
}

/// Waits until one tenant's memory is all on the card and at least `least_bytes` of the other's are on the host: what a call
/// of the other moves then is known. While a program is new both may be there for a moment: nobody has room yet to say no.
///
/// # Errors
/// Void, and where the memory was, if that does not come to be.
pub(super) fn settle(
    bench: &Bench,
    [comes, holder]: &[Keeper; 2],
    least_bytes: u64,
    what: &str,
) -> Result<()> {
    let (mut last, mut since) = ([0; 2], Instant::now());
    let begun = Instant::now();
    wait(bench, what, patience(least_bytes) * 2, || {
        let away = [comes.meter()?.away_bytes(), holder.meter()?.away_bytes()];
        if away != last {
            (last, since) = (away, Instant::now());
        }
        let [newcomers, holders] = away;
        if newcomers >= least_bytes && holders == 0 && since.elapsed() >= STILL {
            return Ok(Some(()));
        }
        if begun.elapsed() >= patience(least_bytes) {
            bail!(
                "void: {} of the holder's memory and {} of the newcomer's are away, where {} of the newcomer's should \
                 be: nothing would be handed over",
                sizes::text(holders),
                sizes::text(newcomers),
                sizes::text(least_bytes)
            );
        }
        Ok(None)
    })
}

/// Time in which anything is done with so many bytes, or never.
pub(super) fn patience(bytes: u64) -> Duration {
    Duration::from_secs(60 + bytes / GIB * 2)
}
