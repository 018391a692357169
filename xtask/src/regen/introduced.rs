//! The CUDA version that introduced an entry point.
//!
//! NVIDIA's headers of typedefs (`cuda*Typedefs.h`) declare one type for each version of a name:
//! `PFN_cuMemAlloc_v2000` is that of `cuMemAlloc`, `PFN_cuMemAlloc_v3020` that of `cuMemAlloc_v2`.
//! Promises: a name with more or fewer types than symbols is an error.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use super::effects::base;
use crate::headers::{Header, Version};

/// Versions by name.
#[derive(Default, Debug)]
pub(super) struct Introduced(BTreeMap<String, BTreeSet<u32>>);

impl Introduced {
    /// Reads the typedefs beside each of the headers.
    pub(super) fn load(headers: &[Header]) -> Result<Self> {
        let mut all = Self::default();
        for header in headers {
            for file in std::fs::read_dir(&header.include)? {
                let path = file?.path();
                if path.to_string_lossy().ends_with("Typedefs.h") {
                    let text = std::fs::read_to_string(&path)
                        .with_context(|| path.display().to_string())?;
                    all.absorb(&text);
                }
            }
        }
        Ok(all)
    }

    fn absorb(&mut self, text: &str) {
        for declared in text.split("*PFN_").skip(1) {
            // Types of per-thread forms end in their suffix, which is no number.
            let found = declared.split_once(')').and_then(|(name, _)| name.rsplit_once("_v"));
            if let Some((name, Ok(version))) = found.map(|(name, version)| (name, version.parse()))
            {
                self.0.entry(name.to_owned()).or_default().insert(version);
            }
        }
    }

    /// The version of `symbol`, one of `symbols`; a per-thread form has that of its base.
    pub(super) fn of<T>(&self, symbol: &str, symbols: &BTreeMap<String, T>) -> Result<Version> {
        let (name, number) = split(base(symbol));
        let known = self.0.get(name).with_context(|| format!("no typedef of {name}"))?;
        let same = symbols.keys().filter(|other| base(other) == **other && split(other).0 == name);
        let count = same.count();
        ensure!(count == known.len(), "{name} has {count} symbols, and types of {known:?}");
        let version = number.checked_sub(1).and_then(|index| known.iter().nth(index));
        Ok(Version(*version.with_context(|| format!("no typedef of {symbol}"))?))
    }
}

/// `cuMemAlloc` and 2 of `cuMemAlloc_v2`.
fn split(symbol: &str) -> (&str, usize) {
    let spelt_out =
        symbol.rsplit_once("_v").and_then(|(name, number)| Some((name, number.parse().ok()?)));
    spelt_out.unwrap_or((symbol, 1))
}
