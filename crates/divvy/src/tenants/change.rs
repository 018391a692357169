//! A change of a tenant's limits while it runs: what `divvy set` and the daemon's socket do.
//!
//! The change is written into the tenant's config in place; its processes go by it at their next
//! request or launch, and those that wait at a gate are woken. How it adds up with the limits that stand
//! is `divvy_policy::change`'s; what `default` gives back is [`crate::tenants::started`]'s. Nothing is taken away
//! from a process: memory held beyond a lowered limit stays held, and more is refused until it is below.
//!
//! Promises: everything that can be wrong with the words is found before anything is written. Does
//! not check who asks: the file's permissions do, and the socket does for its clients; nor whether there
//! are such devices, which `divvy set` does before.

use std::path::Path;

use anyhow::{Result, anyhow};
use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE, FLAG_STAYS, Rule, selector};
use divvy_page::AttachError;
use divvy_page::owner::Owner;
use divvy_policy::change::{DEFAULT, Names, Steps};
use divvy_policy::limit::{self, Selector, UuidText, parse_uuid};
use divvy_policy::share;

use crate::machine::cards::{Card, Cards};
use crate::output::failure::usage;
use crate::output::sizes;
use crate::tenants::dir::Dir;
use crate::tenants::limits;
use crate::tenants::share_args::word;
use crate::tenants::snapshot::{DeviceSnapshot, Snapshot};
use crate::tenants::started::{self, Start};
use crate::wire::LimitChange;

/// A change that was made.
#[derive(Debug)]
pub struct Made {
    /// The limits that hold now.
    pub(crate) config: Config,
    /// Notes about the change.
    pub(crate) notes: Vec<String>,
    /// The limits that held before.
    pub(crate) replaced: Config,
    /// The tenant's files before it.
    pub(crate) snapshot: Snapshot,
    /// The user whose tenant it is.
    pub(crate) uid: u32,
}

/// A change, understood.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Limits of memory.
    pub(crate) memory: Steps,
    /// Caps of device time.
    pub(crate) compute: Steps,
    weight: Option<Word<u32>>,
    priority: Option<Word<i32>>,
    class: Option<Word<u32>>,
    paused: Option<bool>,
    quantum_ms: Option<u32>,
    frozen: Option<bool>,
    oversubscribes: Option<bool>,
}

/// A value, or the one the tenant was started with.
#[derive(Clone, Copy, Debug)]
enum Word<T> {
    Value(T),
    Default,
}

impl<T> Word<T> {
    fn value(self, start: T) -> T {
        match self {
            Self::Value(value) => value,
            Self::Default => start,
        }
    }
}

/// The parser of a word that may be `default`.
fn or_default<T>(
    parse: impl Fn(&str) -> Result<T, share::ShareError<'_>>,
) -> impl Fn(&str) -> Result<Word<T>, share::ShareError<'_>> {
    move |text| match text {
        DEFAULT => Ok(Word::Default),
        text => parse(text).map(Word::Value),
    }
}

impl Asked {
    /// Reads the words of `change` where devices have these UUIDs.
    ///
    /// # Errors
    /// Usage errors for words that are not understood, and for a change of nothing.
    pub(crate) fn read(change: &LimitChange, uuids: &[String]) -> Result<Self> {
        let asked = Self {
            memory: limits::steps(&change.memory, uuids)?,
            compute: limits::compute_steps(&change.compute, uuids)?,
            weight: word("--weight", &change.weight, or_default(share::parse_weight))?,
            priority: word("--priority", &change.priority, or_default(share::parse_priority))?,
            class: word("--class", &change.class, or_default(share::parse_class))?,
            paused: change.paused,
            quantum_ms: change.quantum.as_deref().map(quantum_ms).transpose()?,
            frozen: change.frozen,
            oversubscribes: change.oversubscribe.as_deref().map(on_or_off).transpose()?,
        };
        let words = asked.weight.is_some() || asked.priority.is_some() || asked.class.is_some();
        let states = asked.paused.is_some()
            || asked.frozen.is_some()
            || asked.quantum_ms.is_some()
            || asked.oversubscribes.is_some();
        if asked.memory.is_empty() && asked.compute.is_empty() && !words && !states {
            return Err(usage(
                "nothing to change: give one of --memory, --compute, --weight, --priority, --class, \
                 --quantum, --oversubscribe, --pause and --resume",
            ));
        }
        Ok(asked)
    }

    /// Whether something is to be what the tenant was started with.
    fn gives_back(&self) -> bool {
        let all = |steps: &Steps| {
            steps.iter().any(|step| step.devices == Selector::All && step.limit.is_none())
        };
        all(&self.memory)
            || all(&self.compute)
            || matches!(self.weight, Some(Word::Default))
            || matches!(self.priority, Some(Word::Default))
            || matches!(self.class, Some(Word::Default))
    }

    /// Refuses what the tenant's memory cannot do.
    fn judge_memory(&self, config: &Config) -> Result<()> {
        if self.oversubscribes.is_some() && config.flags & FLAG_OVERSUBSCRIBE == 0 {
            return Err(usage(
                "--oversubscribe: the tenant was not started with it, and its memory cannot leave the card; start it by \
                 `divvy run --oversubscribe`",
            ));
        }
        if self.frozen == Some(true) && config.flags & FLAG_STAYS != 0 {
            return Err(usage(
                "its memory stays on the card: `divvy set TENANT --oversubscribe on` lets it leave again",
            ));
        }
        Ok(())
    }

    fn apply(&self, config: &mut Config, start: &Start, names: &[Names]) -> Result<()> {
        self.judge_memory(config)?;
        let words = |error: limit::RuleError<'_>| usage(error.to_string());
        let memory = self.memory.apply(config.rules(), &start.memory, names).map_err(words)?;
        let compute = self.compute.apply(config.compute_rules(), &start.compute, names);
        let compute = compute.map_err(words)?;
        config.rule_count = limits::put(&mut config.rules, memory.as_slice());
        config.compute_rule_count = limits::put(&mut config.compute_rules, compute.as_slice());
        config.weight = self.weight.map_or(config.weight, |word| word.value(start.weight));
        config.priority = self.priority.map_or(config.priority, |word| word.value(start.priority));
        config.class = self.class.map_or(config.class, |word| word.value(start.class));
        config.paused = self.paused.map_or(config.paused, u32::from);
        config.quantum_ms = self.quantum_ms.unwrap_or(config.quantum_ms);
        config.frozen = match self.frozen {
            Some(true) => (config.frozen | 1).wrapping_add(2),
            Some(false) => config.frozen & !1,
            None => config.frozen,
        };
        match self.oversubscribes {
            Some(true) => config.flags &= !FLAG_STAYS,
            // Frozen memory comes back too.
            Some(false) => {
                (config.flags, config.frozen) = (config.flags | FLAG_STAYS, config.frozen & !1)
            }
            None => {}
        }
        Ok(())
    }
}

/// Shortest and longest turn that can be asked for, in milliseconds. A shorter one may be over before the program has
/// noticed that it has begun.
const QUANTA_MS: [u32; 2] = [100, 600_000];

/// Milliseconds of a turn as written: `500ms`, `30s` or `30`, and `default` for 0.
fn quantum_ms(text: &str) -> Result<u32> {
    if text == DEFAULT {
        return Ok(0);
    }
    let (number, unit_ms) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').unwrap_or(text), 1000),
    };
    let ms = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit_ms));
    let [least, most] = QUANTA_MS;
    ms.filter(|ms| (least..=most).contains(ms)).ok_or_else(|| {
        usage(format!(
            "--quantum {text:?} is no length of a turn: give 100ms to 600s, such as 500ms or 30s, or default"
        ))
    })
}

/// The word of a switch.
fn on_or_off(text: &str) -> Result<bool> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        text => Err(usage(format!("--oversubscribe {text:?} is neither on nor off"))),
    }
}

/// Changes the limits of the tenant in `directory`, where `known` are devices that a limit may speak of, beside those of the
/// tenant and the kernel.
///
/// # Errors
/// Usage errors for words that are not understood; else what is wrong with the tenant's files.
pub(crate) fn make(directory: &Path, change: &LimitChange, known: &[Card]) -> Result<Made> {
    let opened = || {
        let dir = Dir::open(directory)?;
        Ok((Owner::within(&dir.tenant()?)?, dir))
    };
    let (owner, dir) = opened().map_err(|error| cannot(directory, error))?;
    make_open(&dir, &owner, directory, change, known)
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
    change: &LimitChange,
    among: &[Card],
) -> Result<Made> {
    let words = |error: AttachError| cannot(directory, error);
    let snapshot = Snapshot::of(dir).map_err(words)?;
    let mut devices = devices(&snapshot);
    devices.add(among.iter().cloned());
    let known = devices.list.as_slice();
    let asked = Asked::read(change, &devices.uuids())?;

    let before = owner.read().map_err(words)?;
    let mut notes = Vec::new();
    if let Err(error) = started::keep(dir, &before) {
        notes.push(format!("{error:#}: a later {DEFAULT:?} will not know it"));
    }
    let start = started::read(dir, &before);
    if start.is_none() && asked.gives_back() {
        return Err(usage(format!(
            "{DEFAULT:?}: what {} was started with is not known, since it was changed by another version of \
             Divvy; write the limit itself, or 0 for none",
            directory.display()
        )));
    }
    let (mut failed, mut replaced) = (None, before);
    let config = owner
        .update(|config| {
            replaced = config.clone();
            let start = start.clone().unwrap_or_default();
            failed = asked.apply(config, &start, &names(known)).err();
            name_new(
                config,
                [&replaced.rules[..], &replaced.compute_rules, &start.memory, &start.compute],
                &devices,
            );
        })
        .map_err(words)?;
    if let Some(error) = failed {
        return Err(error);
    }
    notes.extend(self::notes(&snapshot, &config, &asked, known));
    Ok(Made { config, notes, replaced, snapshot, uid: dir.uid() })
}

/// The devices a change may speak of: those the tenant has used, those its rules know, then the machine's. An index is the
/// tenant's where both have it, as a container may number its devices otherwise.
pub(crate) fn devices(snapshot: &Snapshot) -> Cards {
    let used = |device: &DeviceSnapshot| Card {
        index: device.index,
        uuid: UuidText(&device.uuid).to_string(),
        name: device.name.clone(),
        total_bytes: device.total_bytes,
        part_of: None,
    };
    let list = snapshot.devices.iter().map(used).collect();
    let mut devices = Cards { list, unknown: Some("NVML was not asked".to_owned()) };
    let config = snapshot.config.as_ref();
    let rules = config.into_iter().flat_map(|it| it.rules().iter().chain(it.compute_rules()));
    let is_named = |rule: &&Rule| rule.selector == selector::INDEX && !limit::is_bare(rule);
    devices.add(rules.filter(is_named).map(|rule| Card {
        index: Some(rule.index),
        uuid: UuidText(&rule.uuid).to_string(),
        ..Card::default()
    }));
    devices.add(Cards::of_kernel());
    devices
}

/// Puts the device beside each index of a rule that is not of `old` ones: those may be as a container counts.
fn name_new(config: &mut Config, old: [&[Rule]; 4], devices: &Cards) {
    for rule in config.rules.iter_mut().chain(&mut config.compute_rules) {
        if !old.iter().any(|rules| rules.contains(rule)) {
            *rule = devices.named(rule);
        }
    }
}

fn names(devices: &[Card]) -> Vec<Names> {
    let names = |card: &Card| Some(Names { index: card.index, uuid: parse_uuid(&card.uuid)? });
    devices.iter().filter_map(names).collect()
}

/// Effects that the change does not have.
fn notes(snapshot: &Snapshot, config: &Config, asked: &Asked, devices: &[Card]) -> Vec<String> {
    let mut notes = Vec::new();
    if !asked.memory.is_empty() {
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
                        || UuidText(&device.uuid).to_string(),
                        |index| index.to_string()
                    ),
                    sizes::text(limit_bytes),
                ));
            }
        }
    }
    let kinds = [
        (&asked.memory, config.rules(), limits::MEMORY),
        (&asked.compute, config.compute_rules(), limits::COMPUTE),
    ];
    for (steps, rules, option) in kinds {
        notes.extend(shadowed(steps, rules, option, devices));
    }
    if asked.oversubscribes == Some(false) {
        let away = snapshot.devices.iter().map(|device| device.residence.away_bytes);
        let away_bytes = away.fold(0, u64::saturating_add);
        if away_bytes > 0 {
            notes.push(format!(
                "{} are away: the tenant takes turns until all of it is on the card",
                sizes::text(away_bytes)
            ));
        }
    }
    if config.paused != 0 && asked.paused != Some(true) {
        notes.push("the tenant is paused; resume it by --resume".to_owned());
    }
    notes
}

/// A limit for a device by its index does not hold where a rule for its UUID stands, and which index that
/// UUID has is not known.
fn shadowed(steps: &Steps, rules: &[Rule], option: &str, devices: &[Card]) -> Option<String> {
    let index = steps.iter().find_map(|step| match step.devices {
        Selector::Index(index) if !devices.iter().any(|card| card.index == Some(index)) => {
            Some(index)
        }
        _ => None,
    })?;
    let is_known = |uuid| devices.iter().any(|card| parse_uuid(&card.uuid) == Some(uuid));
    let strange = rules.iter().find(
        |rule| matches!(limit::selector_of(rule), Some(Selector::Uuid(uuid)) if !is_known(uuid)),
    )?;
    Some(format!(
        "{option} {} stands; if that is device {index}, it comes first: name the device by its UUID",
        limits::text(strange)
    ))
}
