//! Copies that are to run: how large each is, on a card of what size, and for how many steps.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::args::Args;
use crate::client::number;
use crate::matrices::{Matrices, STEP_BYTES, judge, wait};
use crate::room::{self, Room};
use crate::running::Bench;
use crate::side::TenantTerms;
use divvy_command::output::{failure::usage, sizes};
use divvy_policy::slab::MAX_BYTES;

/// Bytes of all copies' matrices that fit a simulated card, where they are real memory of the host.
const SIMULATED_BYTES: u64 = 640 << 20;
/// Copies that are to fit leave so much of the room to what their blocks lie in.
const FITS_PARTS: [u64; 2] = [15, 16];
/// Longest time for which copies that fit are measured.
const FITS_SECONDS: f64 = 15.0;
/// Shortest pause between two steps that ends a turn.
const LEAST_GAP_S: f64 = 0.08;
/// A copy does so many steps at least.
const FEWEST_STEPS: u64 = 4;
const QUICK_SECONDS: f64 = 1.0;
/// Copies none of which has anything to say for so long, beside their rests, have failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// Copies that are to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Their figures' name.
    pub(super) name: String,
    pub(super) copies: u32,
    /// Of each.
    pub(super) bytes: u64,
    /// The card's memory for Divvy, where it is not the card's own.
    pub(super) capacity_bytes: Option<u64>,
    room: Room,
    /// Bytes of all copies that the card has room for.
    pub(super) usable_bytes: u64,
    on: String,
    seconds: f64,
    phase_s: f64,
    busy: f64,
    /// Of each, once it is known how long one takes.
    pub(super) steps: u64,
    step_s: f64,
}

impl Plan {
    /// Chooses sizes.
    ///
    /// # Errors
    /// A usage error where a copy does not fit the card by itself, or the host has no room for what exceeds it.
    pub(super) fn make(bench: &Bench, args: &Args, room: &Room, count: u32) -> Result<Self> {
        let copies = u64::from(count);
        let is_simulated = bench.stage.is_simulated();
        let capacity_bytes = match (args.capacity, args.bytes) {
            (Some(capacity), _) => Some(capacity.0),
            (None, None) if is_simulated => Some(room.capacity_for(SIMULATED_BYTES, copies)),
            (None, _) => None,
        };
        if let Some(bytes) = capacity_bytes {
            ensure!(
                bytes <= room.free_bytes,
                usage(format!(
                    "--capacity {}: the card has {} free; ask for less",
                    sizes::text(bytes),
                    sizes::text(room.free_bytes)
                ))
            );
        }
        let usable_bytes = room.usable_bytes(capacity_bytes, copies);
        let bytes = args.bytes.map_or(usable_bytes * 3 / 2 / copies, |bytes| bytes.0);
        let bytes = room::whole(bytes);
        ensure!(
            usable_bytes >= STEP_BYTES && bytes <= usable_bytes,
            usage(format!(
                "{} for each copy: {copies} copies have {} together beside their contexts, {} each, and one copy must \
                 fit that. Ask for fewer --bytes or --copies, or more --capacity",
                sizes::text(bytes),
                sizes::text(usable_bytes),
                sizes::text(room.context_bytes)
            ))
        );
        let all = bytes * copies;
        let beyond = all.saturating_sub(usable_bytes);
        let on_host = if is_simulated { all + beyond } else { beyond };
        room::check_host(on_host, "ask for fewer --bytes or --copies")?;
        let manner = match args.busy {
            1.0 => "always busy".to_owned(),
            part => format!("busy for {:.0} % in phases of {} s", part * 100.0, args.phase),
        };
        let on = capacity_bytes.map(|bytes| format!(" on {}", sizes::text(bytes)));
        let on = on.unwrap_or_default();
        let name = format!("{copies} x {}{on}, {manner}", sizes::text(bytes));
        bench.say(&format!(
            "{name}: {} on the card beside {copies} contexts of {}, {} on the host",
            sizes::text(all.min(usable_bytes)),
            sizes::text(room.context_bytes),
            sizes::text(beyond)
        ));
        Ok(Self {
            name,
            copies: count,
            bytes,
            capacity_bytes,
            room: *room,
            usable_bytes,
            on,
            seconds: if args.quick { args.seconds.min(QUICK_SECONDS) } else { args.seconds },
            phase_s: args.phase,
            busy: args.busy,
            steps: 0,
            step_s: 0.0,
        })
    }

    /// Whether its copies never rest.
    pub(super) fn is_always_busy(&self) -> bool {
        self.busy >= 1.0
    }

    /// Bytes of all copies that have to be on the host.
    pub(super) fn beyond_bytes(&self) -> u64 {
        (self.bytes * u64::from(self.copies)).saturating_sub(self.usable_bytes)
    }

    /// The same copies, no larger than that all fit.
    pub(super) fn fitting(&self) -> Self {
        let [part, parts] = FITS_PARTS;
        let each_bytes = self.usable_bytes / parts * part / u64::from(self.copies);
        let bytes = self.bytes.min(room::whole(each_bytes));
        let name = format!("{} x {}{}, all fits", self.copies, sizes::text(bytes), self.on);
        Self { name, bytes, seconds: self.seconds.min(FITS_SECONDS), busy: 1.0, ..self.clone() }
    }

    /// Managed memory that all copies have together, with the room in their slabs.
    ///
    /// # Errors
    /// Says so where that is more than the card has free: the driver would move it beside whoever else is there.
    pub(super) fn managed_bytes(&self) -> Result<u64, String> {
        let each_bytes = self.bytes + MAX_BYTES;
        self.fit_card("managed memory", each_bytes)?;
        Ok(each_bytes * u64::from(self.copies))
    }

    /// Checks that the card itself has room for what all copies have beside their contexts, whatever the capacity is.
    pub(super) fn fits_card(&self, what: &str) -> Result<(), String> {
        self.fit_card(what, self.bytes)
    }

    fn fit_card(&self, what: &str, each_bytes: u64) -> Result<(), String> {
        let copies = u64::from(self.copies);
        let (all, free) = (each_bytes * copies, self.room.usable_bytes(None, copies));
        match all <= free {
            true => Ok(()),
            false => Err(format!(
                "{} of {what} together are more than the {} that the card has free; smaller --bytes with --capacity make \
                 the same pressure",
                sizes::text(all),
                sizes::text(free)
            )),
        }
    }

    /// Finds natively what a step takes, and so how many make up the time that was asked for.
    pub(super) fn calibrate(&mut self, bench: &Bench) -> Result<()> {
        let what = "finding what a step takes";
        let tenancy = bench.native()?.tenancy(&bench.stage, 0)?;
        let arguments = [format!("bytes={}", self.bytes), "steps=0".to_owned()];
        let mut copy = Matrices::start(bench, &tenancy, "add", &arguments)?;
        copy.await_ready(bench, what, PATIENCE)?;
        copy.go()?;
        let end = wait(bench, what, PATIENCE, || {
            Ok(copy.says()?.filter(|said| said.get("steps").is_some()))
        });
        let end = end.context("a step cannot be measured natively")?;
        judge(&end)?;
        let ns = number(&end, "ended_ns")? - number(&end, "began_ns")?;
        self.step_s = ns / 1e9 / number(&end, "steps")?.max(1.0);
        self.steps = steps_in(self.seconds, self.step_s).max(FEWEST_STEPS);
        copy.finish();
        Ok(())
    }

    /// Arguments of a copy.
    pub(super) fn arguments(&self) -> Vec<String> {
        let gap_s = (4.0 * f64::from(self.copies) * self.step_s).max(LEAST_GAP_S);
        let mut arguments = vec![
            format!("bytes={}", self.bytes),
            format!("steps={}", self.steps),
            format!("gap={}", (gap_s * 1e9) as u64),
        ];
        if !self.is_always_busy() {
            let rest_ns = self.rest_s() * 1e9;
            arguments.push(format!("phase={}", steps_in(self.phase_s, self.step_s)));
            arguments.push(format!("rest={}", rest_ns as u64));
        }
        arguments
    }

    /// Time that a copy rests between two phases.
    pub(super) fn rest_s(&self) -> f64 {
        self.phase_s * (1.0 - self.busy) / self.busy
    }

    /// Limits of a copy's tenant, whose memory stays on the card.
    pub(super) fn terms(&self) -> TenantTerms {
        TenantTerms::memory(self.room.limit_for(self.bytes))
    }

    /// A program that holds what a smaller card would not have, beside a peer, which knows no --capacity. A simulated card's
    /// memory is the host's: there a peer has the whole card.
    pub(super) fn ballast(&self, bench: &Bench) -> Result<Option<Matrices>> {
        let Some(capacity) = self.capacity_bytes.filter(|_| !bench.stage.is_simulated()) else {
            return Ok(None);
        };
        let programs = u64::from(self.copies) + 1;
        let bytes = self.room.usable_bytes(None, programs).saturating_sub(capacity);
        if bytes < STEP_BYTES {
            return Ok(None);
        }
        let tenancy = bench.native()?.tenancy(&bench.stage, 0)?;
        let arguments = [room::whole(bytes).to_string()];
        let mut ballast = Matrices::start(bench, &tenancy, "touch", &arguments)?;
        ballast.await_ready(bench, "filling the rest of the card", PATIENCE)?;
        Ok(Some(ballast))
    }
}

/// Steps of a length that make up a time: one at least.
fn steps_in(seconds: f64, step_s: f64) -> u64 {
    (seconds / step_s.max(1e-6)).round().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies on a card of 80 GiB free, of which Divvy has so much.
    fn plan(copies: u32, bytes: u64, capacity_bytes: u64) -> Plan {
        let room = Room { free_bytes: 80 << 30, context_bytes: 518 << 20 };
        Plan {
            name: String::new(),
            copies,
            bytes,
            capacity_bytes: Some(capacity_bytes),
            room,
            usable_bytes: room.usable_bytes(Some(capacity_bytes), u64::from(copies)),
            on: String::new(),
            seconds: 60.0,
            phase_s: 15.0,
            busy: 1.0,
            steps: 0,
            step_s: 0.0,
        }
    }

    #[test]
    fn managed_memory_is_no_more_than_the_card_has_free() {
        let within = plan(2, 36 << 30, 48 << 30);
        assert_eq!(within.managed_bytes(), Ok((72 << 30) + (512 << 20)));
        let beyond = plan(2, 40 << 30, 48 << 30).managed_bytes().unwrap_err();
        assert!(beyond.contains("80.5 GiB of managed memory") && beyond.contains("--capacity"));
    }

    #[test]
    fn copies_that_fit_are_as_large_as_they_were_or_less() {
        let fits = plan(4, 36 << 30, 48 << 30).fitting();
        assert!(fits.bytes <= (12 << 30) && fits.bytes > (11 << 30), "{}", fits.bytes);
        assert_eq!((fits.beyond_bytes(), fits.seconds), (0, FITS_SECONDS));
        assert_eq!(plan(2, 1 << 30, 48 << 30).fitting().bytes, 1 << 30);
        assert_eq!(plan(2, 36 << 30, 48 << 30).beyond_bytes(), (24 << 30) + (16 << 20));
    }

    #[test]
    fn a_time_has_a_step_at_least() {
        assert_eq!(steps_in(60.0, 0.025), 2400);
        assert_eq!(steps_in(1.0, 3.0), 1);
    }
}
