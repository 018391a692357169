//! Code of the messages of `proto/`, one folder for each file: two of them are of the package `v1`.

use std::path::{Path, PathBuf};

/// Definitions, by the names of their files.
const DEFINITIONS: [&str; 8] = [
    "agent",
    "deviceplugin",
    "dra_v1",
    "dra_v1beta1",
    "health_v1",
    "health_v1alpha1",
    "podresources",
    "registration",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    for name in DEFINITIONS {
        let file = Path::new("proto").join(name).with_extension("proto");
        let descriptors = protox::compile([&file], ["proto"])?;
        let folder = out.join(name);
        std::fs::create_dir_all(&folder)?;
        tonic_prost_build::configure().out_dir(&folder).compile_fds(descriptors)?;
    }
    Ok(())
}
