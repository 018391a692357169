//! Events of a program that runs: one line each, with nothing in it that a terminal would obey, or one JSON object each.
//!
//! Promises: a line is written whole; a standard error that is closed ends nothing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use k8s_openapi::jiff::Timestamp;

/// Place that events go to.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    is_json: bool,
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
        Self { kept: Some(Arc::default()), ..Self::default() }
    }

    /// The same place, with JSON where `is_json` says so.
    #[must_use]
    pub fn as_json(self, is_json: bool) -> Self {
        Self { is_json, ..self }
    }

    /// Writes a line about an event that has a name for programs.
    pub fn tell(&self, event: &str, words: &str) {
        if !self.is_json {
            return self.say(words);
        }
        // The form of `divvy log`, which reads these lines too.
        let time = format!("{:.3}", Timestamp::now());
        let line =
            serde_json::json!({ "schema": 1, "time": time, "event": event, "message": words });
        self.put(&format!("{line}\n"));
    }

    /// Writes a line about what has no name of its own.
    pub fn say(&self, words: &str) {
        if self.is_json {
            return self.tell("said", words);
        }
        let line = escaped(words);
        match &self.kept {
            Some(_) => self.put(&line),
            None => self.put(&format!("divvy-kube: {line}\n")),
        }
    }

    fn put(&self, line: &str) {
        match &self.kept {
            Some(kept) => {
                kept.lock().unwrap_or_else(|error| error.into_inner()).push(line.to_owned());
            }
            None => drop(std::io::stderr().write_all(line.as_bytes())),
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
    #[test]
    fn a_json_line_has_the_same_words() {
        let log = EventLog::memory().as_json(true);
        log.tell("lease-taken", "a\nb");
        let line: serde_json::Value = serde_json::from_str(&log.lines()[0]).unwrap();
        assert_eq!((&line["event"], &line["message"]), (&"lease-taken".into(), &"a\nb".into()));
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == "2026-11-30T10:31:02.123Z".len() && time.ends_with('Z'), "{time}");
        assert_eq!(line["schema"], 1);
        log.say("words");
        let line: serde_json::Value = serde_json::from_str(&log.lines()[1]).unwrap();
        assert_eq!((&line["event"], &line["message"]), (&"said".into(), &"words".into()));
    }
}
