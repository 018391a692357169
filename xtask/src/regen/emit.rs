//! Writes the generated files of `crates/driver-api`.
//!
//! Three per surface: types, the x-macro of signatures, and the table of entries with effects.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::effects::{self, EffectRules};
use super::introduced::Introduced;
use super::read::Surface;

const HEAD: &str = "// Made by `cargo xtask regen` from NVIDIA's headers; do not edit.\n";

/// The driver's files.
pub(super) fn driver(
    surface: &Surface,
    rules: &EffectRules,
    introduced: &Introduced,
    exports: &str,
    out: &Path,
) -> Result<()> {
    types(surface, &out.join("types.rs"))?;
    signatures(surface, "for_each_driver_entry", &out.join("driver_entries.rs"))?;
    let exports: BTreeSet<&str> =
        exports.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    table(surface, rules, Some((introduced, &exports)), &out.join("driver_table.rs"))
}

/// The management library's files.
pub(super) fn nvml(surface: &Surface, rules: &EffectRules, out: &Path) -> Result<()> {
    types(surface, &out.join("nvml_types.rs"))?;
    signatures(surface, "for_each_nvml_entry", &out.join("nvml_entries.rs"))?;
    table(surface, rules, None, &out.join("nvml_table.rs"))
}

fn types(surface: &Surface, path: &Path) -> Result<()> {
    let items = surface.types.values().flatten().cloned().collect();
    let file = syn::File { shebang: None, attrs: Vec::new(), items };
    write(path, &prettyplease::unparse(&file))
}

fn signatures(surface: &Surface, name: &str, path: &Path) -> Result<()> {
    let mut text = String::new();
    writeln!(
        text,
        "/// Calls `$callback!` once with every entry point: `name(argument: Type, …) -> Type;`.\n\
         #[macro_export]\nmacro_rules! {name} {{\n    ($callback:path) => {{\n        $callback! {{"
    )?;
    for (symbol, entry) in &surface.entries {
        let arguments: Vec<String> =
            entry.arguments.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        writeln!(text, "            {symbol}({}) -> {};", arguments.join(", "), entry.result)?;
    }
    text.push_str("        }\n    };\n}\n");
    write(path, &text)
}

fn table(
    surface: &Surface,
    rules: &EffectRules,
    driver: Option<(&Introduced, &BTreeSet<&str>)>,
    path: &Path,
) -> Result<()> {
    let mut text = String::from(
        "/// Every entry point with a public prototype, sorted by name.\npub(crate) const ENTRIES: &[Entry] = &[\n",
    );
    for (symbol, entry) in &surface.entries {
        let effects = rules.of(symbol)?;
        let bits: u8 = effects
            .iter()
            .filter_map(|effect| effects::EFFECTS.iter().position(|known| known == effect))
            .fold(0, |bits, position| bits | 1 << position);
        let (introduced, exported) = match driver {
            Some((introduced, exports)) => {
                (introduced.of(symbol, &surface.entries)?, exports.contains(symbol.as_str()))
            }
            None => (entry.since, true),
        };
        writeln!(
            text,
            "    Entry::new({symbol:?}, {:?}, {}, {}, {}, {bits:#04x}, {exported}),",
            effects::base(symbol),
            introduced.0,
            entry.since.0,
            entry.until.0
        )?;
    }
    text.push_str("];\n");
    if let Some((_, exports)) = driver {
        text.push_str("\n/// Names the 580 driver exports without a public prototype: forwarded, never called by us.\npub(crate) const UNDOCUMENTED: &[&str] = &[\n");
        for name in exports.iter().filter(|name| !surface.entries.contains_key(**name)) {
            writeln!(text, "    {name:?},")?;
        }
        text.push_str("];\n");
    }
    write(path, &text)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, format!("{HEAD}{text}")).with_context(|| path.display().to_string())
}
