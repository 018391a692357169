//! Every environment variable that Divvy reads, once: its name, who reads it, how its value is judged.
//!
//! The parsers name their variables by the constants here. [`VARIABLES`] is what `divvy doctor` judges
//! and what `docs/guide/environment.md` lists; tests compare them, and look for a name that is read and
//! not here. Holds texts and decides nothing: what is not used is not linked.

/// Limits of memory; `_<i>` for one device.
pub const MEMORY: &str = "DIVVY_MEMORY";
/// The same in HAMi-core's names.
pub const PEER_MEMORY: &str = "CUDA_DEVICE_MEMORY_LIMIT";
/// Caps of device time; `_<i>` for one device.
pub const COMPUTE: &str = "DIVVY_COMPUTE";
/// The same in HAMi-core's names.
pub const PEER_COMPUTE: &str = "CUDA_DEVICE_SM_LIMIT";
/// HAMi-core's switch for its caps.
pub const PEER_POLICY: &str = "GPU_CORE_UTILIZATION_POLICY";
/// The weight.
pub const WEIGHT: &str = "DIVVY_WEIGHT";
/// The priority.
pub const PRIORITY: &str = "DIVVY_PRIORITY";
/// The same in HAMi-core's numbers.
pub const PEER_PRIORITY: &str = "CUDA_TASK_PRIORITY";
/// The class.
pub const CLASS: &str = "DIVVY_CLASS";
/// The tenant's directory.
pub const TENANT: &str = "DIVVY_TENANT";
/// HAMi-core's file, which names the tenant.
pub const PEER_TENANT: &str = "CUDA_DEVICE_MEMORY_SHARED_CACHE";
/// Behaviour when Divvy fails: refuse memory, or run without limits.
pub const FAIL: &str = "DIVVY_FAIL";
/// Whether memory may leave the card.
pub const OVERSUBSCRIBE: &str = "DIVVY_OVERSUBSCRIBE";
/// Means by which memory leaves the card: one of [`BACKENDS`].
pub const BACKEND: &str = "DIVVY_BACKEND";
/// The words for it; the first is the default.
pub const BACKENDS: &[&str] = &["auto", "vmm", "managed"];
/// The same in the name that HAMi's plugin sets.
pub const PEER_OVERSUBSCRIBE: &str = "CUDA_OVERSUBSCRIBE";
/// Charge of a context.
pub const CONTEXT: &str = "DIVVY_CONTEXT_MEMORY";
/// Level of the library's log.
pub const LOG: &str = "DIVVY_LOG";
/// The same in HAMi-core's numbers.
pub const PEER_LOG: &str = "LIBCUDA_LOG_LEVEL";
/// nvshare's switch for a process that wants more memory than the card has.
pub const NVSHARE_SINGLE: &str = "NVSHARE_ENABLE_SINGLE_OVERSUB";
/// nvshare's switch for its log.
pub const NVSHARE_DEBUG: &str = "NVSHARE_DEBUG";
/// The library that is preloaded.
pub const LIBRARY: &str = "DIVVY_LIBRARY";
/// The simulated driver.
pub const SIM: &str = "DIVVY_SIM";
/// Directory of an MPS daemon's pipe.
pub const MPS_PIPE: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// The small client programs.
pub const CLIENTS: &str = "DIVVY_CLIENTS";
/// Further directories of tenants.
pub const TENANT_ROOT: &str = "DIVVY_TENANT_ROOT";
/// Folder of the locks that daemons hold on devices.
pub const DEVICE_LOCKS: &str = "DIVVY_DEVICE_LOCKS";
/// Switch for looking at no other place for this user's tenants than XDG_RUNTIME_DIR.
pub const ONLY_RUNTIME_DIR: &str = "DIVVY_ONLY_RUNTIME_DIR";

/// Part of Divvy that reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableReader {
    /// The preloaded library, in programs.
    Library,
    /// The command `divvy`.
    Command,
    /// No part of Divvy: HAMi-core reads it, and Divvy has no need of it.
    Nobody,
}

/// How a value is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// By [`crate::limit::Rules::push_env`].
    Memory,
    /// By [`crate::share::Environment::push`].
    Share,
    /// One of these words.
    Word(&'static [&'static str]),
    /// An amount, by [`crate::size::parse_written`].
    Amount,
    /// A tenant's directory.
    Tenant,
    /// A path from which the tenant's directory is made.
    TenantPath,
    /// A file that is there.
    File,
    /// A directory that is there.
    Directory,
    /// Directories, separated by colons.
    Directories,
    /// A directory that is made where it is missing.
    Place,
    /// Set or not: any value will do.
    Presence,
    /// Not read, and why.
    Ignored(&'static str),
}

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Whether `NAME_<i>` is the same for device i.
    pub per_device: bool,
    /// Its reader.
    pub reader: VariableReader,
    /// How its value is judged.
    pub value: VariableKind,
    /// Its meaning, in Markdown, for the page of variables.
    pub meaning: &'static str,
}

const fn library(name: &'static str, value: VariableKind, meaning: &'static str) -> Variable {
    Variable { name, per_device: false, reader: VariableReader::Library, value, meaning }
}

const fn command(name: &'static str, value: VariableKind, meaning: &'static str) -> Variable {
    Variable { name, per_device: false, reader: VariableReader::Command, value, meaning }
}

const fn ignored(name: &'static str, why: &'static str) -> Variable {
    let value = VariableKind::Ignored(why);
    Variable { name, per_device: false, reader: VariableReader::Nobody, value, meaning: why }
}

const fn each_device(variable: Variable) -> Variable {
    Variable { per_device: true, ..variable }
}

/// All of them, as the page lists them.
pub const VARIABLES: &[Variable] = &[
    each_device(library(
        MEMORY,
        VariableKind::Memory,
        "the limit of every device, of the machine's [device i](limits.md); a [size](limits.md)",
    )),
    each_device(library(
        PEER_MEMORY,
        VariableKind::Memory,
        "the same in HAMi-core's names, where a number without a unit is bytes; not read where there is any `DIVVY_MEMORY`, for other devices neither",
    )),
    each_device(library(
        COMPUTE,
        VariableKind::Share,
        "the cap on every device's time, on device i's; a [share](limits.md#time)",
    )),
    library(WEIGHT, VariableKind::Share, "as `--weight` of `divvy run`"),
    library(PRIORITY, VariableKind::Share, "as `--priority`"),
    library(CLASS, VariableKind::Share, "as `--class`"),
    each_device(library(
        PEER_COMPUTE,
        VariableKind::Share,
        "a cap in percent, in HAMi-core's names; 0, and 100 or more, is none. With any `DIVVY_COMPUTE` they do not count, and must be understood all the same",
    )),
    library(
        PEER_POLICY,
        VariableKind::Share,
        "`disable` lifts the caps of `CUDA_DEVICE_SM_LIMIT`; `default` and `force` keep them",
    ),
    library(
        PEER_PRIORITY,
        VariableKind::Share,
        "0 is high, 1 and more is low. Read if there is no `DIVVY_PRIORITY`",
    ),
    library(
        TENANT,
        VariableKind::Tenant,
        "the tenant's directory; `divvy run` sets it. Its limits come before the variables above",
    ),
    library(
        PEER_TENANT,
        VariableKind::TenantPath,
        "names the tenant by a path: for `/a/b/x.cache` the tenant is `/a/b/.divvy/x`",
    ),
    library(
        FAIL,
        VariableKind::Word(&["closed", "open"]),
        "`closed` (default): whatever Divvy cannot do means that memory is refused; `open`: the program \
         then runs without limits",
    ),
    library(
        OVERSUBSCRIBE,
        VariableKind::Word(&["false", "true", "0", "1"]),
        "`true` or `1`, as `--oversubscribe` of `divvy run`: memory may leave the card, so that \
         [tenants' memory together may exceed it](oversubscribe.md)",
    ),
    library(
        BACKEND,
        VariableKind::Word(BACKENDS),
        "`auto` (default), `vmm` or `managed`, as `--backend` of `divvy run`: [how memory leaves the \
         card](oversubscribe.md#two-back-ends)",
    ),
    library(
        PEER_OVERSUBSCRIBE,
        VariableKind::Word(&["false", "true", "0", "1"]),
        "the same in the name that HAMi's plugin sets. Read if there is no `DIVVY_OVERSUBSCRIBE`",
    ),
    library(
        CONTEXT,
        VariableKind::Amount,
        "what each context is charged, such as `500MiB`; for cards that are not in the built-in table",
    ),
    library(
        LOG,
        VariableKind::Word(&["off", "error", "warn", "info", "debug"]),
        "`off`, `error` (default), `warn`, `info`, `debug`: what the library says on standard error",
    ),
    library(
        PEER_LOG,
        VariableKind::Word(&["0", "1", "2", "3", "4"]),
        "0 to 4, the same in HAMi-core's numbers. Read if there is no `DIVVY_LOG`",
    ),
    library(
        NVSHARE_SINGLE,
        VariableKind::Presence,
        "set, to anything, where the library is preloaded as [`libnvshare.so`](../nvshare-migration.md): a process asks \
         for more memory than the card has. Today what the card cannot hold at once is refused all the same",
    ),
    library(
        NVSHARE_DEBUG,
        VariableKind::Presence,
        "set, to anything, where the library is preloaded as `libnvshare.so`: as `debug`. Read if there is neither \
         `DIVVY_LOG` nor `LIBCUDA_LOG_LEVEL`",
    ),
    command(LIBRARY, VariableKind::File, "the library to preload"),
    command(SIM, VariableKind::Directory, "the directory of the simulated driver"),
    command(
        CLIENTS,
        VariableKind::Directory,
        "the directory of the clients of demonstration and benchmarks",
    ),
    command(
        TENANT_ROOT,
        VariableKind::Directories,
        "more directories of tenants for `divvy ps`, `set`, `top`, `trace` and the daemon, separated by \
         colons",
    ),
    command(
        DEVICE_LOCKS,
        VariableKind::Place,
        "where [daemons](daemon.md) of one machine lock the devices they divide; else \
         `/tmp/.divvy-devices`",
    ),
    command(
        "XDG_RUNTIME_DIR",
        VariableKind::Directory,
        "where tenants are made; else `/dev/shm`, else `/tmp`",
    ),
    command(
        ONLY_RUNTIME_DIR,
        VariableKind::Presence,
        "set, to anything: this user's tenants and daemon are looked for and made in `XDG_RUNTIME_DIR` alone. For tests, which \
         must not see the machine's own",
    ),
    command(
        "XDG_CACHE_HOME",
        VariableKind::Place,
        "where `divvy doctor` keeps what a context takes, and `divvy run` looks for it; else `~/.cache`",
    ),
    command(
        "XDG_CONFIG_HOME",
        VariableKind::Place,
        "where the user's [file of defaults](config.md) lies, `divvy/config.toml`; else `~/.config`",
    ),
    command(
        "XDG_STATE_HOME",
        VariableKind::Place,
        "where the user's [log](log.md) lies, `divvy/events.log`; else beside the tenants where `XDG_RUNTIME_DIR` is \
         another directory than `/run/user/UID`, else `~/.local/state`",
    ),
    command(
        MPS_PIPE,
        VariableKind::Place,
        "where the library, `divvy doctor` and the daemon look for an [MPS](../reason-codes.md) daemon; else \
         `/tmp/nvidia-mps`",
    ),
    ignored("ACTIVE_OOM_KILLER", "Divvy refuses memory and kills nobody"),
    ignored("CUDA_REDIRECT", "Divvy does not load itself a second time"),
    ignored("RECORD_KERNEL_INTERVAL", "Divvy measures the time of kernels and notes no last one"),
];

/// The variable that `name` is, with or without a device's number.
pub fn find(name: &str) -> Option<&'static Variable> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('_');
    VARIABLES.iter().find(|known| {
        known.name == name || (known.per_device && base.is_some_and(|base| base == known.name))
    })
}
