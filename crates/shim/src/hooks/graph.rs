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

use core::ffi::{c_char, c_ulonglong};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUdevice, CUgraph, CUgraphEdgeData,
    CUgraphExec, CUgraphNode, CUgraphNodeParams, CUresult, CUstream,
};
use divvy_policy::charge;

use super::charge::{Next, OUT_OF_MEMORY, SUCCESS, at};
use super::pool;
use super::reserve::{Growth, Reserve};
use crate::gate::{is_capturing, relaxed, submit};
use crate::sys::map::Map;
use crate::sys::{In, Out, driver, layout, real};
use crate::tenant::device::Device;

/// Executable graphs with memory nodes, by handle and a number for each device: what their memory takes and
/// where, and the device's epoch when that was counted.
static EXECS: Map = Map::new(6);

/// Whether any graph of the process may have memory nodes.
static NODES: AtomicBool = AtomicBool::new(false);

/// Executable graphs alive that have memory nodes.
static WITH_MEMORY: AtomicU64 = AtomicU64::new(0);

/// Instantiation that uploads as well.
const UPLOAD: c_ulonglong = 2;

/// A capture or a call has made, or may make, a memory node.
pub(crate) fn expect_nodes() {
    if !NODES.load(Relaxed) {
        NODES.store(true, Relaxed);
    }
}

/// Hands unused graph memory of a device back to the driver.
pub(crate) fn trim(device: &'static Device) {
    let aged = age(device);
    relaxed(|| {
        let _ = driver::graph_mem_trim(device.ordinal);
    });
    trimmed(device, aged);
}

/// Before a trim: whatever graph runs from now on is counted anew. What has been counted until now.
fn age(device: &Device) -> u64 {
    device.graph_epoch.fetch_add(1, SeqCst);
    device.aged_graph_needs.swap(0, SeqCst)
}

/// Settles after a trim: of the graphs counted before it, which could have `aged` bytes, no more is left than is
/// reserved. They stay among the device's needs until that is known.
#[inline(never)]
fn trimmed(device: &'static Device, aged: u64) {
    let reserve = Reserve::Graphs(device.ordinal);
    reserve.settle_or_hold(device, Growth::NONE);
    let left = aged.min(reserve.charged_bytes());
    device.aged_graph_needs.fetch_add(left, SeqCst);
    device.graph_needs.fetch_sub(aged.saturating_sub(left), SeqCst);
}

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
fn instantiated(result: CUresult, exec: Out<'_, CUgraphExec>, graph: CUgraph) -> CUresult {
    let Some(exec) = exec.get().filter(|_| result == SUCCESS && NODES.load(Relaxed)) else {
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
fn destroy(exec: CUgraphExec) {
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
fn run(
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

/// Launches a graph.
pub(crate) fn cuGraphLaunch(
    real: real::cuGraphLaunch,
    exec: CUgraphExec,
    stream: CUstream,
) -> CUresult {
    let launch = || submit::graph(exec, stream, real.per_thread(), || real.call(exec, stream));
    run(exec, stream, real.per_thread(), launch)
}

#[inline(never)]
fn upload(exec: CUgraphExec, stream: CUstream, per_thread: bool) -> CUresult {
    run(exec, stream, per_thread, || match driver::graph_upload(exec, stream, per_thread) {
        Ok(()) => SUCCESS,
        Err(code) => code,
    })
}

/// Takes a graph's memory without running it.
pub(crate) fn cuGraphUpload(
    real: real::cuGraphUpload,
    exec: CUgraphExec,
    stream: CUstream,
) -> CUresult {
    upload(exec, stream, real.per_thread())
}

/// Makes a graph executable.
pub(crate) fn cuGraphInstantiate(
    real: real::cuGraphInstantiate,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    error_node: Out<'_, CUgraphNode>,
    log: Out<'_, c_char>,
    log_bytes: usize,
) -> CUresult {
    let result = real.call(exec, graph, error_node, log, log_bytes);
    instantiated(result, exec, graph)
}

/// The form of CUDA 11.
pub(crate) fn cuGraphInstantiate_v2(
    real: real::cuGraphInstantiate_v2,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    error_node: Out<'_, CUgraphNode>,
    log: Out<'_, c_char>,
    log_bytes: usize,
) -> CUresult {
    let result = real.call(exec, graph, error_node, log, log_bytes);
    instantiated(result, exec, graph)
}

/// With flags; none of them takes memory.
pub(crate) fn cuGraphInstantiateWithFlags(
    real: real::cuGraphInstantiateWithFlags,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    flags: c_ulonglong,
) -> CUresult {
    let result = real.call(exec, graph, flags);
    instantiated(result, exec, graph)
}

/// With parameters, which may ask for an upload.
pub(crate) fn cuGraphInstantiateWithParams(
    real: real::cuGraphInstantiateWithParams,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    params: Out<'_, CUDA_GRAPH_INSTANTIATE_PARAMS>,
) -> CUresult {
    let asked = params.get().filter(|params| params.flags & UPLOAD != 0);
    if let Some(asked) = asked {
        // Uploaded when it is known what that takes.
        params.set(CUDA_GRAPH_INSTANTIATE_PARAMS { flags: asked.flags & !UPLOAD, ..asked });
    }
    let result = real.call(exec, graph, params);
    let mut result = instantiated(result, exec, graph);
    if let (Some(asked), Some(answered)) = (asked, params.get()) {
        params.set(CUDA_GRAPH_INSTANTIATE_PARAMS { flags: asked.flags, ..answered });
        if result == SUCCESS
            && let Some(made) = exec.get()
        {
            result = upload(made, asked.hUploadStream, real.per_thread());
            if result != SUCCESS {
                destroy(made);
            }
        }
    }
    result
}

/// Destroys an executable graph; its memory stays until it is trimmed, or longer if that is in use.
pub(crate) fn cuGraphExecDestroy(real: real::cuGraphExecDestroy, exec: CUgraphExec) -> CUresult {
    if WITH_MEMORY.load(Relaxed) != 0 {
        // Before its handle may be another's.
        forget(exec);
    }
    real.call(exec)
}

/// Hands unused graph memory back.
pub(crate) fn cuDeviceGraphMemTrim(real: real::cuDeviceGraphMemTrim, dev: CUdevice) -> CUresult {
    let Next::Count(device) = at(dev) else { return real.call(dev) };
    let aged = age(device);
    let result = real.call(dev);
    trimmed(device, aged);
    result
}

/// A memory node is added.
pub(crate) fn cuGraphAddMemAllocNode(
    real: real::cuGraphAddMemAllocNode,
    node: Out<'_, CUgraphNode>,
    graph: CUgraph,
    dependencies: In<'_, CUgraphNode>,
    count: usize,
    params: Out<'_, CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> CUresult {
    expect_nodes();
    real.call(node, graph, dependencies, count, params)
}

fn note_node(params: Out<'_, CUgraphNodeParams>) {
    if params.get().is_some_and(|params| layout::allocation_of(&params).is_some()) {
        expect_nodes();
    }
}

/// A node of any kind is added.
pub(crate) fn cuGraphAddNode(
    real: real::cuGraphAddNode,
    node: Out<'_, CUgraphNode>,
    graph: CUgraph,
    dependencies: In<'_, CUgraphNode>,
    count: usize,
    params: Out<'_, CUgraphNodeParams>,
) -> CUresult {
    note_node(params);
    real.call(node, graph, dependencies, count, params)
}

/// With edge data.
pub(crate) fn cuGraphAddNode_v2(
    real: real::cuGraphAddNode_v2,
    node: Out<'_, CUgraphNode>,
    graph: CUgraph,
    dependencies: In<'_, CUgraphNode>,
    edges: In<'_, CUgraphEdgeData>,
    count: usize,
    params: Out<'_, CUgraphNodeParams>,
) -> CUresult {
    note_node(params);
    real.call(node, graph, dependencies, edges, count, params)
}

/// The form of CUDA 13.
pub(crate) fn cuGraphAddNode_v3(
    real: real::cuGraphAddNode_v3,
    node: Out<'_, CUgraphNode>,
    graph: CUgraph,
    dependencies: In<'_, CUgraphNode>,
    edges: In<'_, CUgraphEdgeData>,
    count: usize,
    params: Out<'_, CUgraphNodeParams>,
) -> CUresult {
    note_node(params);
    real.call(node, graph, dependencies, edges, count, params)
}
