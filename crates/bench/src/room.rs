//! Room: what a card has for programs, and sizes that exceed it together.

use std::time::Duration;

use anyhow::{Result, ensure};
use divvy_policy::size::{self, Limit};

use super::matrices::{BESIDE_BYTES, Matrices, STEP_BYTES};
use super::running::Bench;
use divvy_command::machine::host_memory;
use divvy_command::output::{failure::usage, sizes};

const PATIENCE: Duration = Duration::from_secs(60);
/// WrittenSize of the first of two programs on the card while the second is shown what is free.
const HELD_BYTES: u64 = STEP_BYTES + (2 << 20);
/// Memory of the host that is left to everything else.
const SLACK_BYTES: u64 = 1 << 30;

/// A size on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrittenSize(pub(super) u64);

/// Reads a size with its unit, as for `divvy run --memory`; parts of a card are none.
pub(super) fn bytes(text: &str) -> Result<WrittenSize, String> {
    match size::parse_written(text).map_err(|error| error.to_string())? {
        Limit::Bytes(bytes) if bytes >= STEP_BYTES => Ok(WrittenSize(bytes)),
        Limit::Bytes(_) => Err("write 8MiB or more".to_owned()),
        _ => Err("write a size such as 24GiB".to_owned()),
    }
}

/// Room of a card on the bare driver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Free bytes while no program of ours is there.
    pub(super) free_bytes: u64,
    /// WrittenSize of a program's context.
    pub(super) context_bytes: u64,
}

impl Room {
    /// Asks the driver, in two programs: what the second finds less than the first is the first's.
    pub(super) fn measure(bench: &Bench) -> Result<Self> {
        let tenancy = bench.native()?.tenancy(&bench.stage, 0)?;
        let arguments = [STEP_BYTES.to_string()];
        let start = || Matrices::start(bench, &tenancy, "touch", &arguments);
        let mut first = start()?;
        let free_bytes = first.await_ready(bench, "looking at the card", PATIENCE)?;
        let mut second = start()?;
        let left_bytes = second.await_ready(bench, "looking at the card", PATIENCE)?;
        first.finish();
        second.finish();
        let context_bytes = free_bytes.saturating_sub(left_bytes).saturating_sub(HELD_BYTES);
        Ok(Self { free_bytes: free_bytes + context_bytes, context_bytes })
    }

    /// WrittenSize that so many programs have for their matrices, where a daemon gives memory that can move no more than
    /// `capacity_bytes`. Contexts cannot move: they are beside it.
    pub(super) fn usable_bytes(&self, capacity_bytes: Option<u64>, programs: u64) -> u64 {
        let contexts_bytes = programs.saturating_mul(self.context_bytes);
        let room_bytes = self.free_bytes.saturating_sub(contexts_bytes);
        let room_bytes = room_bytes.min(capacity_bytes.unwrap_or(u64::MAX));
        room_bytes.saturating_sub(programs.saturating_mul(BESIDE_BYTES))
    }

    /// The capacity that leaves so many programs `usable_bytes` for their matrices.
    pub(super) fn capacity_for(&self, usable_bytes: u64, programs: u64) -> u64 {
        usable_bytes.saturating_add(programs.saturating_mul(BESIDE_BYTES))
    }

    /// A tenant's limit that `matrices_bytes` and a context fit.
    pub(super) fn limit_for(&self, matrices_bytes: u64) -> u64 {
        let bytes = matrices_bytes + self.context_bytes + (64 << 20);
        bytes.next_multiple_of(1 << 20)
    }
}

/// A size that four matrices of whole blocks have, at most `bytes`.
pub(super) fn whole(bytes: u64) -> u64 {
    (bytes / STEP_BYTES).max(1) * STEP_BYTES
}

/// Checks that the host can take so many bytes more.
///
/// # Errors
/// Says what is short, and the way out.
pub(super) fn check_host(needed_bytes: u64, way_out: &str) -> Result<()> {
    ensure!(
        fits_host(needed_bytes),
        usage(format!(
            "{} do not fit the host's memory, of which {} are free and {} stay so; {way_out}",
            sizes::text(needed_bytes),
            sizes::text(host_memory::available().unwrap_or(0)),
            sizes::text(SLACK_BYTES)
        ))
    );
    Ok(())
}

/// Whether the host can take so many bytes more. What cannot be read is not short.
pub(super) fn fits_host(needed_bytes: u64) -> bool {
    let needed = needed_bytes.saturating_add(SLACK_BYTES);
    needed_bytes == 0 || host_memory::available().is_none_or(|bytes| bytes >= needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_its_unit() {
        assert_eq!(bytes("24GiB"), Ok(WrittenSize(24 << 30)));
        for bad in ["24", "50%", "0", "1MiB", "x"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_capacity_has_room_for_what_was_asked_and_a_card_for_contexts_too() {
        let room = Room { free_bytes: 1 << 37, context_bytes: 518 << 20 };
        let capacity = room.capacity_for(1 << 30, 2);
        assert_eq!(capacity, (1 << 30) + 2 * BESIDE_BYTES);
        assert_eq!(room.usable_bytes(Some(capacity), 2), 1 << 30);
        assert_eq!(room.usable_bytes(None, 2), (1 << 37) - 2 * ((518 << 20) + BESIDE_BYTES));
        assert_eq!(room.usable_bytes(Some(1 << 20), 2), 0);
        assert_eq!((whole(1), whole((1 << 30) + 5)), (STEP_BYTES, 1 << 30));
        assert_eq!(room.limit_for(1) % (1 << 20), 0);
    }

    #[test]
    fn no_host_has_room_for_everything() {
        assert!(check_host(0, "").is_ok());
        let error = check_host(1 << 60, "ask for less").unwrap_err().to_string();
        assert!(error.contains("ask for less") && error.contains("free"), "{error}");
    }
}
