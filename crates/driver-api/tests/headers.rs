//! The table against NVIDIA's own headers, judged by the C compiler.
//!
//! Promises, for 11.8, 12.0, 12.9, 13.0 and 13.5 (NVML: 12.9, 13.0, 13.5): every entry point of the
//! table that a header declares is declared again with the table's signature, which C accepts only
//! for compatible types; sizes and offsets of every struct and the values of every enum are asserted;
//! and each prototype of the newest header is in the table. Headers that can neither be found nor
//! fetched are counted on a line that begins with SKIPPED.
//!
//! Sizes and offsets come from `rustc` itself, which compiles the generated types once more with a
//! list of their fields.

#[path = "headers/fetch.rs"]
mod fetch;
#[path = "headers/text.rs"]
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use divvy_driver_api::{DRIVER, Entry, NVML, for_each_driver_entry, for_each_nvml_entry};
use fetch::Set;

/// Name, argument types and result of one entry point, as the table writes them.
type Signature = (&'static str, &'static [&'static str], &'static str);

macro_rules! driver_signatures {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        const DRIVER_SIGNATURES: &[Signature] =
            &[$((stringify!($name), &[$(stringify!($ty)),*], stringify!($result))),*];
    };
}
for_each_driver_entry!(driver_signatures);

macro_rules! nvml_signatures {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        const NVML_SIGNATURES: &[Signature] =
            &[$((stringify!($name), &[$(stringify!($ty)),*], stringify!($result))),*];
    };
}
for_each_nvml_entry!(nvml_signatures);

const DRIVER_TYPES: &str = include_str!("../src/generated/types.rs");
const NVML_TYPES: &str = include_str!("../src/generated/nvml_types.rs");

/// Everything the table says of one library.
#[derive(Clone, Copy)]
struct Surface {
    label: &'static str,
    sets: &'static [Set],
    entries: &'static [Entry],
    signatures: &'static [Signature],
    types: &'static str,
    types_path: &'static str,
    prelude: &'static str,
    result: &'static str,
}

const DRIVER_SURFACE: Surface = Surface {
    label: "driver",
    sets: fetch::CUDA,
    entries: DRIVER,
    signatures: DRIVER_SIGNATURES,
    types: DRIVER_TYPES,
    types_path: concat!(env!("CARGO_MANIFEST_DIR"), "/src/generated/types.rs"),
    prelude: "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaGL.h>\n\
              #include <cudaEGL.h>\n#include <vdpau/vdpau.h>\n#include <cudaVDPAU.h>\n\
              #include <cudaProfiler.h>\n",
    result: "CUresult",
};

const NVML_SURFACE: Surface = Surface {
    label: "nvml",
    sets: fetch::NVML,
    entries: NVML,
    signatures: NVML_SIGNATURES,
    types: NVML_TYPES,
    types_path: concat!(env!("CARGO_MANIFEST_DIR"), "/src/generated/nvml_types.rs"),
    prelude: "#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include <nvml.h>\n",
    result: "nvmlReturn_t",
};

#[test]
fn driver_signatures_sizes_offsets_and_values_are_those_of_the_headers() {
    compare(DRIVER_SURFACE);
}

#[test]
fn nvml_signatures_sizes_offsets_and_values_are_those_of_the_headers() {
    compare(NVML_SURFACE);
}

#[test]
fn every_prototype_of_the_newest_headers_is_classified() {
    for surface in [DRIVER_SURFACE, NVML_SURFACE] {
        let Some(&newest) = surface.sets.last() else { continue };
        let Some(include) = fetch::include(newest) else { continue };
        let text = preprocess(surface, &include);
        let known: BTreeSet<&str> = surface.entries.iter().map(|entry| entry.name).collect();
        let declared = prototypes(&text, surface.result);
        let missing: Vec<_> = declared.iter().filter(|name| !known.contains(*name)).collect();
        assert!(declared.len() > 300, "{}: only {} prototypes read", surface.label, declared.len());
        assert!(missing.is_empty(), "{}: not in the table: {missing:?}", surface.label);
        let listed: BTreeSet<&str> = surface.signatures.iter().map(|s| s.0).collect();
        assert_eq!(listed, known, "the table and the signatures name the same entry points");
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "a table: one stretch for each kind of thing that a header declares"
)]
fn compare(surface: Surface) {
    let layout = layout(surface);
    let constants = text::constants(surface.types);
    assert!(constants.len() > 200, "{}: only {} constants read", surface.label, constants.len());
    let newest = surface.sets.iter().map(|set| set.version).max().unwrap_or_default();
    for &set in surface.sets {
        let Some(include) = fetch::include(set) else { continue };
        let header = preprocess(surface, &include);
        let words = text::words(&header);
        let mut source = surface.prelude_for(&include);
        source.push_str("#include <stddef.h>\n#include <stdint.h>\n");
        let mut compared = [0_usize; 4];
        for &(name, arguments, result) in surface.signatures {
            if words.contains(name) {
                let arguments: Vec<_> = arguments.iter().map(|ty| text::in_c(ty)).collect();
                let list = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
                let _ = writeln!(source, "extern {} {name}({list});", text::in_c(result));
                compared[0] += 1;
            }
        }
        for constant in &constants {
            if words.contains(constant.name.as_str())
                && !(set.version < newest && moves(&constant.name))
            {
                let (name, value) = (&constant.name, constant.value);
                let _ = writeln!(
                    source,
                    "_Static_assert((int64_t)({name}) == INT64_C({value}) || \
                     (uint32_t)({name}) == (uint32_t)INT64_C({value}), \"value of {name}\");"
                );
                compared[1] += 1;
            }
        }
        for (name, record) in &layout {
            if name.contains("__bindgen") || !words.contains(name.as_str()) {
                continue;
            }
            if set.version < newest && GREW.contains(&name.as_str()) {
                continue;
            }
            let Some(spelt) = record_in_c(&header, name) else { continue };
            let _ = writeln!(
                source,
                "_Static_assert(sizeof({spelt}) == {}, \"size of {name}\");",
                record.size
            );
            compared[2] += 1;
            let body = text::words(body(&header, &spelt));
            for (field, offset) in &record.offsets {
                let older = set.version < newest;
                if older && (field.starts_with("reserved") || !body.contains(field.as_str())) {
                    // A newer header took it from what this one reserves; the size still holds.
                    continue;
                }
                let _ = writeln!(
                    source,
                    "_Static_assert(offsetof({spelt}, {field}) == {offset}, \
                     \"offset of {name}.{field}\");"
                );
                compared[3] += 1;
            }
        }
        let path = scratch().join(format!("{}-{}.c", surface.label, set.version));
        std::fs::write(&path, source).expect("the scratch directory is writable");
        let output = gcc(&include).args(["-fsyntax-only", "-w"]).arg(&path).output();
        let output = output.expect("gcc runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        let errors: Vec<_> =
            errors.lines().filter(|line| line.contains("error")).take(60).collect();
        assert!(
            output.status.success(),
            "{} {}: {}\n{}",
            surface.label,
            set.version,
            path.display(),
            errors.join("\n")
        );
        println!(
            "{} {}: {} signatures, {} values, {} sizes, {} offsets",
            surface.label, set.version, compared[0], compared[1], compared[2], compared[3]
        );
        assert!(compared.iter().all(|count| *count > 40), "compared almost nothing: {compared:?}");
    }
}

/// Constants that mean something else in older headers: "one past the last", masks of all known
/// flags, and two device attributes whose names were given to their second versions in 12.0.
fn moves(name: &str) -> bool {
    name.ends_with("_MAX")
        || name.ends_with("_COUNT")
        || name.ends_with("_MASK")
        || name.ends_with("_NUM_OPTIONS")
        || name.ends_with("_LIGHTWEIGHT_FLAGS")
        || name.starts_with("CU_DEVICE_ATTRIBUTE_CAN_USE_")
}

/// Structs that grew: one whose array is as long as an enum, and members of a union that is padded
/// for that (graph node parameters, device resources), whose own size is compared all the same.
const GREW: &[&str] = &[
    "nvmlGpmMetricsGet_t",
    "CUDA_EVENT_RECORD_NODE_PARAMS_st",
    "CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2_st",
    "CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2_st",
    "CUDA_HOST_NODE_PARAMS_v2_st",
    "CUdevSmResource_st",
];

impl Surface {
    /// The includes that this header set has, with the project's stand-ins for the graphics ones.
    fn prelude_for(&self, include: &Path) -> String {
        self.prelude
            .lines()
            .filter(|line| {
                let Some(name) = line.strip_prefix("#include <") else { return true };
                let name = name.trim_end_matches('>');
                include.join(name).exists() || stubs().join(name).exists()
            })
            .map(|line| format!("{line}\n"))
            .collect()
    }
}

/// Size and field offsets of one struct or union.
#[derive(Default, Debug)]
struct Record {
    size: usize,
    offsets: BTreeMap<String, usize>,
}

/// Compiles the generated types with a program that prints how Rust lays them out.
fn layout(surface: Surface) -> BTreeMap<String, Record> {
    let mut program = String::from(
        "#![allow(warnings)]\nuse core::mem::{offset_of, size_of};\nmod types { include!(\"",
    );
    let _ = write!(program, "{}\"); }}\nuse types::*;\nfn main() {{\n", surface.types_path);
    for (name, fields) in text::records(surface.types) {
        let _ = writeln!(program, "println!(\"{name} - {{}}\", size_of::<{name}>());");
        for field in fields.iter().filter(|field| named_in_c(field)) {
            // Words of Rust's get an underscore from the generator; `default_` has its own.
            let spelt = match field.as_str() {
                "default_" => field,
                other => other.trim_end_matches('_'),
            };
            let _ = writeln!(
                program,
                "println!(\"{name} {} {{}}\", offset_of!({name}, {field}));",
                spelt
            );
        }
    }
    program.push_str("}\n");
    let source = scratch().join(format!("{}-layout.rs", surface.label));
    let binary = scratch().join(format!("{}-layout", surface.label));
    std::fs::write(&source, program).expect("the scratch directory is writable");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition=2024", "-Copt-level=0", "-o"])
        .args([&binary, &source])
        .status()
        .expect("rustc runs");
    assert!(built.success(), "{} does not compile", source.display());
    let output = Command::new(&binary).output().expect("the layout program runs");
    let mut records: BTreeMap<String, Record> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut parts = line.split(' ');
        let (Some(name), Some(field), Some(value)) = (parts.next(), parts.next(), parts.next())
        else {
            panic!("not a layout line: {line}");
        };
        let value = value.parse().expect("a number of bytes");
        let record = records.entry(name.to_owned()).or_default();
        if field == "-" {
            record.size = value;
        } else {
            record.offsets.insert(field.to_owned(), value);
        }
    }
    records
}

/// Fields bindgen had to invent (anonymous members, bit fields, opaque bodies) have no C name.
fn named_in_c(field: &str) -> bool {
    !field.starts_with("__bindgen") && !field.starts_with("_bitfield") && !field.starts_with('_')
}

/// How C names the record: by its tag where it has one, else by its typedef.
fn record_in_c(header: &str, name: &str) -> Option<String> {
    for kind in ["struct", "union"] {
        let tag = format!("{kind} {name}");
        if header.match_indices(&tag).any(|(at, _)| {
            !header[at + tag.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                && header[at + tag.len()..].trim_start().starts_with('{')
        }) {
            return Some(tag);
        }
        if header.contains(&format!("{tag};")) {
            return None;
        }
    }
    header.contains(&format!("}} {name}")).then(|| name.to_owned())
}

/// The text between the record's braces; empty for one that is declared elsewhere.
fn body<'a>(header: &'a str, spelt: &str) -> &'a str {
    let Some(open) = header.match_indices(spelt).find_map(|(at, _)| {
        let rest = &header[at + spelt.len()..];
        rest.trim_start().starts_with('{').then(|| at + spelt.len() + rest.find('{').unwrap_or(0))
    }) else {
        return "";
    };
    let mut depth = 0_usize;
    for (at, byte) in header.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return &header[open..at],
            b'}' => depth -= 1,
            _ => {}
        }
    }
    ""
}

/// Names declared as functions that return `result`.
fn prototypes<'a>(header: &'a str, result: &str) -> BTreeSet<&'a str> {
    header
        .match_indices(result)
        .filter_map(|(at, _)| {
            let rest = header[at + result.len()..].trim_start();
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
            let (name, rest) = rest.split_at(end);
            (rest.trim_start().starts_with('(')
                && (name.starts_with("cu") || name.starts_with("nvml")))
            .then_some(name)
        })
        .collect()
}

fn preprocess(surface: Surface, include: &Path) -> String {
    let path = scratch().join(format!("{}-{}.h", surface.label, digest(include)));
    std::fs::write(&path, surface.prelude_for(include)).expect("the scratch directory is writable");
    let output = gcc(include).args(["-E", "-P"]).arg(&path).output().expect("gcc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file name that tells two include directories apart.
fn digest(include: &Path) -> String {
    include.to_string_lossy().chars().filter(char::is_ascii_alphanumeric).rev().take(80).collect()
}

fn gcc(include: &Path) -> Command {
    let mut gcc = Command::new("gcc");
    gcc.arg("-std=gnu11").arg("-I").arg(include).arg("-I").arg(stubs());
    gcc
}

fn stubs() -> PathBuf {
    fetch::root().join("xtask/stub-headers")
}

fn scratch() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("headers");
    std::fs::create_dir_all(&path).expect("the target directory is writable");
    path
}
