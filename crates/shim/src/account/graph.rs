//! Graphs with memory nodes.
//!
//! Adding and capturing take no device memory: a launch or an upload of an executable graph does, and
//! it stays reserved until it is trimmed. How much a graph takes is known beforehand
//! ([`charge::GraphNeed`]). Graphs that run one after another share it, and get memory of their own
//! when they meet, at any launch: so each has all charged that its graph takes. It need not ask for
//! that where as much is charged as all graphs that have run since a trim can take, with what that
//! trim has left; nobody gives it back until the launch is over.
//!
//! While the process has no graph with memory nodes, a launch costs one load.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{CUdevice, CUgraph, CUgraphExec, CUresult, CUstream};
use divvy_policy::charge;

use super::place::{Next, OUT_OF_MEMORY, at};
use super::reserve::{Growth, Reserve};
use super::{nodes, pool};
use crate::gate::is_capturing;
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::sys::{Out, driver};
use crate::tenant::device::Device;

/// Executable graphs with memory nodes, by handle and a number for each device: what their memory takes and
/// where, and the device's epoch when that was counted.
static EXECS: Map = Map::new(6);

/// Executable graphs alive that have memory nodes.
static WITH_MEMORY: AtomicU64 = AtomicU64::new(0);

/// The key of the entry for the `index`th device on which a graph has memory.
fn key(exec: CUgraphExec, index: u64) -> u64 {
    // Handles are aligned addresses, so their lowest bits are free.
    (exec.0.addr() as u64) ^ index & 0xf
}

/// The device of an entry, if it is counted, and the bytes; these are whole chunks, which leave room below
/// for the device's number.
fn need_of(word: u64) -> (Next<&'static Device>, u64) {
    (at((word & 0xf) as CUdevice), word & !0xf)
}

/// The driver has answered to an instantiation: notes the executable graph's memory nodes. A graph of which
/// that is not possible is none.
#[inline(never)]
pub(crate) fn instantiated(
    result: CUresult,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
) -> CUresult {
    let Some(exec) = exec.get().filter(|_| result == SUCCESS && nodes::are_expected()) else {
        return result;
    };
    // One whose context ended before it was destroyed may have had this handle.
    forget(exec);
    match note(exec, graph) {
        Ok(()) => SUCCESS,
        Err(code) => {
            destroy(exec);
            code
        }
    }
}

fn note(exec: CUgraphExec, graph: CUgraph) -> Result<(), CUresult> {
    let mut needs = [charge::GraphNeed::NONE; MAX_DEVICES];
    driver::graph_allocs(graph, &mut |ordinal, address, bytes| {
        if let Some(need) = usize::try_from(ordinal).ok().and_then(|index| needs.get_mut(index)) {
            *need = need.with(address, bytes);
        }
    })?;
    let mut index = 0_u64;
    for (need, ordinal) in needs.into_iter().zip(0..) {
        let word = need.bytes() | ordinal;
        if need.bytes() == 0 {
            continue;
        }
        if index == 0 {
            WITH_MEMORY.fetch_add(1, Relaxed);
        }
        EXECS.insert(key(exec, index), [word, 0]).map_err(|_| OUT_OF_MEMORY)?;
        index = index.wrapping_add(1);
    }
    Ok(())
}

/// A graph is no more. What it has stays counted until a trim: it may still run.
#[inline(never)]
fn forget(exec: CUgraphExec) {
    let mut index = 0;
    while EXECS.take(key(exec, index)).is_some() {
        if index == 0 {
            WITH_MEMORY.fetch_sub(1, Relaxed);
        }
        index = index.wrapping_add(1) & 0xf;
    }
}

/// Takes back what was made and cannot be had.
pub(crate) fn destroy(exec: CUgraphExec) {
    forget(exec);
    let _ = driver::graph_exec_destroy(exec);
}

/// Says when an entry's graph was counted; what was there before.
fn stamp(exec: CUgraphExec, index: u64, epoch: u64) -> Option<[u64; 2]> {
    let mut before = None;
    let _ = EXECS.update(key(exec, index), |old| {
        before = old;
        old.map(|[word, _]| [word, epoch])
    });
    before
}

/// Asks for what a graph takes on the `index`th of its devices when it is launched or uploaded. None: there is
/// no such device.
fn ask(exec: CUgraphExec, index: u64, stream: CUstream, per_thread: bool) -> Option<CUresult> {
    let [word, _] = EXECS.get(key(exec, index))?;
    let (device, bytes) = match need_of(word) {
        (Next::Count(device), bytes) => (device, bytes),
        (Next::Forward, _) => return Some(SUCCESS),
        (Next::Refuse(code), _) => return Some(code),
    };
    let (needs, aged) = (&device.graph_needs, &device.aged_graph_needs);
    let epoch = device.graph_epoch.load(SeqCst);
    if stamp(exec, index, epoch).is_some_and(|[_, counted]| counted != epoch) {
        needs.fetch_add(bytes, SeqCst);
        aged.fetch_add(bytes, SeqCst);
    }
    let reserve = Reserve::Graphs(device.ordinal);
    if reserve.claim(bytes, needs, || device.graph_epoch.load(SeqCst) == epoch) {
        return Some(SUCCESS);
    }
    // Once more, and whatever is trimmed meanwhile: who sees it charged must see it among the needs.
    needs.fetch_add(bytes, SeqCst);
    let asked = pool::prepare(device, reserve, bytes, stream, per_thread);
    let now = device.graph_epoch.load(SeqCst);
    if asked.is_err() || now == epoch {
        needs.fetch_sub(bytes, SeqCst);
    } else {
        aged.fetch_add(bytes, SeqCst);
        stamp(exec, index, now);
    }
    Some(asked.map_or_else(|code| code, |_| SUCCESS))
}

/// Asks for all that a graph takes, which is nothing while it is captured; on how many devices that went
/// well, and the answer.
#[inline(never)]
fn prepare(exec: CUgraphExec, stream: CUstream, per_thread: bool) -> (u64, CUresult) {
    let mut asked = 0_u64;
    if is_capturing(stream, per_thread) {
        return (asked, SUCCESS);
    }
    while let Some(code) = ask(exec, asked, stream, per_thread) {
        if code != SUCCESS {
            return (asked, code);
        }
        asked = asked.wrapping_add(1);
    }
    (asked, SUCCESS)
}

#[inline(never)]
fn settle(exec: CUgraphExec, asked: u64) {
    for index in 0..asked {
        if let Some([word, _]) = EXECS.get(key(exec, index))
            && let (Next::Count(device), bytes) = need_of(word)
        {
            Reserve::Graphs(device.ordinal).settle_or_hold(device, Growth::of(bytes));
        }
    }
}

/// Launches or uploads, with all charged that this may take.
pub(crate) fn run(
    exec: CUgraphExec,
    stream: CUstream,
    per_thread: bool,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let (asked, mut result) = match WITH_MEMORY.load(Relaxed) {
        0 => (0, SUCCESS),
        _ => prepare(exec, stream, per_thread),
    };
    if result == SUCCESS {
        result = call();
    }
    if asked != 0 {
        settle(exec, asked);
    }
    result
}

/// Uploads a graph, with all charged that this may take.
#[inline(never)]
pub(crate) fn upload(exec: CUgraphExec, stream: CUstream, per_thread: bool) -> CUresult {
    run(exec, stream, per_thread, || match driver::graph_upload(exec, stream, per_thread) {
        Ok(()) => SUCCESS,
        Err(code) => code,
    })
}

/// Destroys an executable graph; its memory stays until it is trimmed, or longer if that is in use.
pub(crate) fn end(exec: CUgraphExec, call: impl FnOnce() -> CUresult) -> CUresult {
    if WITH_MEMORY.load(Relaxed) != 0 {
        // Before its handle may be another's.
        forget(exec);
    }
    call()
}
