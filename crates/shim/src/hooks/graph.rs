//! Graphs with memory nodes.
//!
//! Adding, capturing and instantiating take no device memory: the first launch or upload of an
//! executable graph does (measured), and it stays until it is trimmed. So that launch asks for the
//! sum of its nodes' sizes. Where that does not fit although nodes may share memory, the graph is
//! uploaded first, which takes what it needs without running it, and trimmed again if that is too
//! much. Launches of graphs without memory nodes cost one load.

use core::ffi::{c_char, c_ulonglong};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use divvy_abi::MAX_DEVICES;
use divvy_abi::usage::Kind;
use divvy_driver_api::types::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUdevice, CUgraph, CUgraphEdgeData,
    CUgraphExec, CUgraphNode, CUgraphNodeParams, CUresult, CUstream,
};
use divvy_policy::charge;

use super::capture::{is_capturing, relaxed};
use super::charge::{Next, OUT_OF_MEMORY, SUCCESS, ask_quietly, at};
use super::reserve::{Growth, Reserve};
use super::submit;
use crate::sys::map::Map;
use crate::sys::{In, Out, driver, layout, real};
use crate::tenant::device::Device;

/// Executable graphs with memory nodes, by handle and device: bytes, and the device's epoch when the
/// memory was last known to be there.
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
    relaxed(|| {
        let _ = driver::graph_mem_trim(device.ordinal);
    });
    device.graph_epoch.fetch_add(1, SeqCst);
    Reserve::Graphs(device.ordinal).settle_or_hold(device, Growth::NONE);
}

fn key(exec: CUgraphExec, ordinal: CUdevice) -> u64 {
    // Handles are aligned addresses, so their lowest bits are free for the device.
    (exec.0.addr() as u64) ^ u64::from(ordinal.cast_unsigned() & 0xf)
}

/// Bytes of a graph's memory nodes by device.
type Needs = [u64; MAX_DEVICES];

fn needs_of(graph: CUgraph) -> Option<Needs> {
    if !NODES.load(Relaxed) {
        return None;
    }
    let mut needs = [0_u64; MAX_DEVICES];
    let _ = driver::graph_allocs(graph, &mut |ordinal, bytes| {
        if let Some(sum) = usize::try_from(ordinal).ok().and_then(|index| needs.get_mut(index)) {
            *sum = sum.saturating_add(charge::whole_granules(bytes));
        }
    });
    needs.iter().any(|bytes| *bytes != 0).then_some(needs)
}

fn each(needs: &Needs, mut act: impl FnMut(CUdevice, u64)) {
    for (index, bytes) in needs.iter().enumerate().filter(|(_, bytes)| **bytes != 0) {
        act(CUdevice::try_from(index).unwrap_or(0), *bytes);
    }
}

/// Notes an executable graph's memory nodes.
fn instantiated(exec: Out<'_, CUgraphExec>, graph: CUgraph) {
    let (Some(exec), Some(needs)) = (exec.get(), needs_of(graph)) else { return };
    WITH_MEMORY.fetch_add(1, Relaxed);
    each(&needs, |ordinal, bytes| {
        let _ = EXECS.insert(key(exec, ordinal), [bytes, 0]);
    });
}

/// Growth asked for on each device before a launch.
struct Asked([Option<(&'static Device, Growth)>; MAX_DEVICES]);

/// Asks for the memory a graph may take when it is launched or uploaded now.
fn prepare(exec: CUgraphExec, upload: impl Fn() -> CUresult) -> Result<Asked, CUresult> {
    let mut asked = Asked([const { None }; MAX_DEVICES]);
    let mut outcome = Ok(());
    for (index, place) in asked.0.iter_mut().enumerate() {
        let ordinal = CUdevice::try_from(index).unwrap_or(0);
        let Some([bytes, epoch]) = EXECS.get(key(exec, ordinal)) else { continue };
        let device = match at(ordinal) {
            Next::Count(device) => device,
            Next::Forward => continue,
            Next::Refuse(code) => {
                outcome = Err(code);
                break;
            }
        };
        if epoch == device.graph_epoch.load(SeqCst) {
            continue;
        }
        match ask_growth(device, bytes, &upload) {
            Ok(growth) => *place = Some((device, growth)),
            Err(code) => {
                outcome = Err(code);
                break;
            }
        }
    }
    match outcome {
        Ok(()) => Ok(asked),
        Err(code) => {
            settle(asked);
            Err(code)
        }
    }
}

fn ask_growth(
    device: &'static Device,
    bytes: u64,
    upload: &impl Fn() -> CUresult,
) -> Result<Growth, CUresult> {
    let reserve = Reserve::Graphs(device.ordinal);
    let refusal = match ask_quietly(device, charge::pool_reserve(bytes), Kind::Graph) {
        Ok(held) => return Ok(reserve.expect(device, held)),
        Err(refusal) => refusal,
    };
    // The nodes may share memory: what they really need shows when they are uploaded.
    let uploaded = upload();
    let fits = reserve.settle(device, Growth::NONE);
    if uploaded == SUCCESS && fits.is_ok() {
        return Ok(Growth::NONE);
    }
    trim(device);
    device.tell(bytes, Kind::Graph, refusal);
    Err(OUT_OF_MEMORY)
}

fn settle(asked: Asked) {
    for (device, growth) in asked.0.into_iter().flatten() {
        Reserve::Graphs(device.ordinal).settle_or_hold(device, growth);
    }
}

/// Launches or uploads: `call` is the program's, `upload` ours.
fn run(
    exec: CUgraphExec,
    stream: CUstream,
    per_thread: bool,
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    if WITH_MEMORY.load(Relaxed) == 0 || is_capturing(stream, per_thread) {
        return call();
    }
    let upload = || match driver::graph_upload(exec, stream, per_thread) {
        Ok(()) => SUCCESS,
        Err(code) => code,
    };
    let asked = match prepare(exec, upload) {
        Ok(asked) => asked,
        Err(code) => return code,
    };
    let result = call();
    settle(asked);
    if result == SUCCESS {
        for index in 0..MAX_DEVICES {
            let ordinal = CUdevice::try_from(index).unwrap_or(0);
            let key = key(exec, ordinal);
            if EXECS.get(key).is_some()
                && let Next::Count(device) = at(ordinal)
            {
                let epoch = device.graph_epoch.load(SeqCst);
                let _ = EXECS.update(key, |old| old.map(|[bytes, _]| [bytes, epoch]));
            }
        }
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
    let uploads = params.get().is_some_and(|params| params.flags & UPLOAD != 0);
    let mut asked = Asked([const { None }; MAX_DEVICES]);
    if uploads && let Some(needs) = needs_of(graph) {
        let mut refused = None;
        each(&needs, |ordinal, bytes| {
            let Next::Count(device) = at(ordinal) else { return };
            let steps = charge::pool_reserve(bytes);
            let place = usize::try_from(ordinal).ok().and_then(|index| asked.0.get_mut(index));
            match ask_quietly(device, steps, Kind::Graph) {
                Ok(held) => {
                    let growth = Reserve::Graphs(ordinal).expect(device, held);
                    if let Some(place) = place {
                        *place = Some((device, growth));
                    }
                }
                Err(refusal) => {
                    device.tell(steps, Kind::Graph, refusal);
                    refused = Some(OUT_OF_MEMORY);
                }
            }
        });
        if let Some(code) = refused {
            settle(asked);
            return code;
        }
    }
    let result = real.call(exec, graph, params);
    settle(asked);
    if result == SUCCESS {
        instantiated(exec, graph);
    }
    result
}

/// Destroys an executable graph; its memory stays until it is trimmed.
pub(crate) fn cuGraphExecDestroy(real: real::cuGraphExecDestroy, exec: CUgraphExec) -> CUresult {
    let mut taken = [None; MAX_DEVICES];
    if WITH_MEMORY.load(Relaxed) != 0 {
        for (index, place) in taken.iter_mut().enumerate() {
            *place = EXECS.take(key(exec, CUdevice::try_from(index).unwrap_or(0)));
        }
    }
    let result = real.call(exec);
    let had_memory = taken.iter().any(Option::is_some);
    if result == SUCCESS {
        if had_memory {
            WITH_MEMORY.fetch_sub(1, Relaxed);
        }
        return result;
    }
    for (index, words) in taken.iter().enumerate() {
        if let Some(words) = words {
            let _ = EXECS.insert(key(exec, CUdevice::try_from(index).unwrap_or(0)), *words);
        }
    }
    result
}

/// Hands unused graph memory back.
pub(crate) fn cuDeviceGraphMemTrim(real: real::cuDeviceGraphMemTrim, dev: CUdevice) -> CUresult {
    let result = real.call(dev);
    if result == SUCCESS
        && let Next::Count(device) = at(dev)
    {
        device.graph_epoch.fetch_add(1, SeqCst);
        Reserve::Graphs(dev).settle_or_hold(device, Growth::NONE);
    }
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
