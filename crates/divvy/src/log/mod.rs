//! The log of events: changes of limits and their authors, refusals and their reasons, tenants and daemons that come and go.
//!
//! One line is one JSON object ([`mod@line`]) with a name of the closed list [`line::Event`]. Commands and daemons of a user
//! append to the user's file ([`mod@file`]), the machine's daemon to the machine's ([`place`]). [`change`] makes lines of two
//! configs, and [`changed`] also makes the change. [`journal`] lets a daemon write without waiting, and [`read`] finds lines
//! again. `divvy log` shows them.
//!
//! Promises: a line that cannot be written stops nothing. A daemon counts it, and writes the count with its next line.
//!
//! Does not decide which events there are: the code that causes one writes it.

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

/// Writes lines of this command. Lines about another user's tenant go into the machine's log, where that user can ask for them.
pub(crate) fn record(lines: &[LogLine]) {
    if cfg!(test) {
        // Tests of this crate change tenants in this process, and must not write into the log of the person who runs them.
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
            out::note(&format!("this is not in the log: {error:#}"));
        }
    }
}
