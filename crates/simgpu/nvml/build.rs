//! Makes the list of exports from the table of entry points, and gives the library the name programs look
//! for.
//!
//! `exports.rs` in `OUT_DIR` calls `exports!` of `src/lib.rs` with each entry point and with what is
//! passed on for each argument.

use std::io;

use exports::{Together, all_passed, prototypes};

#[path = "../exports.rs"]
mod exports;

divvy_driver_api::for_each_nvml_entry!(prototypes);

/// Arrays with their lengths, which mean something only together.
const TOGETHER: &[Together] = &[
    ("nvml", &["cpuSet", "cpuSetSize"]),
    ("nvml", &["infos", "infoCount"]),
    ("nvml", &["name", "length"]),
    ("nvml", &["partNumber", "length"]),
    ("nvml", &["serial", "length"]),
    ("nvml", &["utilization", "processSamplesCount"]),
    ("nvml", &["uuid", "length"]),
    ("nvml", &["values", "valuesCount"]),
    ("nvml", &["version", "length"]),
];

fn main() -> io::Result<()> {
    let mut text = String::from("exports! {\n");
    for (name, prototype, arguments) in PROTOTYPES {
        let passed = all_passed(TOGETHER, name, arguments);
        text.push_str(&format!("{name}{prototype} {{ {passed} }};\n"));
    }
    text.push_str("}\n");
    exports::write(&text)?;

    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    Ok(())
}
