//! Events of the agent: one line each, with nothing in it that a terminal would obey.
//!
//! Promises: a line is written whole; a standard error that is closed ends nothing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

/// Place that events go to.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    /// Lines that a test looks at; standard error without.
    kept: Option<Arc<Mutex<Vec<String>>>>,
}

impl EventLog {
    /// Standard error.
    pub fn stderr() -> Self {
        Self::default()
    }

    /// Memory, for tests.
    pub fn memory() -> Self {
        Self { kept: Some(Arc::default()) }
    }

    /// Writes a line.
    pub fn say(&self, words: &str) {
        let line = escaped(words);
        match &self.kept {
            Some(kept) => kept.lock().unwrap_or_else(|error| error.into_inner()).push(line),
            None => drop(std::io::stderr().write_all(format!("divvy-kube: {line}\n").as_bytes())),
        }
    }

    /// Lines that were kept.
    pub fn lines(&self) -> Vec<String> {
        let kept = self.kept.as_ref();
        kept.map(|kept| kept.lock().unwrap_or_else(|error| error.into_inner()).clone())
            .unwrap_or_default()
    }
}

/// A text without characters that a terminal would obey.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_control() => drop(write!(out, "\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        let log = EventLog::memory();
        log.say("claim \"a\nb\u{1b}[2J\" ß");
        assert_eq!(log.lines(), ["claim \"a\\u{a}b\\u{1b}[2J\" ß"]);
    }
}
