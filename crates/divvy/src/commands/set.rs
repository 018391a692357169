//! `divvy set`: changes a tenant's limits while it runs.
//!
//! Works on the tenant's directory, with a daemon and without. Where this user may not write it, the
//! machine's daemon is asked, which changes only what belongs to whoever asks. What the words mean is
//! [`change`]'s; this finds the tenant, compares what is asked with the devices there are, before anything
//! is written, and says what holds afterwards on each of them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE, FLAG_STAYS, selector};
use divvy_page::AttachError;
use divvy_policy::share;

use crate::commands::ps;
use crate::daemon::client;
use crate::log::changed;
use crate::machine::cards::{Card, Cards, DriverChoice};
use crate::output::failure::usage;
use crate::output::{json, out, plain, sizes};
use crate::tenants::change::Asked;
use crate::tenants::dir::Dir;
use crate::tenants::promised::{self, Promise};
use crate::tenants::share_args::ShareArgs;
use crate::tenants::snapshot::Snapshot;
use crate::tenants::{change, discover, ledger, limits};
use crate::wire::LimitChange;

/// Change a running tenant's limits.
///
/// The tenant's processes go by the new limits at their next request for memory and their next launch;
/// those that wait are woken. A limit without a device holds on every device, whatever was set before; one
/// for a device holds there and leaves the others. `default` in the place of a value gives back what the
/// tenant was started with. Memory that is held beyond a lowered limit stays held, and more is refused
/// until it is below.
///
/// TENANT is a name as `divvy ps` shows it, or the tenant's directory where several have one name.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The tenant: its name, or its directory
    tenant: String,

    /// Memory limit, as for `divvy run`, or default, or 0=default; may be repeated
    #[arg(long, short, value_name = "SPEC", allow_hyphen_values = true)]
    memory: Vec<String>,

    #[command(flatten)]
    share: ShareArgs,

    /// Length of its turns with memory on the card, where not all tenants' fits: 500ms, 30s; or default
    ///
    /// By default a turn is as long as moving memory costs makes it. For tenants of `divvy run --oversubscribe`.
    #[arg(long, value_name = "TIME")]
    quantum: Option<String>,

    /// Keep its memory on the card (off), or let it leave again (on)
    ///
    /// Where it is off, what is away comes back, when it is the tenant's turn; once all of it is there, the tenant takes no
    /// more turns with its memory. For tenants of `divvy run --oversubscribe`.
    #[arg(long, value_name = "on|off")]
    oversubscribe: Option<String>,

    /// Stop the tenant's submissions to the GPU until it is resumed; its memory stays
    #[arg(long, conflicts_with = "resume")]
    pause: bool,

    /// Let it go on
    #[arg(long)]
    resume: bool,

    /// Another directory of tenants, as for `divvy ps`; may be repeated
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,

    /// Print the limits that hold now as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  divvy set train --compute 50% --memory 12GiB
  divvy set train --priority high --class latency
  divvy set train --memory 0=8GiB
  divvy set train --memory 0=default --weight default
  divvy set train --quantum 5s
  divvy set train --oversubscribe off
  divvy set train --pause
  divvy set /dev/shm/divvy-1000/tenants/train-4711 --weight 2";

/// Output of `--json`.
#[derive(Debug, serde::Serialize)]
struct Report {
    tenant: String,
    directory: PathBuf,
    memory: Vec<String>,
    compute: Vec<String>,
    /// 0 is the default.
    weight: u32,
    priority: &'static str,
    class: &'static str,
    /// Of a turn with memory on the card; 0 is the default.
    quantum_ms: u32,
    paused: bool,
    /// Whether its memory may leave the card: on or off; absent where it was not started so.
    #[serde(skip_serializing_if = "Option::is_none")]
    oversubscribe: Option<&'static str>,
    /// Limits that hold now on each device that is known here.
    devices: Vec<Holds>,
    notes: Vec<String>,
}

/// Limits that hold on one device.
#[derive(Debug, serde::Serialize)]
struct Holds {
    #[serde(flatten)]
    card: Card,
    /// Absent for none.
    limit_bytes: Option<u64>,
    /// The cap, in millionths; absent for none.
    share_ppm: Option<u32>,
}

/// A change that was made.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The limits that hold now.
    pub(crate) config: Config,
    /// Notes about it.
    pub(crate) notes: Vec<String>,
    /// The devices known here.
    pub(crate) cards: Cards,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    let paused = (args.pause || args.resume).then_some(args.pause);
    let change = LimitChange {
        memory: args.memory.clone(),
        quantum: args.quantum.clone(),
        oversubscribe: args.oversubscribe.clone(),
        paused,
        ..args.share.change()
    };
    let (tenant, directory) = find(&args.tenant, &args.root)?;
    let mut applied = apply(&directory, &change)?;
    if !change.memory.is_empty() {
        let (tenants, _) = ps::tenants(&args.root, &client::views());
        let named = directory.display().to_string();
        let one = tenants.iter().find(|tenant| tenant.directory == named).map(Promise::of);
        let promises = Promise::of_all(&tenants);
        applied.notes.extend(promised::notes(&promises, &applied.cards.list, one.as_ref()));
    }
    let report = report(tenant, directory, applied);
    let done = format!("the limits of {} were changed", report.tenant);
    out::after(&done, || match args.json {
        true => json::print(&report),
        false => out::text(&words(&report)),
    })?;
    Ok(0)
}

/// Changes the tenant in `directory`, by the machine's daemon where it is not this user's to write.
///
/// # Errors
/// Usage errors for what is not understood, and for devices that are not there; nothing is changed then.
pub(crate) fn apply(directory: &Path, change: &LimitChange) -> Result<Applied> {
    // Another's files may not be this user's to read.
    let mut cards = Dir::open(directory)
        .and_then(|dir| Snapshot::of(&dir))
        .map_or_else(|_| Cards::default(), |files| change::devices(&files));
    if Cards::are_needed(&change.memory, &change.compute) || cards.may_have_instances() {
        let machines = Cards::of(&DriverChoice::default());
        cards.unknown = machines.unknown;
        cards.add(machines.list);
    }
    let uuids = cards.uuids();
    let complete = |option, specs: &[String]| -> Result<Vec<String>> {
        specs.iter().map(|spec| limits::complete(option, spec, &uuids)).collect()
    };
    let change = LimitChange {
        memory: complete(limits::MEMORY, &change.memory)?,
        compute: complete(limits::COMPUTE, &change.compute)?,
        ..change.clone()
    };
    let asked = Asked::read(&change, &uuids)?;
    let all = [asked.memory.rules(), asked.compute.rules()];
    if all.into_iter().flatten().any(|rule| rule.selector == selector::INDEX) {
        cards.number_the_only();
    }
    let mut notes = cards.judge(limits::MEMORY, asked.memory.rules())?;
    cards.judge(limits::COMPUTE, asked.compute.rules())?;
    if !asked.memory.is_empty() {
        notes.extend(cards.caveat());
    }
    let (config, made_notes) = match changed::make_among(directory, &change, &cards.list) {
        Err(error) if is_denied(&error) => {
            // Not ours to write; the machine's daemon may.
            let notes = client::set(directory, &change).unwrap_or(Err(error))?;
            (read(directory)?, notes)
        }
        made => made.map(|made| (made.config, made.notes))?,
    };
    notes.extend(made_notes);
    Ok(Applied { config, notes, cards })
}

fn is_denied(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(AttachError::Open(_, errno) | AttachError::Directory(errno))
            if errno.0 == nix::errno::Errno::EACCES as i32
    )
}

fn read(directory: &Path) -> Result<Config> {
    let dir = Dir::open(directory)?.tenant()?;
    Ok(divvy_page::reader::read_config(&dir)?.unwrap_or_default())
}

/// The tenant that `name` names, and its directory.
///
/// # Errors
/// A usage error that names the choice, where it is none or several.
pub(crate) fn find(name: &str, roots: &[PathBuf]) -> Result<(String, PathBuf)> {
    let (mut known, _) = discover::tenants(roots);
    known.extend(client::of_others(&client::views(), &known));
    if name.contains('/') {
        let directory = PathBuf::from(name);
        if !directory.join("config").exists() {
            return Err(usage(format!(
                "{name:?} is no tenant's directory: it has no config; see `divvy ps --json`"
            )));
        }
        let tenant = ledger::read_foreign(&directory)?.name;
        return Ok((tenant, directory));
    }
    let named = known.into_iter().map(|directory| {
        let base = directory.file_name().is_some_and(|base| base == name);
        (
            ledger::read_foreign(&directory).map(|tenant| tenant.name).unwrap_or_default(),
            directory,
            base,
        )
    });
    let (mut found, others): (Vec<_>, Vec<_>) =
        named.partition(|(tenant, _, base)| *base || tenant == name);
    match (found.pop(), found.as_slice()) {
        (Some((tenant, directory, _)), []) => Ok((tenant, directory)),
        (None, _) => {
            let names = others.into_iter().map(|(tenant, ..)| tenant).collect();
            Err(usage(format!("no tenant is called {name:?}; {}", there(name, names))))
        }
        (Some(last), rest) => {
            let all = rest.iter().chain([&last]).map(|(_, directory, _)| directory);
            let list: Vec<_> =
                all.map(|dir| format!("\n  {}", plain::line(&dir.display().to_string()))).collect();
            Err(usage(format!(
                "{} tenants are called {name:?}; name one by its directory:{}",
                list.len(),
                list.concat()
            )))
        }
    }
}

/// Names alike enough to be meant, and names that are told at most.
const ALIKE: f64 = 0.5;
const MOST_TOLD: usize = 8;

/// The tenants there are, and the one that was meant, if there is one like it.
fn there(name: &str, mut names: Vec<String>) -> String {
    names.retain(|tenant| !tenant.is_empty());
    names.sort_unstable();
    names.dedup();
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(name, known);
    let meant = names.iter().map(|known| (likeness(known), known));
    let meant = meant.filter(|(likeness, _)| *likeness >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    let meant = meant.map_or_else(String::new, |(_, known)| format!("did you mean {known:?}? "));
    let told = names.get(..MOST_TOLD).unwrap_or(&names).join(", ");
    match names.len() {
        0 => "there is none".to_owned(),
        1 => format!("{meant}there is {told}"),
        2..=MOST_TOLD => format!("{meant}there are {told}"),
        count => format!("{meant}there are {told} and {} more, see `divvy ps`", count - MOST_TOLD),
    }
}

fn report(tenant: String, directory: PathBuf, applied: Applied) -> Report {
    let Applied { config, notes, cards } = applied;
    Report {
        tenant,
        directory,
        memory: config.rules().iter().map(limits::text).collect(),
        compute: config.compute_rules().iter().map(limits::text).collect(),
        weight: config.weight,
        priority: share::priority_word(config.priority),
        class: share::class_word(config.class),
        quantum_ms: config.quantum_ms,
        paused: config.paused != 0,
        oversubscribe: match (config.flags & FLAG_OVERSUBSCRIBE, config.flags & FLAG_STAYS) {
            (0, _) => None,
            (_, 0) => Some("on"),
            _ => Some("off"),
        },
        devices: cards.list.into_iter().map(|card| Holds::of(card, &config)).collect(),
        notes,
    }
}

impl Holds {
    fn of(card: Card, config: &Config) -> Self {
        let (index, uuid) = card.in_rules(config.compute_rules());
        let share = share::resolve(config.compute_rules(), index, &uuid);
        let limit_bytes = card.limit_bytes(config.rules());
        // A part of a card whose memory is not known is no number.
        let limit_bytes = limit_bytes.filter(|bytes| *bytes > 0);
        Self { limit_bytes, share_ppm: share.ok().flatten(), card }
    }

    fn words(&self) -> String {
        let Self { card, limit_bytes, share_ppm } = self;
        let size = match card.total_bytes {
            0 => String::new(),
            bytes => format!(" of {}", sizes::text(bytes)),
        };
        let memory = limit_bytes.map_or_else(|| "no limit".to_owned(), sizes::text);
        let share = share_ppm.map(|ppm| limits::percent(u64::from(ppm)));
        let device = card.index.map_or_else(|| card.uuid.clone(), |index| index.to_string());
        format!(
            "device {device}: memory {memory}{size}; compute {}",
            share.unwrap_or("no limit".to_owned())
        )
    }
}

impl Applied {
    /// Memory limit and cap that hold now on the device with this UUID.
    pub(crate) fn on_device(&self, uuid: &str) -> Option<(Option<u64>, Option<u32>)> {
        let card = self.cards.list.iter().find(|card| card.uuid.eq_ignore_ascii_case(uuid))?;
        let holds = Holds::of(card.clone(), &self.config);
        Some((holds.limit_bytes, holds.share_ppm))
    }
}

fn words(report: &Report) -> String {
    let list = |specs: &[String]| match specs {
        [] => "no limit".to_owned(),
        [all] if all == "0" => "no limit".to_owned(),
        specs => specs.join(", "),
    };
    let weight = match report.weight {
        0 => "default".to_owned(),
        weight => weight.to_string(),
    };
    let quantum = match report.quantum_ms {
        0 => String::new(),
        ms => format!("; quantum {ms} ms"),
    };
    let stays = if report.oversubscribe == Some("off") { "; oversubscribe off" } else { "" };
    let mut text = format!(
        "{}: memory {}; compute {}; weight {weight}; priority {}; class {}{quantum}{stays}{}\n",
        plain::line(&report.tenant),
        list(&report.memory),
        list(&report.compute),
        report.priority,
        report.class,
        if report.paused { "; paused" } else { "" },
    );
    for device in &report.devices {
        text.push_str(&format!("{}\n", plain::line(&device.words())));
    }
    for note in &report.notes {
        text.push_str(&format!("note: {}\n", plain::line(note)));
    }
    text
}

#[cfg(test)]
mod tests;
