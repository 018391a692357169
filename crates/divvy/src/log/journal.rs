//! A daemon's way into the log: it hands lines to a thread of their own, so that it never waits for a disk.
//!
//! Promises: handing a line over never waits. A line that finds no room, here or on the disk, is counted, and the count is the
//! next line that can be written. The counters of refusals by reason, and of changes, are for [`crate::metrics`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::file;
use super::line::{Event, LogLine};

/// Lines that may wait for the disk: as many as a busy daemon writes in a second.
const WAITING: usize = 1024;

/// The log of a daemon.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    to: OnceLock<SyncSender<JournalEntry>>,
    lost: AtomicU64,
    counts: Mutex<Counts>,
}

/// Events that were counted since the daemon began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Refusals by their codes.
    pub(crate) refusals: BTreeMap<String, u64>,
    /// Changes of limits and settings that it has seen.
    pub(crate) changes: u64,
}

#[derive(Debug)]
enum JournalEntry {
    Line(Box<LogLine>),
    /// All lines before this one are to be written; then the sender gets a word.
    Flush(SyncSender<()>),
}

impl Journal {
    /// Begins to write into the first of `folders` that can be written, in a thread that `start` starts. Without that thread
    /// lines are lost and counted.
    pub(crate) fn begin(
        self: &std::sync::Arc<Self>,
        folders: Vec<PathBuf>,
        start: impl FnOnce(Box<dyn FnOnce() + Send>) -> anyhow::Result<()>,
    ) {
        let (to, from) = sync_channel(WAITING);
        let journal = std::sync::Arc::clone(self);
        if start(Box::new(move || journal.write(&folders, &from))).is_ok() {
            let _ = self.to.set(to);
        }
    }

    /// Hands a line over, and counts its event.
    pub(crate) fn tell(&self, line: LogLine) {
        self.count(&line);
        let sent = self.to.get().map(|to| to.try_send(JournalEntry::Line(Box::new(line))).is_ok());
        if sent != Some(true) {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Waits a moment until all lines are written: at a daemon's end.
    pub(crate) fn flush(&self) {
        let (done, told) = sync_channel(1);
        if self.to.get().is_some_and(|to| to.try_send(JournalEntry::Flush(done)).is_ok()) {
            let _ = told.recv_timeout(Duration::from_millis(500));
        }
    }

    /// Counters for collectors.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a change that another process has made and written down.
    pub(crate) fn count_change(&self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.changes = counts.changes.saturating_add(1);
    }

    fn count(&self, line: &LogLine) {
        if line.event != Event::Refused.word() {
            return;
        }
        let Some(code) = &line.code else { return };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.refusals.entry(code.clone()).or_default();
        *count = count.saturating_add(line.count.unwrap_or(1));
    }

    fn write(&self, folders: &[PathBuf], from: &Receiver<JournalEntry>) {
        while let Ok(entry) = from.recv() {
            let line = match entry {
                JournalEntry::Line(line) => line,
                JournalEntry::Flush(done) => {
                    let _ = done.try_send(());
                    continue;
                }
            };
            let lost = self.lost.swap(0, Relaxed);
            let mut texts = Vec::new();
            if lost > 0 {
                let words = "lines that could not be written: no room, or no place";
                texts.push(
                    LogLine {
                        count: Some(lost),
                        message: Some(words.to_owned()),
                        ..LogLine::new(Event::LinesLost)
                    }
                    .text(),
                );
            }
            texts.push(line.text());
            if file::append(folders, &texts).is_err() {
                self.lost.fetch_add(lost.saturating_add(1), Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log::read::{Found, Wanted};
    use crate::stage::Scratch;

    fn started(folder: PathBuf) -> Arc<Journal> {
        let journal = Arc::new(Journal::default());
        journal.begin(vec![folder], |run| {
            std::thread::spawn(run);
            Ok(())
        });
        journal
    }

    fn found(folder: PathBuf) -> Vec<(String, Option<u64>)> {
        let mut found = Found::default();
        found.add(&[folder], &Wanted::default());
        found.lines.into_iter().map(|line| (line.event, line.count)).collect()
    }

    #[test]
    fn a_lost_line_is_counted_and_said_later() {
        let scratch = Scratch::make("log-lost").unwrap();
        let folder = scratch.path().join("log");
        // A file lies in the folder's place: nothing can be written, even by root.
        std::fs::write(&folder, "").unwrap();
        let journal = started(folder.clone());
        journal.tell(LogLine::new(Event::Adopted));
        journal.tell(LogLine::new(Event::Ended));
        journal.flush();
        std::fs::remove_file(&folder).unwrap();
        journal.tell(LogLine::new(Event::Started));
        journal.flush();
        let lines = found(folder);
        assert_eq!(lines, [("lines-lost".to_owned(), Some(2)), ("started".to_owned(), None)]);
    }

    #[test]
    fn refusals_are_counted_by_their_codes() {
        let journal = Journal::default();
        let refused = |code: &str, count| LogLine {
            code: Some(code.to_owned()),
            count,
            ..LogLine::new(Event::Refused)
        };
        for (code, count) in [("DV201", None), ("DV206", None), ("DV201", Some(7))] {
            journal.tell(refused(code, count));
        }
        journal.count_change();
        let counts = journal.counts();
        assert_eq!(counts.refusals.get("DV201"), Some(&8));
        assert_eq!((counts.refusals.get("DV206"), counts.changes), (Some(&1), 1));
    }
}
