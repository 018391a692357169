//! Graphs with memory nodes.
//!
//! Adding, capturing and instantiating take no device memory: a launch or an upload of an executable
//! graph does, and it stays reserved until it is trimmed. How much a graph takes is known beforehand
//! ([`charge::GraphNeed`]). Graphs that run one after another share it, and get memory of their own
//! when they meet, at any launch: so each asks for all that its graph takes, unless as much is
//! reserved as all graphs together can take. Launches of graphs without memory nodes cost one load.

use core::ffi::{c_char, c_ulonglong};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use divvy_abi::MAX_DEVICES;
use divvy_driver_api::types::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUdevice, CUgraph, CUgraphEdgeData,
    CUgraphExec, CUgraphNode, CUgraphNodeParams, CUresult, CUstream,
};
use divvy_policy::charge;

use super::capture::{is_capturing, relaxed};
use super::charge::{Next, SUCCESS, at};
use super::pool;
use super::reserve::{Growth, Reserve};
use super::submit;
use crate::sys::map::Map;
use crate::sys::{In, Out, driver, layout, real};
use crate::tenant::device::Device;

/// Executable graphs with memory nodes, by handle and device: what their memory takes, in bytes.
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
    trimmed(device, || {
        relaxed(|| {
            let _ = driver::graph_mem_trim(device.ordinal);
        });
        SUCCESS
    });
}

/// Settles what `trim` leaves: memory in use, that of destroyed graphs too.
fn trimmed(device: &'static Device, trim: impl FnOnce() -> CUresult) -> CUresult {
    let ended = device.ended_graph_needs.load(SeqCst);
    let result = trim();
    let reserve = Reserve::Graphs(device.ordinal);
    reserve.settle_or_hold(device, Growth::NONE);
    let left = ended.min(reserve.charged_bytes());
    // Another thread's trim, or a graph destroyed meanwhile, leaves it for the next.
    if device.ended_graph_needs.compare_exchange(ended, left, SeqCst, SeqCst).is_ok() {
        device.graph_needs.fetch_sub(ended.saturating_sub(left), SeqCst);
    }
    result
}

fn key(exec: CUgraphExec, ordinal: CUdevice) -> u64 {
    // Handles are aligned addresses, so their lowest bits are free for the device.
    (exec.0.addr() as u64) ^ u64::from(ordinal.cast_unsigned() & 0xf)
}

/// What graphs' memory takes by device, in bytes.
type Needs = [u64; MAX_DEVICES];

/// None: it takes none.
fn needs_of(graph: CUgraph) -> Option<Needs> {
    if !NODES.load(Relaxed) {
        return None;
    }
    let mut needs = [charge::GraphNeed::NONE; MAX_DEVICES];
    let _ = driver::graph_allocs(graph, &mut |ordinal, address, bytes| {
        if let Some(need) = usize::try_from(ordinal).ok().and_then(|index| needs.get_mut(index)) {
            *need = need.with(address, bytes);
        }
    });
    let needs = needs.map(charge::GraphNeed::bytes);
    needs.iter().any(|bytes| *bytes != 0).then_some(needs)
}

/// The devices whose memory is taken, and how much.
fn each(needs: &Needs) -> impl Iterator<Item = (CUdevice, u64)> {
    let numbered = needs.iter().zip(0..).filter(|(bytes, _)| **bytes != 0);
    numbered.map(|(bytes, ordinal)| (ordinal, *bytes))
}

/// Notes an executable graph's memory nodes.
fn instantiated(exec: Out<'_, CUgraphExec>, graph: CUgraph) {
    let (Some(exec), Some(needs)) = (exec.get(), needs_of(graph)) else { return };
    WITH_MEMORY.fetch_add(1, Relaxed);
    for (ordinal, bytes) in each(&needs) {
        if let Next::Count(device) = at(ordinal) {
            device.graph_needs.fetch_add(bytes, SeqCst);
        }
        let _ = EXECS.insert(key(exec, ordinal), [bytes, 0]);
    }
}

/// Has `call` with all that it may take charged; `is_known` if that counts among the device's already.
fn charged(
    needs: &Needs,
    is_known: bool,
    stream: CUstream,
    per_thread: bool,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let (asked, mut result) = ask_each(needs, is_known, stream, per_thread);
    if result == SUCCESS {
        result = call();
    }
    settle(needs, asked);
    result
}

/// Asks on each device; how many were asked with success, and how the last answered.
#[inline(never)]
fn ask_each(
    needs: &Needs,
    is_known: bool,
    stream: CUstream,
    per_thread: bool,
) -> (usize, CUresult) {
    for (asked, (ordinal, bytes)) in each(needs).enumerate() {
        let code = ask(ordinal, bytes, is_known, stream, per_thread);
        if code != SUCCESS {
            return (asked, code);
        }
    }
    (MAX_DEVICES, SUCCESS)
}

#[inline(never)]
fn settle(needs: &Needs, asked: usize) {
    for (ordinal, bytes) in each(needs).take(asked) {
        if let Next::Count(device) = at(ordinal) {
            Reserve::Graphs(ordinal).settle_or_hold(device, Growth::of(bytes));
        }
    }
}

/// Asks for what a graph takes on a device when it is launched or uploaded.
fn ask(
    ordinal: CUdevice,
    bytes: u64,
    is_known: bool,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    let device = match at(ordinal) {
        Next::Count(device) => device,
        Next::Forward => return SUCCESS,
        Next::Refuse(code) => return code,
    };
    let reserve = Reserve::Graphs(ordinal);
    if is_known && reserve.claim(bytes, device.graph_needs.load(SeqCst)) {
        return SUCCESS;
    }
    match pool::prepare(device, reserve, bytes, stream, per_thread) {
        Ok(_) => SUCCESS,
        Err(code) => code,
    }
}

/// Launches or uploads.
fn run(
    exec: CUgraphExec,
    stream: CUstream,
    per_thread: bool,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    if WITH_MEMORY.load(Relaxed) == 0 || is_capturing(stream, per_thread) {
        return call();
    }
    let needs = known(exec, |key| EXECS.get(key));
    charged(&needs, true, stream, per_thread, call)
}

/// What an executable graph takes, as far as `find` knows it.
#[inline(never)]
fn known(exec: CUgraphExec, find: fn(u64) -> Option<[u64; 2]>) -> Needs {
    let mut needs = [0; MAX_DEVICES];
    for (place, ordinal) in needs.iter_mut().zip(0..) {
        *place = find(key(exec, ordinal)).map_or(0, |[bytes, _]| bytes);
    }
    needs
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

/// Takes a graph's memory without running it.
pub(crate) fn cuGraphUpload(
    real: real::cuGraphUpload,
    exec: CUgraphExec,
    stream: CUstream,
) -> CUresult {
    run(exec, stream, real.per_thread(), || real.call(exec, stream))
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
    if result == SUCCESS {
        instantiated(exec, graph);
    }
    result
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
    if result == SUCCESS {
        instantiated(exec, graph);
    }
    result
}

/// With flags; none of them takes memory.
pub(crate) fn cuGraphInstantiateWithFlags(
    real: real::cuGraphInstantiateWithFlags,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    flags: c_ulonglong,
) -> CUresult {
    let result = real.call(exec, graph, flags);
    if result == SUCCESS {
        instantiated(exec, graph);
    }
    result
}

/// With parameters, which may ask for an upload.
pub(crate) fn cuGraphInstantiateWithParams(
    real: real::cuGraphInstantiateWithParams,
    exec: Out<'_, CUgraphExec>,
    graph: CUgraph,
    params: Out<'_, CUDA_GRAPH_INSTANTIATE_PARAMS>,
) -> CUresult {
    let upload = params.get().filter(|params| params.flags & UPLOAD != 0);
    let result = match (upload, needs_of(graph)) {
        (Some(upload), Some(needs)) => {
            let call = || real.call(exec, graph, params);
            charged(&needs, false, upload.hUploadStream, real.per_thread(), call)
        }
        _ => real.call(exec, graph, params),
    };
    if result == SUCCESS {
        instantiated(exec, graph);
    }
    result
}

/// Destroys an executable graph; its memory stays until it is trimmed, or longer if that is in use.
pub(crate) fn cuGraphExecDestroy(real: real::cuGraphExecDestroy, exec: CUgraphExec) -> CUresult {
    if WITH_MEMORY.load(Relaxed) == 0 {
        return real.call(exec);
    }
    let needs = known(exec, |key| EXECS.take(key));
    let result = real.call(exec);
    if each(&needs).next().is_some() && result == SUCCESS {
        WITH_MEMORY.fetch_sub(1, Relaxed);
    }
    for (ordinal, bytes) in each(&needs) {
        if result != SUCCESS {
            let _ = EXECS.insert(key(exec, ordinal), [bytes, 0]);
        } else if let Next::Count(device) = at(ordinal) {
            device.ended_graph_needs.fetch_add(bytes, SeqCst);
        }
    }
    result
}

/// Hands unused graph memory back.
pub(crate) fn cuDeviceGraphMemTrim(real: real::cuDeviceGraphMemTrim, dev: CUdevice) -> CUresult {
    match at(dev) {
        Next::Count(device) => trimmed(device, || real.call(dev)),
        _ => real.call(dev),
    }
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
