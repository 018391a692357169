//! The NVIDIA driver's surface as data: every entry point of cuda.h 11.8 to 13.5 and of nvml.h,
//! once, with its versions, its signature and the set of things Divvy does with it.
//!
//! Promises: each symbol a header declares under `__CUDA_API_VERSION_INTERNAL` (so every old
//! version, `_v2…`, `_ptds` and `_ptsz`) has one row in [`DRIVER`], one line in
//! [`for_each_driver_entry!`] and a classified, possibly empty, set of [`Effects`]. The signatures
//! are those the C compiler sees, which the header tests prove.
//!
//! Does not hold code that calls anything, and no prose of the vendor's. `src/generated/` is made by
//! `cargo xtask regen`; `effects.txt` beside it is written by hand.

#![no_std]

mod effects;
mod entry;

pub use effects::{Effect, Effects};
pub use entry::Entry;

include!("generated/driver_entries.rs");
include!("generated/nvml_entries.rs");

/// Types of cuda.h: newtype enums, newtype handles, `repr(C)` structs. Names are the header's.
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    reason = "generated from C headers, whose names and layouts they keep"
)]
pub mod types {
    include!("generated/types.rs");
}

/// Types of nvml.h, in the same form.
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    reason = "generated from C headers, whose names and layouts they keep"
)]
pub mod nvml_types {
    include!("generated/nvml_types.rs");
}

/// Function pointer types of the driver's entry points, named as the symbols are.
#[allow(missing_docs, non_camel_case_types, reason = "named as the symbols they describe")]
pub mod sig {
    use crate::types::*;

    macro_rules! pointers {
        ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
            $(pub type $name = unsafe extern "C" fn($($ty),*) -> $result;)*
        };
    }
    for_each_driver_entry!(pointers);
}

/// Function pointer types of the NVML calls.
#[allow(missing_docs, non_camel_case_types, reason = "named as the symbols they describe")]
pub mod nvml_sig {
    use crate::nvml_types::*;

    macro_rules! pointers {
        ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
            $(pub type $name = unsafe extern "C" fn($($ty),*) -> $result;)*
        };
    }
    for_each_nvml_entry!(pointers);
}

mod driver {
    use crate::entry::Entry;
    include!("generated/driver_table.rs");
}

mod management {
    use crate::entry::Entry;
    include!("generated/nvml_table.rs");
}

/// The driver's entry points, sorted by name.
pub const DRIVER: &[Entry] = driver::ENTRIES;

/// NVML's entry points, sorted by name.
pub const NVML: &[Entry] = management::ENTRIES;

/// Names driver 580 exports without a public prototype: forwarded, never called by us.
pub const UNDOCUMENTED: &[&str] = driver::UNDOCUMENTED;

/// The row of `name`, whichever library it belongs to.
///
/// Cost: a binary search, about ten comparisons.
pub fn find(name: &str) -> Option<&'static Entry> {
    let table = if name.starts_with("nvml") { NVML } else { DRIVER };
    let index = table.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
    table.get(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_driver_580_is_known() {
        let exports = include_str!("../exports-580.txt");
        let unknown: usize = exports
            .lines()
            .filter(|name| find(name).is_none() && !UNDOCUMENTED.contains(name))
            .count();
        assert_eq!(exports.lines().count(), 674);
        assert_eq!(unknown, 0);
        assert!(UNDOCUMENTED.iter().all(|name| find(name).is_none()));
    }

    #[test]
    fn tables_are_sorted_so_that_find_is_exact() {
        for table in [DRIVER, NVML] {
            assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name));
        }
        assert_eq!(find("cuMemAlloc_v2").map(|e| e.base), Some("cuMemAlloc_v2"));
        assert_eq!(find("cuMemAllocAsync_ptsz").map(|e| e.base), Some("cuMemAllocAsync"));
        assert_eq!(find("curl_easy_init").map(|e| e.name), None);
    }

    #[test]
    fn versions_of_a_name_were_introduced_in_their_order() {
        let version = |entry: &Entry| -> (&'static str, u32) {
            let (name, number) = entry.base.rsplit_once("_v").unwrap_or((entry.base, "1"));
            (name, number.parse().expect("a version's number"))
        };
        for entry in DRIVER {
            assert!(entry.introduced <= entry.since, "{}", entry.name);
            let (name, number) = version(entry);
            for next in DRIVER.iter().filter(|next| version(next) == (name, number + 1)) {
                assert!(entry.introduced < next.introduced, "{}", next.name);
            }
        }
        assert_eq!(find("cuMemAlloc").map(|e| e.introduced), Some(2000));
        assert_eq!(find("cuMemcpyHtoD_v2_ptds").map(|e| e.introduced), Some(3020));
    }

    #[test]
    fn default_stream_variants_share_their_base_signature_and_effects() {
        for entry in DRIVER {
            if let Some(base) = find(entry.base) {
                assert_eq!(base.effects, entry.effects, "{}", entry.name);
            }
        }
    }
}
