//! `divvy run`: one program, and all it starts, under one set of limits.
//!
//! Order: everything that can be wrong with the command line is found before anything exists; then
//! the tenant directory, its config, the program. The directory goes when the program has ended and
//! none of its processes is left.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use divvy_abi::config::{Config, FLAG_BACKEND_MANAGED, FLAG_BACKEND_VMM, FLAG_OVERSUBSCRIBE};
use divvy_policy::limit::Rules;
use divvy_policy::variables::{BACKEND, BACKENDS, OVERSUBSCRIBE, TENANT};

use crate::commands::audit::{Audit, Finding};
use crate::commands::{ps, refusals};
use crate::daemon::place::DaemonHome;
use crate::daemon::{client, keep, start};
use crate::defaults::{Defaults, Readers, explained};
use crate::machine::cards::{Cards, DriverChoice};
use crate::machine::elf::{self, Elf};
use crate::machine::loader::find_library;
use crate::machine::{contexts, install};
use crate::output::exit_codes::{self, NOT_AS_EXPECTED};
use crate::output::failure::{self, usage};
use crate::output::reason::Reason;
use crate::output::report_file::Report;
use crate::output::{json, out};
use crate::stage::Scratch;
use crate::tenants::promised::Promise;
use crate::tenants::share_args::{ShareArgs, ShareLimits};
use crate::tenants::tenant_dir::{self, OwnerNote, TenantDir};
use crate::tenants::{host_promise, ledger, limits, promised};

/// Run a program under limits.
///
/// Starts COMMAND with the Divvy library preloaded, as the first process of a new tenant: the program
/// and everything it starts share the limits given here. Asking the GPU for more memory than the limit
/// returns CUDA's own out-of-memory error; memory queries, `nvidia-smi` included, answer with the
/// limit as the card's size.
///
/// Signals sent to `divvy run` reach the program. The exit code is the program's, or 128 + n when
/// signal n ended it; 2, 125, 126 and 127 are Divvy's own (see `divvy --help`).
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Memory limit: 8GiB, 3000m, 50%, or for one device 0=8GiB, GPU-01ab=8GiB; may be repeated
    ///
    /// Units are binary (8G is 8GiB). 0 is no limit. A UUID may be cut short when it stays unique. A
    /// limit for a UUID beats one for an index, which beats the one for every device.
    #[arg(long, short, value_name = "SPEC", allow_hyphen_values = true)]
    memory: Vec<String>,

    #[command(flatten)]
    share: ShareArgs,

    /// Let the program's memory leave the card, so that tenants' memory together may exceed it
    ///
    /// Where it does, they take turns with their memory on the card; where all fits, nothing moves. Blocks of cuMemAlloc keep
    /// their addresses while they are on the host. `divvy freeze` takes them off the card by hand.
    ///
    /// =off keeps it on the card where the environment or a file of defaults says otherwise.
    #[arg(
        long,
        value_name = "on|off",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        value_parser = ["on", "off"],
        hide_possible_values = true
    )]
    oversubscribe: Option<String>,

    /// Means by which it leaves: vmm, managed, or auto, which is vmm where that will do
    ///
    /// managed is for a program larger than its card: with auto it is taken where the memory limit is above the card, and
    /// where the device or its driver has no virtual memory management. It wants a running daemon.
    #[arg(long, value_enum, requires = "oversubscribe", value_name = "BACKEND")]
    backend: Option<MovesBy>,

    /// Start no daemon: caps hold all the same, but weights and priorities do not
    #[arg(long)]
    no_daemon: bool,

    /// Name of the tenant in `divvy ps`; by default the program's
    #[arg(long, short, allow_hyphen_values = true)]
    name: Option<String>,

    /// Behaviour when Divvy itself fails: closed refuses memory, open runs without limits
    #[arg(long, value_enum, default_value_t = Fail::Closed)]
    fail: Fail,

    /// Refuse driver functions of the memory families that this version does not know, and libraries
    /// loaded where Divvy is not met first (RTLD_DEEPBIND)
    #[arg(long)]
    strict: bool,

    /// Use the simulated GPU instead of the machine's driver
    #[arg(long)]
    sim: bool,

    /// Print what the tenant used as JSON to standard error when it has ended
    #[arg(long)]
    json: bool,

    /// Write the same as --json into FILE
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// The program and its arguments; options after its name, or after `--`, are the program's
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Args {
    /// Whether the program's memory may leave the card.
    fn may_leave(&self) -> bool {
        self.oversubscribe.as_deref() == Some("on")
    }
}

#[cfg(test)]
impl Args {
    /// The program and its arguments.
    pub(crate) fn program(&self) -> &[OsString] {
        &self.command
    }
}

const EXAMPLES: &str = "Examples:
  divvy run --memory 8GiB -- python train.py
  divvy run --memory 8GiB --compute 30% -- python train.py
  divvy run --priority high --class latency -- ./serve
  divvy run --memory 0=8GiB --memory 1=50% --name trainer -- ./train.sh
  divvy run --sim --memory 2GiB -- ./my_cuda_program";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fail {
    /// Refuse memory
    Closed,
    /// Run without limits
    Open,
}

/// Means by which memory leaves the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MovesBy {
    /// Each process chooses for each device
    Auto,
    /// Virtual memory management
    Vmm,
    /// Managed memory
    Managed,
}

impl MovesBy {
    fn flags(self) -> u32 {
        match self {
            Self::Auto => 0,
            Self::Vmm => FLAG_BACKEND_VMM,
            Self::Managed => FLAG_BACKEND_MANAGED,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    let program = args.command.first().context("no program was given")?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => tenant_dir::name_of(&program.to_string_lossy()),
    };
    tenant_dir::check_name(&name)?;
    if let Some(outer) = std::env::var_os(TENANT) {
        return Err(usage(format!(
            "this shell already runs in the tenant {}: a second `divvy run` would leave its limits; \
             run the program without `divvy run`",
            outer.display()
        )));
    }
    let (args, taken) = with_defaults(args)?;
    let limits = limits_here(&args).map_err(|error| explained(error, &taken))?;
    let Limits { rules, share, notes } = limits;
    check_program(program, args.fail, !rules.is_empty() || share.caps())?;
    let library = install::library()?;
    let report = args.report.as_deref().map(Report::open).transpose()?;
    notes.iter().for_each(|note| out::note(note));
    taken.iter().for_each(|origin| out::tell(origin));
    out::tell(&format!("the library is {}", library.display()));

    let owner = OwnerNote {
        pid: std::process::id(),
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    let tenant = TenantDir::make(&name, &owner)?;
    let config = config_of(&args, &name, &rules, &share);
    out::tell(&format!("the tenant is {}", tenant.path().display()));
    ledger::write_config(tenant.path(), &config)?;
    if !args.no_daemon {
        ensure_daemon(tenant.path());
        keep::start(tenant.path());
    }

    let preload = install::preload(&library, std::env::var_os("LD_PRELOAD").as_deref());
    let mut environment = vec![(TENANT, tenant.path().as_os_str().to_owned())];
    environment.extend(order_option(program));
    let mut audit = None;
    let started = simulated(args.sim, tenant.path()).and_then(|(simulated, nvml)| {
        environment.extend(simulated);
        audit = Audit::start(tenant.path(), nvml);
        let held_up = || {
            let words = format!("{name} is paused; resume it with `divvy set {name} --resume`");
            ledger::read(tenant.path()).is_ok_and(|tenant| tenant.paused).then_some(words)
        };
        crate::commands::child::run(&args.command, &preload, &environment, held_up)
    });
    let findings = audit.map(Audit::finish).unwrap_or_default();
    let used = ledger::read(tenant.path()).ok();
    refusals::record(tenant.path());
    let path = tenant.path().to_owned();
    let removed = tenant.remove();
    let code = started?;
    if args.json || args.report.is_some() {
        let summary = summary(&name, code, used.as_ref(), &findings, &notes, &path, removed)?;
        let is_told = tell_end(&summary, args.json, report);
        // The program's own code counts before ours.
        if code == 0 && !is_told {
            return Ok(NOT_AS_EXPECTED);
        }
    }
    Ok(code)
}

/// The config of the new tenant.
fn config_of(args: &Args, name: &str, rules: &Rules, share: &ShareLimits) -> Config {
    let mut config = limits::config(name, rules, args.fail == Fail::Open, args.strict);
    config.context_bytes = context_bytes(args.sim);
    if args.may_leave() {
        let backend = args.backend.unwrap_or(MovesBy::Auto);
        config.flags |= FLAG_OVERSUBSCRIBE | backend.flags();
    }
    share.apply(&mut config);
    config
}

/// Writes the summary where it was asked for; whether all of it was written.
fn tell_end(summary: &str, as_json: bool, report: Option<Report>) -> bool {
    let is_said = !as_json || out::error_report(&format!("{summary}\n")).is_ok();
    let written = report.map_or(Ok(()), |report| report.write(summary));
    if let Err(error) = &written {
        out::warn(&format!("{error:#}"));
    }
    is_said && written.is_ok()
}

/// The arguments, and what the environment and files say where they do not; and the origins of that.
///
/// # Errors
/// Usage errors for what is not understood.
fn with_defaults(args: &Args) -> Result<(Args, Vec<String>)> {
    let (mut args, mut defaults) = (args.clone(), Defaults::here(Readers::User)?);
    if args.memory.is_empty() {
        args.memory = defaults.take("run.memory")?;
    }
    args.share.fill(|key| defaults.take(key))?;
    if args.oversubscribe.is_none() {
        args.oversubscribe = match defaults.take_one("run.oversubscribe")?.as_deref() {
            // An empty variable is none.
            None | Some("") => None,
            Some("true" | "1") => Some("on".to_owned()),
            Some("false" | "0") => Some("off".to_owned()),
            Some(other) => {
                let words = format!("{OVERSUBSCRIBE}={other}: write true or false");
                return Err(usage(words));
            }
        };
    }
    if args.backend.is_none() && args.may_leave() {
        let word = defaults.take_one("run.backend")?.filter(|word| !word.is_empty());
        let read = |word: String| {
            let words =
                |_| usage(format!("{BACKEND}={word}: write one of {}", BACKENDS.join(", ")));
            MovesBy::from_str(&word, false).map_err(words)
        };
        args.backend = word.map(read).transpose()?;
    }
    let taken = defaults.taken().to_vec();
    Ok((args, taken))
}

/// The limits of a tenant, and what is worth knowing of them.
struct Limits {
    rules: Rules,
    share: ShareLimits,
    notes: Vec<String>,
}

/// Reads the limits and compares them with the devices there are, where they speak of any.
///
/// # Errors
/// Usage errors for what is not understood, and for devices that are not there.
fn limits_here(args: &Args) -> Result<Limits> {
    let asked = Cards::are_needed(&args.memory, args.share.compute());
    let cards = if asked { cards(args.sim)? } else { Cards::default() };
    let rules = limits::rules(&args.memory, &cards.uuids())?;
    let mut share = args.share.read(&cards.uuids())?;
    let mut notes = cards.judge(limits::MEMORY, rules.as_slice())?;
    cards.judge(limits::COMPUTE, &share.rules)?;
    notes.extend(match cards.caveat() {
        Some(_) if !args.sim && find_library("libcuda.so.1").is_none() => Some(
            "no NVIDIA driver here, so the limits cannot be checked; to simulate a GPU, add --sim"
                .to_owned(),
        ),
        caveat => caveat,
    });
    if !rules.is_empty() && !args.sim {
        let (others, _) = ps::tenants(&[], &[]);
        let new = Promise::new(rules.as_slice());
        let mut promises = Promise::of_all(&others);
        promises.push(new.clone());
        notes.extend(promised::notes(&promises, &cards.list, Some(&new)));
    }
    if args.may_leave() && !rules.is_empty() {
        notes.extend(host_promise::notes(rules.as_slice(), &cards.list, &client::views()));
    }
    // Programs may number devices otherwise.
    let named: Vec<_> = rules.as_slice().iter().map(|rule| cards.named(rule)).collect();
    let rules = Rules::copy_of(&named).unwrap_or(rules);
    share.rules = share.rules.iter().map(|rule| cards.named(rule)).collect();
    Ok(Limits { rules, share, notes })
}

/// The devices of the machine, or of the simulated one.
fn cards(sim: bool) -> Result<Cards> {
    if !sim {
        return Ok(Cards::of(&DriverChoice::default()));
    }
    let links = Scratch::make("devices")?;
    let (environment, library) = simulated(sim, links.path())?;
    Ok(Cards::of(&DriverChoice { library, environment }))
}

/// Has a daemon run for the tenant, unless the machine's does; without one the program runs all the
/// same.
pub(crate) fn ensure_daemon(directory: &Path) {
    let started = match DaemonHome::of_tenant(directory) {
        Some(home) if !home.is_machines() => start::ensure(&home),
        _ => Ok(()),
    };
    if let Err(error) = started {
        out::warn(&format!(
            "{}: {error:#}; limits hold, weights and priorities do not",
            Reason::Daemon
        ));
    }
}

/// Charge of a context, in bytes; 0 leaves it to the library's own table.
fn context_bytes(sim: bool) -> u64 {
    if sim {
        // The kept figures are those of the machine's cards.
        return 0;
    }
    contexts::bytes_here().unwrap_or_else(|error| {
        out::warn(&format!("{}: {error:#}", Reason::ContextCost));
        0
    })
}

/// Makes a client of demo or bench part of the tenant in `directory`.
pub(crate) fn join_tenant(command: &mut Command, library: &Path, directory: &Path) {
    command.env(TENANT, directory).env("LD_PRELOAD", library);
}

/// Variables for the program, and a library.
type Simulated = (Vec<(&'static str, OsString)>, Option<PathBuf>);

/// Variables that put the simulated driver before the machine's, and the path of its NVML.
fn simulated(sim: bool, directory: &Path) -> Result<Simulated> {
    if !sim {
        return Ok((Vec::new(), None));
    }
    let simulator = install::simulator(&directory.join("sim"))?;
    let nvml = simulator.libraries.join("libnvidia-ml.so.1");
    let mut path = simulator.libraries.into_os_string();
    if let Some(old) = std::env::var_os("LD_LIBRARY_PATH").filter(|old| !old.is_empty()) {
        path.push(":");
        path.push(old);
    }
    let environment =
        vec![("LD_LIBRARY_PATH", path), ("SIMGPUD", simulator.daemon.into_os_string())];
    Ok((environment, Some(nvml)))
}

/// Refuses what would run without the limits it was given.
fn check_program(program: &std::ffi::OsStr, fail: Fail, limited: bool) -> Result<()> {
    let Some(path) = find(program) else { return Ok(()) };
    let elf = match elf::read(&path) {
        Ok(elf) => elf,
        // A script, or something the kernel will judge: its interpreter is checked by `doctor`.
        Err(_) => return Ok(()),
    };
    let Some(reason) = elf.why_not_preloaded(&path) else { return Ok(()) };
    let shown = path.display();
    if !limited {
        return Ok(());
    }
    match (&elf, fail) {
        // It cannot load a driver either, but what it starts can, and is limited.
        (Elf { is_dynamic: false, .. }, _) => {
            out::warn(&format!(
                "{reason}: {shown} is statically linked, so the library cannot be loaded into it; \
                 the programs it starts are limited"
            ));
            Ok(())
        }
        (_, Fail::Open) => {
            out::warn(&format!("{reason}: {shown} will run without limits (--fail open)"));
            Ok(())
        }
        (_, Fail::Closed) => Err(failure::with_code(
            exit_codes::USAGE,
            format!(
                "{reason}: {shown} would run without its limits: {}; run a glibc program without \
                 set-user-id, or accept it by --fail open",
                reason.meaning()
            ),
        )),
    }
}

/// Variable for a program that its sanitizer would end, since Divvy's library is loaded before the sanitizer's.
fn order_option(program: &std::ffi::OsStr) -> Option<(&'static str, OsString)> {
    let elf = elf::read(&find(program)?).ok()?;
    elf.wants_first()?;
    let options = std::env::var(elf::ORDER_VARIABLE).unwrap_or_default();
    (!options.contains("verify_asan_link_order"))
        .then(|| (elf::ORDER_VARIABLE, elf::with_order_option(&options).into()))
}

/// The file that `program` names, by PATH where it has no slash.
pub(crate) fn find(program: &std::ffi::OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| place.join(program)).find(|file| file.is_file())
}

fn summary(
    name: &str,
    code: u8,
    used: Option<&ledger::LedgerTenant>,
    findings: &[Finding],
    notes: &[String],
    path: &Path,
    removed: bool,
) -> Result<String> {
    let device = |device: &ledger::DeviceUse| {
        serde_json::json!({
            "uuid": device.uuid,
            "index": device.index,
            "name": device.name,
            "card_bytes": device.card_bytes,
            "limit_bytes": device.limit_bytes,
            "used_bytes": device.held_bytes,
            "peak_bytes": device.peak_bytes,
            "refusals": device.refusals,
            "share_ppm": device.share_ppm,
            "used_ns": device.used_ns,
            "launches": device.launches,
            "throttled_ns": device.throttled_ns,
            "waited_ns": device.waited_ns,
        })
    };
    let devices: Vec<_> = used.iter().flat_map(|tenant| &tenant.devices).map(device).collect();
    json::line(&serde_json::json!({
        "tenant": name,
        "exit_code": code,
        "audit": findings,
        "notes": notes,
        "directory": path,
        "directory_removed": removed,
        "devices": devices,
    }))
}
