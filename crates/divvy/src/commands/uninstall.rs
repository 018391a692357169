//! `divvy uninstall`: removes what `divvy install` wrote below a prefix, by the list that it left there.
//!
//! Promises: nothing else is removed; a file that was changed since stays and is named; a file that a process has
//! mapped or runs is unlinked alone, so the process goes on with it. Ends no process.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::commands::upgrade::PrefixArgs;
use crate::commands::upgrade::record::{Content, PLACE, Record};
use crate::commands::upgrade::users::{InUse, Users};
use crate::output::exit_codes::NOT_AS_EXPECTED;
use crate::output::failure::usage;
use crate::output::{json, out, plain};

/// Remove what `divvy install` wrote below a prefix.
///
/// Goes by the list that `divvy install` left there, lib/divvy/installed.json: nothing else is touched, and a file that
/// was changed since stays. Programs that run with the library go on under their limits; programs that they start afterwards
/// have no limits, so they are named. Files of a package are removed by its package manager. Ends with 1 when something stays.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    below: PrefixArgs,
}

const EXAMPLES: &str = "Examples:
  divvy uninstall ~/.local --dry-run
  sudo divvy uninstall /usr/local";

/// Files by what became of them.
#[derive(Debug, Default, serde::Serialize)]
struct Report {
    prefix: PathBuf,
    removed: Vec<PathBuf>,
    /// Files that stay, since they are not as they were written.
    changed: Vec<PathBuf>,
    /// Files that processes go on with.
    in_use: Vec<InUse>,
    /// Whether a process could not be looked into, and may use any of them.
    unknown_users: bool,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    let prefix = match &args.below.prefix {
        Some(prefix) => prefix.clone(),
        None => own().context("the path of this command is not known; name a prefix")?,
    };
    let prefix = prefix.canonicalize().with_context(|| prefix.display().to_string())?;
    let Some(record) = Record::read(&prefix)? else {
        return Err(usage(format!(
            "{}: there is no list of what `divvy install` wrote ({PLACE}); name the prefix that you \
             installed into. A package's files go by its package manager, such as `apt remove divvy`, \
             and a folder that was unpacked by removing it",
            prefix.display()
        )));
    };
    let report = look(&prefix, &record)?;
    if !args.below.dry_run {
        remove(&prefix, record, &report)?;
    }
    let done = format!("what was installed below {} was removed", prefix.display());
    let shown = || {
        if args.below.json {
            json::print(&report)
        } else {
            out::text(&text(&report, args.below.dry_run))
        }
    };
    if args.below.dry_run { shown() } else { out::after(&done, shown) }?;
    Ok(if report.changed.is_empty() { 0 } else { NOT_AS_EXPECTED })
}

/// The prefix below which this command lies.
fn own() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.parent()?.to_owned())
}

fn look(prefix: &Path, record: &Record) -> Result<Report> {
    let users = Users::look(Path::new("/proc")).unwrap_or_default();
    let mut report = Report {
        prefix: prefix.to_owned(),
        unknown_users: users.are_hidden(),
        ..Report::default()
    };
    let mut changed = Vec::new();
    for entry in &record.files {
        let path = prefix.join(&entry.path);
        match Content::at(&path)? {
            None => {}
            Some(now) if now == entry.content => {
                if matches!(now, Content::Sum(_)) {
                    report.in_use.extend(users.of(&path));
                }
                report.removed.push(path);
            }
            Some(_) => changed.push(path),
        }
    }
    // An interrupted installation lists a path twice, with its content before and after.
    changed.retain(|path| !report.removed.contains(path));
    changed.dedup();
    report.changed = changed;
    Ok(report)
}

/// Removes the files, then the list, then folders that were made and are empty.
fn remove(prefix: &Path, mut record: Record, report: &Report) -> Result<()> {
    for path in &report.removed {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{} stays", path.display()));
            }
            _ => {}
        }
    }
    record.files.retain(|entry| report.changed.contains(&prefix.join(&entry.path)));
    if record.files.is_empty() {
        let list = prefix.join(PLACE);
        fs::remove_file(&list).with_context(|| format!("{} stays", list.display()))?;
    } else {
        record.write(prefix)?;
    }
    // A folder comes before what is in it.
    for folder in record.folders.iter().rev() {
        // One that has something else in it stays.
        let _ = fs::remove_dir(prefix.join(folder));
    }
    Ok(())
}

fn text(report: &Report, is_dry: bool) -> String {
    let removed = if is_dry { "would remove" } else { "removed" };
    let mut text = String::new();
    for path in &report.removed {
        text.push_str(&format!("{removed} {}\n", path.display()));
    }
    for path in &report.changed {
        text.push_str(&format!(
            "stays {}: it was changed since it was installed\n",
            path.display()
        ));
    }
    for InUse { pid, program, path } in &report.in_use {
        let is_library = path.extension().is_some_and(|extension| extension == "so");
        let starts = if is_library { "; what it starts later is not limited" } else { "" };
        let (program, path) = (plain::line(program), path.display());
        text.push_str(&format!("in use: {program} (pid {pid}) goes on with {path}{starts}\n"));
    }
    if report.unknown_users {
        text.push_str("some processes cannot be looked into, and may also use these files\n");
    }
    text
}
