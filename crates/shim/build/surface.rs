//! The part of the driver's surface that the shim knows, with signatures as text.

use divvy_driver_api::{DRIVER, Effects, Entry, NVML, UNDOCUMENTED};

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
    pub(crate) effects: Effects,
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

/// A name that is known.
pub(crate) struct Known {
    pub(crate) hash: u32,
    pub(crate) name: &'static str,
    /// Whether it is hooked, called, or shares its hash; of the others the hash alone is carried
    /// along.
    pub(crate) is_named: bool,
}

/// Input of the generated files.
pub(crate) struct Surface {
    /// Sorted by name; the position is the hook's number.
    pub(crate) hooked: Vec<Symbol>,
    /// Every name of the driver we know, sorted by hash.
    pub(crate) known: Vec<Known>,
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

/// Reads the table; `calls` is the source of our own calls to the driver.
pub(crate) fn read(calls: &str) -> Surface {
    let mut signatures = driver::signatures();
    signatures.extend(management::signatures());
    let row = |name: &str| -> Option<&'static Entry> { divvy_driver_api::find(name) };
    let mut hooked: Vec<Symbol> = signatures
        .into_iter()
        .filter_map(|signature| {
            let entry = row(signature.name)?;
            let symbol =
                Symbol { name: entry.name, base: entry.base, effects: entry.effects, signature };
            entry.effects.needs_hook().then_some(symbol)
        })
        .collect();
    hooked.sort_by_key(|symbol| symbol.name);

    let is_used = |name: &str| {
        row(name).is_some_and(|entry| entry.effects.needs_hook())
            || calls.contains(&format!("!({name}("))
    };
    let mut known: Vec<Known> = DRIVER
        .iter()
        .map(|entry| entry.name)
        .chain(UNDOCUMENTED.iter().copied())
        .chain(NVML.iter().map(|entry| entry.name).filter(|name| is_used(name)))
        .map(|name| Known { hash: hash(name), name, is_named: is_used(name) })
        .collect();
    known.sort_unstable_by_key(|known| known.hash);
    // The hash lacks its lowest bit, so `…_v2` and `…_v3` share one.
    let shared: Vec<u32> = known
        .windows(2)
        .filter(|pair| pair[0].hash == pair[1].hash)
        .map(|pair| pair[0].hash)
        .collect();
    for entry in known.iter_mut().filter(|entry| shared.contains(&entry.hash)) {
        entry.is_named = true;
    }
    Surface { hooked, known }
}

/// The hash of the GNU symbol tables, without its lowest bit, which those tables use as a mark.
fn hash(name: &str) -> u32 {
    name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
        & !1
}
