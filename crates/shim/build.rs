//! Makes the exports of libdivvy.so from the driver-api table, and the linker's arguments.
//!
//! Written to `OUT_DIR`: `tables.rs` (names, hashes and hook numbers, without a pointer), `real.rs`
//! (a typed handle for each hooked function of the driver), `around.rs` (the hooks of one expression) and
//! `exports.rs` (one `extern "C"` function per hooked symbol). A hook is found by its name in `src/hooks/*.rs`, or by
//! its row in `src/hooks/around.txt`; a symbol without one is forwarded. `DIVVY_UNHOOK=name,name` forwards the named ones too: that is how `cargo xtask unhook` proves that each hook has a test.

#[path = "build/around.rs"]
mod around;
#[path = "build/emit.rs"]
mod emit;
#[path = "build/surface.rs"]
mod surface;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let unhook = env::var("DIVVY_UNHOOK").unwrap_or_default();
    let surface = surface::read(&our_calls()?);
    let mut hooks = hooks_of(Path::new("src/hooks"), "crate::hooks")?;
    let expressions = around::read(include_str!("src/hooks/around.txt"), &surface);
    for base in expressions.keys() {
        let before = hooks.insert((*base).to_owned(), "crate::hooks::around".to_owned());
        assert!(before.is_none(), "{base} has a row in around.txt and a hook of its own");
    }
    for name in unhook.split(',').filter(|name| !name.is_empty()) {
        if surface.hooked.iter().all(|symbol| symbol.name != name && symbol.base != name) {
            println!("cargo:warning=DIVVY_UNHOOK names {name}, which is not hooked");
        }
    }
    emit::check_meanings(&surface);
    let unhooked = |name: &str| unhook.split(',').any(|entry| entry == name);
    fs::write(out.join("tables.rs"), emit::tables(&surface))?;
    fs::write(out.join("real.rs"), emit::real(&surface))?;
    fs::write(out.join("around.rs"), around::functions(&surface, &expressions))?;
    fs::write(out.join("exports.rs"), emit::exports(&surface, &hooks, &unhooked))?;

    for argument in [
        // Neither a constructor nor a destructor: the C compiler's start files bring both.
        "-nostartfiles",
        // Said here because the `libc` crate leaves it to `std` where another package asks it to.
        "-lc",
        "-Wl,-soname,libdivvy.so",
        "-Wl,-z,nodelete",
        "-Wl,-z,relro",
        "-Wl,-z,now",
        "-Wl,--no-undefined",
        // Our own references to our exports, all of them functions, stay ours and need no relocation.
        // Not `-Bsymbolic`: its mark makes the loader search us once more for each of our imports.
        "-Wl,-Bsymbolic-functions",
    ] {
        for argument in as_the_linker_takes_it(argument) {
            println!("cargo:rustc-cdylib-link-arg={argument}");
        }
    }
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        // Every program that starts pays for us, so this saves it one mapping, and all but one page to be copied,
        // since relocated data then never lies across two. Both options are lld's, rustc's own
        // linker on this target.
        for argument in ["--no-rosegment", "-z,separate-loadable-segments"] {
            println!("cargo:rustc-cdylib-link-arg=-Wl,{argument}");
        }
    }
    println!("cargo:rerun-if-env-changed=DIVVY_UNHOOK");
    for path in ["build.rs", "build", "src/hooks", "src/sys/driver"] {
        println!("cargo:rerun-if-changed={path}");
    }
    Ok(())
}

/// An argument meant for the C compiler, or what remains of it where rustc calls the linker itself
/// (`-Clinker-flavor=ld.lld`), which knows no `-Wl,` and adds no start files.
fn as_the_linker_takes_it(argument: &str) -> Vec<&str> {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !flags.contains("linker-flavor=ld") {
        return vec![argument];
    }
    match argument.strip_prefix("-Wl,") {
        Some(list) => list.split(',').collect(),
        None if argument == "-nostartfiles" => Vec::new(),
        None => vec![argument],
    }
}

/// The source of our own calls to the driver and to NVML.
fn our_calls() -> io::Result<String> {
    let mut text = String::new();
    for file in fs::read_dir("src/sys/driver")? {
        text.push_str(&fs::read_to_string(file?.path())?);
    }
    Ok(text)
}

/// Maps each function defined in the modules that `directory`'s `mod.rs` names to its module's path.
fn hooks_of(directory: &Path, module: &str) -> io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let root = fs::read_to_string(directory.join("mod.rs"))?;
    let modules = root.lines().filter_map(|line| {
        line.trim_start_matches("pub(crate) ").strip_prefix("mod ")?.strip_suffix(';')
    });
    for stem in modules {
        let path = directory.join(stem).with_extension("rs");
        let module = format!("{module}::{stem}");
        if !path.is_file() {
            continue;
        }
        for line in fs::read_to_string(&path)?.lines() {
            let name = line.strip_prefix("pub(crate) fn ").and_then(|rest| rest.split('(').next());
            if let Some(name) =
                name.filter(|name| name.starts_with("cu") || name.starts_with("nvml"))
            {
                found.insert(name.to_owned(), module.clone());
            }
        }
    }
    Ok(found)
}
