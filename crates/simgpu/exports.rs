//! The list of exports as the build scripts of both libraries write it.
//!
//! A row is an entry point's declaration, followed by the expressions that are passed on for its
//! arguments: each by itself, or together with those beside it that say what it is.

use std::path::PathBuf;
use std::{env, fs, io};

/// An entry point: its name, the rest of its declaration, and its arguments with their types.
pub(crate) type Prototype = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Collects the rows of a table of entry points in `PROTOTYPES`.
macro_rules! prototypes {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        const PROTOTYPES: &[crate::exports::Prototype] = &[$((
            stringify!($name),
            stringify!(($($argument: $ty),*) -> $result),
            &[$((stringify!($argument), stringify!($ty))),*],
        )),*];
    };
}
pub(crate) use prototypes;

/// Writes the list for the library to include.
pub(crate) fn write(text: &str) -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../exports.rs");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("exports.rs"), text)
}

/// Arguments that mean something only together: how the names of calls begin that have them, and the
/// arguments, all of which are passed on for the first.
pub(crate) type Together = (&'static str, &'static [&'static str]);

/// The expressions for all arguments of a call.
pub(crate) fn all_passed(together: &[Together], call: &str, arguments: &[(&str, &str)]) -> String {
    let has = |wanted: &&str| arguments.iter().any(|(argument, _)| argument == wanted);
    let passed = arguments.iter().map(|(name, ty)| {
        let row = together
            .iter()
            .find(|(start, row)| row[0] == *name && call.starts_with(start) && row.iter().all(has));
        match row.filter(|_| !is_plain(ty)) {
            Some((_, row)) => format!("({})", row.join(", ")),
            None => (*name).to_owned(),
        }
    });
    passed.collect::<Vec<_>>().join(", ")
}

/// Whether a type is neither a pointer nor a function.
fn is_plain(ty: &str) -> bool {
    !ty.starts_with('*') && !ty.ends_with("Fn") && !ty.ends_with("Callback")
}
