//! Refusals of a tenant's processes, as lines: the last note of each process is compared with the one before.
//!
//! A process notes the code of its last refusal in its slot, and counts refusals by device. The first refusal with a code in a
//! process is a line at once. If the program tries again and again, the next ones are one line a [`REPEAT_NS`], with a count.
//!
//! Promises: a refusal that was noted before a look counts once, however many looks there are. A slot that another process has
//! taken starts from zero. Does not read files.

use std::collections::BTreeMap;

use divvy_page::reader::{SlotEntry, UsageFile};
use divvy_policy::limit::UuidText;

use super::change::Subject;
use super::line::{Event, LogLine};
use crate::machine::gpus;

/// Time between two lines about one process and code: a day of a program that never stops asking is 1,440 lines, a fifth
/// of the log.
const REPEAT_NS: u64 = 60_000_000_000;
/// Clock ticks in a second: the kernel tells in ticks when a process began.
const TICKS: u64 = 100;
/// Rows of devices.
const ROWS: usize = divvy_abi::MAX_DEVICES;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $words:literal;)*) => {
        /// The library's codes of its refusals. A test compares them with the library's own list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Refusal { $($(#[$doc])* $name = $code,)* }

        impl Refusal {
            /// All of them.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// The refusal with this code.
            pub(crate) fn of(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// Its words in a line.
            pub(crate) const fn words(self) -> &'static str {
                match self { $(Self::$name => $words,)* }
            }
        }
    };
}

refusals! {
    OverLimit = 201, "memory was refused: the tenant's limit would be exceeded";
    Contended = 202, "memory was refused: other requests at the limit did not settle in time";
    BadLimit = 203, "memory was refused: the limits cannot be understood";
    NoTenant = 204, "memory was refused: the tenant's directory or files cannot be used";
    NoDevice = 205, "memory was refused: the device cannot be entered into the tenant's files";
    Context = 206, "a context was refused: it does not fit the tenant's limit";
    NoTable = 207, "memory was refused: the process has no memory left to keep count";
    NoSlot = 208, "memory was refused: the process has no slot in the tenant";
    Grown = 209, "memory was handed back: the driver took more than could be foreseen";
    OutOfReach = 210, "a library was loaded, or refused, where Divvy is not met first";
    Unshared = 211, "memory that may leave the card could not be shared with another process";
    NoManaged = 212, "managed memory was refused: no daemon answers, or it has no more to give";
    HostMemory = 213, "memory was refused: the host has no room for what may have to leave the card";
    NoRoom = 214, "calls failed: what the tenant holds has no room on the card";
}

/// Refusals of a process, as it has noted them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) slot: usize,
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) comm: String,
    pub(crate) code: u32,
    /// By row of the tenant's devices.
    pub(crate) counts: [u64; ROWS],
}

/// Facts that are known of one process.
#[derive(Clone, Debug)]
struct Known {
    pid: u32,
    start_ticks: u64,
    comm: String,
    code: u32,
    counts: [u64; ROWS],
    /// By code: the time of the last line, and the refusals since then, with their row.
    told: BTreeMap<u32, Told>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    at_ns: u64,
    since: u64,
    row: Option<usize>,
}

/// A line to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    pub(crate) code: u32,
    pub(crate) row: Option<usize>,
    pub(crate) count: u64,
}

/// The processes of one tenant.
#[derive(Debug, Default)]
pub(crate) struct RefusalWatch {
    known: BTreeMap<usize, Known>,
    /// Another daemon has told the refusals of processes that began before this.
    from_ticks: u64,
}

impl RefusalWatch {
    /// For a tenant that is looked at from now on; `since_ns` is the time at which this daemon began, by the clock since boot.
    pub(crate) fn since(since_ns: u64) -> Self {
        Self { from_ticks: since_ns / (1_000_000_000 / TICKS), ..Self::default() }
    }

    /// New refusals; where `is_last`, also those that would have been told later.
    pub(crate) fn look(&mut self, now_ns: u64, said: &[Said], is_last: bool) -> Vec<Refused> {
        let mut found = Vec::new();
        let is_there = |slot: usize, known: &Known| {
            let same = |one: &Said| {
                (one.slot, one.pid, one.start_ticks) == (slot, known.pid, known.start_ticks)
            };
            said.iter().any(same)
        };
        let gone: Vec<usize> = self
            .known
            .iter()
            .filter(|(slot, known)| !is_there(**slot, known))
            .map(|(slot, _)| *slot)
            .collect();
        for known in gone.iter().filter_map(|slot| self.known.remove(slot)) {
            rest(&known, &mut found);
        }
        for one in said {
            self.take(now_ns, one, &mut found);
        }
        if is_last {
            for known in self.known.values_mut() {
                rest(known, &mut found);
                known.told.values_mut().for_each(|told| told.since = 0);
            }
        }
        found
    }

    fn take(&mut self, now_ns: u64, one: &Said, found: &mut Vec<Refused>) {
        let is_old = one.start_ticks != 0 && one.start_ticks < self.from_ticks;
        let known = self.known.entry(one.slot).or_insert_with(|| Known {
            pid: one.pid,
            start_ticks: one.start_ticks,
            comm: one.comm.clone(),
            code: if is_old { one.code } else { 0 },
            counts: if is_old { one.counts } else { [0; ROWS] },
            told: BTreeMap::new(),
        });
        let grown: Vec<(usize, u64)> = one
            .counts
            .iter()
            .zip(&known.counts)
            .enumerate()
            .map(|(row, (now, before))| (row, now.saturating_sub(*before)))
            .filter(|(_, more)| *more > 0)
            .collect();
        let counted = grown.iter().map(|(_, more)| *more).fold(0, u64::saturating_add);
        // Not every refusal has a count: another code means at least one.
        let more = counted.max(u64::from(known.code != one.code));
        (known.code, known.counts) = (one.code, one.counts);
        if more == 0 || one.code == 0 {
            // A line that was put off may be due nevertheless.
            for (code, told) in &mut known.told {
                if told.since > 0 && now_ns >= told.at_ns.saturating_add(REPEAT_NS) {
                    found.push(refused(known.pid, &known.comm, *code, told));
                    *told = Told { at_ns: now_ns, ..*told };
                    told.since = 0;
                }
            }
            return;
        }
        let is_first = !known.told.contains_key(&one.code);
        let told = known.told.entry(one.code).or_default();
        told.since = told.since.saturating_add(more);
        told.row = grown.first().map(|(row, _)| *row).or(told.row);
        if is_first || now_ns >= told.at_ns.saturating_add(REPEAT_NS) {
            found.push(refused(known.pid, &known.comm, one.code, told));
            (told.at_ns, told.since) = (now_ns, 0);
        }
    }
}

fn refused(pid: u32, comm: &str, code: u32, told: &Told) -> Refused {
    Refused { pid, comm: comm.to_owned(), code, row: told.row, count: told.since }
}

/// Refusals of a process whose line was put off.
fn rest(known: &Known, found: &mut Vec<Refused>) {
    let due = known.told.iter().filter(|(_, told)| told.since > 0);
    found.extend(due.map(|(code, told)| refused(known.pid, &known.comm, *code, told)));
}

/// Refusals that a tenant's processes, living and dead, have noted.
pub(crate) fn said(usage: &UsageFile) -> Vec<Said> {
    let counts = |slot: usize| {
        let mut counts = [0; ROWS];
        for (row, count) in counts.iter_mut().enumerate() {
            if usage.device(row).is_some() {
                *count = usage.line(row, slot).refusals;
            }
        }
        counts
    };
    let of = |slot: usize| {
        let SlotEntry { pid, start_ticks, comm, reason, .. } = usage.slot(slot)?;
        let comm = comm.to_string();
        let said = |counts| Said { slot, pid, start_ticks, comm, code: reason, counts };
        (reason != 0).then(|| said(counts(slot)))
    };
    let mut all: Vec<Said> = (1..usage.slots_high()).filter_map(of).collect();
    // All processes without a slot share one note.
    if let code @ 1.. = usage.reason_without_slot() {
        let comm = "a process without a slot".to_owned();
        all.push(Said { slot: 0, pid: 0, start_ticks: 0, comm, code, counts: [0; ROWS] });
    }
    all
}

/// The line of a refusal.
pub(crate) fn line(subject: &Subject, usage: Option<&UsageFile>, refused: &Refused) -> LogLine {
    let device = refused.row.and_then(|row| usage?.device(row));
    let words = Refusal::of(refused.code).map(Refusal::words);
    LogLine {
        uid: Some(subject.owner),
        pid: (refused.pid != 0).then_some(refused.pid),
        by: Some(refused.comm.clone()),
        device: device.as_ref().map(|device| UuidText(&device.uuid).to_string()),
        index: device.as_ref().and_then(|device| {
            device.index.or_else(|| gpus::index_of(&UuidText(&device.uuid).to_string()))
        }),
        code: Some(format!("DV{:03}", refused.code)),
        count: (refused.count > 1).then_some(refused.count),
        message: Some(words.unwrap_or("something was refused").to_owned()),
        ..subject.line(Event::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test fails if the library has a code that has no line here.
    #[test]
    fn each_code_of_the_library_has_its_line() {
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../shim/src/tenant/reason.rs");
        let text = std::fs::read_to_string(list).unwrap();
        let codes: Vec<u32> = text
            .lines()
            .filter_map(|line| line.split_once(" = ")?.1.strip_suffix(',')?.parse().ok())
            .filter(|code| *code >= 200)
            .collect();
        assert!(codes.len() > 10, "{codes:?}");
        let ours: Vec<u32> = Refusal::ALL.iter().map(|refusal| *refusal as u32).collect();
        assert_eq!(ours, codes);
        let subject = Subject { name: "t".to_owned(), ..Subject::default() };
        for code in codes {
            let mut watch = RefusalWatch::since(0);
            let found = watch.look(0, &[said(1, 7, code, 1)], false);
            let [one] = found.as_slice() else { panic!("{found:?}") };
            let line = line(&subject, None, one);
            assert_eq!(line.code, Some(format!("DV{code}")));
            assert_eq!(line.message.as_deref(), Refusal::of(code).map(Refusal::words));
            assert!(crate::log::words::human(&line).contains(&format!("DV{code}")));
        }
    }

    fn said(slot: usize, pid: u32, code: u32, refusals: u64) -> Said {
        let mut counts = [0; ROWS];
        counts[2] = refusals;
        Said { slot, pid, start_ticks: u64::from(pid), comm: "prog".to_owned(), code, counts }
    }

    fn counts(found: &[Refused]) -> Vec<(u32, u64)> {
        found.iter().map(|one| (one.code, one.count)).collect()
    }

    #[test]
    fn a_program_that_asks_again_and_again_is_one_line_and_a_count() {
        let mut watch = RefusalWatch::since(0);
        let first = watch.look(1, &[said(1, 9, 201, 1)], false);
        assert_eq!((counts(&first), first[0].row), (vec![(201, 1)], Some(2)));
        for refusals in 2..1000 {
            assert_eq!(watch.look(refusals, &[said(1, 9, 201, refusals)], false), []);
        }
        // Another code is a line at once, and no refusal of either is lost at the end.
        assert_eq!(counts(&watch.look(2000, &[said(1, 9, 206, 1000)], false)), [(206, 1)]);
        let later = watch.look(REPEAT_NS + 10, &[said(1, 9, 206, 1000)], false);
        assert_eq!(counts(&later), [(201, 998)]);
        assert_eq!(watch.look(REPEAT_NS + 20, &[said(1, 9, 206, 1004)], false), []);
        assert_eq!(counts(&watch.look(REPEAT_NS + 30, &[], false)), [(206, 4)]);
    }

    #[test]
    fn what_a_daemon_before_has_told_is_not_told_again() {
        let mut watch = RefusalWatch::since(500 * 10_000_000);
        assert_eq!(watch.look(1, &[said(1, 499, 201, 5), said(2, 501, 201, 5)], false).len(), 1);
        assert_eq!(counts(&watch.look(2, &[said(1, 499, 201, 6)], false)), [(201, 1)]);
        // A slot that another process has taken starts from zero.
        assert_eq!(counts(&watch.look(3, &[said(1, 600, 201, 1)], true)), [(201, 1)]);
        assert_eq!(
            watch.look(4, &[said(1, 600, 201, 1)], false),
            [],
            "a last look is no first one"
        );
    }
}
