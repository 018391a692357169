//! Memory of the host that is left for copies: what the machine and this process's container can still give.
//!
//! A process that takes more than its control group may have is ended by the kernel, and a daemon in another container sees neither
//! group. A container has its own group where a machine has the root, which has no limit. Promises: a [`RESERVE_PART`]th of both is left to
//! others; files that were read count as memory to be had; what is not said is no bound. Knows the second version of
//! the kernel's interface (`cgroups(7)`) alone. Does not look at groups within a container, nor at those of a machine's
//! services, which the daemon sees.

use core::ffi::CStr;

use super::kernel::File;

/// Part of the machine's and of the container's memory that is left to others.
const RESERVE_PART: u64 = 32;

/// A number that no file says: no bound.
const NONE: u64 = u64::MAX;

/// Bytes that are left beyond the reserve.
pub(super) fn left_bytes() -> u64 {
    // A kernel before 3.14 does not say what is available.
    let available = number_of(c"/proc/meminfo", b"MemAvailable:");
    let reserve = number_of(c"/proc/meminfo", b"MemTotal:") / RESERVE_PART;
    let machine_bytes = available.saturating_sub(reserve).saturating_mul(1024);
    machine_bytes.min(group_bytes())
}

/// The same of the container.
fn group_bytes() -> u64 {
    let limit_bytes = number_of(c"/sys/fs/cgroup/memory.max", b"");
    if limit_bytes == NONE {
        return NONE;
    }
    let used = |word: &[u8]| number_of(c"/sys/fs/cgroup/memory.stat", word);
    let used_bytes = used(b"anon ").saturating_add(used(b"shmem "));
    limit_bytes.saturating_sub(limit_bytes / RESERVE_PART).saturating_sub(used_bytes)
}

/// Number behind the first such word of a file, of its first 2 KiB; [`NONE`] without one.
#[inline(never)]
fn number_of(path: &CStr, word: &[u8]) -> u64 {
    let mut text = [0_u8; 2048];
    if let Some(file) = File::open(path) {
        // Shorter as a rule, and cut where it is longer.
        let _ = file.read(&mut text);
    }
    number_in(&text, word)
}

fn number_in(text: &[u8], word: &[u8]) -> u64 {
    let mut rest = text;
    while let Some((_, next)) = rest.split_first() {
        if let Some(digits) = rest.strip_prefix(word) {
            return leading(digits);
        }
        rest = next;
    }
    NONE
}

/// Number that a text begins with, behind spaces.
fn leading(text: &[u8]) -> u64 {
    let mut number = NONE;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            let before = if number == NONE { 0 } else { number };
            number = before.wrapping_mul(10).wrapping_add(u64::from(digit));
        } else if number != NONE || *byte != b' ' {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_behind_the_first_such_word() {
        let text = b"anon 1\nfile 9\nshmem 3\nshmem_thp 7\nMemFree:   12 kB\n\0\0";
        for (word, number) in
            [(&b"anon "[..], 1), (b"shmem ", 3), (b"MemFree:", 12), (b"slab ", NONE), (b"", NONE)]
        {
            assert_eq!(number_in(text, word), number);
        }
        assert_eq!(number_in(b"268435456\n\0\0", b""), 268_435_456);
        for none in [&b"max\n"[..], b"", b"\0", b"  \n"] {
            assert_eq!(number_in(none, b""), NONE);
        }
    }

    #[test]
    fn a_machine_has_some_left() {
        assert!((1 << 20..1 << 50).contains(&left_bytes()), "this machine has some");
        assert_eq!(number_of(c"/proc/none", b""), NONE);
    }
}
