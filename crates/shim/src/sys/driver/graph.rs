//! Graphs: their nodes, and the memory that nodes allocate.

use divvy_driver_api::types::*;

use super::call::ask;
use crate::sys::{kernel, layout};

/// Child graphs are followed this deep.
const DEPTH: u32 = 8;

/// Calls `visit` with device, address and bytes of every allocation node of a graph and its child
/// graphs, in the order they were made.
///
/// Cost: one call to the driver for each node; a large graph's list lies in a mapping meanwhile.
pub(crate) fn graph_allocs<F>(graph: CUgraph, visit: &mut F) -> Result<(), CUresult>
where
    F: FnMut(CUdevice, u64, u64),
{
    allocs_below(graph, visit, DEPTH)
}

fn allocs_below<F>(graph: CUgraph, visit: &mut F, depth: u32) -> Result<(), CUresult>
where
    F: FnMut(CUdevice, u64, u64),
{
    let count = graph_node_count(graph)?;
    if count == 0 || depth == 0 {
        return Ok(());
    }
    let bytes = count.saturating_mul(size_of::<CUgraphNode>());
    let list = kernel::map_private(bytes).map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    let mut result = {
        // SAFETY: a fresh mapping of that many null handles, referred to only in this block.
        let nodes = unsafe { core::slice::from_raw_parts_mut(list.cast::<CUgraphNode>(), count) };
        graph_nodes(graph, nodes).map(|_| ())
    };
    let mut index = 0;
    while index < count && result.is_ok() {
        // SAFETY: within the mapping, whose handles are null or written by the driver.
        let node = unsafe { list.cast::<CUgraphNode>().wrapping_add(index).read() };
        index = index.saturating_add(1);
        if !node.0.is_null() {
            result = alloc_of_node(node, visit, depth);
        }
    }
    // SAFETY: 1. mapped above, whole. 2. Nothing refers to the list any more.
    unsafe { kernel::unmap(list, bytes) };
    result
}

fn alloc_of_node<F>(node: CUgraphNode, visit: &mut F, depth: u32) -> Result<(), CUresult>
where
    F: FnMut(CUdevice, u64, u64),
{
    match node_type(node)? {
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
            let (device, address, bytes) = node_allocation(node)?;
            if let Some(device) = device {
                visit(device, address, bytes);
            }
            Ok(())
        }
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH => {
            allocs_below(node_child_graph(node)?, visit, depth.saturating_sub(1))
        }
        _ => Ok(()),
    }
}

/// How many nodes a graph has.
pub(crate) fn graph_node_count(graph: CUgraph) -> Result<usize, CUresult> {
    let mut count = 0;
    ask!(cuGraphGetNodes(graph, core::ptr::null_mut(), &mut count))?;
    Ok(count)
}

/// Writes a graph's first nodes, as many as fit, and returns how many were written.
pub(crate) fn graph_nodes(graph: CUgraph, into: &mut [CUgraphNode]) -> Result<usize, CUresult> {
    let mut count = into.len();
    ask!(cuGraphGetNodes(graph, into.as_mut_ptr(), &mut count))?;
    Ok(count.min(into.len()))
}

/// Kind of a node.
pub(crate) fn node_type(node: CUgraphNode) -> Result<CUgraphNodeType, CUresult> {
    let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    ask!(cuGraphNodeGetType(node, &mut kind))?;
    Ok(kind)
}

/// The graph inside a child-graph node.
pub(crate) fn node_child_graph(node: CUgraphNode) -> Result<CUgraph, CUresult> {
    let mut graph = CUgraph(core::ptr::null_mut());
    ask!(cuGraphChildGraphNodeGetGraph(node, &mut graph))?;
    Ok(graph)
}

/// The memory of an allocation node: its device, if it is on one, its address and its bytes.
fn node_allocation(node: CUgraphNode) -> Result<(Option<CUdevice>, u64, u64), CUresult> {
    let mut params = core::mem::MaybeUninit::<CUDA_MEM_ALLOC_NODE_PARAMS>::zeroed();
    ask!(cuGraphMemAllocNodeGetParams(node, params.as_mut_ptr()))?;
    // SAFETY: numbers and pointers, zeroed and then written by the driver.
    let params = unsafe { params.assume_init() };
    // SAFETY: 1. zeroed before the driver wrote it.
    let device = unsafe { layout::device_at(&params.poolProps.location) };
    Ok((device, params.dptr, params.bytesize as u64))
}

/// Takes an instantiated graph back.
pub(crate) fn graph_exec_destroy(graph: CUgraphExec) -> Result<(), CUresult> {
    ask!(cuGraphExecDestroy(graph))
}

/// Lets a device give back graph memory that no graph uses.
pub(crate) fn graph_mem_trim(device: CUdevice) -> Result<(), CUresult> {
    ask!(cuDeviceGraphMemTrim(device))
}

/// Takes the memory of an executable graph, in stream order, without running it.
pub(crate) fn graph_upload(
    graph: CUgraphExec,
    stream: CUstream,
    per_thread: bool,
) -> Result<(), CUresult> {
    if per_thread {
        ask!(cuGraphUpload_ptsz(graph, stream))
    } else {
        ask!(cuGraphUpload(graph, stream))
    }
}
