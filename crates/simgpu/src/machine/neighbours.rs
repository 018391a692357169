//! Processes on a device that are no clients of this machine: a desktop that draws, an MPS server's
//! clients.
//!
//! `SIMGPU_NEIGHBOURS=graphics:71:256MiB:40,mps:72:1GiB:0` puts two beside the clients: what each does,
//! its pid, the memory it holds and the percent of the time its work runs, all for as long as the
//! machine lives. NVML lists and samples them; nothing else knows of them, and their work slows nobody
//! down.

use super::notation::parse_size;

/// Form of a list of neighbours.
pub const HINT: &str = "give a list of graphics|mps:PID:SIZE:PERCENT that fits the first device, such \
                        as graphics:71:256MiB:40";

/// A process that is no client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// As [`crate::wire::WireProcess::role`].
    pub role: u8,
    /// Its pid, which nobody checks.
    pub pid: u32,
    /// Memory it holds.
    pub bytes: u64,
    /// How busy it keeps the device.
    pub percent: u32,
}

/// Reads a list of neighbours that hold `room_bytes` at most together.
pub fn parse(text: &str, room_bytes: u64) -> Option<Vec<Neighbour>> {
    let all: Vec<Neighbour> = text.split(',').map(neighbour).collect::<Option<_>>()?;
    let sum = all.iter().try_fold(0_u64, |sum, one| sum.checked_add(one.bytes))?;
    (sum <= room_bytes).then_some(all)
}

fn neighbour(text: &str) -> Option<Neighbour> {
    let mut fields = text.split(':');
    let role = match fields.next()? {
        "graphics" => 1,
        "mps" => 2,
        _ => return None,
    };
    let pid = fields.next()?.parse().ok()?;
    let bytes = parse_size(fields.next()?)?;
    let percent = fields.next()?.parse().ok().filter(|percent| *percent <= 100)?;
    fields.next().is_none().then_some(Neighbour { role, pid, bytes, percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_strictly() {
        let all = parse("graphics:71:256MiB:40,mps:72:1GiB:0", 2 << 30).unwrap();
        assert_eq!(all[0], Neighbour { role: 1, pid: 71, bytes: 256 << 20, percent: 40 });
        assert_eq!((all[1].role, all[1].bytes), (2, 1 << 30));
        for bad in ["", "mps", "mps:1:1GiB", "mps:1:1GiB:101", "sound:1:1GiB:0", "mps:1:3GiB:0"] {
            assert_eq!(parse(bad, 2 << 30), None, "{bad}");
        }
    }
}
