//! Files of a layout that is not today's are read and written by its table, byte for byte.
//!
//! The table is the tests' own, with every part moved, tables with other strides, and fields that are
//! missing. Its files are laid out here by hand, so nothing is compared with itself.

mod scratch;

use std::fs::{self, File as Opened};
use std::os::unix::fs::FileExt as _;

use divvy_abi::config::{self, CONFIG_BYTES, Config, GateLine, gate};
use divvy_abi::layout::{HEAD_BYTES, Layout, Part};
use divvy_abi::usage::{self, MemoryKind, SLOT_LOCKS_AT, USAGE_BYTES, device, line, slot, state};
use divvy_abi::{ABI_VERSION, MAX_DEVICES, MAX_SLOTS};
use divvy_page::owner::Owner;
use divvy_page::reader::UsageFile;
use divvy_page::{AttachError, ResidenceEntry, TenantFile};
use scratch::Scratch;

/// A version that no release has.
const MOVED: u32 = 90;

/// Slots of 96 bytes whose fields are in another order, devices of 256 bytes without a name, lines of the ledger, of
/// gates and of residence of 160, 192 and 264 bytes, tables in another order, no shared table.
mod then {
    pub(super) const SLOTS_HIGH: usize = 20;
    pub(super) const SLOTS: usize = 40;
    pub(super) const SLOT: usize = 96;
    pub(super) const SLOT_REST: usize = 8; // start, namespace, command, reason
    pub(super) const SLOT_HEAD: usize = 80; // state and pid
    pub(super) const GATES: usize = SLOTS + SLOT * super::MAX_SLOTS;
    pub(super) const GATE: usize = 192;
    pub(super) const LINES: usize = GATES + GATE * super::MAX_SLOTS * super::MAX_DEVICES;
    pub(super) const LINE: usize = 160;
    pub(super) const DEVICES: usize = LINES + LINE * super::MAX_SLOTS * super::MAX_DEVICES;
    pub(super) const DEVICE: usize = 256;
    pub(super) const RESIDENCES: usize = DEVICES + DEVICE * super::MAX_DEVICES;
    pub(super) const RESIDENCE: usize = 264;
    pub(super) const END: usize = RESIDENCES + RESIDENCE * super::MAX_SLOTS * super::MAX_DEVICES;

    pub(super) const RULES: usize = 4096;
    pub(super) const GATE_LINES: usize = 256;
    pub(super) const GATE_LINE: usize = 64;
    pub(super) const CONFIG_END: usize = 8192;
}

const USAGE: &[Layout] = &[Layout {
    version: MOVED,
    bytes: then::END,
    parts: &[
        Part::one(HEAD_BYTES, 0, 0),
        Part::one(4, usage::SLOTS_HIGH_AT, then::SLOTS_HIGH),
        Part::table(
            device::NAME,
            MAX_DEVICES,
            (usage::DEVICES_AT, usage::DEVICE_BYTES),
            (then::DEVICES, then::DEVICE),
        ),
        Part::table(
            8,
            MAX_SLOTS,
            (usage::SLOTS_AT, usage::SLOT_BYTES),
            (then::SLOTS + then::SLOT_HEAD, then::SLOT),
        ),
        Part::table(
            36,
            MAX_SLOTS,
            (usage::SLOTS_AT + slot::START_TICKS, usage::SLOT_BYTES),
            (then::SLOTS + then::SLOT_REST, then::SLOT),
        ),
        Part::table(
            usage::LINE_BYTES,
            MAX_DEVICES * MAX_SLOTS,
            (usage::LEDGER_AT, usage::LINE_BYTES),
            (then::LINES, then::LINE),
        ),
        Part::table(
            usage::GATE_BYTES,
            MAX_DEVICES * MAX_SLOTS,
            (usage::GATES_AT, usage::GATE_BYTES),
            (then::GATES, then::GATE),
        ),
        Part::table(
            usage::RESIDENCE_BYTES,
            MAX_DEVICES * MAX_SLOTS,
            (usage::RESIDENCE_AT, usage::RESIDENCE_BYTES),
            (then::RESIDENCES, then::RESIDENCE),
        ),
    ],
}];

/// Limits behind the gate lines, which are half as long; the weight is missing.
const CONFIG: &[Layout] = &[Layout {
    version: MOVED,
    bytes: then::CONFIG_END,
    parts: &[
        Part::one(48, 0, 0),
        Part::one(GATES - 52, 52, then::RULES),
        Part::table(
            56,
            MAX_DEVICES,
            (GATES, size_of::<GateLine>()),
            (then::GATE_LINES, then::GATE_LINE),
        ),
    ],
}];

const GATES: usize = config::gate_at(0);
const _: () = assert!(core::mem::offset_of!(Config, weight) == 48);

fn put(file: &Opened, at: usize, bytes: &[u8]) {
    file.write_all_at(bytes, at as u64).expect("written");
}

fn word(file: &Opened, at: usize) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at as u64).expect("long enough");
    u64::from_ne_bytes(bytes)
}

fn half(file: &Opened, at: usize) -> u32 {
    u32::from_ne_bytes(word(file, at).to_ne_bytes()[..4].try_into().expect("four bytes"))
}

fn made(scratch: &Scratch, name: &str, magic: [u8; 8], bytes: usize) -> Opened {
    let path = scratch.path().join(name);
    let mut options = Opened::options();
    let file = options.read(true).write(true).create_new(true).open(path).expect("made");
    file.set_len(bytes as u64).expect("long");
    put(&file, 0, &magic);
    put(&file, 8, &MOVED.to_ne_bytes());
    put(&file, 12, &u32::try_from(bytes).expect("small").to_ne_bytes());
    file
}

#[test]
fn a_reader_follows_the_table_of_the_files_version() {
    let scratch = Scratch::new("layout-reader");
    let file = made(&scratch, "usage", usage::MAGIC, then::END);
    let put = |at: usize, bytes: &[u8]| put(&file, at, bytes);
    put(then::SLOTS_HIGH, &12_u32.to_ne_bytes());
    let row = 2;
    let at = then::DEVICES + then::DEVICE * row;
    put(at + device::STATE, &1_u32.to_ne_bytes());
    put(at + device::INDEX, &6_u32.to_ne_bytes());
    put(at + device::UUID, &[9; 16]);
    put(at + device::TOTAL_BYTES, &(1_u64 << 34).to_ne_bytes());
    put(at + device::LIMIT_BYTES, &(1_u64 << 30).to_ne_bytes());
    // What the name would be today, if there were no table, must not be read as one.
    put(at + device::NAME, b"not a name");
    for (index, pid) in [(1, 71_u32), (11, 81)] {
        let at = then::SLOTS + then::SLOT * index;
        put(at + then::SLOT_HEAD, &state::LIVE.to_ne_bytes());
        put(at + then::SLOT_HEAD + 4, &pid.to_ne_bytes());
        put(at + then::SLOT_REST, &5_u64.to_ne_bytes());
        put(at + then::SLOT_REST + 8, &6_u64.to_ne_bytes());
        put(at + then::SLOT_REST + 16, b"command");
        put(at + then::SLOT_REST + 32, &4_u32.to_ne_bytes());
        let at = then::LINES + then::LINE * (MAX_SLOTS * row + index);
        put(at + line::HELD, &(u64::from(pid) << 20).to_ne_bytes());
        put(at + line::PEAK, &(u64::from(pid) << 21).to_ne_bytes());
        put(at + line::KINDS + 8 * MemoryKind::Pool as usize, &7_u64.to_ne_bytes());
        let at = then::GATES + then::GATE * (MAX_SLOTS * row + index);
        put(at + usage::gate::USED_NS, &1000_u64.to_ne_bytes());
        put(at + usage::gate::SLEEPERS, &1_u64.to_ne_bytes());
        let at = then::RESIDENCES + then::RESIDENCE * (MAX_SLOTS * row + index);
        put(at + usage::residence::AWAY_BYTES, &(u64::from(pid) << 22).to_ne_bytes());
        put(at + usage::residence::MOVING, &1_u64.to_ne_bytes());
    }
    let at = then::GATES + then::GATE * MAX_SLOTS * row;
    put(at + usage::gate_tenant::SHARE_PPM, &300_000_u64.to_ne_bytes());
    // Slot 11 lives; locks lie where they do in every version.
    let holder = Opened::options().write(true).open(scratch.path().join("usage")).expect("open");
    lock(&holder, SLOT_LOCKS_AT + 11);

    let read = UsageFile::within_of(&scratch.directory(), USAGE).expect("served").expect("there");
    assert_eq!((read.version(), read.slots_high()), (MOVED, 12));
    let one = read.device(row).expect("a device");
    assert_eq!((one.uuid, one.index, one.total_bytes), ([9; 16], Some(6), 1 << 34));
    assert_eq!((one.limit_bytes, one.name.to_string()), (Some(1 << 30), String::new()));
    assert_eq!(read.device(row + 1), None);
    let head = read.head();
    assert_eq!(head.slots_high, 12);
    assert_eq!(head.devices[row].map(|name| (name.uuid, name.index)), Some(([9; 16], Some(6))));
    let [dead, alive] = [1, 11].map(|index| read.slot(index).expect("a process"));
    assert_eq!((dead.pid, dead.alive, alive.pid, alive.alive), (71, false, 81, true));
    assert_eq!((alive.start_ticks, alive.pid_namespace, alive.reason), (5, 6, 4));
    assert_eq!(alive.comm.to_string(), "command");
    assert_eq!(read.slot(2), None);
    let held = read.line(row, 11);
    assert_eq!((held.held_bytes, held.bytes_of(MemoryKind::Pool)), (81 << 20, 7));
    let totals = read.totals(row);
    assert_eq!((totals.used_bytes, totals.peak_bytes), (81 << 20, 81 << 21));
    assert!(read.holds_any(row, [11]) && !read.holds_any(row, [2]));
    assert_eq!(read.gate(row, 11).sleepers, 1);
    assert_eq!((read.gate_sum(row).used_ns, read.gate_sum(row).sleepers), (2000, 1));
    assert_eq!(read.cap(row).share_ppm, 300_000);
    let residence = read.residence(row, 11);
    assert_eq!((residence.away_bytes, residence.moving), (81 << 22, true));
    assert_eq!(read.residence(row, 2), ResidenceEntry::default());

    // No version that is served.
    let refused = UsageFile::within(&scratch.directory()).map(|_| ()).expect_err("unknown");
    let oldest = ABI_VERSION - 1;
    assert_eq!(refused, AttachError::Version { file: TenantFile::Usage, found: MOVED, oldest });
    let words = format!("has version {MOVED}, served are {oldest} to {ABI_VERSION}");
    assert!(refused.to_string().contains(&words), "{refused}");
    assert!(refused.to_string().contains("use the Divvy that wrote it"), "{refused}");
    // Cut below what its own version has, though today's is shorter.
    const { assert!(then::END > USAGE_BYTES) };
    file.set_len(USAGE_BYTES as u64).expect("cut");
    let short = UsageFile::within_of(&scratch.directory(), USAGE).map(|_| ()).expect_err("short");
    assert!(matches!(short, AttachError::ShortFile { .. }), "{short}");
}

/// Locks a byte for the life of the description.
#[allow(unsafe_code, reason = "the standard library locks whole files")]
fn lock(file: &Opened, at: u64) {
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at.cast_signed(),
        l_len: 1,
        l_pid: 0,
    };
    let number = std::os::fd::AsRawFd::as_raw_fd(file);
    // SAFETY: one flock is read.
    assert_eq!(unsafe { libc::fcntl(number, libc::F_OFD_SETLK, &raw const lock) }, 0);
}

#[test]
fn an_owner_writes_where_the_files_version_has_it() {
    let scratch = Scratch::new("layout-owner");
    let file = made(&scratch, "config", config::MAGIC, then::CONFIG_END);
    let rules = then::RULES + core::mem::offset_of!(Config, rules) - 52;
    put(&file, 20, &1_u32.to_ne_bytes()); // one rule
    put(&file, rules + 24, &1_u32.to_ne_bytes()); // in bytes
    put(&file, rules + 32, &(100_u64 << 20).to_ne_bytes());
    let owner = Owner::within_of(&scratch.directory(), CONFIG).expect("served");
    let read = owner.read().expect("readable");
    assert_eq!((read.rules().len(), read.rules()[0].value, read.version), (1, 100 << 20, MOVED));
    assert!(owner.read_changed(&read).expect("readable").is_none());

    let made = owner.update(|config| {
        config.rules[0].value = 50 << 20;
        config.priority = 1;
        config.paused = 1;
    });
    assert_eq!(made.expect("changed").epoch, 2);
    assert_eq!((word(&file, rules + 32), word(&file, config::EPOCH_AT)), (50 << 20, 2));
    assert_eq!(half(&file, then::RULES), 1, "the priority");
    assert_eq!(half(&file, config::ANY_GATE_AT), 1);
    assert!(owner.read_changed(&read).expect("readable").is_some());
    assert_eq!(owner.read().expect("readable").rules()[0].value, 50 << 20);

    let line =
        GateLine { gate: gate::CLOSED, active: 3, epoch: 8, lease_ns: 9, ..GateLine::default() };
    owner.set_gate(5, &line).expect("written");
    let at = then::GATE_LINES + then::GATE_LINE * 5;
    assert_eq!([half(&file, at), half(&file, at + 4)], [gate::CLOSED, 3]);
    assert_eq!([word(&file, at + 8), word(&file, at + 16)], [8, 9]);
    owner.renew(5, 77).expect("written");
    assert_eq!(word(&file, at + 16), 77);
    // Of its neighbours nothing was written, nor where today's layout would have it.
    assert_eq!(
        [word(&file, at - 8), word(&file, at + 64), word(&file, config::gate_at(5))],
        [0; 3]
    );

    // What the version does not know is not taken for set, and nothing is half written.
    let before = fs::read(scratch.path().join("config")).expect("readable");
    let error = owner.update(|config| config.weight = 3).expect_err("no place");
    assert_eq!(error, AttachError::OtherLibrary { found: MOVED });
    assert!(error.to_string().contains(&format!("version {MOVED}")), "{error}");
    assert!(fs::read(scratch.path().join("config")).expect("readable") == before);
    assert_eq!(before.len(), then::CONFIG_END);
    const { assert!(then::CONFIG_END > CONFIG_BYTES) };
}

#[test]
fn who_waits_at_a_gate_of_another_layout_is_woken() {
    use std::time::{Duration, Instant};
    let scratch = Scratch::new("layout-wake");
    let file = made(&scratch, "config", config::MAGIC, then::CONFIG_END);
    let owner = Owner::within_of(&scratch.directory(), CONFIG).expect("served");
    let line = GateLine { gate: gate::CLOSED, ..GateLine::default() };
    owner.set_gate(5, &line).expect("written");
    let at = then::GATE_LINES + then::GATE_LINE * 5;
    let give_up = Instant::now() + Duration::from_secs(20);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| waits(&file, at, gate::CLOSED));
        while !waiter.is_finished() {
            owner.wake(5);
            assert!(Instant::now() < give_up, "nobody was woken");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(waiter.join().expect("joined"), 0, "it was woken, its time was not up");
    });
}

/// Waits on the word at `at` as a process that has the file mapped does; what the kernel answers.
#[allow(unsafe_code, clippy::multiple_unsafe_ops_per_block, reason = "a futex in a mapping")]
fn waits(file: &Opened, at: usize, value: u32) -> i64 {
    let number = std::os::fd::AsRawFd::as_raw_fd(file);
    let none = std::ptr::null_mut();
    let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
    let time = libc::timespec { tv_sec: 30, tv_nsec: 0 };
    // SAFETY: a new mapping of the file, which is that long; the kernel reads the word and one timespec.
    unsafe {
        let base = libc::mmap(none, then::CONFIG_END, read, shared, number, 0);
        assert_ne!(base, libc::MAP_FAILED);
        let word = base.wrapping_byte_add(at);
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, &raw const time)
    }
}
