//! `divvy tenant`: tenants that a daemon makes and keeps by an id, for whoever starts containers.
//!
//! A client of the daemon's requests ([`crate::wire::by_id`]), as any other. Promises: of devices the daemon is told UUIDs
//! and bytes, whatever was written here; nothing is asked before all of it is understood.
//!
//! Does not start a daemon: a tenant outlives this command, and its daemon must too.

mod cards;
mod words;

use std::path::PathBuf;

use anyhow::Result;
use divvy_abi::config::{quantity, selector};
use divvy_policy::limit::{self, UuidText, parse_uuid};
use divvy_policy::share;

use self::words::{line, words};
use crate::daemon::client::{self, DaemonRefusal};
use crate::daemon::place::DaemonHome;
use crate::machine::cards::{Card, Cards, DriverChoice};
use crate::output::exit_codes::{DIVVY, NOT_AS_EXPECTED, USAGE};
use crate::output::failure::{usage, with_code};
use crate::output::{json, out};
use crate::tenants::share_args::ShareArgs;
use crate::tenants::{asked_limits, limits};
use crate::wire::by_id::{DeviceLimits, RefusalCode, TenantCall, TenantLimits, TenantReport};
use crate::wire::{Answer, Call};

/// Make, change, look at and remove tenants by an id, for containers.
///
/// The daemon makes a directory for each, which is mounted into the containers that share its limits. It stays until it is
/// removed, whoever asked for it and whatever becomes of the daemon. Each command may be given again: what is done already is
/// not done twice.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TenantArgs {
    #[command(subcommand)]
    command: TenantCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TenantCommand {
    /// Make a tenant; success as well where it is there with these limits
    ///
    /// It has memory of the devices that are named, and of no other. A limit without a device is for each device of the
    /// machine. Where the id is there with other limits nothing is changed: that is for `divvy tenant set`.
    Create {
        #[command(flatten)]
        tenant: OneTenant,
        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Give a tenant these limits in the place of all that it has
    ///
    /// Its processes go by them at their next request and launch. An option that is left out has its default, and not what
    /// it was.
    Set {
        #[command(flatten)]
        tenant: OneTenant,
        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Show a tenant: its directory, its limits, what it holds
    ///
    /// Exit code 2 where there is none of that id.
    Stat {
        #[command(flatten)]
        tenant: OneTenant,
    },
    /// List the tenants of this user; root's list has everybody's
    ///
    /// Those alone that were made by an id. `divvy ps` has all tenants.
    List {
        #[command(flatten)]
        asked: AskedDaemon,
    },
    /// List the machine's cards, as the daemon tells them to whoever makes tenants
    ///
    /// With their health, and where they are on the bus. Exit code 1 where the driver could not be asked.
    Cards {
        #[command(flatten)]
        at: AskedHome,
    },
    /// Remove a tenant; success as well where there is none of that id
    ///
    /// Its id is free at once. Processes that still run in it keep their limits, and its files go when the last one has ended.
    Remove {
        #[command(flatten)]
        tenant: OneTenant,
    },
}

const EXAMPLES: &str = "Examples:
  divvy tenant create job-1 --memory GPU-00112233-4455-6677-8899-aabbccddeeff=8GiB --compute 30%
  divvy tenant set job-1 --memory 12GiB
  divvy tenant stat job-1 --json
  divvy tenant list
  divvy tenant remove job-1";

/// Output of `--json` about one tenant.
#[derive(Debug, serde::Serialize)]
struct TenantPrinted<'a> {
    /// Whether `create` has made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<bool>,
    tenant: &'a TenantReport,
}

/// The daemon that is asked.
#[derive(Debug, clap::Args)]
struct AskedDaemon {
    /// The user whose tenants are meant; only root may name another
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,

    #[command(flatten)]
    at: AskedHome,
}

/// Home of the daemon that is asked, and the form of its answer.
#[derive(Debug, clap::Args)]
struct AskedHome {
    /// Ask the machine's daemon; by default that, and this user's own where it does not answer
    #[arg(long)]
    system: bool,

    /// Ask the daemon that keeps lock and socket in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "system")]
    home: Option<PathBuf>,

    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct OneTenant {
    /// The tenant's id: 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-', not beginning with '.'
    id: String,

    #[command(flatten)]
    asked: AskedDaemon,
}

#[derive(Debug, clap::Args)]
struct LimitArgs {
    /// Memory of a device: GPU-01ab=8GiB, 0=50%, or 8GiB of each; may be repeated
    #[arg(long, short, value_name = "SPEC", required = true, allow_hyphen_values = true)]
    memory: Vec<String>,

    #[command(flatten)]
    share: ShareArgs,

    /// Let its memory leave the card, as for `divvy run`; settled when it is made
    #[arg(long)]
    oversubscribe: bool,
}

pub(crate) fn run(args: &TenantArgs) -> Result<u8> {
    match &args.command {
        TenantCommand::Create { tenant, limits } => {
            let call = |id, uid, limits| TenantCall::Create { id, uid, limits };
            with_limits(tenant, limits, call)
        }
        TenantCommand::Set { tenant, limits } => {
            let call = |id, uid, limits| TenantCall::Set { id, uid, limits };
            with_limits(tenant, limits, call)
        }
        TenantCommand::Stat { tenant: OneTenant { id, asked } } => {
            asked.ask(TenantCall::Stat { id: id.clone(), uid: asked.uid })
        }
        TenantCommand::List { asked } => asked.ask(TenantCall::List { uid: asked.uid }),
        TenantCommand::Cards { at } => print_cards(at),
        TenantCommand::Remove { tenant: OneTenant { id, asked } } => {
            asked.ask(TenantCall::Remove { id: id.clone(), uid: asked.uid })
        }
    }
}

/// Prints the daemon's word on the machine's cards, which is what an agent on a node of a cluster offers.
fn print_cards(at: &AskedHome) -> Result<u8> {
    let home = at.home()?;
    let Answer::Cards(list) = at.ask(&home, Call::Cards)? else {
        anyhow::bail!("the daemon in {} answers something else", home.directory().display());
    };
    match at.json {
        true => json::print(&list)?,
        false => out::text(&cards::words(&list))?,
    }
    Ok(if list.detail.is_some() { NOT_AS_EXPECTED } else { 0 })
}

fn with_limits(
    tenant: &OneTenant,
    args: &LimitArgs,
    call: impl FnOnce(String, Option<u32>, TenantLimits) -> TenantCall,
) -> Result<u8> {
    asked_limits::check_id(&tenant.id).map_err(|refusal| usage(refusal.words))?;
    let cards = match args.are_plain() {
        // The daemon knows which GPUs the machine has.
        true => Cards { list: Vec::new(), unknown: Some("the driver was not asked".to_owned()) },
        false => Cards::of(&DriverChoice::default()),
    };
    let limits = args.read(&cards)?;
    tenant.asked.ask(call(tenant.id.clone(), tenant.asked.uid, limits))
}

impl LimitArgs {
    /// Whether all is said in whole UUIDs and bytes: that needs no driver, which may be slow.
    fn are_plain(&self) -> bool {
        let memory = limits::rules(&self.memory, &[]).is_ok_and(|rules| {
            rules
                .as_slice()
                .iter()
                .all(|rule| rule.selector == selector::UUID && rule.quantity == quantity::BYTES)
        });
        let is_index = |rule: &divvy_abi::config::Rule| rule.selector == selector::INDEX;
        memory && self.share.read(&[]).is_ok_and(|share| !share.rules.iter().any(is_index))
    }

    /// The limits on each device, as the daemon is told them.
    fn read(&self, cards: &Cards) -> Result<TenantLimits> {
        let uuids = cards.uuids();
        let memory = limits::rules(&self.memory, &uuids)?;
        let memory = memory.as_slice();
        if let Some(rule) = memory.iter().find(|rule| rule.quantity == quantity::UNLIMITED) {
            return Err(usage(format!(
                "--memory {}: no limit is none that a tenant by id can have: give one, such as 8GiB or 100%, or leave \
                 the device out",
                limits::text(rule)
            )));
        }
        let said = self.share.read(&uuids)?;
        cards.judge(limits::MEMORY, memory)?;
        cards.judge(limits::COMPUTE, &said.rules)?;
        let mut named = cards.list.clone();
        let rules = memory.iter().filter(|rule| rule.selector == selector::UUID);
        named.retain(|card| limit::resolve(memory, card.index, &uuid_of(card), 1) != Ok(None));
        for uuid in rules.map(|rule| UuidText(&rule.uuid).to_string()) {
            if !named.iter().any(|card| card.uuid.eq_ignore_ascii_case(&uuid)) {
                named.push(Card { uuid, ..Card::default() });
            }
        }
        if named.is_empty() {
            return Err(usage(format!(
                "--memory {}: no GPU is known here that this is for; name it by its UUID, as in \
                 GPU-00112233-4455-6677-8899-aabbccddeeff=8GiB",
                self.memory.join(" ")
            )));
        }
        for rule in said.rules.iter().filter(|rule| rule.selector != selector::ALL) {
            let is_named = |card: &Card| match rule.selector {
                selector::INDEX => card.index == Some(rule.index),
                _ => uuid_of(card) == rule.uuid,
            };
            if !named.iter().any(is_named) {
                return Err(usage(format!(
                    "--compute {}: the tenant has no memory of that device; name it in --memory too",
                    limits::text(rule)
                )));
            }
        }
        let device = |card: &Card| {
            let uuid = uuid_of(card);
            let memory_bytes = match limit::resolve(memory, card.index, &uuid, card.total_bytes) {
                Ok(Some(bytes)) if bytes > 0 => bytes,
                _ => {
                    return Err(usage(format!(
                        "--memory: how much memory {} has is not known here; give bytes, such as 8GiB",
                        card.uuid
                    )));
                }
            };
            let share_ppm = share::resolve(&said.rules, card.index, &uuid).ok().flatten();
            Ok(DeviceLimits { uuid: card.uuid.clone(), memory_bytes, share_ppm })
        };
        Ok(TenantLimits {
            devices: named.iter().map(device).collect::<Result<_>>()?,
            weight: said.weight,
            priority: said.priority.map(|level| share::priority_word(level).to_owned()),
            class: said.class.map(|class| share::class_word(class).to_owned()),
            oversubscribe: self.oversubscribe,
        })
    }
}

fn uuid_of(card: &Card) -> divvy_abi::Uuid {
    parse_uuid(&card.uuid).unwrap_or_default()
}

impl AskedHome {
    fn home(&self) -> Result<DaemonHome> {
        let machines = DaemonHome::of_system();
        match &self.home {
            Some(directory) => DaemonHome::at(directory.clone()),
            None if self.system || machines.is_served() => Ok(machines),
            None => DaemonHome::of_user(),
        }
    }

    /// Asks, and finds words for a refusal.
    fn ask(&self, home: &DaemonHome, call: Call) -> Result<Answer> {
        if client::view(home).is_none() {
            let words = format!(
                "no daemon answers in {}: start it by `divvy daemon`, or as root by `divvy daemon --system`",
                home.directory().display()
            );
            return Err(with_code(NOT_AS_EXPECTED, words));
        }
        client::ask(home, call).map_err(refused)
    }
}

impl AskedDaemon {
    /// Asks, and prints the answer.
    fn ask(&self, call: TenantCall) -> Result<u8> {
        let home = self.at.home()?;
        let answer = self.at.ask(&home, Call::Tenant(call.clone()))?;
        if let TenantCall::Stat { .. } | TenantCall::List { .. } = call {
            self.print(&call, &answer)?;
            return Ok(0);
        }
        let done = format!("the daemon in {} did what it was asked", home.directory().display());
        out::after(&done, || self.print(&call, &answer))?;
        Ok(0)
    }

    fn print(&self, call: &TenantCall, answer: &Answer) -> Result<()> {
        match answer {
            Answer::Created { made, tenant } => match self.at.json {
                true => json::print(&TenantPrinted { made: Some(*made), tenant }),
                false => {
                    let done = if *made { "made" } else { "was there" };
                    out::text(&format!("{}: {done}, {}\n", tenant.id, tenant.directory))
                }
            },
            Answer::Tenant(tenant) => match self.at.json {
                true => json::print(&TenantPrinted { made: None, tenant }),
                false => out::text(&words(tenant)),
            },
            Answer::Tenants { tenants } => match self.at.json {
                true => json::print(&serde_json::json!({ "tenants": tenants })),
                false if tenants.is_empty() => out::text("there is no tenant by id\n"),
                false => out::text(&tenants.iter().map(line).collect::<String>()),
            },
            Answer::Removed { existed, processes } => {
                let TenantCall::Remove { id, .. } = call else { return Ok(()) };
                if self.at.json {
                    let report =
                        serde_json::json!({ "id": id, "existed": existed, "processes": processes });
                    return json::print(&report);
                }
                out::text(&match (existed, processes) {
                    (false, _) => format!("{id}: was not there\n"),
                    (true, 0) => format!("{id}: removed\n"),
                    (true, 1) => format!("{id}: removed; its files go when 1 process has ended\n"),
                    (true, count) => {
                        format!("{id}: removed; its files go when {count} processes have ended\n")
                    }
                })
            }
            _ => Ok(()),
        }
    }
}

/// A daemon's refusal as an error of this command: the code first, for scripts.
fn refused(error: anyhow::Error) -> anyhow::Error {
    let Some(DaemonRefusal { code, message }) = error.downcast_ref() else { return error };
    let word = code.as_deref().unwrap_or("failed");
    let known = RefusalCode::ALL.iter().find(|(_, known, _)| *known == word);
    let exit = match known.map(|(code, ..)| *code) {
        Some(RefusalCode::Busy) => NOT_AS_EXPECTED,
        Some(RefusalCode::Failed | RefusalCode::BadRequest | RefusalCode::BadVersion) | None => {
            DIVVY
        }
        Some(_) => USAGE,
    };
    with_code(exit, format!("{word}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "GPU-0aaaaaaa-0000-0000-0000-000000000001";
    const B: &str = "GPU-0bbbbbbb-0000-0000-0000-000000000002";

    fn card(index: u32, uuid: &str) -> Card {
        let name = "NVIDIA H200".to_owned();
        Card {
            index: Some(index),
            uuid: uuid.to_owned(),
            name,
            total_bytes: 140 << 30,
            part_of: None,
        }
    }

    fn args(words: &[&str]) -> LimitArgs {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            limits: LimitArgs,
        }
        <Line as clap::Parser>::parse_from([&["x"][..], words].concat()).limits
    }

    fn read(words: &[&str], cards: &[Card]) -> Result<Vec<(String, u64, Option<u32>)>> {
        let unknown = cards.is_empty().then(|| "there is no driver".to_owned());
        let limits = args(words).read(&Cards { list: cards.to_vec(), unknown })?;
        let told = limits.devices.into_iter().map(|it| (it.uuid, it.memory_bytes, it.share_ppm));
        Ok(told.collect())
    }

    #[test]
    fn whatever_is_written_the_daemon_is_told_uuids_and_bytes() {
        let both = [card(0, A), card(1, B)];
        let (a, b) = (A.to_owned(), B.to_owned());
        let told = read(&["-m", "8GiB", "-c", "30%,1=50%"], &both).unwrap();
        assert_eq!(
            told,
            [(a.clone(), 8 << 30, Some(300_000)), (b.clone(), 8 << 30, Some(500_000))]
        );
        assert_eq!(read(&["-m", "1=50%"], &both).unwrap(), [(b.clone(), 70 << 30, None)]);
        assert_eq!(read(&["-m", "GPU-0b=1GiB"], &both).unwrap(), [(b, 1 << 30, None)]);
        let whole = format!("{A}=1GiB");
        assert_eq!(read(&["-m", &whole, "-c", "30%"], &[]).unwrap(), [(a, 1 << 30, Some(300_000))]);
        assert!(args(&["-m", &whole, "-c", "30%"]).are_plain());
        for words in [["-m", "1=1GiB"], ["-m", "GPU-0b=1GiB"], ["-m", "1GiB"], ["-m", "50%"]] {
            assert!(!args(&words).are_plain(), "{words:?}");
        }
    }

    #[test]
    fn a_limit_that_is_none_is_refused() {
        let both = [card(0, A), card(1, B)];
        let unknown = [Card { total_bytes: 0, ..card(0, A) }];
        for (words, cards, part) in [
            (&["-m", "0"][..], &both[..], "--memory 0: no limit"),
            (&["-m", "8GiB,1=0"], &both, "--memory 1=0: no limit"),
            (&["-m", "8GiB"], &[], "by its UUID"),
            (&["-m", "50%"], &unknown, "give bytes"),
            (&["-m", "2=8GiB"], &both, "device 2"),
            (&["-m", "0=8GiB", "-c", "1=30%"], &both, "name it in --memory too"),
            (&["-m", "8"], &both, "--memory 8"),
        ] {
            let error = read(words, cards).unwrap_err();
            assert_eq!(crate::output::failure::code_of(&error), USAGE, "{words:?}");
            assert!(error.to_string().contains(part), "{words:?}: {error}");
        }
    }

    #[test]
    fn codes_end_the_command_as_the_page_says() {
        for (code, word, _) in RefusalCode::ALL {
            let refusal =
                DaemonRefusal { code: Some((*word).to_owned()), message: "why".to_owned() };
            let error = refused(refusal.into());
            let expected = match code {
                RefusalCode::Busy => 1,
                RefusalCode::Failed | RefusalCode::BadRequest | RefusalCode::BadVersion => 125,
                _ => 2,
            };
            assert_eq!(crate::output::failure::code_of(&error), expected, "{word}");
            assert_eq!(error.to_string(), format!("{word}: why"));
        }
        let newer = DaemonRefusal { code: Some("new".to_owned()), message: "why".to_owned() };
        assert_eq!(refused(newer.into()).to_string(), "new: why");
    }

    /// The table of the page. `DIVVY_GOLDEN=write` writes it again.
    #[test]
    fn the_page_has_every_code() {
        let mut table = String::from("| code | meaning |\n|---|---|\n");
        for (_, word, meaning) in RefusalCode::ALL {
            table.push_str(&format!("| `{word}` | {meaning} |\n"));
        }
        crate::golden::table("docs/guide/tenants.md", &table);
    }
}
