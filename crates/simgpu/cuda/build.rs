//! Makes the list of exports from the table of entry points, and the linker's arguments: the name
//! programs ask for, and symbols bound inside the library, so that the addresses
//! `cuGetProcAddress` answers are its own even where another library is preloaded.
//!
//! `exports.rs` in `OUT_DIR` calls two macros of `src/lib.rs`: `exports!` with what driver 580 exports
//! and a header declares, each symbol with its base, `undocumented!` with the names that no header
//! declares.

use std::path::PathBuf;
use std::{env, fs, io};

use divvy_driver_api::{UNDOCUMENTED, find};

macro_rules! prototypes {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        /// Entry points, and what follows their names in a declaration.
        const PROTOTYPES: &[(&str, &str)] =
            &[$((stringify!($name), stringify!(($($argument: $ty),*) -> $result))),*];
    };
}
divvy_driver_api::for_each_driver_entry!(prototypes);

fn main() -> io::Result<()> {
    let mut text = String::from("exports! {\n");
    for (name, prototype) in PROTOTYPES {
        if let Some(entry) = find(name).filter(|entry| entry.in_driver_580) {
            text.push_str(&format!("{name} = {}{prototype};\n", entry.base));
        }
    }
    text.push_str(&format!("}}\nundocumented! {{ {} }}\n", UNDOCUMENTED.join(" ")));
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("exports.rs"), text)?;

    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    Ok(())
}
