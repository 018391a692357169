//! `divvy freeze` and `divvy thaw`: a tenant's memory leaves the card, and comes back.
//!
//! Both write a wish into the tenant's config, by the same way as `divvy set`, and wait until its processes say that it
//! is fulfilled. Contexts, and memory that something else than addresses refers to, stay on the card.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::commands::set;
use crate::daemon::client;
use crate::machine::host_memory;
use crate::output::exit_codes::NOT_AS_EXPECTED;
use crate::output::failure::{usage, with_code};
use crate::output::progress::Watched;
use crate::output::{json, out, plain, sizes};
use crate::pause::pause;
use crate::tenants::cause::Cause;
use crate::tenants::ledger::{self, LedgerTenant};
use crate::tenants::why;
use crate::wire::LimitChange;

/// Take a tenant's memory off the card until it is needed.
///
/// Blocks that the program has allocated are copied to the memory of the host, and their place on the card is free for
/// others. They come back by themselves at the program's next call that could use it, which waits meanwhile, or by `divvy thaw`.
/// Contexts stay, some 500 MiB each, and so does memory that is shared with other processes or devices.
///
/// The tenant must have been started with `divvy run --oversubscribe`. Work on the card ends first; a stream that is being
/// captured keeps everything where it is.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  divvy run --oversubscribe --name model -- ./serve\n  divvy freeze model\n  divvy thaw model"
)]
pub(crate) struct FreezeArgs {
    #[command(flatten)]
    which: Which,
}

/// Bring a tenant's memory back to the card.
///
/// Waits until all of it is there; where the card has no room, until others have made some.
#[derive(Debug, clap::Args)]
pub(crate) struct ThawArgs {
    #[command(flatten)]
    which: Which,
}

/// Which tenant, and how long to wait.
#[derive(Debug, clap::Args)]
struct Which {
    /// The tenant: its name, or its directory
    tenant: String,

    /// Seconds to wait until it is done; the wish stands after that all the same
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,

    /// Another directory of tenants, as for `divvy ps`; may be repeated
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,

    /// Print where the memory is now as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn freeze(args: &FreezeArgs) -> Result<u8> {
    wish(&args.which, true)
}

pub(crate) fn thaw(args: &ThawArgs) -> Result<u8> {
    wish(&args.which, false)
}

/// Between two looks at the tenant.
const LOOK: Duration = Duration::from_millis(10);

/// Answer of both commands.
#[derive(Debug, serde::Serialize)]
struct Report {
    tenant: String,
    directory: PathBuf,
    frozen: bool,
    /// Whether the wish was fulfilled in time.
    done: bool,
    /// Whether the tenant has ended before that: it has no memory any more, here or there.
    ended: bool,
    seconds: f64,
    resident_bytes: u64,
    away_bytes: u64,
    pinned_bytes: u64,
    /// Bytes of its contexts, which stay on the card.
    context_bytes: u64,
    /// The reason for memory that stays where it is: one word of a closed list.
    #[serde(skip_serializing_if = "Option::is_none")]
    stays: Option<Cause>,
}

fn wish(which: &Which, frozen: bool) -> Result<u8> {
    let (tenant, directory) = set::find(&which.tenant, &which.root)?;
    let before = ledger::read_foreign(&directory)?;
    if !before.oversubscribes {
        return Err(usage(format!(
            "the memory of {tenant} cannot leave the card: start it with `divvy run --oversubscribe`"
        )));
    }
    let from = Instant::now();
    let now = Where::of(&before);
    if frozen {
        let needed = now.resident_bytes.saturating_sub(now.pinned_bytes);
        host_memory::check(needed, before.processes.iter().map(|process| process.pid))?;
    }
    // Each of these leaves once; a sum over them, so that one which is busy is not passed over.
    let left_once = now.left.saturating_add(now.movers);
    let change = LimitChange { frozen: Some(frozen), ..LimitChange::default() };
    let report = match set::apply(&directory, &change) {
        Err(_) if !is_there(&directory) => Report::of_ended(tenant, directory, frozen, from),
        Err(error) => return Err(error),
        Ok(_) => {
            let had_processes = !before.processes.is_empty();
            await_done(which, frozen, (tenant, directory), (left_once, had_processes), from)?
        }
    };
    let words = words(&report);
    let tenant = &report.tenant;
    let done = match (report.done, frozen) {
        _ if report.ended => format!("{tenant} has ended"),
        (true, true) => format!("the memory of {tenant} has left the card"),
        (true, false) => format!("the memory of {tenant} is on the card"),
        (false, _) => format!("{tenant} was told"),
    };
    out::after(&done, || match which.json {
        true => json::print(&report),
        false if report.done => out::text(&words),
        false => Ok(()),
    })?;
    if report.done {
        return Ok(0);
    }
    Err(with_code(NOT_AS_EXPECTED, words.trim_end().to_owned()))
}

/// Sums over a tenant's devices.
#[derive(Clone, Copy, Debug, Default)]
struct Where {
    resident_bytes: u64,
    away_bytes: u64,
    pinned_bytes: u64,
    context_bytes: u64,
    left: u64,
    movers: u64,
    managed_bytes: u64,
    moving: bool,
}

impl Where {
    fn of(tenant: &LedgerTenant) -> Self {
        let mut sum = Self::default();
        for device in &tenant.devices {
            sum.context_bytes += device.by_kind.get("contexts").copied().unwrap_or(0);
            if let Some(residence) = device.residence {
                sum.resident_bytes += residence.resident_bytes;
                sum.away_bytes += residence.away_bytes;
                sum.pinned_bytes += residence.pinned_bytes;
                sum.left += residence.left;
                sum.movers += residence.movers;
                sum.managed_bytes += residence.managed_bytes;
                sum.moving |= residence.moving;
            }
        }
        sum
    }

    /// Part of what can move that is where it is to be.
    fn part(&self, frozen: bool) -> f64 {
        let here_bytes = self.resident_bytes.saturating_sub(self.pinned_bytes);
        let there_bytes = if frozen { self.away_bytes } else { here_bytes };
        there_bytes as f64 / here_bytes.saturating_add(self.away_bytes).max(1) as f64
    }
}

/// Whether a tenant still has its files.
fn is_there(directory: &Path) -> bool {
    directory.join("config").exists()
}

impl Report {
    /// About a tenant that has ended before its memory was where it is to be.
    fn of_ended(tenant: String, directory: PathBuf, frozen: bool, from: Instant) -> Self {
        Self {
            tenant,
            directory,
            frozen,
            done: false,
            ended: true,
            seconds: from.elapsed().as_secs_f64(),
            resident_bytes: 0,
            away_bytes: 0,
            pinned_bytes: 0,
            context_bytes: 0,
            stays: None,
        }
    }
}

fn await_done(
    which: &Which,
    frozen: bool,
    (tenant, directory): (String, PathBuf),
    (left_once, had_processes): (u64, bool),
    from: Instant,
) -> Result<Report> {
    let patience = Duration::from_secs(which.timeout);
    let verb = if frozen { "leaves the card" } else { "comes back" };
    let mut progress = Watched::new(format!("the memory of {tenant} {verb}"));
    loop {
        let tenant_now = match ledger::read_foreign(&directory) {
            Ok(now) if now.processes.is_empty() && had_processes => None,
            Err(_) if !is_there(&directory) => None,
            read => Some(read?),
        };
        let Some(tenant_now) = tenant_now else {
            return Ok(Report::of_ended(tenant, directory, frozen, from));
        };
        let now = Where::of(&tenant_now);
        let done = match frozen {
            // Once all has left, a call may have brought it back before this look.
            true => now.resident_bytes <= now.pinned_bytes || now.left >= left_once,
            // Of a process larger than the card a part stays away.
            false => now.away_bytes == 0 || now.managed_bytes > 0 && now.resident_bytes > 0,
        };
        if (done && !now.moving) || from.elapsed() >= patience {
            let cause = why(tenant_now, frozen);
            return Ok(Report {
                tenant,
                directory,
                frozen,
                done,
                ended: false,
                seconds: from.elapsed().as_secs_f64(),
                resident_bytes: now.resident_bytes,
                away_bytes: now.away_bytes,
                pinned_bytes: now.pinned_bytes,
                context_bytes: now.context_bytes,
                stays: (!done).then_some(cause),
            });
        }
        progress.note(now.part(frozen));
        pause(LOOK);
    }
}

/// The reason for memory that is not yet where it is to be.
fn why(tenant: LedgerTenant, frozen: bool) -> Cause {
    if frozen {
        return Cause::of_staying(&tenant);
    }
    let mut tenants = [tenant];
    why::add_views(&mut tenants, &client::views());
    Cause::of_away(&tenants[0])
}

fn words(report: &Report) -> String {
    let tenant = plain::line(&report.tenant);
    let size = |bytes: u64| sizes::text(bytes);
    let why = report.stays.map_or("", Cause::text);
    let stays = match report.pinned_bytes {
        0 => String::new(),
        bytes => format!(" {} must stay.", size(bytes)),
    };
    match (report.frozen, report.done) {
        _ if report.ended => {
            format!("{tenant} has ended: it has no memory any more, on the card or on the host\n")
        }
        (true, true) if report.away_bytes == 0 && report.resident_bytes > report.pinned_bytes => {
            format!(
                "{tenant}: all of it left the card, and {} came back within {:.2} s: the program uses it.{stays}\n",
                size(report.resident_bytes),
                report.seconds
            )
        }
        (true, true) => format!(
            "{tenant}: {} left the card in {:.2} s; its contexts, {}, are still there.{stays}\n",
            size(report.away_bytes),
            report.seconds,
            size(report.context_bytes)
        ),
        (false, true) => format!(
            "{tenant}: {} is on the card, after {:.2} s.\n",
            size(report.resident_bytes),
            report.seconds
        ),
        (true, false) => format!(
            "{tenant}: {} is still on the card after {:.0} s: {}. It leaves as soon as that is over; `divvy thaw` \
             takes the wish back.\n",
            size(report.resident_bytes),
            report.seconds,
            why
        ),
        (false, false) => format!(
            "{tenant}: {} is still on the host after {:.0} s: {}. It comes back as soon as that is over.\n",
            size(report.away_bytes),
            report.seconds,
            why
        ),
    }
}

#[cfg(test)]
mod tests {
    use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE};

    use super::*;
    use crate::stage::Scratch;

    #[test]
    fn a_tenant_that_has_ended_is_said_to_have() {
        let scratch = Scratch::make("freeze-ended").unwrap();
        let directory = scratch.path().join("t");
        std::fs::create_dir(&directory).unwrap();
        let config = Config { flags: FLAG_OVERSUBSCRIBE, ..Config::default() };
        ledger::write_config(&directory, &config).unwrap();
        let which = Which { tenant: "t".to_owned(), timeout: 0, root: Vec::new(), json: false };
        let wait = |had_processes, frozen| {
            let place = ("t".to_owned(), directory.clone());
            await_done(&which, frozen, place, (1, had_processes), Instant::now()).unwrap()
        };
        // One without processes yet has nothing that could stay.
        assert!(wait(false, true).done && !wait(false, true).ended);
        for frozen in [true, false] {
            let report = wait(true, frozen);
            assert!(report.ended && !report.done);
            assert!(words(&report).starts_with("t has ended: "), "{}", words(&report));
        }
        std::fs::remove_dir_all(&directory).unwrap();
        let report = serde_json::to_value(wait(false, true)).unwrap();
        assert_eq!((&report["ended"], &report["done"]), (&true.into(), &false.into()));
    }
}
