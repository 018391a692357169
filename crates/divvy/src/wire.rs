//! Language of the daemon's socket: frames, requests, answers.
//!
//! A frame is a length in bytes, a `u32` in little-endian order, and so many bytes of JSON. Both sides
//! name [`VERSION`]; a request of another version is answered by an error that names both. A client
//! may send several requests on one connection, one after the other.
//!
//! Promises: at most [`MAX_FRAME_BYTES`] are taken in for a frame, and nothing is reserved before it
//! has come; whatever the bytes are, reading them ends in a value or a [`FrameError`]. Unknown fields
//! are ignored, so that either side may be newer by a field; but not in what asks for tenants ([`by_id`]).
//!
//! Stands alone but for serde, so that it is fuzzed as it is.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

// By their paths, since what fuzzes this file has it in another folder.
#[path = "wire/by_id.rs"]
pub mod by_id;
#[path = "wire/cards.rs"]
pub mod cards;

use by_id::{TenantCall, TenantReport};
use cards::CardList;

/// Version of the requests and answers.
pub const VERSION: u32 = 1;

/// The longest frame. A list of some hundred tenants fits.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

/// The longest request: a change with all its limits fits many times.
pub const MAX_REQUEST_BYTES: usize = 64 << 10;

/// Bytes read at once.
const CHUNK_BYTES: usize = 4096;

/// Why a frame could not be read.
#[derive(Debug)]
pub enum FrameError {
    /// The other side has closed the connection, between two frames.
    Closed,
    /// The connection failed, was closed inside a frame, or nothing came in time.
    Io(std::io::Error),
    /// The frame is longer than allowed.
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The bytes are not what is expected.
    Json(serde_json::Error),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::TooLong { bytes, most } => {
                write!(f, "a frame of {bytes} bytes; at most {most} are read")
            }
            Self::Json(error) => write!(f, "a frame is not understood: {error}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Reads one frame of at most `most` bytes.
///
/// # Errors
/// [`FrameError`], after which the connection is of no more use, [`FrameError::Json`] excepted.
pub fn read<T: DeserializeOwned>(from: &mut impl Read, most: usize) -> Result<T, FrameError> {
    let mut head = [0_u8; 4];
    let first = loop {
        match from.read(&mut head) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other.map_err(FrameError::Io)?,
        }
    };
    if first == 0 {
        return Err(FrameError::Closed);
    }
    let rest = head.get_mut(first..).unwrap_or_default();
    from.read_exact(rest).map_err(FrameError::Io)?;
    let bytes = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
    if bytes > most {
        return Err(FrameError::TooLong { bytes, most });
    }
    let mut body = Vec::with_capacity(bytes.min(CHUNK_BYTES));
    let mut chunk = [0_u8; CHUNK_BYTES];
    while body.len() < bytes {
        let wanted = (bytes - body.len()).min(CHUNK_BYTES);
        let part = chunk.get_mut(..wanted).unwrap_or_default();
        from.read_exact(part).map_err(FrameError::Io)?;
        body.extend_from_slice(part);
    }
    serde_json::from_slice(&body).map_err(FrameError::Json)
}

/// Writes one frame.
///
/// # Errors
/// [`FrameError::TooLong`] or [`FrameError::Io`].
pub fn write(to: &mut impl Write, value: &impl Serialize) -> Result<(), FrameError> {
    let body = serde_json::to_vec(value).map_err(FrameError::Json)?;
    let too_long = || FrameError::TooLong { bytes: body.len(), most: MAX_FRAME_BYTES };
    if body.len() > MAX_FRAME_BYTES {
        return Err(too_long());
    }
    let length = u32::try_from(body.len()).map_err(|_| too_long())?;
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    to.write_all(&frame).and_then(|()| to.flush()).map_err(FrameError::Io)
}

/// Request of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// The question.
    pub call: Call,
}

/// The questions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// The daemon's process and version.
    Hello,
    /// Everything the daemon sees.
    List,
    /// Change a tenant's limits; only its owner and root may.
    Set {
        /// The tenant's directory.
        tenant: String,
        /// The change.
        change: LimitChange,
    },
    /// The metrics page.
    Metrics,
    /// Lines of the log. The machine's daemon gives each user those of their own tenants.
    Log {
        /// Name or directory of a tenant; by default all.
        tenant: Option<String>,
        /// RFC 3339; older lines are left out.
        since: Option<String>,
    },
    /// Write down the refusals of a tenant that is about to go.
    Refusals {
        /// The tenant's directory.
        tenant: String,
    },
    /// Give turns, or none; only the daemon's own user and root may ask for that.
    Schedule {
        /// Whether turns are given.
        to: Schedule,
    },
    /// Make, change, look at or remove tenants by id.
    Tenant(TenantCall),
    /// The machine's cards.
    Cards,
}

/// Whether a daemon gives turns, of time and of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// It does.
    #[default]
    On,
    /// All tenants run at once.
    Off,
}

/// A change of a tenant's limits, in the words of the command line; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitChange {
    /// As `--memory`.
    #[serde(default)]
    pub memory: Vec<String>,
    /// As `--compute`.
    #[serde(default)]
    pub compute: Vec<String>,
    /// As `--weight`.
    #[serde(default)]
    pub weight: Option<String>,
    /// As `--priority`.
    #[serde(default)]
    pub priority: Option<String>,
    /// As `--class`.
    #[serde(default)]
    pub class: Option<String>,
    /// Paused or resumed.
    #[serde(default)]
    pub paused: Option<bool>,
    /// As `--quantum`.
    #[serde(default)]
    pub quantum: Option<String>,
    /// Its memory is to leave the card, or may be there.
    #[serde(default)]
    pub frozen: Option<bool>,
    /// As `--oversubscribe`.
    #[serde(default)]
    pub oversubscribe: Option<String>,
}

/// Answer of the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Response {
    /// [`VERSION`].
    pub version: u32,
    /// The answer.
    pub answer: Answer,
}

/// The answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Call::Hello`].
    Hello {
        /// The daemon's process.
        pid: u32,
        /// The version of Divvy.
        divvy: String,
    },
    /// To [`Call::List`].
    List(Box<View>),
    /// To [`Call::Set`] and [`Call::Schedule`]: done, with notes in words.
    Done {
        /// Notes about it.
        notes: Vec<String>,
    },
    /// To [`Call::Metrics`].
    Metrics {
        /// The page's text.
        text: String,
    },
    /// To [`Call::Log`].
    Log {
        /// Where the log lies.
        folder: String,
        /// One JSON object each, with its end; as many of the newest as there is room for.
        lines: Vec<String>,
    },
    /// To [`TenantCall::Create`]: it is there with these limits.
    Created {
        /// Whether it was not there before.
        made: bool,
        /// The tenant.
        tenant: Box<TenantReport>,
    },
    /// To [`TenantCall::Set`] and [`TenantCall::Stat`].
    Tenant(Box<TenantReport>),
    /// To [`TenantCall::List`].
    Tenants {
        /// By user and id.
        tenants: Vec<TenantReport>,
    },
    /// To [`TenantCall::Remove`]: nobody finds it by its id any more.
    Removed {
        /// Whether it was there.
        existed: bool,
        /// Living processes in it, which keep their limits until they end.
        processes: u32,
    },
    /// To [`Call::Cards`].
    Cards(CardList),
    /// Not done.
    Error {
        /// Why, naming the value and the fix.
        message: String,
        /// The same for programs: the word of a [`by_id::RefusalCode`], for what clients of tenants by id may meet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
}

/// View of the daemon.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct View {
    /// The daemon's process.
    pub pid: u32,
    /// Whether it serves the machine, not one user.
    pub system: bool,
    /// CLOCK_MONOTONIC when this was seen.
    pub seen_ns: u64,
    /// Times the scheduling thread has woken.
    pub wakes: u64,
    /// Whether it gives turns.
    #[serde(default)]
    pub schedule: Schedule,
    /// Part of a device that tenants of lower priority have together, in millionths; absent where a daemon of before has
    /// no floor.
    #[serde(default)]
    pub floor_ppm: u64,
    /// Memory of the host for what may have to leave devices.
    #[serde(default)]
    pub host: HostView,
    /// Refusals that this daemon has found, by reason code. Those of the machine's daemon are for root alone.
    #[serde(default)]
    pub refusals: BTreeMap<String, u64>,
    /// Changes of tenants' limits and settings that it has seen; also for root alone there.
    #[serde(default)]
    pub limit_changes: u64,
    /// Devices that tenants use.
    pub devices: Vec<DeviceView>,
    /// Tenants whose gates this daemon holds, and those it cannot hold.
    pub tenants: Vec<TenantView>,
}

/// One device, as the daemon sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceView {
    /// As the driver's tools print it.
    pub uuid: String,
    /// How its time is divided: free, counted, lull, held, drain or together; mps; off.
    pub mode: String,
    /// Why it is not divided by turns: a reason code; absent where it is.
    pub reason: Option<String>,
    /// The reason in words.
    pub detail: Option<String>,
    /// Processes on it that belong to no tenant.
    pub foreign: u32,
    /// Turns begun.
    pub turns: u64,
    /// Turns that went to another tenant than the one before.
    pub handovers: u64,
    /// Drains given up.
    pub drain_timeouts: u64,
    /// Turns ended early for a tenant of higher priority, or for the floor of a lower one.
    pub preemptions: u64,
    /// Trials of "everybody open".
    pub trials: u64,
    /// Time with everybody open because nobody loses by it.
    pub together_ns: u64,
    /// Where the memory of tenants that oversubscribe is; absent while there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryView>,
}

/// Memory of the host for device memory of tenants that oversubscribe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostView {
    /// Bytes that are promised: as much as may have to leave all devices.
    pub promised_bytes: u64,
    /// Bytes that can still be promised.
    pub free_bytes: u64,
}

/// The memory of tenants that oversubscribe one device, as the daemon sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryView {
    /// Bytes of the device for memory that can move.
    pub capacity_bytes: u64,
    /// Bytes of it on the device.
    pub resident_bytes: u64,
    /// Bytes of it on the host.
    pub away_bytes: u64,
    /// Turns granted while not all fitted.
    pub grants: u64,
    /// Of these, those for which another tenant's turn ended.
    pub hand_overs: u64,
    /// Turns that ended early, their tenant being idle.
    pub early_releases: u64,
    /// Bytes ordered off the device.
    pub out_bytes: u64,
    /// Bytes that were away and were allowed back.
    pub in_bytes: u64,
    /// Times that a tenant's bytes came to count as unmovable, since they did not leave in time.
    pub bypassed: u64,
    /// Turns lost by tenants that did not come back in time.
    pub lost_turns: u64,
    /// Times that a tenant began to wait for its turn.
    pub waits: u64,
    /// Longest such wait.
    pub longest_wait_ns: u64,
    /// Bytes of managed memory among it, wherever they are.
    #[serde(default)]
    pub managed_bytes: u64,
    /// Bytes of such that tenants may have together.
    #[serde(default)]
    pub managed_limit_bytes: u64,
}

/// One tenant, as the daemon sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantView {
    /// Its directory.
    pub directory: String,
    /// The directory's owner.
    pub uid: u32,
    /// Why its gates are not held by this daemon: a reason code; absent where they are.
    pub reason: Option<String>,
    /// The reason in words.
    pub detail: Option<String>,
    /// Time its turns were charged with.
    pub held_ns: u64,
    /// Where it oversubscribes: runs, restores, waits, rests, frozen, larger, pinned-out, bypassed or stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// The same by device, of those that it oversubscribes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<TenantMemoryView>,
}

/// The memory of one tenant on one device that it oversubscribes, as the daemon sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantMemoryView {
    /// The device, as the driver's tools print it.
    pub gpu: String,
    /// As [`TenantView::memory`].
    pub status: String,
    /// Time in which its calls waited for memory that was away, for room, or for their turn.
    pub waited_ns: u64,
    /// Reason code of a tenant whose calls wait in vain, since its memory has no room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
        frame.extend_from_slice(body);
        frame
    }

    fn request(bytes: &[u8]) -> Result<Request, FrameError> {
        read(&mut &*bytes, MAX_REQUEST_BYTES)
    }

    #[test]
    fn what_is_written_is_read() {
        let change = LimitChange { weight: Some("2".to_owned()), ..LimitChange::default() };
        let call = Call::Set { tenant: "/d/é".to_owned(), change };
        let mut bytes = Vec::new();
        for call in [&call, &Call::Hello] {
            write(&mut bytes, &Request { version: VERSION, call: call.clone() }).unwrap();
        }
        let mut from = bytes.as_slice();
        assert_eq!(read::<Request>(&mut from, MAX_REQUEST_BYTES).unwrap().call, call);
        assert_eq!(read::<Request>(&mut from, MAX_REQUEST_BYTES).unwrap().call, Call::Hello);
        assert!(matches!(read::<Request>(&mut from, 9), Err(FrameError::Closed)));
    }

    #[test]
    fn what_is_no_frame_is_an_error_and_reserves_nothing() {
        assert!(matches!(request(&[0xff; 64]), Err(FrameError::TooLong { .. })));
        assert!(matches!(request(&[3, 0, 0, 0, b'{']), Err(FrameError::Io(_))));
        assert!(matches!(request(&[3, 0]), Err(FrameError::Io(_))));
        for body in [&b""[..], b"{}", b"null", b"{\"version\":1,\"call\":\"fly\"}", &[b'['; 4000]] {
            assert!(matches!(request(&frame(body)), Err(FrameError::Json(_))), "{body:?}");
        }
    }

    #[test]
    fn a_newer_side_may_add_fields() {
        let body = br#"{"version":1,"call":{"set":{"tenant":"t","change":{"new":1},"x":2}},"y":3}"#;
        let call = request(&frame(body)).unwrap().call;
        assert_eq!(call, Call::Set { tenant: "t".to_owned(), change: LimitChange::default() });
    }
}
