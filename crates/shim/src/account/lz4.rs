//! Unpacking of LZ4 blocks, as fat binaries hold them.
//!
//! Promises: reads and writes inside the two slices only, whatever the bytes are; no table, no
//! allocation.

/// Unpacks an LZ4 block; how many bytes there are. Stops at the first thing that makes no sense.
pub(crate) fn unpack(from: &[u8], to: &mut [u8]) -> usize {
    let mut rest = from.iter().copied();
    let mut done = 0_usize;
    while let Some(token) = rest.next() {
        let Some(literals) = run_length(token >> 4, &mut rest) else { return done };
        for _ in 0..literals {
            let (Some(byte), Some(place)) = (rest.next(), to.get_mut(done)) else { return done };
            *place = byte;
            done = done.saturating_add(1);
        }
        let (Some(low), Some(high)) = (rest.next(), rest.next()) else { return done };
        let distance = usize::from(u16::from_le_bytes([low, high]));
        let Some(length) = run_length(token & 15, &mut rest) else { return done };
        for _ in 0..length.saturating_add(4) {
            let byte = done.checked_sub(distance.max(1)).and_then(|at| to.get(at)).copied();
            let (Some(byte), Some(place)) = (byte, to.get_mut(done)) else { return done };
            *place = byte;
            done = done.saturating_add(1);
        }
    }
    done
}

/// A length of 15 goes on in the bytes that follow.
fn run_length(nibble: u8, rest: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut length = usize::from(nibble);
    if nibble == 15 {
        loop {
            let byte = rest.next()?;
            length = length.saturating_add(usize::from(byte));
            if byte != 255 {
                break;
            }
        }
    }
    Some(length)
}
