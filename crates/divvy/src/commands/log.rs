//! `divvy log`: what has happened to tenants and daemons, from the logs that commands, daemons and agents write.
//!
//! Reads this user's log, with its rotated files, and the machine's log: from its files where this user may read them, else
//! from the machine's daemon, which tells each user about their own tenants. Does not write.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ZonedDateTime};

use crate::daemon::client;
use crate::log::line::LogLine;
use crate::log::place;
use crate::log::read::{Found, Wanted, why_unread};
use crate::log::words::human;
use crate::output::exit_codes::NOT_AS_EXPECTED;
use crate::output::failure::{usage, with_code};
use crate::output::{json, out, plain};
use crate::pause::pause;
use crate::tenants::tenant_dir;

/// Say what has happened: changes of limits, refusals, tenants and daemons that came and went.
///
/// Each change of a tenant's limits is listed with the user and the command that asked for it, the value before and the value
/// after; each refusal with its reason code. The log is kept when daemons and tenants end. Times are those of the local clock.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The tenant: its name, or its directory; by default all, and what happened to daemons
    tenant: Option<String>,

    /// Nothing older than this: 90s, 30m, 2h, 7d, or a time such as 2026-11-29T10:00, 2026-11-29 or 10:00
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Go on with new events until you interrupt it
    #[arg(long, short)]
    follow: bool,

    /// Read FILE, or standard input for -, instead: the lines of an agent, or of another machine's log
    #[arg(long, value_name = "FILE", conflicts_with = "follow")]
    file: Option<PathBuf>,

    /// Print one object with all lines as JSON; with --follow one object a line
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  divvy log
  divvy log train --since 2h
  divvy log train --since 2026-11-29T10:00 --json
  kubectl -n divvy-system logs ds/divvy-agent | divvy log --file -";

/// Output of `--json`.
#[derive(Debug, serde::Serialize)]
struct Report {
    /// Folders, or the file, in which there is a log.
    logs: Vec<PathBuf>,
    /// Lines that are cut, or have another form.
    unread: usize,
    lines: Vec<LogLine>,
}

/// Between two looks with `--follow`.
const LOOK: Duration = Duration::from_millis(500);
/// Most bytes that are taken from a file that is named, or standard input.
const MOST_BYTES: u64 = 256 << 20;

pub(crate) fn run(args: &Args) -> Result<u8> {
    let since = args.since.as_deref().map(|text| since(text, &ZonedDateTime::now())).transpose()?;
    let wanted = Wanted { tenant: args.tenant.clone(), since, owner: None };
    let found = match &args.file {
        Some(path) => of_file(path, &wanted)?,
        None => look(&wanted),
    };
    if found.folders.is_empty() && !args.follow {
        return Err(with_code(NOT_AS_EXPECTED, no_log(&found)));
    }
    found.notes.iter().for_each(|note| out::note(note));
    if args.follow {
        return follow(args, found, wanted);
    }
    if args.json {
        let Found { lines, unread, folders: logs, .. } = found;
        json::print(&Report { logs, unread, lines })?;
        return Ok(0);
    }
    if found.unread > 0 {
        out::note(&format!("{} lines of the log are cut, or have another form", found.unread));
    }
    if found.lines.is_empty() {
        let of = args.tenant.as_ref().map_or_else(String::new, |name| format!(" of {name:?}"));
        let when = args.since.as_ref().map_or_else(String::new, |since| format!(" since {since}"));
        out::note(&format!("there is no event{of}{when}"));
    }
    out::text(&table(&found.lines, &TimeZone::system(), &ZonedDateTime::now()))?;
    Ok(0)
}

/// This user's log and the machine's.
fn look(wanted: &Wanted) -> Found {
    let mut found = Found::default();
    let (users, machines) = (place::of_user(None), place::of_machine());
    let folders: Vec<PathBuf> = users.iter().chain(&machines).cloned().collect();
    found.add(&folders, wanted);
    let is_root = tenant_dir::uid() == 0;
    let logs = [Some(users), Some(machines).filter(|_| is_root)];
    found.notes = logs.iter().flatten().filter_map(|folders| elsewhere(folders, &found)).collect();
    if !is_root {
        // This user may not read root's file; root's daemon tells the user's part.
        if let Some((folder, text)) = client::log(wanted) {
            found.take(&text, wanted, &mut BTreeSet::new());
            found.folders.push(folder);
            found.sort();
        }
    }
    found
}

/// Words about a log that is read from another folder than the first of `folders`, its usual one.
fn elsewhere(folders: &[PathBuf], found: &Found) -> Option<String> {
    let (usual, others) = folders.split_first()?;
    if found.folders.contains(usual) {
        return None;
    }
    let read = others.iter().filter(|folder| found.folders.contains(folder));
    let read: Vec<String> = read.map(|folder| folder.display().to_string()).collect();
    let error = why_unread(usual).filter(|_| !read.is_empty())?;
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "there is no log in".to_owned(),
        _ => format!("{error}:"),
    };
    Some(format!("this is the log in {}, since {why} {}", read.join(" and "), usual.display()))
}

fn of_file(path: &Path, wanted: &Wanted) -> Result<Found> {
    let cannot = || format!("{} cannot be read", path.display());
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().take(MOST_BYTES).read_to_end(&mut bytes)?;
    } else {
        let file = File::open(path).with_context(cannot)?;
        file.take(MOST_BYTES).read_to_end(&mut bytes).with_context(cannot)?;
    }
    let mut found = Found { folders: vec![path.to_owned()], ..Found::default() };
    found.take(&String::from_utf8_lossy(&bytes), wanted, &mut BTreeSet::new());
    found.sort();
    Ok(found)
}

fn no_log(found: &Found) -> String {
    let first = place::of_user(None).into_iter().next();
    let first = first.map_or_else(String::new, |folder| folder.display().to_string());
    let denied = match found.denied.first() {
        None => String::new(),
        Some(path) => format!(
            "; {} is root's, and the machine's daemon, which could tell you your part, does not answer",
            path.display()
        ),
    };
    format!(
        "there is no log yet: your commands and daemons have written nothing; it will lie in {first}{denied}"
    )
}

/// Prints what was found and what comes, until a signal.
fn follow(args: &Args, found: Found, wanted: Wanted) -> Result<u8> {
    let mut printed: BTreeSet<String> = BTreeSet::new();
    let mut lines = found.lines;
    loop {
        lines.retain(|line| printed.insert(line.text()));
        match args.json {
            true => {
                for line in &lines {
                    out::text(&line.text())?;
                }
            }
            false if lines.is_empty() => {}
            false => out::text(&table(&lines, &TimeZone::system(), &ZonedDateTime::now()))?,
        }
        pause(LOOK);
        lines = look(&wanted).lines;
    }
}

/// One aligned line for each event.
fn table(lines: &[LogLine], zone: &TimeZone, now: &ZonedDateTime) -> String {
    let at = |line: &LogLine| line.at().map(|at| at.to_zoned_datetime(zone.clone()));
    let is_today = lines.iter().all(|line| at(line).is_some_and(|at| at.date() == now.date()));
    let form = if is_today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    let name = |line: &LogLine| {
        plain::line(line.tenant.as_deref().filter(|name| !name.is_empty()).unwrap_or("-"))
            .into_owned()
    };
    let width = lines.iter().map(|line| name(line).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for line in lines {
        let at = at(line).map_or_else(String::new, |at| at.strftime(form).to_string());
        let name = name(line);
        let gap = width - name.chars().count();
        text.push_str(&format!("{at}  {name}{:gap$}  {}\n", "", human(line)));
    }
    text
}

/// The moment that `text` means.
fn since(text: &str, now: &ZonedDateTime) -> Result<Timestamp> {
    let wrong = || {
        usage(format!(
            "--since {text:?} is no time: give an age such as 90s, 30m, 2h or 7d, or a time such as 2026-11-29T10:00, \
             2026-11-29 or 10:00"
        ))
    };
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];
    let age = units.iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(*unit)?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<i64>().ok().filter(|_| is_number)?.checked_mul(*seconds)
    });
    if let Some(seconds) = age {
        let then = now.timestamp().checked_sub(SignedDuration::from_secs(seconds));
        return Ok(then.unwrap_or(Timestamp::MIN));
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let civil = text
        .parse::<DateTime>()
        .or_else(|_| text.parse::<Date>().map(|date| date.to_datetime(Time::midnight())))
        .or_else(|_| text.parse::<Time>().map(|time| now.date().to_datetime(time)));
    let zoned = civil.ok().and_then(|civil| civil.to_zoned_datetime(now.time_zone().clone()).ok());
    zoned.map(|zoned| zoned.timestamp()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::Event;

    #[test]
    fn ages_and_times_are_understood_and_nothing_else() {
        let now: ZonedDateTime = "2026-11-30T12:00:00[UTC]".parse().unwrap();
        for (text, at) in [
            ("90s", "2026-11-30T11:58:30Z"),
            ("30m", "2026-11-30T11:30:00Z"),
            ("2h", "2026-11-30T10:00:00Z"),
            ("7d", "2026-11-23T12:00:00Z"),
            ("2026-11-29T10:00", "2026-11-29T10:00:00Z"),
            ("2026-11-29", "2026-11-29T00:00:00Z"),
            ("10:00", "2026-11-30T10:00:00Z"),
            ("2026-11-29T10:00:00+02:00", "2026-11-29T08:00:00Z"),
        ] {
            assert_eq!(since(text, &now).unwrap(), at.parse().unwrap(), "{text}");
        }
        for text in ["", "h", "-2h", "+2h", "2 h", "yesterday", "1.5h", "2026-13-01"] {
            let error = since(text, &now).unwrap_err();
            assert_eq!(crate::output::failure::code_of(&error), 2, "{text}");
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn a_log_that_lies_elsewhere_is_named_with_the_reason() {
        let scratch = crate::stage::Scratch::make("log-elsewhere").unwrap();
        let [usual, other] = ["usual", "other"].map(|name| scratch.path().join(name));
        let folders = [usual.clone(), other.clone()];
        let line = [LogLine::new(Event::Adopted).text()];
        let note = || {
            let mut found = Found::default();
            found.add(&folders, &Wanted::default());
            elsewhere(&folders, &found)
        };
        assert_eq!(note(), None, "no log is another matter");
        crate::log::file::append(&folders[1..], &line).unwrap();
        let (usual, other) = (usual.display(), other.display());
        let words = format!("this is the log in {other}, since there is no log in {usual}");
        assert_eq!(note(), Some(words));
        // A link is not followed.
        std::fs::create_dir(&folders[0]).unwrap();
        std::os::unix::fs::symlink("nowhere", folders[0].join("events.log")).unwrap();
        let words = note().unwrap();
        assert!(words.contains("(os error") && words.ends_with(&format!(": {usual}")), "{words}");
        std::fs::remove_file(folders[0].join("events.log")).unwrap();
        crate::log::file::append(&folders[..1], &line).unwrap();
        assert_eq!(note(), None);
    }

    #[test]
    fn lines_are_aligned_and_days_are_told_where_they_differ() {
        let now: ZonedDateTime = "2026-11-30T12:00:00[UTC]".parse().unwrap();
        let line = |time: &str, tenant: Option<&str>| LogLine {
            time: time.to_owned(),
            tenant: tenant.map(str::to_owned),
            ..LogLine::new(Event::Adopted)
        };
        let [a, b] = [
            line("2026-11-30T10:31:02.123Z", Some("train")),
            line("2026-11-30T10:31:03.000Z", None),
        ];
        assert_eq!(
            table(&[a.clone(), b], &TimeZone::UTC, &now),
            "10:31:02  train  is served by the daemon\n10:31:03  -      is served by the daemon\n"
        );
        let old = line("2026-11-29T10:31:02.123Z", Some("t"));
        let text = table(&[old, a], &TimeZone::UTC, &now);
        assert!(text.starts_with("2026-11-29 10:31:02  t      is"), "{text}");
    }
}
