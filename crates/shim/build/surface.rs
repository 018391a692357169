//! The part of the driver's surface that the shim knows, with signatures as text.

use divvy_driver_api::{DRIVER, Entry, NVML, UNDOCUMENTED};

/// A function's declaration.
pub(crate) struct Signature {
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<(&'static str, String)>,
    pub(crate) result: &'static str,
}

/// A hooked symbol.
pub(crate) struct Symbol {
    pub(crate) name: &'static str,
    pub(crate) base: &'static str,
    pub(crate) signature: Signature,
}

impl Symbol {
    pub(crate) fn is_nvml(&self) -> bool {
        self.name.starts_with("nvml")
    }

    /// Whether its default stream is the calling thread's own.
    pub(crate) fn is_per_thread(&self) -> bool {
        self.name.ends_with("_ptsz") || self.name.ends_with("_ptds")
    }
}

/// What the generated files are made of.
pub(crate) struct Surface {
    /// Sorted by name; the position is the hook's number.
    pub(crate) hooked: Vec<Symbol>,
    /// Every name of the driver we know, sorted by hash.
    pub(crate) known: Vec<(u32, &'static str)>,
}

macro_rules! signatures {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        pub(super) fn signatures() -> Vec<super::Signature> {
            vec![$(super::Signature {
                name: stringify!($name),
                arguments: vec![$((stringify!($argument), super::tidy(stringify!($ty)))),*],
                result: stringify!($result),
            }),*]
        }
    };
}

mod driver {
    divvy_driver_api::for_each_driver_entry!(signatures);
}

mod management {
    divvy_driver_api::for_each_nvml_entry!(signatures);
}

/// A type as it is written; the compiler hands its words out one by one.
fn tidy(ty: &str) -> String {
    ty.replace("* ", "*").replace(" :: ", "::").replace(":: ", "::")
}

/// Reads the table; `calls` is the source of our own calls to NVML.
pub(crate) fn read(calls: &str) -> Surface {
    let mut signatures = driver::signatures();
    signatures.extend(management::signatures());
    let row = |name: &str| -> Option<&'static Entry> { divvy_driver_api::find(name) };
    let mut hooked: Vec<Symbol> = signatures
        .into_iter()
        .filter_map(|signature| {
            let entry = row(signature.name)?;
            let symbol = Symbol { name: entry.name, base: entry.base, signature };
            entry.effects.needs_memory_hook().then_some(symbol)
        })
        .collect();
    hooked.sort_by_key(|symbol| symbol.name);

    let mut known: Vec<(u32, &'static str)> = DRIVER
        .iter()
        .map(|entry| entry.name)
        .chain(UNDOCUMENTED.iter().copied())
        .chain(NVML.iter().filter(|entry| is_known(entry, calls)).map(|entry| entry.name))
        .map(|name| (hash(name), name))
        .collect();
    known.sort_unstable();
    known.dedup();
    Surface { hooked, known }
}

/// Of NVML's many names only those that are hooked or called are carried along.
fn is_known(entry: &Entry, calls: &str) -> bool {
    entry.effects.needs_memory_hook() || calls.contains(&format!("!({}(", entry.name))
}

/// The hash of the GNU symbol tables, without its lowest bit, which those tables use as a mark.
fn hash(name: &str) -> u32 {
    name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
        & !1
}
