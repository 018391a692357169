//! Memory that may leave the card, lent to other processes of the tenant by legacy IPC: it stays there from then on, is charged
//! once, and is found by nobody else.

use std::time::{Duration, Instant};

use crate::harness::residence::Movable;
use crate::harness::{Divided, GIB, MIB, Machine, Talk, client, until};
use crate::turns;

/// A driver's answers.
const OUT_OF_MEMORY: i64 = 2;
const INVALID_VALUE: i64 = 1;
const INVALID_CONTEXT: i64 = 201;
const INVALID_HANDLE: i64 = 400;
const OPERATING_SYSTEM: i64 = 304;
const NOT_SUPPORTED: i64 = 801;

/// Bytes that a context takes.
const CONTEXT: i64 = 518 * MIB as i64;

/// A program of a tenant that does what it is told.
pub(crate) struct Program(pub(crate) Talk);

impl Program {
    pub(crate) fn of(tenant: &Movable<'_>) -> Self {
        let talk = Talk::start(&mut tenant.scenario("lend", "obeys"));
        talk.expect("ready");
        Self(talk)
    }

    /// What it says to a command.
    fn told(&mut self, command: &str) -> String {
        self.0.say(command);
        self.0.line()
    }

    /// The same, which is a number.
    fn says(&mut self, command: &str) -> i64 {
        let said = self.told(command);
        said.parse().unwrap_or_else(|_| panic!("{command}: {said}"))
    }

    pub(crate) fn does(&mut self, command: &str) {
        assert_eq!(self.says(command), 0, "{command}");
    }

    /// A block of `bytes` with `value` in each word: its handle.
    fn lends(&mut self, block: u32, bytes: u64, value: u32) -> String {
        self.does(&format!("allocate {block} {bytes}"));
        self.does(&format!("fill {block} {value}"));
        self.told(&format!("export {block}"))
    }

    fn opens(&mut self, block: u32, handle: &str) -> i64 {
        self.says(&format!("open {block} {handle}"))
    }

    /// Looks that each word of a block is `value`.
    pub(crate) fn finds(&mut self, block: u32, value: u32) {
        assert_eq!(self.says(&format!("wrong {block} {value}")), -1, "block {block}: {value}");
    }
}

const KINDS: [u64; 4] = [4096, 3 * MIB, 40 * MIB, 300 * MIB];

#[test]
fn what_one_writes_the_other_reads() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    for (block, bytes) in (0..).zip(KINDS) {
        let handle = lender.lends(block, bytes, 7 + block);
        assert_eq!(lender.says(&format!("capable {block}")), 1);
        assert_eq!(handle, lender.told(&format!("export {block}")), "one handle a block");
        assert_eq!(reader.opens(block, &handle), 0);
        assert_eq!(reader.says(&format!("length {block}")), bytes as i64);
        reader.finds(block, 7 + block);
        reader.does(&format!("fill {block} 3"));
        lender.finds(block, 3);
        // By kernels on both sides.
        lender.does(&format!("add {block} {block}"));
        reader.finds(block, 6);
        reader.does(&format!("add {block} {block}"));
        lender.finds(block, 12);
    }
    for block in 0..KINDS.len() {
        reader.does(&format!("close {block}"));
        assert_eq!(reader.says(&format!("close {block}")), INVALID_VALUE);
        lender.does(&format!("free {block}"));
    }
    machine.all_was_simulated();
}

#[test]
fn it_stays_and_the_rest_leaves() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    lender.does(&format!("allocate 1 {}", 60 * MIB));
    lender.does("fill 1 11");
    // Brought back first, if it is away.
    lender.does(&format!("allocate 0 {}", 40 * MIB));
    lender.does("fill 0 7");
    assert_eq!(tenant.wished("freeze", 60)["resident_bytes"], 0);
    let handle = lender.told("export 0");
    assert_eq!(reader.opens(0, &handle), 0);
    assert_eq!(tenant.residence("pinned_bytes"), 40 * MIB);
    for round in 0..3 {
        let frozen = tenant.wished("freeze", 60);
        assert_eq!(frozen["pinned_bytes"], 40 * MIB, "{frozen}");
        assert_eq!(frozen["resident_bytes"], 40 * MIB, "{frozen}");
        assert_eq!(frozen["away_bytes"], 60 * MIB, "{frozen}");
        reader.finds(0, 7 + round);
        reader.does(&format!("fill 0 {}", 8 + round));
        lender.finds(0, 8 + round);
        lender.finds(1, 11);
    }
    lender.does("free 0");
    until("nothing is pinned", || tenant.residence("pinned_bytes") == 0);
}

#[test]
fn it_is_charged_once_and_as_long_as_anybody_has_it() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    let before = lender.says("used");
    assert_eq!(before, 2 * CONTEXT);
    let lent = 64 * MIB as i64;
    let handle = lender.lends(0, 64 * MIB, 5);
    assert_eq!(lender.says("used") - before, lent);
    // Twice, and the same address.
    assert_eq!((reader.opens(0, &handle), reader.opens(1, &handle)), (0, 0));
    assert_eq!(reader.says("address 0"), reader.says("address 1"));
    assert_eq!(reader.says("used") - before, lent);
    lender.does("free 0");
    assert_eq!(lender.says("used") - before, lent, "the reader has it");
    reader.does("close 0");
    reader.finds(1, 5);
    assert_eq!(reader.says("used") - before, lent);
    reader.does("close 1");
    assert_eq!(reader.says("used"), before);
    until("the card is free of it", || machine.card_used_bytes() == before.unsigned_abs());
    assert_eq!(reader.opens(0, &handle), INVALID_HANDLE, "it was freed");
}

#[test]
fn it_outlives_whoever_is_killed() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader, mut other] = [(); 3].map(|()| Program::of(&tenant));
    let handle = lender.lends(0, 64 * MIB, 5);
    for reader in [&mut reader, &mut other] {
        assert_eq!(reader.opens(0, &handle), 0);
    }
    other.0.kill();
    drop(other);
    lender.finds(0, 5);
    let both = 2 * CONTEXT + 64 * MIB as i64;
    until("the killed reader is forgotten", || lender.says("used") == both);
    lender.0.kill();
    drop(lender);
    until("the killed lender is forgotten", || reader.says("used") == both - CONTEXT);
    reader.finds(0, 5);
    let begun = Instant::now();
    assert_eq!(reader.opens(1, &handle), 0, "it has it open");
    reader.does("close 0");
    reader.does("close 1");
    assert_eq!(reader.says("used"), CONTEXT);
    assert_eq!(reader.opens(1, &handle), INVALID_HANDLE, "its process has ended");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn nobody_else_has_it() {
    let machine = Machine::new();
    let [tenant, foreign] = ["a", "b"].map(|name| Movable::new(&machine, name));
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    let mut stranger = Program::of(&foreign);
    let handle = lender.lends(0, 64 * MIB, 5);
    assert_eq!(stranger.opens(0, &handle), INVALID_VALUE);
    // Nor does its process itself open it, as with the driver.
    assert_eq!(lender.opens(1, &handle), INVALID_CONTEXT);
    // Each word of it forged, but for what says nothing where the key does not fit.
    for word in 0..8 {
        let mut forged = handle.clone().into_bytes();
        let digit = forged.get_mut(16 * word).expect("a digit");
        *digit = if *digit == b'7' { b'6' } else { b'7' };
        let forged = String::from_utf8(forged).expect("digits");
        let code = reader.opens(0, &forged);
        assert!([INVALID_VALUE, INVALID_HANDLE].contains(&code), "word {word}: {code}");
    }
    assert_eq!(reader.says("used"), 2 * CONTEXT + 64 * MIB as i64);
    assert_eq!(reader.opens(0, &handle), 0);
}

#[test]
fn one_that_does_not_answer_is_not_waited_for_long() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    let handle = lender.lends(0, 64 * MIB, 5);
    crate::harness::signal(lender.0.pid(), "STOP");
    assert_eq!(reader.opens(0, &handle), OPERATING_SYSTEM);
    crate::harness::signal(lender.0.pid(), "CONT");
    assert_eq!(reader.opens(0, &handle), 0);
    reader.finds(0, 5);
}

/// The one that opens with none left for the socket, and with none for what is handed out; and the one that hands out.
#[test]
fn without_descriptors_it_is_refused_as_that_and_opens_when_there_are_some() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    let handle = lender.lends(0, 300 * MIB, 5);
    let before = [lender.says("descriptors"), reader.says("descriptors")];
    for left in [0, 1] {
        reader.does(&format!("few {left}"));
        assert_eq!(reader.opens(0, &handle), OPERATING_SYSTEM, "{left} left");
        reader.does("few -1");
    }
    // What was asked for is handed out to nobody.
    until("the lender has closed all", || lender.says("descriptors") == before[0]);
    lender.does("few 0");
    assert_eq!(reader.opens(0, &handle), OPERATING_SYSTEM);
    lender.does("few -1");
    assert_eq!(reader.opens(0, &handle), 0);
    reader.finds(0, 5);
    reader.does("close 0");
    until("both have closed all", || {
        [lender.says("descriptors"), reader.says("descriptors")] == before
    });
}

#[test]
fn a_slab_is_charged_in_full() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    let before = lender.says("used");
    // A device's first slab has 32 MiB.
    lender.does(&format!("allocate 1 {}", 10 * MIB));
    lender.does("fill 1 9");
    let handle = lender.lends(0, 4 * MIB, 5);
    let slab = 32 * MIB as i64;
    assert_eq!(lender.says("used") - before, slab);
    assert_eq!(tenant.residence("pinned_bytes"), 32 * MIB);
    assert_eq!(reader.opens(0, &handle), 0);
    // Another block of it.
    let another = lender.told("export 1");
    assert_eq!(reader.opens(1, &another), 0);
    assert_eq!(reader.says("length 1"), 10 * MIB as i64);
    reader.finds(0, 5);
    reader.finds(1, 9);
    assert_eq!(reader.says("used") - before, slab);
    // What is made now and has granules of its own lies elsewhere.
    let third = lender.lends(2, 6 * MIB, 3);
    assert_eq!(lender.says("used") - before, slab + 6 * MIB as i64);
    assert_eq!(reader.opens(2, &third), 0);
    lender.does("free 0");
    lender.does("free 1");
    lender.does("free 2");
    assert_eq!(lender.says("used") - before, slab + 6 * MIB as i64);
    reader.finds(1, 9);
    reader.does("close 0");
    reader.does("close 2");
    assert_eq!(reader.says("used") - before, slab);
    reader.does("close 1");
    assert_eq!(reader.says("used"), before);
    until("the card is free of it", || machine.card_used_bytes() == before.unsigned_abs());
}

#[test]
fn a_slab_that_does_not_fit_the_limit_is_not_lent() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let mut command = tenant.scenario("lend", "obeys");
    let mut lender = Program(Talk::start(command.env("DIVVY_MEMORY", "540MiB")));
    lender.0.expect("ready");
    lender.does(&format!("allocate 0 {}", 4 * MIB));
    assert_eq!(lender.says("export 0"), OUT_OF_MEMORY);
    assert_eq!(lender.says("used"), CONTEXT + 4 * MIB as i64);
    lender.does("free 0");
    assert_eq!(lender.says("used"), CONTEXT);
}

#[test]
fn a_child_does_not_hand_out_what_is_its_parents() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    let handle = lender.lends(0, 64 * MIB, 5);
    let child = u32::try_from(lender.says("fork")).expect("a process");
    assert_eq!(reader.opens(0, &handle), 0);
    reader.does("close 0");
    lender.0.kill();
    drop(lender);
    // The child has the socket, and does not answer.
    let code = reader.opens(0, &handle);
    assert!([OPERATING_SYSTEM, INVALID_HANDLE].contains(&code), "{code}");
    crate::harness::signal(child, "KILL");
    until("the card is free of it", || reader.says("used") == CONTEXT);
}

#[test]
fn contexts_and_captures_end_as_they_do() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    let handle = lender.lends(0, 64 * MIB, 5);
    assert_eq!(reader.opens(0, &handle), 0);
    reader.does("capture 0");
    reader.does("close 0");
    assert_eq!(reader.opens(0, &handle), 0);
    reader.does("captured 0");
    reader.finds(0, 5);
    reader.does("renew 0");
    assert_eq!(reader.says("close 0"), INVALID_VALUE, "it went with its context");
    assert_eq!(reader.opens(0, &handle), 0);
    reader.finds(0, 5);
    lender.does("renew 0");
    let kept = lender.says("used");
    assert_eq!(kept, 2 * CONTEXT + 64 * MIB as i64, "the reader has it");
    reader.finds(0, 5);
    reader.does("close 0");
    assert_eq!(reader.says("used"), 2 * CONTEXT);
}

#[test]
fn many_blocks_are_lent_and_nothing_is_left() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let [mut lender, mut reader] = [Program::of(&tenant), Program::of(&tenant)];
    let before = lender.says("used");
    lender.does("allocate 511 4096");
    lender.told("export 511");
    let open = [lender.says("descriptors 0"), reader.says("descriptors 0")];
    for block in 0..300 {
        let handle = lender.lends(block, 2 * MIB, block);
        assert_eq!(reader.opens(block, &handle), 0, "block {block}");
    }
    for block in 0..300 {
        reader.finds(block, block);
        lender.does(&format!("free {block}"));
        reader.does(&format!("close {block}"));
    }
    lender.does("free 511");
    assert_eq!([lender.says("descriptors 0"), reader.says("descriptors 0")], open);
    assert_eq!(lender.says("used"), before);
    assert!(before < 2 * GIB as i64);
}

/// Tenants take turns; what is lent is on the card at all times, and read by a process whose turn it is.
#[test]
fn it_stays_through_turns() {
    let machine = turns::machine("300MiB");
    let mut command =
        machine.divvy(&["run", "--no-daemon", "--oversubscribe", "--name", "lends", "--"]);
    let mut lender = Program(Talk::start(command.arg(client("lend")).arg("obeys")));
    lender.0.expect("ready");
    assert!(lender.says("partner") > 0);
    let handle = lender.lends(0, 40 * MIB, 5);
    assert_eq!(lender.says(&format!("tell open 0 {handle}")), 0);
    for block in 1..4 {
        lender.does(&format!("allocate {block} {}", 40 * MIB));
        lender.does(&format!("fill {block} {block}"));
    }
    let other = turns::tenant(&machine, "other", 4, 500, 0);
    other.expect("ready");
    let mut value = 5;
    until("memory has been handed over, to and fro", || {
        for block in 1..4 {
            lender.finds(block, block);
        }
        assert_eq!(lender.says(&format!("tell wrong 0 {value}")), -1);
        value += 1;
        lender.does(&format!("tell fill 0 {value}"));
        lender.finds(0, value);
        let memory = turns::memory(&machine);
        let [resident, capacity] =
            ["resident_bytes", "capacity_bytes"].map(|name| turns::count(&memory, name));
        assert!(resident <= capacity, "{memory}");
        turns::count(&memory, "hand_overs") >= 3
    });
    turns::all_end_well([other]);
    lender.finds(0, value);
    lender.0.ends_well();
}

#[test]
fn managed_memory_is_not_lent() {
    let machine = Divided::with(Machine::new(), &["--managed-limit", "1GiB"]);
    let mut command = machine.divvy(&["run", "--no-daemon", "--oversubscribe"]);
    command.args(["--backend", "managed", "--"]).arg(client("lend")).arg("obeys");
    let mut lender = Program(Talk::start(&mut command));
    lender.0.expect("ready");
    lender.does(&format!("allocate 0 {}", 40 * MIB));
    assert_eq!(lender.says("capable 0"), 0);
    assert_eq!(lender.says("export 0"), INVALID_VALUE);
    lender.0.ends_well();
}

#[test]
fn a_driver_without_descriptors_lends_nothing() {
    let machine = Machine::new().with("SIMGPU_FAULTS", "cuMemExportToShareableHandle@*=fail:801");
    let tenant = Movable::new(&machine, "a");
    let mut lender = Program::of(&tenant);
    lender.does(&format!("allocate 0 {}", 40 * MIB));
    assert_eq!(lender.says("export 0"), NOT_SUPPORTED);
    assert_eq!(tenant.wished("freeze", 60)["resident_bytes"], 0, "nothing is pinned");
}

#[test]
fn a_failure_half_way_leaves_nothing() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let mut lender = Program::of(&tenant);
    // Two chunks.
    let handle = lender.lends(0, 300 * MIB, 5);
    let faults = [
        "cuMemAddressReserve@1",
        "cuMemImportFromShareableHandle@1",
        "cuMemImportFromShareableHandle@2",
        "cuMemMap@2",
        "cuMemSetAccess@2",
    ];
    for fault in faults {
        let mut command = tenant.scenario("lend", "obeys");
        let mut reader =
            Program(Talk::start(command.env("SIMGPU_FAULTS", format!("{fault}=fail:2"))));
        reader.0.expect("ready");
        let before = (reader.says("used"), reader.says("descriptors 0"));
        assert_eq!(reader.opens(0, &handle), OUT_OF_MEMORY, "{fault}");
        assert_eq!((reader.says("used"), reader.says("descriptors 0")), before, "{fault}");
        assert_eq!(reader.opens(0, &handle), 0, "{fault}");
        reader.finds(0, 5);
        reader.does("close 0");
        reader.0.ends_well();
    }
    lender.does("free 0");
    until("the card is free of it", || machine.card_used_bytes() == CONTEXT.unsigned_abs());
}

#[test]
fn several_open_at_once() {
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let mut lender = Program::of(&tenant);
    let mut readers: Vec<Program> = (0..4).map(|_| Program::of(&tenant)).collect();
    let handles: Vec<String> =
        (0..6).map(|block| lender.lends(block, 40 * MIB, 10 + block)).collect();
    for (block, handle) in handles.iter().enumerate() {
        for reader in &mut readers {
            reader.0.say(&format!("open {block} {handle}"));
        }
        for reader in &readers {
            reader.0.expect("0");
        }
    }
    let lent = 6 * 40 * MIB as i64;
    assert_eq!(lender.says("used"), 5 * CONTEXT + lent);
    for reader in &mut readers {
        (0..6).for_each(|block| reader.finds(block, 10 + block));
    }
    // The last of them has it all.
    lender.0.ends_well();
    let mut last = readers.pop().expect("a reader");
    readers.into_iter().for_each(|reader| reader.0.ends_well());
    until("it alone is charged", || last.says("used") == CONTEXT + lent);
    (0..6).for_each(|block| last.finds(block, 10 + block));
}
