//! Hooks of one expression: `src/hooks/around.txt` read, and made functions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::emit::{list, wrapped};
use crate::surface::{Signature, Surface, Symbol};

/// The expressions by base symbol.
///
/// # Panics
/// At a row that is none, at a symbol that is not hooked, and at one that has two rows.
pub(crate) fn read(text: &'static str, surface: &Surface) -> BTreeMap<&'static str, &'static str> {
    let mut expressions = BTreeMap::new();
    for row in text.lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let (symbols, expression) = row.split_once(": ").unwrap_or_else(|| panic!("no row: {row}"));
        for symbol in symbols.split(' ') {
            let is_hooked = surface.hooked.iter().any(|hooked| hooked.base == symbol);
            assert!(is_hooked, "around.txt: {symbol} is not hooked");
            let before = expressions.insert(symbol, expression);
            assert!(before.is_none(), "around.txt: {symbol} has two rows");
        }
    }
    expressions
}

/// `around.rs`: a hook for each base symbol that has an expression.
pub(crate) fn functions(
    surface: &Surface,
    expressions: &BTreeMap<&'static str, &'static str>,
) -> String {
    let mut text = String::new();
    for (base, expression) in expressions {
        let is_it = |symbol: &&Symbol| symbol.base == *base;
        let Some(symbol) = surface.hooked.iter().find(is_it) else { continue };
        let Signature { arguments, result, .. } = &symbol.signature;
        let declared = list(arguments, |name, ty| format!("{name}: {}", wrapped(base, name, ty)));
        let passed = list(arguments, |name, _| name.to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "/// `{base}`: `{expression}`.\n\
             pub(crate) fn {base}(real: real::{base}, {declared}) -> {result} {{\n\
             \x20   let call = || real.call({passed});\n\
             \x20   {expression}\n\
             }}",
        );
    }
    text
}
