//! `divvy daemon`: divides the time of devices among tenants by turns.
//!
//! Only that division depends on it: memory limits and caps are the library's own. It reads the tenants' files and writes their
//! gates. No program registers, so the daemon can be killed and started again at any time. A closed gate opens by itself if its
//! daemon has not renewed it for 100 ms.
//!
//! [`engine`] is the thread that schedules, by `divvy_policy::turns`. [`scan`] finds tenants, [`adopted`] is one that the
//! daemon serves, [`quota`] bounds how many of a user's are served, and [`seat`] chooses which of them leave.
//!
//! [`memory`] decides which tenants' memory is on a card, from the words of processes about memory that is [`resident`] and from
//! the [`room`] for it. [`memory_row`] is one tenant's part, and [`memory_news`] writes down failures. [`host_room`] says how
//! much memory of the host may be taken, and [`managed`] how much may be managed.
//!
//! [`device`] is one card, [`owned`] keeps other daemons from it, [`card`] knows which other processes use it, and [`look`]
//! asks NVML about it.
//!
//! [`server`] and [`client`] speak [`crate::wire`] on a socket that [`reach`] finds. A [`crowd`] of connections may be open,
//! each [`timed`], about the state that is [`seen`]. [`place`], [`start`] and [`keep`] see to it that one daemon runs.
//! [`schedule`] switches its turns off and on, and [`status`] prints its view. [`by_id`] makes and removes tenants on request,
//! [`sweeper`] takes their files, and [`card_desk`] lists the cards. [`log_desk`] writes refusals down, and answers questions
//! about the log. [`metrics`] makes a page for collectors, [`health`] says whether turns go on, and [`http`] serves both.

mod adopted;
mod by_id;
mod card;
mod card_desk;
pub(crate) mod client;
mod crowd;
mod device;
mod engine;
mod health;
mod host_room;
mod http;
pub(crate) mod keep;
mod log_desk;
mod look;
mod managed;
mod memory;
mod memory_news;
mod memory_row;
mod metrics;
mod no_room;
mod owned;
pub(crate) mod place;
mod quota;
mod reach;
mod refusals_seen;
mod resident;
mod room;
mod scan;
mod schedule;
mod seat;
mod seen;
mod server;
pub(crate) mod start;
mod status;
mod sweeper;
mod thread;
mod timed;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Result;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};

use self::engine::Engine;
pub(crate) use self::engine::sleep_until;
use self::memory::MemoryBounds;
use self::metrics::Page;
use self::owned::Locks;
use self::place::DaemonHome;
use self::scan::Scanner;
use self::seen::Shared;
use crate::defaults::values::Floor;
use crate::defaults::{Defaults, Readers, explained, values};
use crate::log::line::{ChangeAuthor, Event, LogLine};
use crate::output::exit_codes::NOT_AS_EXPECTED;
use crate::output::failure::{usage, with_code};
use crate::output::out;
use crate::pause::pause;
use crate::tenants::discover;
use crate::wire::{Schedule, View};

/// Divide devices among tenants by turns.
///
/// Tenants that want one device at the same time get exclusive turns by their weights and priorities,
/// which is exact and loses less of the device than the driver's own slicing. `divvy run` starts a
/// daemon for its user on demand, and again while its program runs; it ends when no tenant has been
/// left for a while. With --system one daemon serves all users of the machine, as root; a user's then
/// ends.
///
/// Runs in the foreground until SIGTERM or SIGINT; it then opens all gates. Without a daemon memory
/// limits and caps hold all the same; shares of tenants that compete are then the driver's.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve all users of the machine, from /run/divvy
    #[arg(long)]
    system: bool,

    /// Say what the running daemon sees, and end; with exit code 1 where none answers, or it gives no turns as it should
    #[arg(long)]
    status: bool,

    /// Where a daemon runs already, wait until it ends and take over, instead of ending
    #[arg(long, conflicts_with = "status")]
    stand_by: bool,

    /// With --status: as JSON
    #[arg(long)]
    json: bool,

    /// Another directory of tenants; may be repeated
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,

    /// Serve /metrics for a collector, and /healthz, at ADDRESS; by default 127.0.0.1, port 19437
    ///
    /// ADDRESS is an IP address with or without a port: such as 0.0.0.0 or 127.0.0.1:9000. Where a daemon runs already, as one that
    /// `divvy run` has started, its metrics are served until it ends; this one then takes over.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1",
        value_parser = values::address
    )]
    metrics: Option<SocketAddr>,

    /// Let no more than SIZE, such as 24GiB, of the memory of tenants that oversubscribe be on a card at once
    ///
    /// By default it may be all that the card has beside contexts and what others use. To make memory short where it is
    /// not.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<String>,

    /// Let tenants have no more than SIZE of managed memory together on each card, wherever it is
    ///
    /// By default as much as the card has room for. More is for a program that is larger than the card (`divvy run
    /// --oversubscribe --backend managed`): the driver then moves pages at its every fault.
    #[arg(long, value_name = "SIZE")]
    managed_limit: Option<String>,

    /// Give turns of time and of memory (on), or none (off): all tenants run at once, as the driver lets them
    ///
    /// Limits and caps hold all the same. Where a daemon runs already, it is told so, and this command ends; a daemon that is
    /// started anew gives turns, unless this says otherwise.
    #[arg(long, value_name = "on|off", conflicts_with = "status")]
    schedule: Option<String>,

    /// Promise no more than SIZE, such as 200GiB, of the host's memory to what may have to leave cards
    ///
    /// By default all that the machine and the control groups of daemon and tenants have free, less 512 MiB and a twelfth.
    /// Memory for which there is no room is refused when it is asked for.
    #[arg(long, value_name = "SIZE")]
    host_memory: Option<String>,

    /// Give tenants of lower priority PERCENT of a device, all together, that others would keep from them; by default 2
    ///
    /// In pieces of 2 ms, or of one kernel that takes longer. With 0 there is no floor: a tenant of lower priority may then
    /// wait for as long as others work.
    #[arg(
        long,
        value_name = "PERCENT",
        allow_hyphen_values = true,
        conflicts_with = "status",
        value_parser = values::floor
    )]
    floor: Option<Floor>,

    /// End when there has been no tenant for so many seconds; by default never
    #[arg(long, value_name = "SECONDS")]
    linger: Option<u64>,

    /// Keep lock and socket in DIR, and serve the tenants in its directory `tenants`
    #[arg(long, value_name = "DIR", conflicts_with = "system")]
    home: Option<PathBuf>,

    /// Start the daemon in the background and wait until it serves
    #[arg(long, hide = true, conflicts_with = "on_demand")]
    launch: bool,

    /// Started for a program: end when no tenant has been left for a while
    #[arg(long, hide = true)]
    on_demand: bool,

    /// Directories of tenants that a file of defaults names: unlike `--root` they make no other daemon of it.
    #[arg(skip)]
    default_root: Vec<PathBuf>,

    /// Say who uses the device, as JSON, and end
    #[arg(long, hide = true, value_name = "UUID")]
    look: Vec<String>,
}

/// How long a daemon that was started on demand stays without tenants.
const LINGER: Duration = Duration::from_secs(15);
/// How often a daemon that stands by tries to take over.
const STAND_BY: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &Args) -> Result<u8> {
    if !args.look.is_empty() {
        return look::answer(&args.look);
    }
    let system = DaemonHome::of_system();
    let is_for_one_that_runs =
        args.status || (args.schedule.is_some() && client::view(&system).is_some());
    let home = match (&args.home, args.system) {
        (Some(directory), _) => DaemonHome::at(directory.clone())?,
        (None, true) if is_for_one_that_runs => system,
        (None, true) => DaemonHome::make_system()?,
        (None, false) => DaemonHome::of_user()?,
    };
    if args.status {
        return status::print(&home, args.json);
    }
    let schedule = args.schedule.as_deref().map(schedule::read).transpose()?;
    if let Some(to) = schedule
        && schedule::tell(&home, to, args.json)?
    {
        return Ok(0);
    }
    if args.json {
        let words = match schedule {
            Some(_) => home.silence(),
            None => "--json says what --status or --schedule would: give both".to_owned(),
        };
        return Err(usage(words));
    }
    if args.launch {
        return start::launch(&home);
    }
    // Of a daemon that serves all users only root's file counts, whoever's home the environment names.
    let readers = if home.is_system() { Readers::Machine } else { Readers::User };
    let (args, taken) = with_defaults(args, readers)?;
    taken.iter().for_each(|origin| out::tell(origin));
    serve(&args, &home, schedule.unwrap_or_default()).map_err(|error| explained(error, &taken))
}

/// The arguments, and what files say where they do not; and the origins of that.
fn with_defaults(args: &Args, readers: Readers) -> Result<(Args, Vec<String>)> {
    let (mut args, mut defaults) = (args.clone(), Defaults::here(readers)?);
    for (option, key) in [
        (&mut args.capacity, "daemon.capacity"),
        (&mut args.managed_limit, "daemon.managed-limit"),
        (&mut args.host_memory, "daemon.host-memory"),
    ] {
        if option.is_none() {
            *option = defaults.take_one(key)?;
        }
    }
    if args.linger.is_none() {
        let seconds = defaults.take_one("daemon.linger")?;
        args.linger = seconds.and_then(|seconds| seconds.parse().ok());
    }
    if args.floor.is_none() {
        let percent = defaults.take_one("daemon.floor")?;
        args.floor = percent.and_then(|text| values::floor(&text).ok());
    }
    // Several of these may run on one machine, and an address is one daemon's.
    if args.metrics.is_none() && !args.on_demand {
        let address = defaults.take_one("daemon.metrics")?;
        args.metrics = address.and_then(|text| values::address(&text).ok());
    }
    if args.root.is_empty() && discover::from_variable().is_empty() {
        args.default_root = defaults.take("daemon.root")?.into_iter().map(PathBuf::from).collect();
    }
    let taken = defaults.taken().to_vec();
    Ok((args, taken))
}

fn serve(args: &Args, home: &DaemonHome, schedule: Schedule) -> Result<u8> {
    let bounds = MemoryBounds {
        capacity_bytes: size_of("--capacity", args.capacity.as_deref())?,
        managed_bytes: size_of("--managed-limit", args.managed_limit.as_deref())?,
    };
    let host_bytes = size_of("--host-memory", args.host_memory.as_deref())?;
    let is_users = args.on_demand || (args.home.is_none() && args.root.is_empty());
    let yields = is_users && !home.is_system();
    if yields && home.is_machines() {
        return Err(with_code(
            NOT_AS_EXPECTED,
            "the machine's daemon serves your tenants; see divvy daemon --system --status",
        ));
    }
    // A tenant takes four descriptors; the command that started this may have a bound for other purposes.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let shared = Arc::new(Shared::default());
    shared.is_off.store(schedule == Schedule::Off, Relaxed);
    wait_for_signals(&shared)?;
    let mut lock = home.lock()?;
    if lock.is_none() && args.metrics.is_none() && !args.stand_by {
        return Err(with_code(NOT_AS_EXPECTED, already_runs(home)));
    }
    let page = Page::new(home, &shared);
    if let Some(address) = args.metrics {
        http::start(address, &page)?;
    }
    if let Err(error) = log_desk::start(home, &shared) {
        // Turns need no log.
        out::warn(&format!("{}: {error:#}", crate::output::reason::Reason::Daemon));
    }
    let before = lock.is_none().then(|| home.holder()).flatten();
    if lock.is_none() {
        out::warn(&format!("{}; this one takes over when it ends", already_runs(home)));
        lock = stand_by(home, &shared)?;
    }
    // Asked to end before there was anything to put right.
    let Some(lock) = lock else { return Ok(0) };
    page.is_ours.store(true, Relaxed);
    tell_start(args, &shared, schedule, before);
    if let Err(error) =
        sweeper::start(home, &shared.desk).and_then(|()| server::start(home, &shared))
    {
        // Turns need no socket.
        out::warn(&format!("{}: {error:#}", crate::output::reason::Reason::Daemon));
    }
    let mut engine = engine_of(args, home, &shared, (bounds, host_bytes));
    if args.on_demand {
        start::say_ready()?;
    }
    let mut ending = Ending { linger: linger(args), last_use: Instant::now(), lock: None };
    let mut why = StopReason::Asked;
    engine.run(|in_use| {
        why = if !lock.is_in_place() {
            StopReason::LockLost
        } else if yields && home.is_machines() {
            StopReason::Machines
        } else if ending.is_due(in_use, home) {
            StopReason::Unused
        } else {
            StopReason::Asked
        };
        why != StopReason::Asked
    });
    tell_stop(&shared, why, home);
    // Others may start one from here on; the socket would lead them to nobody.
    if lock.is_in_place() {
        let _ = std::fs::remove_file(home.socket());
    }
    Ok(0)
}

/// Has a thread wait for the signals that end a daemon. Before any other thread: all inherit the mask, and this one gets them.
fn wait_for_signals(shared: &Arc<Shared>) -> Result<()> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    let stopper = Arc::clone(shared);
    thread::thread("divvy signals", move || {
        while signals.wait().is_err() {}
        stopper.stop.store(true, Relaxed);
    })
}

/// The engine of a daemon that serves now, with the bounds of memory that may leave cards.
fn engine_of(
    args: &Args,
    home: &DaemonHome,
    shared: &Arc<Shared>,
    limits: (MemoryBounds, Option<u64>),
) -> Engine {
    let news = card::start(home.is_system()).ok();
    let extra = args.root.iter().chain(&args.default_root).cloned();
    let extra = extra.chain(discover::from_variable());
    let scanner = Scanner::new(home.clone(), extra, Arc::clone(&shared.journal));
    Engine::new(scanner, Locks::of(home), news, Arc::clone(shared), limits, args.floor)
}

/// Time for which a daemon without tenants stays; `None` for ever.
fn linger(args: &Args) -> Option<Duration> {
    args.linger.map(Duration::from_secs).or_else(|| args.on_demand.then_some(LINGER))
}

/// Why a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopReason {
    Asked,
    LockLost,
    Machines,
    Unused,
}

/// Writes down that this daemon serves from now on, with the options that count and the daemon that it replaces.
fn tell_start(args: &Args, shared: &Shared, schedule: Schedule, before: Option<u32>) {
    let given = [
        ("--capacity", &args.capacity),
        ("--managed-limit", &args.managed_limit),
        ("--host-memory", &args.host_memory),
    ];
    let given =
        given.iter().filter_map(|(name, value)| Some(format!(", {name} {}", value.as_ref()?)));
    let off = if schedule == Schedule::Off { ", --schedule off" } else { "" };
    let floor = args.floor.map(|floor| format!(", --floor {}%", floor.ppm as f64 / 1e4));
    let given: String = given.chain(floor).chain([off.to_owned()]).collect();
    let (event, instead) = match before {
        Some(pid) => (Event::TookOver, format!(", after pid {pid}")),
        None => (Event::Started, String::new()),
    };
    let words = format!("Divvy {}{instead}{given}", env!("CARGO_PKG_VERSION"));
    shared
        .journal
        .tell(LogLine { message: Some(words), ..LogLine::new(event).by(&ChangeAuthor::here()) });
}

/// Writes down that this daemon ends, with the reason.
fn tell_stop(shared: &Shared, why: StopReason, home: &DaemonHome) {
    let words = match why {
        StopReason::Asked => "it was asked to".to_owned(),
        StopReason::Unused => "no tenant was left".to_owned(),
        StopReason::Machines => "the machine's daemon serves its tenants".to_owned(),
        StopReason::LockLost => "its lock was taken away".to_owned(),
    };
    if why == StopReason::LockLost {
        let directory = home.directory().display();
        shared.journal.tell(LogLine {
            code: Some(crate::output::reason::Reason::OtherDaemon.to_string()),
            message: Some(format!("this daemon has lost its lock in {directory}")),
            ..LogLine::new(Event::LockLost)
        });
    }
    let line = LogLine::new(Event::Stopped).by(&ChangeAuthor::here());
    shared.journal.tell(LogLine { message: Some(words), ..line });
    shared.journal.flush();
}

/// The bytes of a size that was given by this option.
fn size_of(option: &str, text: Option<&str>) -> Result<Option<u64>> {
    let Some(text) = text else { return Ok(None) };
    let no_size = || usage(format!("{option} {text:?} is no size: give one such as 24GiB"));
    values::bytes(text).ok_or_else(no_size).map(Some)
}

fn already_runs(home: &DaemonHome) -> String {
    match client::view(home) {
        Some(View { pid, .. }) => format!(
            "a daemon (pid {pid}) already runs in {}: end it first, if this one's options are to count",
            home.directory().display()
        ),
        None => home.silence(),
    }
}

/// Waits until another daemon of this home has ended, as one that was started on demand does; its lock, or
/// `None` when this one was asked to end before.
fn stand_by(home: &DaemonHome, shared: &Shared) -> Result<Option<place::HomeLock>> {
    while !shared.stop.load(Relaxed) {
        pause(STAND_BY);
        if let Some(lock) = home.lock()? {
            return Ok(Some(lock));
        }
    }
    Ok(None)
}

/// When a daemon without tenants ends.
struct Ending {
    linger: Option<Duration>,
    last_use: Instant,
    /// Held from the last look for tenants to the end of the process.
    lock: Option<place::HomeLock>,
}

impl Ending {
    fn is_due(&mut self, in_use: bool, home: &DaemonHome) -> bool {
        let Some(linger) = self.linger else { return false };
        if in_use {
            self.last_use = Instant::now();
            self.lock = None;
            return false;
        }
        if self.lock.is_some() {
            // Looked once more since nobody could start a program that counts on us.
            return true;
        }
        if self.last_use.elapsed() >= linger {
            self.lock = home.try_start_lock().ok().flatten();
        }
        false
    }
}
