//! Reads `effects.txt`: what Divvy does with each entry point.
//!
//! One rule a line, `name: effect effect`; a name may end in `*`; the longest match wins, and an
//! exact name beats a pattern. `_ptds` and `_ptsz` variants follow their base.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// The effects an entry point may have, in the order of the table's bits.
pub(super) const EFFECTS: [&str; 7] =
    ["account", "answer", "gate", "touch", "observe", "refuse", "span"];

/// All rules of one file.
#[derive(Debug)]
pub(super) struct EffectRules(Vec<(String, Vec<String>)>);

/// Loads and checks `path`.
pub(super) fn load(path: &Path) -> Result<EffectRules> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut rules = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let at = || format!("{}:{}", path.display(), number + 1);
        let (names, effects) = line.split_once(':').with_context(at)?;
        let effects: Vec<String> = effects.split_whitespace().map(str::to_owned).collect();
        for effect in &effects {
            if effect != "pass" && !EFFECTS.contains(&effect.as_str()) {
                bail!("{}: unknown effect {effect:?}", at());
            }
        }
        if effects.is_empty() {
            bail!("{}: no effect; write `pass` where Divvy has nothing to do", at());
        }
        for name in names.split_whitespace() {
            rules.push((name.to_owned(), effects.clone()));
        }
    }
    Ok(EffectRules(rules))
}

impl EffectRules {
    /// The effects of `symbol`, without `pass`; an error when no rule speaks of it.
    pub(super) fn of(&self, symbol: &str) -> Result<Vec<&str>> {
        let name = base(symbol);
        let best = self
            .0
            .iter()
            .filter_map(|(pattern, effects)| {
                let weight = match pattern.strip_suffix('*') {
                    None if pattern == name => usize::MAX,
                    Some(prefix) if name.starts_with(prefix) => prefix.len(),
                    _ => return None,
                };
                Some((weight, effects))
            })
            .max_by_key(|(weight, _)| *weight);
        let (_, effects) =
            best.with_context(|| format!("{symbol} is not classified in the effects file"))?;
        Ok(effects.iter().map(String::as_str).filter(|e| *e != "pass").collect())
    }
}

/// The symbol without its default-stream suffix.
pub(super) fn base(symbol: &str) -> &str {
    symbol.strip_suffix("_ptds").or_else(|| symbol.strip_suffix("_ptsz")).unwrap_or(symbol)
}
