//! CLOCK_MONOTONIC, read as the C library reads it: by the kernel's own function in this process.
//!
//! That costs 25 ns instead of the 100 of a system call, imports nothing, and cannot be interposed by
//! a program that is shown another time: deadlines are shared with other processes. Shortly after such a
//! reading the processor's counter says the time within a microsecond ([`Ticks`]), in 10 ns less.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::ticks::{IS_CHEAP, Ticks, ticks};
use super::{kernel, loaded};

static TICKS: Ticks = Ticks::new();

/// Address of the kernel's function; 1 where there is none, 0 before it was looked for.
static FUNCTION: AtomicUsize = AtomicUsize::new(0);
const ABSENT: usize = 1;

type Function = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

#[cfg(target_arch = "x86_64")]
const NAME: &[u8] = b"__vdso_clock_gettime";
#[cfg(target_arch = "aarch64")]
const NAME: &[u8] = b"__kernel_clock_gettime";

#[cold]
#[inline(never)]
fn find() -> usize {
    let mut found = None;
    loaded::walk(|object| {
        if matches!(object.name(), b"linux-vdso.so.1" | b"linux-gate.so.1") {
            found = object.function(NAME);
        }
        found.is_some()
    });
    let address = found.unwrap_or(ABSENT);
    FUNCTION.store(address, Relaxed);
    address
}

/// CLOCK_MONOTONIC in nanoseconds.
#[inline(never)]
pub(crate) fn now_ns() -> u64 {
    let counted_ns = if IS_CHEAP { TICKS.now_ns(ticks()) } else { None };
    counted_ns.unwrap_or_else(read_and_note)
}

#[cold]
#[inline(never)]
fn read_and_note() -> u64 {
    let before = ticks();
    let read_ns = read_ns();
    if IS_CHEAP {
        TICKS.note(before, read_ns, ticks());
    }
    read_ns
}

/// The same, as the kernel says it.
fn read_ns() -> u64 {
    let address = match FUNCTION.load(Relaxed) {
        0 => find(),
        address => address,
    };
    if address == ABSENT {
        return kernel::now_ns();
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the address is that of the kernel's function of this name, found in its own object.
    let function = unsafe { core::mem::transmute::<usize, Function>(address) };
    // SAFETY: it writes one timespec.
    if unsafe { function(libc::CLOCK_MONOTONIC, &raw mut time) } != 0 {
        return kernel::now_ns();
    }
    time.tv_sec
        .cast_unsigned()
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec.cast_unsigned())
}

/// Waits until `deadline_ns`: sleeps, and spins through the last microseconds, which a sleep cannot
/// hit.
pub(crate) fn sleep_until(deadline_ns: u64) {
    const SPIN_NS: u64 = 30_000;
    loop {
        let left_ns = deadline_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return;
        }
        if left_ns > SPIN_NS {
            let sleep_ns = left_ns.saturating_sub(SPIN_NS).min(1_000_000_000);
            kernel::sleep_ns(u32::try_from(sleep_ns).unwrap_or(1_000_000_000));
        } else {
            core::hint::spin_loop();
        }
    }
}
