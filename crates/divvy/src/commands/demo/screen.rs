//! The demonstration's output while it runs: redrawn in place on a terminal, a line a second elsewhere.
//!
//! Promises: nothing but text is written where there is no terminal, and nothing at all where it is to be quiet.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::output::out;

/// Where tables and plots go.
#[derive(Debug)]
pub(super) struct Screen {
    is_quiet: bool,
    in_place: bool,
    /// Lines that the next table replaces.
    drawn_lines: usize,
    next: Instant,
}

impl Screen {
    pub(super) fn new(is_quiet: bool) -> Self {
        Self { is_quiet, in_place: out::is_terminal(), drawn_lines: 0, next: Instant::now() }
    }

    /// Writes text that stays.
    pub(super) fn say(&mut self, text: &str) -> Result<()> {
        self.drawn_lines = 0;
        self.next = Instant::now();
        if self.is_quiet { Ok(()) } else { out::text(text) }
    }

    /// Writes `whole` in the place of the one before; elsewhere the `lines` of a log, whose head, if it has one, comes once.
    pub(super) fn show(&mut self, whole: &str, lines: &str) -> Result<()> {
        if self.is_quiet || (!self.in_place && Instant::now() < self.next) {
            return Ok(());
        }
        self.next = Instant::now() + Duration::from_secs(1);
        if !self.in_place {
            let has_head = lines.lines().count() > 1;
            let skip = usize::from(has_head && self.drawn_lines > 0);
            self.drawn_lines = 1;
            let text: String = lines.lines().skip(skip).map(|line| format!("{line}\n")).collect();
            return out::text(&text);
        }
        let back = match self.drawn_lines {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        };
        self.drawn_lines = whole.lines().count();
        out::text(&format!("{back}{whole}"))
    }
}
