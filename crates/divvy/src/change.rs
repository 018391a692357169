//! A change of a tenant's limits while it runs: what `divvy set` and the daemon's socket do.
//!
//! The change is written into the tenant's config in place; its processes go by it at their next
//! request or launch, and those that wait at a gate are woken. A limit replaces the one for the same
//! devices, the others stay. Nothing is taken away from a process: memory held beyond a lowered limit
//! stays held, and more is refused until it is below.
//!
//! Promises: everything that can be wrong with the words is found before anything is written. Does
//! not check who asks: the file's permissions do, and the socket does for its clients.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use divvy_abi::config::Config;
use divvy_page::AttachError;
use divvy_page::owner::Owner;
use divvy_policy::limit;

use crate::daemon::wire::Change;
use crate::dir::Dir;
use crate::failure::usage;
use crate::share_args::ShareArgs;
use crate::snapshot::Snapshot;
use crate::{gpus, limits, sizes};

/// A change that was made.
#[derive(Debug)]
pub(crate) struct Made {
    /// The limits that hold now.
    pub(crate) config: Config,
    /// What is worth knowing about it.
    pub(crate) notes: Vec<String>,
}

/// Changes the limits of the tenant in `directory`.
///
/// # Errors
/// Usage errors for words that are not understood; else what is wrong with the tenant's files.
pub(crate) fn make(directory: &Path, change: &Change) -> Result<Made> {
    let opened = || {
        let dir = Dir::open(directory)?;
        Ok((Owner::within(&dir.tenant()?)?, dir))
    };
    let (owner, dir) = opened().map_err(|error| cannot(directory, error))?;
    make_open(&dir, &owner, directory, change)
}

fn cannot(directory: &Path, error: AttachError) -> anyhow::Error {
    anyhow!(error).context(format!("{} cannot be changed", directory.display()))
}

/// The same where directory and limits are open; `directory` names them.
///
/// # Errors
/// As [`make`].
pub(crate) fn make_open(
    dir: &Dir,
    owner: &Owner,
    directory: &Path,
    change: &Change,
) -> Result<Made> {
    let gpus = gpus::list(Path::new(gpus::PROC));
    let memory = limits::rules(&change.memory, &gpus)?;
    let share = ShareArgs::of(change).read(&gpus)?;
    if memory.is_empty() && share.is_empty() && change.paused.is_none() {
        return Err(usage(
            "nothing to change: give one of --memory, --compute, --weight, --priority, --class, \
             --pause and --resume",
        ));
    }
    let mut failed = None;
    let config = owner
        .update(|config| {
            let rules = limits::merged(config.rules(), memory.as_slice());
            let compute = limits::merged(config.compute_rules(), &share.rules);
            match (rules, compute) {
                (Ok(rules), Ok(compute)) => {
                    config.rule_count = limits::put(&mut config.rules, &rules);
                    config.compute_rule_count = limits::put(&mut config.compute_rules, &compute);
                    config.weight = share.weight.unwrap_or(config.weight);
                    config.priority = share.priority.unwrap_or(config.priority);
                    config.class = share.class.unwrap_or(config.class);
                    config.paused = change.paused.map_or(config.paused, u32::from);
                }
                (Err(error), _) | (_, Err(error)) => failed = Some(error),
            }
        })
        .map_err(|error| cannot(directory, error))?;
    match failed {
        Some(error) => Err(error),
        None => Ok(Made { notes: notes(dir, &config, change)?, config }),
    }
}

/// What the change does not do.
fn notes(dir: &Dir, config: &Config, change: &Change) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let snapshot = Snapshot::of(dir).map_err(|error| anyhow!(error)).context("changed")?;
    if !change.memory.is_empty() {
        for device in &snapshot.devices {
            let limit =
                limit::resolve(config.rules(), device.index, &device.uuid, device.total_bytes);
            let held_bytes = device.totals.used_bytes;
            if let Ok(Some(limit_bytes)) = limit
                && held_bytes > limit_bytes
            {
                notes.push(format!(
                    "{} of device {} are held, more than the new limit of {}: they stay held, and \
                     more is refused until it is below",
                    sizes::text(held_bytes),
                    device.index.map_or_else(
                        || limit::UuidText(&device.uuid).to_string(),
                        |index| index.to_string()
                    ),
                    sizes::text(limit_bytes),
                ));
            }
        }
    }
    if config.paused != 0 && change.paused != Some(true) {
        notes.push("the tenant is paused; resume it by --resume".to_owned());
    }
    Ok(notes)
}
