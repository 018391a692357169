//! Waits, counted: how often the calling thread gave its processor away.
//!
//! Promises: a host that is busy makes no wait more, and takes none away; whoever looks for a lock naps between two
//! looks, so that its naps say how long it waited as no clock does. How long one lasts is not judged.

/// Naps in the second after which a wait for the admission lock is given up, of half a millisecond after the first
/// few; and the few times that a thread waits for a file besides.
pub(crate) const A_SECOND: u64 = 2_200;

/// How often the calling thread waits in `act`.
pub(crate) fn naps(act: impl FnOnce()) -> u64 {
    let before = waits();
    act();
    waits() - before
}

/// How often the calling thread has given its processor away by itself.
fn waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("readable");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).expect("a count of switches")
}
