//! The devices that limits speak of: which there are, and how large.
//!
//! `/proc/driver/nvidia` says which there are; NVML also says how large, and knows the instances of
//! partitioned cards. NVML is asked in a process of its own, since what the driver does to that process may
//! be to hang it; after [`PATIENCE`] it is given up. Promises: a limit for a device that is not there is
//! refused in words that name those that are; what cannot be compared, for lack of a driver or of its
//! answer, is said and not guessed.
//!
//! Does not know which devices a program will use, nor what tenants have (see [`crate::tenants::promised`]).

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use divvy_abi::Uuid;
use divvy_abi::config::{Rule, selector};
use divvy_policy::change::DEFAULT;
use divvy_policy::limit::{self, UuidText, parse_uuid};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nvml_wrapper::{Device, Nvml};

use crate::machine::gpus::{self, Gpu};
use crate::machine::loader::find_library;
use crate::output::failure::usage;
use crate::output::{json, sizes};
use crate::pause::pause;

/// The command by which this binary asks NVML.
pub(crate) const LIST: &str = "list-devices";
/// NVML's library.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// How long NVML may take. It takes some ten milliseconds, where cards sleep a second each.
const PATIENCE: Duration = Duration::from_secs(3);

/// Print the devices that NVML knows, as JSON.
///
/// Not for people.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// NVML's library
    #[arg(long, default_value = LIBRARY)]
    pub(super) library: PathBuf,

    /// All that is known of each
    #[arg(long)]
    pub(crate) facts: bool,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Card {
    /// Its index on the machine; instances of partitioned cards have none.
    pub(crate) index: Option<u32>,
    /// As the driver's tools print it.
    pub(crate) uuid: String,
    /// Its name.
    pub(crate) name: String,
    /// Its memory; 0 where that is not known.
    pub(crate) total_bytes: u64,
    /// The card that an instance is a part of, where NVML says it: limits of the card hold for each of its instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part_of: Option<PartitionedCard>,
}

/// A card that has instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PartitionedCard {
    pub(crate) index: u32,
    pub(crate) uuid: String,
}

impl Card {
    fn is_instance(&self) -> bool {
        self.uuid.starts_with("MIG-")
    }

    /// For people: `device 0 (NVIDIA H200, GPU-…)`.
    pub(crate) fn words(&self) -> String {
        let kind = format!("{}, {}", self.name, self.uuid);
        match self.index {
            Some(index) => format!("device {index} ({kind})"),
            None if self.is_instance() => format!("an instance ({kind})"),
            None => format!("a card without a number here ({kind})"),
        }
    }
}

/// The devices of a machine, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cards {
    /// The devices.
    pub(crate) list: Vec<Card>,
    /// Why there may be others, or their memory is not known.
    pub(crate) unknown: Option<String>,
}

/// Which driver is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct DriverChoice {
    /// NVML's library; the machine's by default.
    pub(crate) library: Option<PathBuf>,
    /// Variables of the process that asks.
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

impl Cards {
    /// Asks the driver.
    pub(crate) fn of(driver: &DriverChoice) -> Self {
        match ask(driver) {
            Ok(list) => Self { list, unknown: None },
            Err(error) => {
                let unknown = Some(format!("{error:#}"));
                let list = if driver.library.is_some() { Vec::new() } else { Self::of_kernel() };
                Self { list, unknown }
            }
        }
    }

    /// Whether there is anything in these limits, as they are written, to compare with devices: memory, or a
    /// device.
    pub(crate) fn are_needed(memory: &[String], compute: &[String]) -> bool {
        let is_none = |spec: &String| spec == "0" || spec == DEFAULT;
        !memory.iter().all(is_none) || compute.iter().any(|spec| spec.contains('='))
    }

    /// Whether one may be an instance of a partitioned card: the kernel module knows cards, and not this one.
    pub(crate) fn may_have_instances(&self) -> bool {
        let known = Self::of_kernel();
        let is_known = |card: &Card| known.iter().any(|known| known.is(&card.uuid));
        !known.is_empty() && !self.list.iter().all(is_known)
    }

    /// Cards as the kernel module knows them, without sizes.
    pub(crate) fn of_kernel() -> Vec<Card> {
        let card = |(index, Gpu { uuid, name, .. }): (usize, Gpu)| Card {
            index: u32::try_from(index).ok(),
            uuid,
            name,
            total_bytes: 0,
            part_of: None,
        };
        gpus::list(Path::new(gpus::PROC)).into_iter().enumerate().map(card).collect()
    }

    /// Adds to a rule by index the UUID of the device that has that index here: programs then go by the UUID. Other rules stay as
    /// they are.
    pub(crate) fn named(&self, rule: &Rule) -> Rule {
        let is_it = |card: &&Card| limit::is_bare(rule) && card.index == Some(rule.index);
        let uuid = self.list.iter().find(is_it).and_then(|card| parse_uuid(&card.uuid));
        Rule { uuid: uuid.unwrap_or(rule.uuid), ..*rule }
    }

    /// The UUIDs, from which a shortened one is completed.
    pub(crate) fn uuids(&self) -> Vec<String> {
        self.list.iter().map(|card| card.uuid.clone()).collect()
    }

    /// Adds what is known from elsewhere. An index stays that of the device that had it first: a container
    /// may number its devices otherwise than the machine.
    pub(crate) fn add(&mut self, more: impl IntoIterator<Item = Card>) {
        let more: Vec<Card> = more.into_iter().collect();
        for instance in more.iter().filter(|card| card.is_instance()) {
            // Of a tenant's device that turns out to be one: the index is its card's.
            if let Some(known) = self.list.iter_mut().find(|known| known.is(&instance.uuid)) {
                known.uuid = instance.uuid.clone();
                (known.index, known.part_of) = (None, instance.part_of.clone());
            }
        }
        for card in more {
            let is_taken = self.list.iter().any(|known| known.index == card.index);
            let index = card.index.filter(|_| !is_taken);
            match self.list.iter_mut().find(|known| known.is(&card.uuid)) {
                Some(known) => {
                    known.index = known.index.or(index);
                    known.total_bytes = known.total_bytes.max(card.total_bytes);
                }
                None => self.list.push(Card { index, ..card }),
            }
        }
    }

    /// Numbers a tenant's device that the machine does not know, as one of the simulated GPU, where it is the only one.
    pub(crate) fn number_the_only(&mut self) {
        if let [only] = self.list.as_mut_slice()
            && !only.is_instance()
        {
            only.index.get_or_insert(0);
        }
    }

    /// Sentence for limits that could not be compared with a card.
    pub(crate) fn caveat(&self) -> Option<String> {
        let why =
            self.unknown.as_ref().filter(|_| self.list.iter().all(|card| card.total_bytes == 0))?;
        Some(format!("the limits were not compared with the memory of the devices: {why}"))
    }

    /// Compares the rules of an option with the devices: notes in words.
    ///
    /// # Errors
    /// A usage error for a device that is not there; it names the option, the limit and the devices.
    pub(crate) fn judge(&self, option: &str, rules: &[Rule]) -> Result<Vec<String>> {
        let Some(rule) = rules.iter().find(|rule| !self.may_have(rule)) else {
            return Ok(self.above(rules));
        };
        let there = match self.list.as_slice() {
            [] => "this machine has none".to_owned(),
            list => {
                let words: Vec<String> = list.iter().map(Card::words).collect();
                format!("there is {}", words.join(", "))
            }
        };
        let device = match rule.selector {
            selector::INDEX => format!("device {}", rule.index),
            _ => UuidText(&rule.uuid).to_string(),
        };
        Err(usage(format!("{option} names {device}, which is not there; {there}")))
    }

    /// Whether the machine has the rule's device, or may have it.
    fn may_have(&self, rule: &Rule) -> bool {
        match rule.selector {
            selector::INDEX => {
                // The kernel's list has every index; without it and without NVML there is none to go by.
                let is_numbered = |card: &Card| card.index.is_some() || card.is_instance();
                let is_complete = (self.unknown.is_none() || !self.list.is_empty())
                    && self.list.iter().all(is_numbered);
                !is_complete || self.list.iter().any(|card| card.index == Some(rule.index))
            }
            selector::UUID => {
                let is_one = |card: &Card| parse_uuid(&card.uuid) == Some(rule.uuid);
                self.unknown.is_some() || self.list.iter().any(is_one)
            }
            _ => true,
        }
    }

    /// The limits that no device here is as large as.
    fn above(&self, rules: &[Rule]) -> Vec<String> {
        let mut found: Vec<(u64, Vec<&Card>)> = Vec::new();
        for card in self.list.iter().filter(|card| card.total_bytes > 0) {
            let Some(limit_bytes) = card.limit_bytes(rules) else { continue };
            if limit_bytes <= card.total_bytes {
                continue;
            }
            match found.iter_mut().find(|(bytes, _)| *bytes == limit_bytes) {
                Some((_, cards)) => cards.push(card),
                None => found.push((limit_bytes, vec![card])),
            }
        }
        let words = |(limit_bytes, cards): (u64, Vec<&Card>)| {
            let sizes: Vec<String> = cards
                .iter()
                .map(|card| format!("{} of {}", sizes::text(card.total_bytes), card.words()))
                .collect();
            format!(
                "the limit of {} is above the {}: all of it may be taken",
                sizes::text(limit_bytes),
                sizes.join(", the ")
            )
        };
        found.into_iter().map(words).collect()
    }
}

impl Card {
    /// Whether it has this UUID. A tenant's files do not tell an instance's from a card's: their digits count.
    pub(crate) fn is(&self, uuid: &str) -> bool {
        let digits = |text| parse_uuid(text);
        let is_one = || digits(uuid).is_some_and(|other| digits(&self.uuid) == Some(other));
        self.uuid.eq_ignore_ascii_case(uuid) || is_one()
    }

    /// Index and UUID by which `rules` know it, as the library has it: those of its card, but for an instance whose own UUID
    /// has a rule.
    pub(crate) fn in_rules(&self, rules: &[Rule]) -> (Option<u32>, Uuid) {
        let own = parse_uuid(&self.uuid).unwrap_or_default();
        let Some(card) = &self.part_of else { return (self.index, own) };
        let is_own = |rule: &Rule| rule.selector == selector::UUID && rule.uuid == own;
        let uuid = if rules.iter().any(is_own) { Some(own) } else { parse_uuid(&card.uuid) };
        (Some(card.index), uuid.unwrap_or_default())
    }

    /// Bytes of this device's memory that `rules` leave a tenant; `None` for no limit.
    pub(crate) fn limit_bytes(&self, rules: &[Rule]) -> Option<u64> {
        let (index, uuid) = self.in_rules(rules);
        limit::resolve(rules, index, &uuid, self.total_bytes).ok().flatten()
    }
}

/// Process that asks NVML, by [`LIST`].
pub(super) fn asker(driver: &DriverChoice) -> Result<Command> {
    let library = match &driver.library {
        Some(path) => path.clone(),
        None => find_library(LIBRARY).with_context(|| format!("{LIBRARY} was not found"))?,
    };
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("divvy")
        .arg(LIST)
        .arg("--library")
        .arg(library)
        .envs(driver.environment.iter().map(|(name, value)| (name, value)))
        // The machine's answer, not a tenant's.
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    Ok(command)
}

/// Has a process of its own ask NVML.
fn ask(driver: &DriverChoice) -> Result<Vec<Card>> {
    let mut child = asker(driver)?.spawn().context("no process can be started")?;
    let mut pipe = child.stdout.take().context("the process has no output")?;
    let give_up = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= give_up {
            // A driver that hangs may keep it from dying; nobody waits for that.
            let _ = child.kill();
            bail!("NVML did not answer within {} s", PATIENCE.as_secs());
        }
        pause(Duration::from_millis(2));
    };
    ensure!(status.success(), "NVML cannot be used");
    let mut text = String::new();
    pipe.read_to_string(&mut text).context("NVML's answer cannot be read")?;
    serde_json::from_str(&text).context("NVML's answer cannot be read")
}

/// The other half of [`ask`]: what the process of its own does.
///
/// # Errors
/// When NVML cannot be used.
pub(crate) fn answer(args: &ListArgs) -> Result<u8> {
    // Where it fails the process ends later, or by itself.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let nvml = Nvml::builder().lib_path(args.library.as_os_str()).init();
    let nvml = nvml.context("NVML cannot be loaded")?;
    let mut cards = Vec::new();
    for index in 0..nvml.device_count().context("NVML does not count the devices")? {
        let device = nvml.device_by_index(index).context("NVML does not know a device")?;
        let whole = card(&device, Some(index))?;
        let part_of = Some(PartitionedCard { index, uuid: whole.uuid.clone() });
        cards.push(whole);
        for instance in 0..device.mig_device_count().unwrap_or(0) {
            if let Ok(instance) = device.mig_device_by_index(instance) {
                cards.push(Card { part_of: part_of.clone(), ..card(&instance, None)? });
            }
        }
    }
    json::bare(&cards)?;
    Ok(0)
}

fn card(device: &Device<'_>, index: Option<u32>) -> Result<Card> {
    Ok(Card {
        index,
        uuid: device.uuid().context("NVML does not say a UUID")?,
        name: device.name().unwrap_or_default(),
        total_bytes: device.memory_info().map_or(0, |memory| memory.total),
        part_of: None,
    })
}

#[cfg(test)]
mod tests;
