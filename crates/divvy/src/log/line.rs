//! One line of the log: a JSON object, its fields, and the closed list of events.
//!
//! Programs of `divvy kube` write lines with the same first fields (`schema`, `time`, `event`, `message`), so that one reader
//! reads both.
//!
//! Promises: a line is shorter than [`MOST_BYTES`], so that the kernel appends it whole beside other writers. Quoted text is
//! escaped, so that a name cannot make a line of its own. A field that this version does not know is passed over.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Longest line, its end included: a page. That is PIPE_BUF, and file systems append so much in one piece.
pub(crate) const MOST_BYTES: usize = 4096;
/// Characters of each text in a line; a quarter of them fits in any case, even if all are escaped.
const MOST_CHARS: usize = 200;
/// Version of a line's form.
const SCHEMA: u32 = 1;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in the log.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The variant with this name.
            pub(crate) fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }
        }
    };
}

words! {
    /// Kind of thing that has happened.
    Event {
        /// Memory was refused, or a process could not be limited as it should be.
        Refused = "refused",
        /// A limit or another setting of a tenant, or of a daemon, has another value.
        Changed = "changed",
        /// A tenant by id was made.
        Made = "made",
        /// A tenant by id was removed.
        Removed = "removed",
        /// A daemon serves a tenant.
        Adopted = "adopted",
        /// A daemon no longer serves a tenant, since the tenant is gone.
        Ended = "ended",
        /// A daemon cannot serve a tenant.
        NotServed = "not-served",
        /// A daemon serves.
        Started = "started",
        /// A daemon ends.
        Stopped = "stopped",
        /// A daemon that stood by serves after the one before has ended.
        TookOver = "took-over",
        /// A daemon has lost the lock of its home, or of a device, to another.
        LockLost = "lock-lost",
        /// Memory did not leave or come back in its turn.
        HandOverFailed = "hand-over-failed",
        /// A tenant cannot run with its memory: there is no room for it.
        NoRoom = "no-room",
        /// Lines that could not be written.
        LinesLost = "lines-lost",
    }
}

words! {
    /// Which setting has changed.
    Setting {
        Memory = "memory limit",
        Compute = "compute limit",
        Weight = "weight",
        Priority = "priority",
        Class = "class",
        Quantum = "quantum",
        Paused = "paused",
        Frozen = "frozen",
        Oversubscribe = "oversubscribe",
        Schedule = "schedule",
    }
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LogLine {
    pub(crate) schema: u32,
    /// RFC 3339 in UTC, with milliseconds.
    pub(crate) time: String,
    /// The word of an [`Event`]; a line of another program may have a word of its own.
    pub(crate) event: String,
    /// Name of the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// Its directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) directory: Option<String>,
    /// The user who owns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<u32>,
    /// The user who asked, or was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<u32>,
    /// The process of that user, as its own pid namespace counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    /// Its program, or command: `divvy set`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// UUID of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<String>,
    /// Its index on the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u32>,
    /// The word of a [`Setting`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) setting: Option<String>,
    /// Its value before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<String>,
    /// Its value now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<String>,
    /// A reason code: DV201.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    /// How many events this line stands for; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
    /// The rest, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// Process that asks for a change, and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangeAuthor {
    pub(crate) uid: u32,
    pub(crate) pid: u32,
    pub(crate) by: String,
}

impl ChangeAuthor {
    /// This process, by the name of its command.
    pub(crate) fn here() -> Self {
        let command = std::env::args().skip(1).find(|word| !word.starts_with('-'));
        let by = command.map_or_else(|| "divvy".to_owned(), |command| format!("divvy {command}"));
        Self { uid: crate::tenants::tenant_dir::uid(), pid: std::process::id(), by }
    }

    /// The peer of a socket: the kernel tells its user and pid, and the program has chosen its name.
    pub(crate) fn peer(uid: u32, pid: u32) -> Self {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = name.trim_end();
        let by = if name.is_empty() { "by the daemon" } else { name };
        Self { uid, pid, by: format!("{by}, by the daemon's socket") }
    }
}

impl LogLine {
    /// A line of this moment.
    pub(crate) fn new(event: Event) -> Self {
        let time = Timestamp::now();
        Self {
            schema: SCHEMA,
            time: format!("{time:.3}"),
            event: event.word().to_owned(),
            ..Self::default()
        }
    }

    /// This line, caused by `asker`.
    #[must_use]
    pub(crate) fn by(self, asker: &ChangeAuthor) -> Self {
        Self { uid: Some(asker.uid), pid: Some(asker.pid), by: Some(asker.by.clone()), ..self }
    }

    /// The line as it is written, with its end.
    pub(crate) fn text(&self) -> String {
        let mut line = String::new();
        // Characters that JSON writes as six bytes each leave room for fewer.
        for most in [MOST_CHARS, MOST_CHARS / 2, MOST_CHARS / 4] {
            line = json(&self.cut(most));
            if line.len() < MOST_BYTES {
                break;
            }
        }
        line.push('\n');
        line
    }

    /// This line with at most `most` characters in each text.
    fn cut(&self, most: usize) -> Self {
        let mut short = self.clone();
        let Self { tenant, directory, by, old, new, message, .. } = &mut short;
        for text in [tenant, directory, by, old, new, message].into_iter().flatten() {
            cut(text, most);
        }
        short
    }

    /// The line in `text`; `None` where it is cut, or is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let line: Self = serde_json::from_str(text).ok()?;
        (!line.event.is_empty() && line.at().is_some()).then_some(line)
    }

    /// When it happened.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.time.parse().ok()
    }
}

/// JSON without characters that a terminal obeys, or that reorder text.
fn json(line: &LogLine) -> String {
    let text = serde_json::to_string(line).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if crate::output::plain::is_shown(c) {
            out.push(c);
            continue;
        }
        let mut units = [0_u16; 2];
        for unit in c.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// Keeps the first `most` characters.
fn cut(text: &mut String, most: usize) {
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_whatever_is_quoted() {
        let evil = "a\n{\"event\":\"changed\"}\r\u{2028}\u{1b}[2J\u{202e}\"\\".to_owned();
        let line = LogLine {
            tenant: Some(evil.clone()),
            message: Some(evil.clone()),
            ..LogLine::new(Event::Refused)
        };
        let text = line.text();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(text.trim_end().chars().all(crate::output::plain::is_shown), "{text:?}");
        assert_eq!(LogLine::parse(&text), Some(line));
    }

    #[test]
    fn the_longest_line_is_appended_in_one_piece() {
        let long = Some("\u{1}".repeat(5000));
        let line = LogLine {
            tenant: long.clone(),
            directory: long.clone(),
            by: long.clone(),
            old: long.clone(),
            new: long.clone(),
            message: long,
            ..LogLine::new(Event::Changed)
        };
        let text = line.text();
        assert!(text.len() < MOST_BYTES && text.ends_with("}\n"), "{}", text.len());
        assert!(LogLine::parse(&text).is_some());
    }

    #[test]
    fn times_have_milliseconds_and_cut_lines_are_none() {
        let line = LogLine::new(Event::Adopted);
        let (_, rest) = line.time.split_once('.').expect("a fraction");
        assert!(rest.len() == 4 && rest.ends_with('Z'), "{}", line.time);
        let text = line.text();
        assert_eq!(LogLine::parse(&text), Some(line));
        assert_eq!(LogLine::parse(&text[..text.len() / 2]), None);
        assert_eq!(LogLine::parse("{}"), None);
    }

    #[test]
    fn every_word_is_found_again() {
        for event in Event::ALL {
            assert_eq!(Event::of(event.word()), Some(*event));
        }
        for setting in Setting::ALL {
            assert_eq!(Setting::of(setting.word()), Some(*setting));
        }
    }
}
