//! Makes the list of exports from the table of entry points, and the linker's arguments: the name
//! programs ask for, and symbols bound inside the library, so that the addresses
//! `cuGetProcAddress` answers are its own even where another library is preloaded.
//!
//! `exports.rs` in `OUT_DIR` calls two macros of `src/lib.rs`: `exports!` with what driver 580 exports
//! and a header declares, each symbol with its base and with what is passed on for each argument,
//! `undocumented!` with the names that no header declares.

use std::io;

use divvy_driver_api::{UNDOCUMENTED, find};
use exports::{Together, all_passed, prototypes};

#[path = "../exports.rs"]
mod exports;

divvy_driver_api::for_each_driver_entry!(prototypes);

/// Arguments that mean something only together with others: arrays with their lengths, values with what
/// says their size, functions with what they are called with.
const TOGETHER: &[Together] = &[
    ("cuPointerGetAttributes", &["attributes", "data", "numAttributes"]),
    ("cuStreamAddCallback", &["callback", "userData"]),
    ("cuLinkAddData", &["data", "size"]),
    ("cuMemRangeGetAttribute", &["data", "dataSize"]),
    ("cuMemRangeGetAttributes", &["data", "dataSizes", "attributes", "numAttributes"]),
    ("cuPointer", &["data", "attribute"]),
    ("cuMemGetHandleForAddressRange", &["handle", "handleType"]),
    ("cuMemPoolExport", &["handle_out", "handleType"]),
    ("cuMemExport", &["shareableHandle", "handleType"]),
    ("cuDevice", &["value", "attr"]),
    ("cuMemPool", &["value", "attr"]),
    ("cuPointer", &["value", "attribute"]),
    ("cu", &["dependencies", "numDependencies"]),
    ("cu", &["dependentNodes", "numDependentNodes"]),
    ("cu", &["desc", "count"]),
    ("cu", &["destroy", "ptr"]),
    ("cu", &["dptrs", "count"]),
    ("cu", &["dsts", "count"]),
    ("cu", &["fn_", "userData"]),
    ("cu", &["from", "numDependencies"]),
    ("cu", &["from", "numEdges"]),
    ("cu", &["functions", "numFunctions"]),
    ("cu", &["kernelParams", "extra"]),
    ("cu", &["kernels", "numKernels"]),
    ("cu", &["launchParamsList", "numDevices"]),
    ("cu", &["map", "count"]),
    ("cu", &["mapInfoList", "count"]),
    ("cu", &["name", "len"]),
    ("cu", &["nodes", "numNodes"]),
    ("cu", &["paramArray", "count"]),
    ("cu", &["pciBusId", "len"]),
    ("cu", &["prefetchLocIdxs", "numPrefetchLocs"]),
    ("cu", &["prefetchLocs", "numPrefetchLocs"]),
    ("cu", &["ptr", "numbytes"]),
    ("cu", &["resources", "nbResources"]),
    ("cu", &["result", "nbGroups"]),
    ("cu", &["rootNodes", "numRootNodes"]),
    ("cu", &["sizes", "count"]),
    ("cu", &["srcs", "count"]),
    ("cu", &["to", "numDependencies"]),
    ("cu", &["to", "numEdges"]),
];

fn main() -> io::Result<()> {
    let mut text = String::from("exports! {\n");
    for (name, prototype, arguments) in PROTOTYPES {
        if let Some(entry) = find(name).filter(|entry| entry.in_driver_580) {
            let passed = all_passed(TOGETHER, name, arguments);
            text.push_str(&format!("{name} = {}{prototype} {{ {passed} }};\n", entry.base));
        }
    }
    text.push_str(&format!("}}\nundocumented! {{ {} }}\n", UNDOCUMENTED.join(" ")));
    exports::write(&text)?;

    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    Ok(())
}
