//! `divvy ps`: all tenants of this user, their processes and bytes.
//!
//! Reads tenant files by `pread`, never maps or locks them: looking at a tenant cannot disturb it,
//! and a hostile tenant can only spoil its own row. Takes no part in any decision.

mod cells;
mod places;
mod times;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use cells::{before_use, fullness, gpu, refused};

use crate::daemon::client;
use crate::metrics::{self, Sources};
use crate::output::options::Meaning;
use crate::output::table::TextTable;
use crate::output::{json, out, plain, sizes};
use crate::pause::pause;
use crate::tenants::ledger::{self, LedgerTenant};
use crate::tenants::promised::{self, Promise};
use crate::tenants::{discover, why};
use crate::wire::View;

/// List tenants, their processes and what they hold.
///
/// Shows the tenants that `divvy run` made for this user, the tenants of programs limited by
/// environment variables alone, and those under the directories given by --root or, separated by
/// colons, in DIVVY_TENANT_ROOT (a container's shared directory, for example). Numbers are read from
/// the tenants' files; a tenant whose files cannot be read is named with the reason.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print the numbers in OpenMetrics' text format, as the daemon serves them
    ///
    /// Figures of a daemon, such as turns, are missing here.
    #[arg(long, conflicts_with_all = ["json", "watch", "brief"])]
    openmetrics: bool,

    /// Print anew every second until interrupted
    #[arg(long, short)]
    watch: bool,

    /// Only the tables of tenants, without their processes
    #[arg(long, short)]
    brief: bool,

    /// Another directory of tenants; may be repeated
    ///
    /// Its sub-directories are looked at, and the `.divvy` directories in it and in them, where programs
    /// limited by HAMi-core's variables keep their tenants.
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
}

/// Output of `--json`.
#[derive(Debug, Default, serde::Serialize)]
struct Listing {
    tenants: Vec<LedgerTenant>,
    unreadable: Vec<Unreadable>,
    /// Sums of limits that exceed a device.
    notes: Vec<String>,
}

/// A tenant that cannot be shown.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Unreadable {
    directory: String,
    reason: String,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    if args.openmetrics {
        let Listing { tenants, unreadable, notes: _ } = list(&args.root);
        let unreadable = unreadable.len();
        out::text(&metrics::text(&Sources { tenants: &tenants, unreadable, view: None }))?;
        return Ok(0);
    }
    loop {
        let listing = list(&args.root);
        if args.json && args.watch {
            // One line a second, for programs that follow.
            out::text(&format!("{}\n", json::line(&listing)?))?;
        } else if args.json {
            json::print(&listing)?;
        } else {
            let mut text = render(&listing, !args.brief);
            if args.watch && out::is_terminal() {
                text.insert_str(0, "\x1b[H\x1b[2J");
            }
            out::text(&text)?;
        }
        if !args.watch {
            return Ok(0);
        }
        pause(Duration::from_secs(1));
    }
}

fn list(extra: &[PathBuf]) -> Listing {
    let (tenants, mut unreadable) = tenants(extra, &client::views());
    let absent = extra.iter().filter(|root| !root.is_dir()).map(|root| Unreadable {
        directory: root.display().to_string(),
        reason: "--root names no directory".to_owned(),
    });
    unreadable.extend(absent);
    let notes = promised::notes(&Promise::of_all(&tenants), &promised::cards(&tenants), None);
    Listing { tenants, unreadable, notes }
}

/// The tenants there are to see, by name, with what the daemons say of them; and those whose files
/// cannot be read.
pub(crate) fn tenants(extra: &[PathBuf], views: &[View]) -> (Vec<LedgerTenant>, Vec<Unreadable>) {
    let (mut tenants, mut unreadable) = (Vec::new(), Vec::new());
    let (own, wrong) = discover::tenants(extra);
    unreadable.extend(wrong.into_iter().map(|(place, why)| Unreadable {
        directory: place.display().to_string(),
        reason: why.to_string(),
    }));
    let others = client::of_others(views, &own).into_iter().map(|directory| {
        let read = ledger::read_foreign(&directory);
        (directory, read)
    });
    let own = own.into_iter().map(|directory| {
        let read = ledger::read(&directory);
        (directory, read)
    });
    for (directory, read) in own.chain(others) {
        match read {
            Ok(tenant) => tenants.push(tenant),
            Err(error) => unreadable.push(Unreadable {
                directory: directory.display().to_string(),
                reason: error.root_cause().to_string(),
            }),
        }
    }
    why::add_views(&mut tenants, views);
    tenants.sort_by(|a, b| (&a.name, &a.directory).cmp(&(&b.name, &b.directory)));
    (tenants, unreadable)
}

fn render(listing: &Listing, with_processes: bool) -> String {
    let mut text = String::new();
    let mut tenants = TextTable::new(&[
        "TENANT",
        "GPU",
        ">HELD",
        ">LIMIT",
        ">PEAK",
        ">REFUSED",
        ">PROCESSES",
        "COMMAND",
    ]);
    for tenant in &listing.tenants {
        let command = shorten(&tenant.command.join(" "));
        let count = tenant.processes.len().to_string();
        for (gpu, limit) in before_use(tenant, &tenant.rules) {
            let [held, peak, none] = ["-"; 3].map(str::to_owned);
            let (count, command) = (count.clone(), command.clone());
            tenants.row([tenant.name.clone(), gpu, held, limit, peak, none, count, command]);
        }
        for device in &tenant.devices {
            tenants.row([
                tenant.name.clone(),
                gpu(device.index, &device.uuid),
                sizes::text(device.held_bytes),
                sizes::limit(device.limit_bytes),
                sizes::text(device.peak_bytes),
                device.refusals.to_string(),
                count.clone(),
                command.clone(),
            ]);
            mark(&mut tenants, 2, fullness(device.held_bytes, device.limit_bytes));
            mark(&mut tenants, 5, refused(device.refusals));
        }
    }
    if tenants.is_empty() {
        text.push_str("No tenants. Start one: divvy run --memory 8GiB -- COMMAND\n");
    } else {
        text.push_str(&tenants.to_string());
    }
    let times = times::table(&listing.tenants);
    if !times.is_empty() {
        text.push_str(&format!("\n{times}"));
    }
    let places = places::table(&listing.tenants);
    if !places.is_empty() {
        text.push_str(&format!("\n{places}"));
    }
    let processes = processes(&listing.tenants);
    if with_processes && !processes.is_empty() {
        text.push_str(&format!("\n{processes}"));
    }
    for tenant in &listing.tenants {
        let of_devices = tenant.devices.iter().flat_map(|device| &device.reasons);
        for note in tenant.reasons.iter().chain(of_devices) {
            let words = format!("{}: {}: {}", tenant.name, note.reason, note.detail);
            text.push_str(&format!("\n{}\n", plain::line(&words)));
        }
    }
    for note in &listing.notes {
        text.push_str(&format!("\nnote: {}\n", plain::line(note)));
    }
    for one in &listing.unreadable {
        let words = format!("{}: {}", one.directory, one.reason);
        text.push_str(&format!("\n{}\n", plain::line(&words)));
    }
    text
}

fn processes(tenants: &[LedgerTenant]) -> TextTable {
    let mut table =
        TextTable::new(&["TENANT", ">PID", "PROGRAM", "GPU", ">HELD", ">REFUSED", "LAST", "OF IT"]);
    for tenant in tenants {
        for process in &tenant.processes {
            let head = [tenant.name.clone(), process.pid.to_string(), process.comm.clone()];
            if process.uses.is_empty() {
                table.row(head);
                continue;
            }
            for used in &process.uses {
                let index =
                    tenant.devices.iter().find(|d| d.uuid == used.uuid).and_then(|d| d.index);
                let kinds: Vec<String> = used
                    .by_kind
                    .iter()
                    .map(|(kind, bytes)| format!("{kind} {}", sizes::text(*bytes)))
                    .collect();
                table.row(head.iter().cloned().chain([
                    gpu(index, &used.uuid),
                    sizes::text(used.held_bytes),
                    used.refusals.to_string(),
                    reason(process.last_reason),
                    kinds.join(", "),
                ]));
                mark(&mut table, 5, refused(used.refusals));
            }
        }
    }
    table
}

fn mark(table: &mut TextTable, column: usize, meaning: Option<Meaning>) {
    if let Some(meaning) = meaning {
        table.mark(column, meaning);
    }
}

/// The code of a process's last refusal.
fn reason(code: u32) -> String {
    if code == 0 { "-".to_owned() } else { format!("DV{code:03}") }
}

fn shorten(text: &str) -> String {
    const MOST: usize = 48;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenants::ledger::{DeviceUse, Process, ResidenceUse, Use};
    use crate::wire::{DeviceView, TenantMemoryView, TenantView};

    const UUID: &str = "GPU-0123abcd-0000-0000-0000-000000000000";

    fn tenant() -> LedgerTenant {
        LedgerTenant {
            name: "train".to_owned(),
            directory: "/d/train-7".to_owned(),
            owner_alive: Some(true),
            command: vec!["python".to_owned(), "train.py".to_owned()],
            priority: "normal",
            class: "normal",
            devices: vec![DeviceUse {
                uuid: UUID.to_owned(),
                index: Some(0),
                name: "H200".to_owned(),
                card_bytes: 140 << 30,
                limit_bytes: Some(8 << 30),
                held_bytes: 3 << 29,
                peak_bytes: 2 << 30,
                refusals: 3,
                consistent: true,
                by_kind: [("blocks", 1018 << 20), ("contexts", 518 << 20)].into(),
                gate: "free",
                ..DeviceUse::default()
            }],
            processes: vec![Process {
                pid: 42,
                pid_namespace: 1,
                comm: "python".to_owned(),
                starting: false,
                last_reason: 201,
                uses: vec![Use {
                    uuid: UUID.to_owned(),
                    held_bytes: 3 << 29,
                    refusals: 3,
                    by_kind: [("blocks", 1018 << 20), ("contexts", 518 << 20)].into(),
                }],
            }],
            ..LedgerTenant::default()
        }
    }

    #[test]
    fn a_tenant_reads_as_a_table() {
        let listing = Listing { tenants: vec![tenant()], ..Listing::default() };
        assert_eq!(
            render(&listing, true),
            "\
TENANT  GPU      HELD  LIMIT   PEAK  REFUSED  PROCESSES  COMMAND
train   0    1.50 GiB  8 GiB  2 GiB        3          1  python train.py

TENANT  PID  PROGRAM  GPU      HELD  REFUSED  LAST   OF IT
train    42  python   0    1.50 GiB        3  DV201  blocks 1018 MiB, contexts 518 MiB
"
        );
    }

    #[test]
    fn a_share_has_a_table_and_reasons_their_lines() {
        let mut tenant = tenant();
        tenant.class = "latency";
        tenant.weight = 3;
        let device = &mut tenant.devices[0];
        device.share_ppm = Some(125_000);
        device.used_ns = 61_234_567_890;
        device.waited_ns = 1_000_000;
        device.gate = "timed";
        device.active = 2;
        let devices = vec![DeviceView {
            uuid: UUID.to_owned(),
            mode: "counted".to_owned(),
            reason: Some("DV061".to_owned()),
            detail: Some("why".to_owned()),
            ..DeviceView::default()
        }];
        let seen =
            vec![TenantView { directory: tenant.directory.clone(), ..TenantView::default() }];
        let view = View { devices, tenants: seen, ..View::default() };
        let mut listing = Listing { tenants: vec![tenant], ..Listing::default() };
        why::add_views(&mut listing.tenants, &[view]);
        let text = render(&listing, false);
        let (_, after) = text.split_once("\n\n").unwrap();
        assert_eq!(
            after,
            "\
TENANT  GPU  SHARE  WEIGHT  PRIORITY             USED  THROTTLED   WAITED  GATE              MODE
train   0    12.5%       3  normal, latency  61.234 s    0.000 s  0.001 s  timed, 2 at once  counted

train: DV061: why
"
        );
    }

    #[test]
    fn memory_that_may_leave_has_a_table() {
        let mut away = tenant();
        away.devices[0].residence = Some(ResidenceUse {
            resident_bytes: 3 << 30,
            pinned_bytes: 1 << 30,
            away_bytes: 12 << 30,
            moving: true,
            waiting_ns: 3_050_000_000,
            out_bytes: 12 << 30,
            out_ns: 300_000_000,
            ..ResidenceUse::default()
        });
        let seen = TenantView {
            directory: away.directory.clone(),
            memories: vec![TenantMemoryView {
                gpu: UUID.to_owned(),
                status: "restores".to_owned(),
                waited_ns: 5,
                ..TenantMemoryView::default()
            }],
            ..TenantView::default()
        };
        let mut here = tenant();
        here.directory = "/d/here".to_owned();
        here.devices[0].residence =
            Some(ResidenceUse { resident_bytes: 1 << 30, ..ResidenceUse::default() });
        let mut listing = Listing { tenants: vec![tenant(), away, here], ..Listing::default() };
        listing.tenants[0].directory = "/d/plain".to_owned();
        let view = View { tenants: vec![seen], ..View::default() };
        why::add_views(&mut listing.tenants, &[view]);
        assert_eq!(listing.tenants[1].devices[0].memory_waited_ns, Some(5));
        let text = render(&listing, false);
        let (_, after) = text.split_once("\n\n").unwrap();
        assert_eq!(
            after,
            "\
TENANT  GPU  ON CARD  STAYS    AWAY          MOVED OUT  AND IN  NOW
train   0      3 GiB  1 GiB  12 GiB  12 GiB, 42.9 GB/s       0  restores, moves, a call waits for 3.0 s, it is on its way back
train   0      1 GiB      0       0                  0       0  -
"
        );
    }

    #[test]
    fn a_tenant_that_has_not_called_the_driver_has_its_limits() {
        let rules = |specs: &[&str]| {
            let specs: Vec<String> = specs.iter().map(|spec| (*spec).to_owned()).collect();
            crate::tenants::limits::rules(&specs, &[]).unwrap().as_slice().to_vec()
        };
        let idle = |specs: &[&str]| LedgerTenant {
            devices: Vec::new(),
            processes: Vec::new(),
            rules: rules(specs),
            ..tenant()
        };
        let uuid = format!("{UUID}=0");
        let with_share = LedgerTenant { compute_rules: rules(&["30%"]), weight: 3, ..idle(&[]) };
        let tenants = vec![idle(&["8GiB", "1=50%", &uuid]), with_share];
        let notes = vec!["the limits add up".to_owned()];
        let listing = Listing { tenants, notes, ..Listing::default() };
        assert_eq!(
            render(&listing, true),
            "\
TENANT  GPU           HELD  LIMIT  PEAK  REFUSED  PROCESSES  COMMAND
train   all              -  8 GiB     -        -          0  python train.py
train   1                -    50%     -        -          0  python train.py
train   GPU-0123abcd     -      -     -        -          0  python train.py
train   -                -      -     -        -          0  python train.py

TENANT  GPU  SHARE  WEIGHT  PRIORITY  USED  THROTTLED  WAITED  GATE  MODE
train   all    30%       3  normal

note: the limits add up
"
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let unreadable =
            Unreadable { directory: "/d/x".to_owned(), reason: "it is short".to_owned() };
        let listing = Listing { unreadable: vec![unreadable], ..Listing::default() };
        let text = render(&listing, true);
        assert!(text.contains("No tenants") && text.contains("/d/x: it is short"), "{text}");
    }

    #[test]
    fn long_commands_are_cut() {
        assert_eq!(shorten(&"x".repeat(60)).chars().count(), 48);
        assert_eq!(gpu(None, UUID), "GPU-0123abcd");
    }

    #[test]
    fn a_directory_of_tenants_is_found_and_a_tenant_without_processes_read() {
        let base = std::env::temp_dir().join(format!("divvy-ps-{}", std::process::id()));
        let one = base.join("one");
        std::fs::create_dir_all(&one).unwrap();
        std::fs::create_dir_all(base.join("other")).unwrap();
        let config =
            crate::tenants::limits::config("one", &divvy_policy::limit::Rules::new(), false, false);
        ledger::write_config(&one, &config).unwrap();
        let hami = base.join("container/.divvy/x");
        std::fs::create_dir_all(&hami).unwrap();
        ledger::write_config(&hami, &config).unwrap();
        std::fs::create_dir_all(base.join("bad")).unwrap();
        std::fs::write(base.join("bad/usage"), "nonsense").unwrap();
        let listing = list(&[base.clone(), base.join("absent")]);
        let absent = listing.unreadable.iter().find(|u| u.directory.ends_with("/absent")).unwrap();
        assert_eq!(absent.reason, "--root names no directory");
        let name = |t: &&LedgerTenant| t.directory.starts_with(base.to_str().unwrap());
        assert_eq!(listing.tenants.iter().filter(name).count(), 2);
        assert!(listing.unreadable.iter().any(|u| u.directory.ends_with("/bad")));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
