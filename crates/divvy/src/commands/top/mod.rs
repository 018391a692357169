//! `divvy top`: tenants and devices on a terminal, once a second, with keys to change them.
//!
//! [`model`] makes rows of two samples, [`memory`] the part of them that may leave a device, [`app`] is what the keys do to
//! them; all are pure. [`screen`]
//! draws, on the terminal that [`terminal`] takes and gives back. This module takes samples and makes
//! the changes, by the same code as `divvy set`.
//!
//! Promises: the command ends with its terminal, and when it is asked to. Looking disturbs no tenant:
//! files are read, not mapped or locked.

mod app;
mod memory;
mod model;
mod screen;
mod terminal;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use divvy_page::now_ns;
use nix::sys::signal::Signal;
use ratatui::crossterm::event::{Event, KeyEventKind};

use self::app::{Action, App};
use self::model::{Moment, Picture};
use self::terminal::{Next, Terminal};
use crate::commands::{ps, set};
use crate::daemon::client;
use crate::output::exit_codes::HANGUP;
use crate::output::failure::usage;
use crate::output::{json, out};

/// Watch tenants and devices, and change them by keys.
///
/// For each device: memory held, how its time is divided, turns a second. For each tenant on it: memory
/// held and its limit, the share asked for (a cap, or a weight) and the share reached, time its threads
/// were throttled by the cap and waited for turns, work queued on the device, and its gate. Shares are
/// taken over the interval between two samples. Nothing is counted for a tenant alone on its device
/// and without a cap: its share shows as `-`. Of tenants that oversubscribe it also shows what is on the card and away,
/// whether the tenant runs, waits or rests, and how fast memory moves.
///
/// Keys: up and down choose a row, s sorts, p pauses and resumes, + and - change the cap by 5 %,
/// e writes a cap, m a memory limit, q quits. Changes need the rights that `divvy set` needs.
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
    std::thread::sleep(interval);
    let picture = Picture::of(Some(&before), &sample(&args.root));
    if args.json {
        json::print(&picture)?;
    } else {
        out::text(&screen::text(&App::new(picture)))?;
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

/// Shows samples and follows keys until one of them, a signal or the terminal's end ends it.
fn follow(terminal: &mut Terminal, args: &Args, interval: Duration) -> Result<()> {
    let mut before = sample(&args.root);
    let mut app = App::new(Picture::of(None, &before));
    let mut due = Instant::now() + interval;
    loop {
        terminal.draw(&app)?;
        let event = match terminal.next(due)? {
            Next::End => return Ok(()),
            Next::Nothing => {
                let now = sample(&args.root);
                app.update(Picture::of(Some(&before), &now));
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
                let gpu = app.row().map(|row| row.gpu.clone()).unwrap_or_default();
                app.tell(match set::apply(Path::new(&directory), &change) {
                    Ok(applied) => {
                        let holds = applied.words(&gpu).unwrap_or_else(|| "changed".to_owned());
                        [&[holds], &*applied.notes].concat().join("; ")
                    }
                    Err(error) => format!("{error:#}"),
                });
                // The new limits are shown at once; rates wait for the next sample.
                due = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests;
