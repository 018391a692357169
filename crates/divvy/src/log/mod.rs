//! The log of events: who changed which limit, what was refused and why, what became of tenants and daemons.
//!
//! One line is one JSON object ([`mod@line`]), a name of the closed list [`line::Event`] in it. Commands and daemons append to one
//! file ([`mod@file`]) of the user's, the machine's daemon to the machine's ([`place`]); [`change`] makes lines of two configs
//! ([`changed`] has the change made too),
//! [`journal`] is a daemon's way to write without waiting, and [`read`] finds lines again. `divvy log` shows them.
//!
//! Promises: a line that cannot be written stops nothing; it is counted and told with the next one that can.
//!
//! Does not decide what is an event: those who cause one write it.

pub(crate) mod change;
pub mod changed;
pub(crate) mod file;
pub(crate) mod journal;
pub(crate) mod line;
pub(crate) mod place;
pub(crate) mod read;
pub(crate) mod refused;
pub(crate) mod words;

use self::line::LogLine;
use crate::output::out;
use crate::tenants::tenant_dir;

/// Writes lines of this command; about another user's tenant into the machine's log, where that user can ask for them.
pub(crate) fn record(lines: &[LogLine]) {
    if cfg!(test) {
        // Tests of this crate change tenants in this process, whose user's log is a person's.
        return;
    }
    let me = tenant_dir::uid();
    let (others, own): (Vec<&LogLine>, Vec<&LogLine>) =
        lines.iter().partition(|line| line.owner.is_some_and(|owner| owner != me));
    for (lines, folders) in [(own, place::of_user(None)), (others, place::of_machine())] {
        if lines.is_empty() {
            continue;
        }
        let texts: Vec<String> = lines.into_iter().map(LogLine::text).collect();
        if let Err(error) = file::append(&folders, &texts) {
            out::note(&format!(
                "the log was not written: {error:#}; `divvy log` will not know this"
            ));
        }
    }
}
