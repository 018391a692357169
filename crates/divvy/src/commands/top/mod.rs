//! `divvy top`: tenants and devices on a terminal, once a second, with keys to change them.
//!
//! [`model`] makes rows of two samples, [`memory`] the part of them that may leave a device, [`history`] keeps a minute of
//! them, [`app`] is what the keys do to them, [`questions`] what is asked before a change and said after it. [`table`] makes
//! styled cells of rows, in [`columns`] that fit the width, with [`bars`] and colours of a [`theme`]; [`screen`] puts them
//! together, and [`once`] is the frame without a terminal. All of these are pure. [`terminal`] takes the terminal and gives it
//! back. This module takes samples and makes the changes, by the same code as `divvy set`.
//!
//! Promises: the command ends with its terminal, and when it is asked to. Looking disturbs no tenant:
//! files are read, not mapped or locked. Nothing is kept from one run to the next: no file is written but a tenant's limits,
//! when a key changes them.

mod app;
mod bars;
mod cells;
mod columns;
mod help;
mod history;
mod memory;
mod model;
mod once;
mod questions;
mod screen;
mod table;
mod terminal;
mod theme;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use divvy_page::now_ns;
use nix::sys::signal::Signal;
use ratatui::crossterm::event::{Event, KeyEventKind};

use self::app::{Action, App};
use self::bars::Glyphs;
use self::model::{Moment, Picture, TenantRow};
use self::questions::LimitsHeld;
use self::table::Look;
use self::terminal::{Next, Terminal};
use self::theme::Theme;
use crate::commands::{ps, set};
use crate::daemon::client;
use crate::output::exit_codes::HANGUP;
use crate::output::failure::usage;
use crate::output::options::{self, Stream};
use crate::output::{json, out};
use crate::pause::pause;
use crate::wire::LimitChange;

/// Watch tenants and devices, and change them by keys.
///
/// For each device: memory held, how its time is divided, turns a second. For each tenant on it: memory
/// held and its limit, the share asked for (a cap, or a weight) and the share reached, time its threads
/// were throttled by the cap and waited for turns, work queued on the device, and its gate. Shares are
/// taken over the interval between two samples. Nothing is counted for a tenant alone on its device
/// and without a cap: its share shows as `-`. Of tenants that oversubscribe it also shows what is on the card and away,
/// whether the tenant runs, waits or rests, and how fast memory moves.
///
/// On a terminal the columns go by its width, from 60 on. TENANT, SHARE and REACHED are always there. Where room is short,
/// LAUNCHES/S, PROCESSES and QUEUE go first, then PRIORITY, WAITING and THROTTLED, then LIMIT, MINUTE and GATE; ASKED, HELD and
/// MEMORY go last. Bars are of the whole GPU and have a mark where the cap or the limit is; MINUTE is the share reached in the
/// last minute.
///
/// Keys: ? lists them. Up and down choose a row, Enter shows its processes, / filters by name, s sorts, p pauses and resumes,
/// plus and minus change the cap by 5 %, e writes a cap, m a memory limit, w a weight, q ends. Pausing and what is written are
/// asked about before. Changes need the rights that `divvy set` needs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one sample as JSON and end
    #[arg(long)]
    json: bool,

    /// Print one frame as text and end
    #[arg(long, conflicts_with = "json")]
    once: bool,

    /// Seconds between two samples
    #[arg(long, short, default_value_t = 1.0, value_name = "N")]
    interval: f64,

    /// Another directory of tenants, as for `divvy ps`; may be repeated
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
}

/// Intervals that make sense.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=60.0;

pub(crate) fn run(args: &Args) -> Result<u8> {
    if !INTERVALS.contains(&args.interval) {
        return Err(usage(format!(
            "--interval {}: give {} to {} seconds",
            args.interval,
            INTERVALS.start(),
            INTERVALS.end()
        )));
    }
    let interval = Duration::from_secs_f64(args.interval);
    if !args.json && !args.once {
        Terminal::check()?;
        return interactive(args, interval);
    }
    let before = sample(&args.root);
    pause(interval);
    let picture = Picture::of(Some(&before), &sample(&args.root));
    if args.json {
        json::print(&picture)?;
    } else {
        out::text(&once::text(&picture))?;
    }
    Ok(0)
}

fn sample(roots: &[PathBuf]) -> Moment {
    let views = client::views();
    let (tenants, unreadable) = ps::tenants(roots, &views);
    Moment { at_ns: now_ns(), tenants, unreadable: unreadable.len(), views }
}

fn interactive(args: &Args, interval: Duration) -> Result<u8> {
    let mut terminal = Terminal::take()?;
    follow(&mut terminal, args, interval)?;
    Ok(if terminal.signal() == Some(Signal::SIGHUP) { HANGUP } else { 0 })
}

/// Colours and characters of this terminal.
fn look() -> Look {
    Look {
        theme: Theme { has_color: options::has_color(Stream::Out) },
        glyphs: Glyphs::of_locale(|name| std::env::var(name).ok()),
    }
}

/// Changes the tenant in `directory`; says what is different on the row's device, or why nothing is.
fn change_limits(directory: &str, change: &LimitChange, row: &TenantRow) -> Result<String, String> {
    let applied = set::apply(Path::new(directory), change).map_err(|error| format!("{error:#}"))?;
    let before = LimitsHeld::of(row);
    let (limit_bytes, share_ppm) =
        applied.on_device(&row.gpu).unwrap_or((before.limit_bytes, before.share_ppm));
    let (weight, paused) = (applied.config.weight, applied.config.paused != 0);
    let now = LimitsHeld { share_ppm, limit_bytes, weight, paused };
    Ok(questions::told(row, &now, &applied.notes))
}

/// Shows samples and follows keys until one of them, a signal or the terminal's end ends it.
fn follow(terminal: &mut Terminal, args: &Args, interval: Duration) -> Result<()> {
    let mut before = sample(&args.root);
    let mut app = App::new(Picture::of(None, &before));
    let look = look();
    let mut due = Instant::now() + interval;
    loop {
        terminal.draw(&app, look)?;
        let event = match terminal.next(due)? {
            Next::End => return Ok(()),
            Next::Nothing => {
                let now = sample(&args.root);
                app.update(Picture::of(Some(&before), &now), now.at_ns);
                before = now;
                due = Instant::now() + interval;
                continue;
            }
            Next::Event(event) => event,
        };
        let Event::Key(key) = event else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match app.key(key) {
            Action::None => {}
            Action::Quit => return Ok(()),
            Action::Change(directory, change) => {
                let row = app.row().cloned().unwrap_or_default();
                app.tell(change_limits(&directory, &change, &row));
                // The new limits are shown at once; rates wait for the next sample.
                due = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests;
