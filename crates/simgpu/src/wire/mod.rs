//! The language between a client library and `simgpud`: one packet per message, requests answered
//! in order.
//!
//! Two kinds of connection open with two kinds of first packet. A *control* connection
//! ([`Request::Hello`]) carries the calls of one client library and is what its life is judged by; a
//! *lane* ([`Request::Lane`]) carries the work of one stream, so that a stream that waits for the
//! device keeps no other thread from talking. A packet is one message as `postcard` writes it.
//!
//! Promises: whatever the bytes are, decoding them does not panic and takes memory in proportion to their
//! number; a packet that is short, long or of an unknown kind decodes to `None` and ends that
//! connection alone. Does not promise that a message has but one packet: postcard reads longer forms of a number.
//!
//! Does not send or receive: [`socket`] does. Keeps no state.

pub mod socket;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::partition::Partition;

/// Version of this language; a daemon refuses any other, since both come from one build.
pub const PROTOCOL: u32 = 5;

/// Largest packet either side sends.
pub const PACKET_BYTES: usize = 64 << 10;

/// Purpose of memory; NVML's per-process figure and `divvy`-free tests tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Charge {
    /// `cuMemAlloc`, pitch, and the granules small blocks are packed in.
    Blocks = 0,
    /// Stream-ordered pools.
    Pool = 1,
    /// Physical handles of `cuMemCreate`.
    Handle = 2,
    /// Arrays and mipmaps.
    Array = 3,
    /// Graph memory nodes.
    Graph = 4,
    /// Globals and code of modules and libraries.
    Module = 5,
    /// A context.
    Context = 6,
    /// Device heap, printf buffer and local memory.
    Local = 7,
}

impl Charge {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Blocks,
        Self::Pool,
        Self::Handle,
        Self::Array,
        Self::Graph,
        Self::Module,
        Self::Context,
        Self::Local,
    ];

    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Which engine of a device work runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Engine {
    /// Kernels, clears and device-side copies; the amount is nanoseconds.
    Compute = 0,
    /// Copies from the host; the amount is bytes.
    CopyIn = 1,
    /// Copies to the host; the amount is bytes.
    CopyOut = 2,
}

/// How a kernel's duration is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Pace {
    /// Fixed work: time passes only while the kernel runs.
    Work = 0,
    /// A spin on the clock: time passes from its first instruction on, switched out or not.
    Wall = 1,
}

/// From a client library to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "a field is described by its message")]
pub enum Request {
    /// Opens a control connection. A ticket of zeros asks for a new client; another one resumes
    /// the client that lost its socket.
    /// The pid is how the process knows itself.
    Hello { protocol: u32, ticket: [u8; 16], pid: u32 },
    /// Opens a lane of the client that holds this ticket.
    Lane { protocol: u32, ticket: [u8; 16] },
    /// Asks for a new descriptor of the memory file.
    Memory {},
    /// Takes device memory.
    Allocate { device: u32, bytes: u64, charge: u8 },
    /// Gives one hold on a block back.
    Release { block: u64 },
    /// Takes one more hold on a block the client holds.
    Retain { block: u64 },
    /// Asks for a descriptor that keeps the block and by which others can import it.
    Export { block: u64 },
    /// Takes a hold on the block the attached descriptor was made for.
    Import {},
    /// Asks for the 64-byte handle of a range of a block.
    IpcHandle { block: u64, offset_bytes: u64, length_bytes: u64 },
    /// Takes a hold on the block such a handle names.
    IpcOpen {
        #[serde(with = "halves")]
        handle: [u8; 64],
    },
    /// Makes a context.
    CreateContext { device: u32 },
    /// Ends a context.
    DestroyContext { context: u64 },
    /// Asks for a device's memory figures.
    MemoryInfo { device: u32 },
    /// Asks who holds memory of a device.
    Processes { device: u32 },
    /// Asks how busy a device was.
    Utilisation { device: u32 },
    /// Asks how busy each process kept a device.
    ProcessUtilisation { device: u32, since_us: u64 },
    /// Makes managed memory, on the host to begin with.
    MakeManaged { bytes: u64 },
    /// Ends managed memory.
    EndManaged { object: u64 },
    /// Brings granules of managed memory to a device.
    Bring { object: u64, device: u32, first: u64, count: u64 },
    /// Brings granules of managed memory to the host.
    Leave { object: u64, first: u64, count: u64 },
    /// Asks how much of granules of managed memory is on a device.
    Resident { object: u64, first: u64, count: u64 },
    /// On a lane: work for an engine.
    Run {
        sequence: u64,
        context: u64,
        engine: u8,
        amount: u64,
        width_permille: u32,
        pace: u8,
        submitted_ns: u64,
    },
    /// Ends a client on purpose (a clean `exit` in a process that lives on).
    Bye {},
}

impl Request {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// The message in a packet; `None` unless it is exactly one.
    pub fn decode(packet: &[u8]) -> Option<Self> {
        decode(packet)
    }
}

/// From the daemon to a client library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "a field is described by its message")]
pub enum Reply {
    /// A control connection is open; the memory file is attached.
    Welcome {
        client: u64,
        ticket: [u8; 16],
        calibrated: u8,
        time_scale: u32,
        nvswitch: u8,
        devices: Vec<WireDevice>,
    },
    /// Done, with nothing to say; a descriptor is attached where one was asked for.
    Done {},
    /// Refused; the number is a [`Refusal`].
    Refused { refusal: u32 },
    /// A block of device memory.
    Block {
        block: u64,
        device: u32,
        charge: u8,
        file_offset: u64,
        bytes: u64,
        range_offset_bytes: u64,
        range_bytes: u64,
        /// Of managed memory, which went to the host for it.
        evicted_bytes: u64,
    },
    /// A handle other processes can open.
    Handle {
        #[serde(with = "halves")]
        handle: [u8; 64],
    },
    /// A context.
    Context { context: u64, evicted_bytes: u64 },
    /// Managed memory.
    Managed { object: u64 },
    /// Managed memory that moved; what came is runs of granules.
    Moved { came: Vec<(u64, u64)>, evicted_bytes: u64, stayed_bytes: u64 },
    /// How much is on a device.
    Resident { bytes: u64 },
    /// Memory figures of a device.
    MemoryInfo { total_bytes: u64, reserved_bytes: u64, used_bytes: u64 },
    /// Holders of memory of a device.
    Processes { processes: Vec<WireProcess> },
    /// How busy a device was.
    Utilisation { compute_percent: u32, memory_percent: u32 },
    /// How busy each process kept it.
    ProcessUtilisation { samples: Vec<WireSample> },
    /// On a lane: the work ends, or is certain to end, at this time.
    Completed { sequence: u64, started_ns: u64, finished_ns: u64 },
}

impl Reply {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// The message in a packet; `None` unless it is exactly one.
    pub fn decode(packet: &[u8]) -> Option<Self> {
        decode(packet)
    }
}

/// A device of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireDevice {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Memory as NVML shows it.
    pub nvml_total_bytes: u64,
    /// Memory that can be allocated.
    pub total_bytes: u64,
    /// Clock rate in percent of an H200's.
    pub speed_percent: u32,
    /// How it stands to partitions.
    pub partition: Partition,
}

/// A process with memory of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireProcess {
    /// Its pid as the daemon sees it, or as the process itself does if the daemon cannot.
    pub pid: u32,
    /// Its role there: 0 computes, 1 draws, 2 computes under MPS, as NVML numbers its lists.
    pub role: u8,
    /// How many contexts it has.
    pub contexts: u32,
    /// Bytes held.
    pub bytes: u64,
}

/// How busy a process kept a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireSample {
    /// Its pid.
    pub pid: u32,
    /// Part of the sampling period its kernels ran.
    pub compute_percent: u32,
    /// End of the period, microseconds since 1970.
    pub timestamp_us: u64,
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(message, Vec::with_capacity(64)).expect("memory takes every message")
}

fn decode<T: DeserializeOwned>(packet: &[u8]) -> Option<T> {
    let (message, rest) = postcard::take_from_bytes(packet).ok()?;
    rest.is_empty().then_some(message)
}

/// A handle as two arrays, since serde knows none of more than 32 bytes.
mod halves {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(handle: &[u8; 64], to: S) -> Result<S::Ok, S::Error> {
        let (halves, _) = handle.as_chunks::<32>();
        <&[[u8; 32]; 2]>::try_from(halves).map_err(serde::ser::Error::custom)?.serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<[u8; 64], D::Error> {
        let halves = <[[u8; 32]; 2]>::deserialize(from)?;
        halves.as_flattened().try_into().map_err(serde::de::Error::custom)
    }
}

/// Why the daemon refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Refusal {
    /// The device has not that much memory left.
    OutOfMemory = 1,
    /// No such device, block, context or handle, or not the client's.
    Unknown = 2,
    /// The request makes no sense: zero bytes, an unknown kind.
    Invalid = 3,
    /// Another version of this language.
    Protocol = 4,
    /// The daemon has no descriptor or memory of its own left.
    Exhausted = 5,
}

impl Refusal {
    /// The refusal with this number; an unknown one reads as `Invalid`.
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => Self::OutOfMemory,
            2 => Self::Unknown,
            4 => Self::Protocol,
            5 => Self::Exhausted,
            _ => Self::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn random_bytes_never_panic_and_what_decodes_survives_the_trip(
            bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..20
        ) {
            let mut packet = vec![kind];
            packet.extend(&bytes);
            // The kinds that take few bytes are found at the fronts.
            for end in 1..=packet.len() {
                if let Some(request) = Request::decode(&packet[..end]) {
                    prop_assert_eq!(Request::decode(&request.encode()), Some(request));
                }
                if let Some(reply) = Reply::decode(&packet[..end]) {
                    prop_assert_eq!(Reply::decode(&reply.encode()), Some(reply));
                }
            }
        }

        #[test]
        fn a_reply_survives_the_trip(
            pids in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u64>()), 0..300)
        ) {
            let processes = pids
                .into_iter()
                .map(|(pid, contexts, bytes)| WireProcess { pid, role: 0, contexts, bytes })
                .collect();
            let reply = Reply::Processes { processes };
            prop_assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
    }

    #[test]
    fn a_list_that_claims_more_items_than_its_packet_has_is_refused() {
        let mut packet = Reply::Processes { processes: Vec::new() }.encode();
        assert_eq!(packet.pop(), Some(0));
        // Some 2^60 items: no memory is asked for that would hold them.
        packet.extend([0xff; 8]);
        packet.push(0x0f);
        assert_eq!(Reply::decode(&packet), None);
    }

    #[test]
    fn a_packet_of_a_lane_fits_its_room() {
        let [sequence, context, amount, submitted_ns] = [u64::MAX; 4];
        let (width_permille, [engine, pace]) = (u32::MAX, [u8::MAX; 2]);
        let request =
            Request::Run { sequence, context, engine, amount, width_permille, pace, submitted_ns };
        assert!(request.encode().len() <= socket::SMALL_PACKET_BYTES);
    }

    #[test]
    fn a_handle_survives_the_trip() {
        let handle = std::array::from_fn(|at| at as u8);
        let request = Request::IpcOpen { handle };
        assert_eq!(Request::decode(&request.encode()), Some(request));
    }

    #[test]
    fn a_longer_packet_is_not_this_message() {
        let mut packet = Request::Bye {}.encode();
        assert_eq!(Request::decode(&packet), Some(Request::Bye {}));
        packet.push(0);
        assert_eq!(Request::decode(&packet), None);
    }
}
