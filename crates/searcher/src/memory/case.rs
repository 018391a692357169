//! Cases of tenants' memory as data, and how a seed draws one.
//!
//! Promises: what a file says that is not known is refused; a drawn case depends on its seed alone.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::choice::Choices;

/// A mebibyte.
pub const MIB: u64 = 1 << 20;

/// A run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryCase {
    /// The card.
    pub card_mib: u64,
    /// Room of the host for what is away.
    pub host_mib: u64,
    /// The most of the card that memory which can leave may take, as an operator wishes; 0 for as much as there is room for.
    #[serde(default)]
    pub capacity_mib: u64,
    /// How long the run lasts.
    pub run_ms: u64,
    /// A tick.
    pub tick_us: u64,
    /// Longest wait that turns are made for.
    pub max_wait_ms: u64,
    /// The tenants.
    pub tenants: Vec<MemoryTenant>,
    /// Events of the run.
    #[serde(default)]
    pub events: Vec<MemoryEvent>,
}

/// A tenant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryTenant {
    /// Its weight.
    pub weight: u32,
    /// Its processes.
    pub processes: Vec<MemoryProgram>,
}

/// Program of a process: it makes its memory as it starts, then works and rests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryProgram {
    /// When it starts.
    pub start_ms: u64,
    /// Its memory.
    pub mib: u64,
    /// Time that it works, by the clock; 0 for never.
    pub on_ms: u64,
    /// Time that it rests after that; 0 for never.
    pub off_ms: u64,
    /// Length of its kernels, which must end before memory leaves.
    pub kernel_us: u64,
    /// Time until it sees an order, at most.
    pub lag_us: u64,
}

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryEvent {
    /// When.
    pub at_ms: u64,
    /// To which tenant.
    pub tenant: usize,
    /// To which of its processes, where it is one's.
    pub process: usize,
    /// The event.
    pub what: MemoryChange,
}

/// Kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum MemoryChange {
    /// A block is made.
    Ask {
        /// Its size.
        mib: u64,
    },
    /// Memory is freed.
    Free {
        /// How much.
        mib: u64,
    },
    /// The process is stopped, as by SIGSTOP.
    Stop,
    /// It goes on.
    Continue,
    /// It dies.
    Kill,
    /// It lets nothing go, as while a stream captures.
    Hold,
    /// It does again.
    LetGo,
    /// From now on its words are of this kind of lie, and it does nothing else.
    Lie {
        /// The kind.
        kind: u64,
    },
    /// The driver has no memory for it for so long.
    NoCreate {
        /// How long.
        ms: u64,
    },
    /// A user sets the length of the tenant's turns; 0 for the default.
    Quantum {
        /// The length.
        ms: u64,
    },
    /// A user sets its weight.
    Weight {
        /// The weight.
        weight: u32,
    },
    /// A user sends its memory away, until it is wanted.
    Freeze,
    /// The daemon dies, and another comes after so long.
    Daemon {
        /// How long there is none.
        ms: u64,
    },
    /// Memory that cannot leave takes so much of the card from now on, as far as it finds room: contexts, pools, handles of
    /// programs, and tenants that do not oversubscribe.
    Fixed {
        /// How much.
        mib: u64,
    },
    /// Programs that are no tenant's take so much: the owner learns of it by what processes say is free.
    Foreign {
        /// How much.
        mib: u64,
    },
    /// The process's contexts go, once its door is open, and it has another after so long: meanwhile it can neither make memory
    /// nor have any leave.
    NoContext {
        /// How long.
        ms: u64,
    },
    /// A stream of it waits for the host: its work does not end before its program's calls have gone on for so long.
    Waits {
        /// How long.
        ms: u64,
        /// It is a green context's.
        #[serde(default)]
        is_green: bool,
    },
    /// Memory that the process has on another device is to leave that for so long.
    Elsewhere {
        /// How long.
        ms: u64,
        /// It has no context there meanwhile.
        #[serde(default)]
        is_bare: bool,
    },
    /// The host has room for so much from now on.
    Host {
        /// How much.
        mib: u64,
    },
}

/// A case that is kept, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptMemory {
    /// The fault that it found.
    pub found: String,
    /// The case.
    pub case: MemoryCase,
}

impl KeptMemory {
    /// Reads one.
    ///
    /// # Errors
    /// In words, with the path.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The files of all that are kept, in order.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn files() -> std::io::Result<Vec<PathBuf>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/memory");
        let mut files = std::fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()?;
        files.sort();
        Ok(files)
    }
}

/// The case of a seed. Of eight seeds one has tenants that only work, and one has room for all.
pub fn draw(seed: u64) -> MemoryCase {
    let choose = Choices::new(seed).named("memory");
    let card_mib = choose.named("card").spread(256, 160 << 10);
    let fits = choose.named("kind").below(8) == 1;
    let plain = choose.named("kind").below(8) == 0;
    let count = choose.named("tenants").between(if plain { 2 } else { 1 }, 5);
    let tenants: Vec<_> = (0..count)
        .map(|row| tenant(choose.named("tenant").of(row), card_mib, plain, fits.then_some(count)))
        .collect();
    let run_ms = if plain { 60_000 } else { 20_000 };
    let events = if plain { 0 } else { choose.named("events").below(24) };
    let mut events: Vec<_> = (0..events)
        .map(|number| event(choose.named("event").of(number), &tenants, card_mib, fits))
        .collect();
    events.sort_by_key(|event| event.at_ms);
    let all_mib: u64 = tenants.iter().flat_map(|tenant| &tenant.processes).map(|p| p.mib).sum();
    let host_mib = match choose.named("host").below(4) {
        0 if !plain => choose.named("host size").below(all_mib + 1),
        _ => 16 * (all_mib + card_mib),
    };
    let tick_us = *choose.named("tick").one_of(&[500, 1_000, 2_000]).unwrap_or(&1_000);
    let max_wait_ms = if plain { 30_000 } else { 3_000 };
    let crowded = choose.named("crowd");
    let is_crowded = !plain && !fits && crowded.below(3) == 0;
    let capacity_mib = match crowded.named("capacity").below(3) {
        0 if is_crowded => crowded.named("bound").between(card_mib / 4, card_mib),
        _ => 0,
    };
    if capacity_mib > 0 {
        // Memory that they hold they made before there was an owner, and a bound.
        let what = MemoryChange::Daemon { ms: crowded.named("unbound").between(500, 6_000) };
        events.insert(0, MemoryEvent { at_ms: 0, tenant: 0, process: 0, what });
    }
    let run_ms = if is_crowded { crowd(crowded, card_mib, &tenants, &mut events) } else { run_ms };
    MemoryCase { card_mib, host_mib, capacity_mib, run_ms, tick_us, max_wait_ms, tenants, events }
}

/// Memory that cannot leave comes and goes, contexts do, and streams wait for the host; how long such a run takes.
fn crowd(
    choose: Choices,
    card_mib: u64,
    tenants: &[MemoryTenant],
    events: &mut Vec<MemoryEvent>,
) -> u64 {
    for number in 0..choose.named("events").between(1, 6) {
        let choose = choose.named("event").of(number);
        let tenant = choose.named("tenant").below(tenants.len() as u64) as usize;
        let processes = tenants.get(tenant).map_or(1, |tenant| tenant.processes.len());
        let process = choose.named("process").below(processes as u64) as usize;
        let mib = choose.named("size").below(card_mib);
        let ms = choose.named("length").spread(1, 8_000);
        let long_ms = choose.named("length").spread(100, 8_000);
        let what = match choose.named("kind").below(10) {
            0..3 => MemoryChange::Fixed { mib },
            3 => MemoryChange::Foreign { mib: mib / 2 },
            4 => MemoryChange::NoContext { ms },
            5 | 6 => {
                let is_green = choose.named("green").below(2) == 0;
                MemoryChange::Waits { ms: long_ms, is_green }
            }
            7 | 8 => MemoryChange::Elsewhere { ms, is_bare: choose.named("bare").below(2) == 0 },
            // A capture that never ends.
            _ => MemoryChange::Hold,
        };
        let at_ms = 500 + choose.named("at").below(10_000);
        events.push(MemoryEvent { at_ms, tenant, process, what });
    }
    events.sort_by_key(|event| event.at_ms);
    // Behind the last event an ask is refused, and then what is held has its word.
    75_000
}

fn tenant(choose: Choices, card_mib: u64, plain: bool, fits: Option<u64>) -> MemoryTenant {
    let processes = if plain { 1 } else { choose.named("processes").spread(1, 4) };
    let most_mib = match (fits, plain) {
        (Some(tenants), _) => card_mib / 2 / (tenants * processes),
        (_, true) => card_mib * 9 / 10,
        _ => card_mib * 5 / 4 / processes,
    };
    let program = |number| {
        let choose = choose.named("process").of(number);
        let times = [3, 20, 100, 700, 3_000];
        let time = |name| *choose.named(name).one_of(&times).unwrap_or(&100);
        let (on_ms, off_ms) = match choose.named("program").below(8) {
            _ if plain => (1, 0),
            0..4 => (1, 0),
            4 => (0, 1),
            _ => (time("on"), time("off")),
        };
        let one = |name, all: &[u64]| *choose.named(name).one_of(all).unwrap_or(&0);
        MemoryProgram {
            start_ms: if plain { 0 } else { choose.named("start").below(4_000) },
            mib: match choose.named("large").below(3) {
                0 => choose.named("size").spread(1, most_mib.max(1)),
                _ => choose.named("size").between(most_mib / 3, most_mib.max(1)).max(1),
            },
            on_ms,
            off_ms,
            kernel_us: one("kernel", &[100, 1_000, 10_000, 200_000]),
            lag_us: one("lag", &[0, 100, 5_000, 60_000]),
        }
    };
    let processes = (0..processes).map(program).collect();
    let weight = u32::try_from(choose.named("weight").between(1, 4)).unwrap_or(1);
    MemoryTenant { weight: if plain { 1 } else { 100 * weight }, processes }
}

fn event(choose: Choices, tenants: &[MemoryTenant], card_mib: u64, fits: bool) -> MemoryEvent {
    let below = |name: &str, most: u64| choose.named(name).below(most);
    let tenant = below("tenant", tenants.len() as u64) as usize;
    let processes = tenants.get(tenant).map_or(1, |tenant| tenant.processes.len());
    let mib = choose.named("size").spread(1, (card_mib / if fits { 64 } else { 2 }).max(1));
    let ms = choose.named("length").spread(1, 4_000);
    // Where all fits nothing must move, whatever happens but for a wish that it leave.
    let kind = below("kind", if fits { 9 } else { 16 });
    let what = match kind {
        0 | 1 => MemoryChange::Ask { mib },
        2 | 3 => MemoryChange::Free { mib },
        4 => MemoryChange::Kill,
        5 => MemoryChange::Quantum { ms: if below("set", 2) == 0 { 0 } else { ms } },
        6 => MemoryChange::Weight { weight: 1 + below("weight", 1_000) as u32 },
        7 => MemoryChange::Stop,
        8 => MemoryChange::Continue,
        9 => MemoryChange::Daemon { ms },
        10 => MemoryChange::Hold,
        11 => MemoryChange::LetGo,
        12 => MemoryChange::Lie { kind: below("lie", 4) },
        13 => MemoryChange::NoCreate { ms },
        14 => MemoryChange::Freeze,
        _ => MemoryChange::Host { mib: below("host", 2 * card_mib) },
    };
    let process = below("process", processes as u64) as usize;
    MemoryEvent { at_ms: 1_000 + below("at", 12_000), tenant, process, what }
}
