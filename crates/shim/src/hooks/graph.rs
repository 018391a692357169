//! Graphs: uploaded, launched, made executable with parameters, and their memory trimmed; other calls are rows of
//! `around.txt`. The memory they take is [`crate::account::graph`]'s.

use core::ffi::c_ulonglong;

use divvy_driver_api::types::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUdevice, CUgraph, CUgraphExec, CUresult, CUstream,
};

use crate::account::graph::{destroy, instantiated, run, upload};
use crate::account::place::{Next, at};
use crate::account::unused::{age, trimmed};
use crate::gate::submit;
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, layout, real};

/// Instantiation that uploads as well.
const UPLOAD: c_ulonglong = 2;

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
    upload(exec, stream, real.per_thread())
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
        layout::flags(params).set(asked.flags & !UPLOAD);
    }
    let result = real.call(exec, graph, params);
    let mut result = instantiated(result, exec, graph);
    if let Some(asked) = asked {
        layout::flags(params).set(asked.flags);
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

/// Hands unused graph memory back.
pub(crate) fn cuDeviceGraphMemTrim(real: real::cuDeviceGraphMemTrim, dev: CUdevice) -> CUresult {
    let Next::Count(device) = at(dev) else { return real.call(dev) };
    let aged = age(device);
    let result = real.call(dev);
    trimmed(device, aged);
    result
}
