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

    /// Cards as the kernel module knows them, without sizes.
    pub(crate) fn of_kernel() -> Vec<Card> {
        let card = |(index, Gpu { uuid, name, .. }): (usize, Gpu)| Card {
            index: u32::try_from(index).ok(),
            uuid,
            name,
            total_bytes: 0,
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
        for card in more {
            let is_taken = self.list.iter().any(|known| known.index == card.index);
            let index = card.index.filter(|_| !is_taken);
            match self.list.iter_mut().find(|known| known.uuid.eq_ignore_ascii_case(&card.uuid)) {
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
    /// Bytes of this device's memory that `rules` leave a tenant; `None` for no limit.
    pub(crate) fn limit_bytes(&self, rules: &[Rule]) -> Option<u64> {
        let uuid = parse_uuid(&self.uuid).unwrap_or_default();
        limit::resolve(rules, self.index, &uuid, self.total_bytes).ok().flatten()
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
        cards.push(card(&device, Some(index))?);
        for instance in 0..device.mig_device_count().unwrap_or(0) {
            if let Ok(instance) = device.mig_device_by_index(instance) {
                cards.push(card(&instance, None)?);
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
    })
}

#[cfg(test)]
mod tests {
    use divvy_policy::limit::Rules;

    use super::*;

    const UUIDS: [&str; 2] =
        ["GPU-0aaaaaaa-0000-0000-0000-000000000001", "GPU-0bbbbbbb-0000-0000-0000-000000000002"];

    fn card(index: u32, gib: u64) -> Card {
        let uuid = UUIDS[index as usize].to_owned();
        Card { index: Some(index), uuid, name: "H200".to_owned(), total_bytes: gib << 30 }
    }

    fn cards(list: &[Card], unknown: bool) -> Cards {
        Cards { list: list.to_vec(), unknown: unknown.then(|| "no NVML".to_owned()) }
    }

    #[test]
    fn a_rule_by_index_gets_the_device_that_is_known() {
        let two = cards(&[card(0, 140), card(1, 140)], false);
        let named = |spec| {
            let mut rules = Rules::new();
            rules.parse_into(spec).unwrap();
            two.named(&rules.as_slice()[0])
        };
        assert_eq!((named("1=8GiB").index, Some(named("1=8GiB").uuid)), (1, parse_uuid(UUIDS[1])));
        assert!(limit::is_bare(&named("2=8GiB")));
        assert_eq!(named("8GiB").uuid, [0; 16]);
        // Wherever the device stands in a process, and whichever index it is thought to have there.
        let [one, other] = UUIDS.map(|uuid| parse_uuid(uuid).unwrap());
        let rules = [named("1=8GiB")];
        assert_eq!(limit::resolve(&rules, Some(0), &other, 1 << 40), Ok(Some(8 << 30)));
        assert_eq!(limit::resolve(&rules, None, &other, 1 << 40), Ok(Some(8 << 30)));
        assert_eq!(limit::resolve(&rules, Some(1), &one, 1 << 40), Ok(None));
    }

    fn judge(cards: &Cards, spec: &str) -> Result<Vec<String>> {
        let mut rules = Rules::new();
        rules.parse_into(spec).unwrap();
        cards.judge("--memory", rules.as_slice())
    }

    #[test]
    fn a_device_that_is_not_there_is_refused_with_those_that_are() {
        let one = cards(&[card(0, 140)], false);
        let words = judge(&one, "3=8GiB").unwrap_err();
        assert_eq!(crate::output::failure::code_of(&words), 2);
        let words = words.to_string();
        assert!(words.starts_with("--memory names device 3, which is not there; "), "{words}");
        assert!(words.contains("device 0 (H200, GPU-0aaaaaaa-"), "{words}");
        let other = format!("{}=8GiB", UUIDS[1]);
        assert!(judge(&one, &other).unwrap_err().to_string().contains(UUIDS[1]));
        let none = judge(&cards(&[], false), "0=8GiB").unwrap_err().to_string();
        assert!(none.contains("this machine has none"), "{none}");
        for good in ["8GiB", "0=8GiB,1g", &format!("{}=8GiB", UUIDS[0]), "50%"] {
            assert!(judge(&one, good).unwrap().is_empty(), "{good}");
        }
    }

    #[test]
    fn without_nvml_only_what_the_kernel_knows_is_refused() {
        let kernels = cards(&[card(0, 0)], true);
        assert!(judge(&kernels, "3=8GiB").is_err());
        // It may be an instance of a partitioned card, whose UUIDs the kernel's list has not.
        assert!(judge(&kernels, &format!("{}=8GiB", UUIDS[1])).is_ok());
        assert!(judge(&cards(&[], true), "3=8GiB").unwrap().is_empty());
        assert!(judge(&kernels, "9999GiB").unwrap().is_empty());
    }

    #[test]
    fn a_limit_above_the_card_is_said_once() {
        let two = cards(&[card(0, 140), card(1, 140)], false);
        let notes = judge(&two, "500GiB").unwrap();
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(
            note.starts_with("the limit of 500 GiB is above the 140 GiB of device 0"),
            "{note}"
        );
        assert!(note.contains(", the 140 GiB of device 1"), "{note}");
        let notes = judge(&two, "100GiB,1=141GiB").unwrap();
        assert!(notes.len() == 1 && !notes[0].contains("device 0"), "{notes:?}");
        assert!(judge(&two, "140GiB,1=100%").unwrap().is_empty());
    }

    #[test]
    fn devices_known_from_elsewhere_are_added_once() {
        let mut known = cards(&[card(0, 0)], true);
        known.add([card(0, 140), card(1, 80)]);
        assert_eq!(known.list, [card(0, 140), card(1, 80)]);
        // A device that only a tenant knows may have any index; the only one has the first.
        let mut simulated = cards(&[Card { index: None, ..card(0, 140) }], true);
        assert!(judge(&simulated, "3=8GiB").unwrap().is_empty());
        simulated.number_the_only();
        assert_eq!(simulated.list[0].index, Some(0));
        assert!(judge(&simulated, "0=8GiB").unwrap().is_empty());
        assert!(judge(&simulated, "3=8GiB").is_err());
        // As another machine, or a container, numbers it.
        known.add([Card { index: Some(1), uuid: "GPU-x".to_owned(), ..card(0, 7) }]);
        assert_eq!((known.list.len(), known.list[2].index), (3, None));
    }

    #[test]
    fn the_driver_is_asked_for_limits_of_memory_and_for_devices() {
        let specs = |spec: &str| [spec.to_owned()];
        assert!(Cards::are_needed(&specs("8GiB"), &[]));
        assert!(Cards::are_needed(&[], &specs("1=50%")));
        assert!(Cards::are_needed(&specs("1=default"), &[]));
        assert!(!Cards::are_needed(&specs("0"), &specs("50%")));
        assert!(!Cards::are_needed(&[], &[]));
    }
}
