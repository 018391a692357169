//! Makes the list of exports from the table of entry points, and gives the library the name programs look
//! for.
//!
//! `exports.rs` in `OUT_DIR` calls `exports!` of `src/lib.rs` with each entry point and with what is
//! passed on for each argument.

use std::path::PathBuf;
use std::{env, fs, io};

use exports::{Together, all_passed};

#[path = "../exports.rs"]
mod exports;

macro_rules! prototypes {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        /// Entry points: names, what follows them in a declaration, and their arguments with types.
        const PROTOTYPES: &[(&str, &str, &[(&str, &str)])] = &[$((
            stringify!($name),
            stringify!(($($argument: $ty),*) -> $result),
            &[$((stringify!($argument), stringify!($ty))),*],
        )),*];
    };
}
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
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("exports.rs"), text)?;

    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../exports.rs");
    Ok(())
}
