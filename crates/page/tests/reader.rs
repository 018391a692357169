//! What an owner reads of a tenant, and writes for it.

mod scratch;

use std::os::unix::fs::FileExt;

use divvy_abi::config::{Config, Rule, quantity, selector};
use divvy_abi::usage::{self, MemoryKind};
use divvy_abi::{MAX_DEVICES, MAX_SLOTS};
use divvy_page::owner::Owner;
use divvy_page::reader::{FieldText, UsageFile, read_config, write_config};
use divvy_page::{AttachError, ConfigSource, NewDevice, Tenant};
use scratch::Scratch;

const MIB: u64 = 1 << 20;

#[test]
fn an_owner_writes_limits_and_reads_what_was_used() {
    let scratch = Scratch::new("reader-use");
    let at = scratch.c_path();
    assert!(read_config(&scratch.directory()).expect("readable").is_none());
    let mut config = Config { rule_count: 1, ..Config::default() };
    config.rules[0] = Rule {
        selector: selector::ALL,
        quantity: quantity::BYTES,
        value: 100 * MIB,
        ..config.rules[0]
    };
    write_config(&scratch.directory(), &config).expect("written");
    write_config(&scratch.directory(), &config).expect("written again");
    assert_eq!(read_config(&scratch.directory()).expect("readable").expect("there").epoch, 4);
    assert_eq!(
        std::fs::read_dir(scratch.path()).expect("listed").count(),
        1,
        "no temporary file is left"
    );

    let tenant = Tenant::attach(&at, &ConfigSource::Owner).expect("attached");
    assert_eq!(tenant.config().rules()[0].value, 100 * MIB);
    let device = NewDevice {
        uuid: [3; 16],
        index: Some(1),
        total_bytes: 1 << 30,
        limit_bytes: Some(100 * MIB),
        name: b"Card \x1b[31m\xff",
    };
    let row = tenant.device_row(&device).expect("a row");
    let limit = Some(100 * MIB);
    assert_eq!(tenant.ask(row, 60 * MIB, MemoryKind::Block, limit), Ok(()));
    assert_eq!(tenant.ask(row, 30 * MIB, MemoryKind::Pool, limit), Ok(()));
    assert!(tenant.ask(row, 30 * MIB, MemoryKind::Pool, limit).is_err());
    tenant.give_back(row, 30 * MIB, MemoryKind::Pool);
    tenant.note_reason(7);

    let file = UsageFile::open(&at).expect("readable").expect("there");
    let totals = file.totals(row.index());
    assert_eq!((totals.used_bytes, totals.peak_bytes, totals.refusals), (60 * MIB, 90 * MIB, 1));
    assert!(totals.consistent);
    let one = file.device(row.index()).expect("a device");
    assert_eq!((one.uuid, one.index, one.limit_bytes), ([3; 16], Some(1), limit));
    assert_eq!(one.total_bytes, 1 << 30);
    tenant.note_limit_bytes(row, Some(50 * MIB));
    assert_eq!(file.device(row.index()).expect("a device").limit_bytes, Some(50 * MIB));
    assert_eq!(one.name.to_string(), "Card ?[31m?");
    assert_eq!((1..file.slots_high()).filter_map(|slot| file.slot(slot)).count(), 1);
    let process = file.slot(1).expect("a process");
    assert!(process.alive && !process.starting && !process.comm.is_empty());
    assert_eq!((process.pid, process.reason), (std::process::id(), 7));
    assert_eq!(file.line(row.index(), 1).bytes_of(MemoryKind::Block), 60 * MIB);
    assert_eq!(file.device(MAX), None);
    assert_eq!(file.slot(MAX), None);
    assert!(file.line(MAX, MAX).is_empty());
}

/// A row and a slot that cannot be.
const MAX: usize = usize::MAX;

/// Numbers that cannot be are the last row's and the last slot's, where a reader has no other answer.
#[test]
fn rows_and_slots_that_cannot_be_are_the_last() {
    let scratch = Scratch::new("reader-last");
    write_config(&scratch.directory(), &Config::default()).expect("written");
    let _tenant = Tenant::attach(&scratch.c_path(), &ConfigSource::Owner).expect("attached");
    let raw = std::fs::File::options().write(true).open(scratch.path().join("usage")).expect("own");
    let put = |slot: usize, word: usize, value: u64| {
        let at = usage::gate_at(MAX_DEVICES - 1, slot) + word;
        raw.write_all_at(&value.to_ne_bytes(), at as u64).expect("written");
    };
    put(MAX_SLOTS - 1, usage::gate::USED_NS, 5);
    put(usage::SHARED_SLOT, usage::gate_tenant::PAID_AT_NS, 7);
    let file = UsageFile::open(&scratch.c_path()).expect("readable").expect("there");
    assert_eq!((file.gate(MAX, MAX).used_ns, file.cap(MAX).paid_at_ns), (5, 7));

    let owner = Owner::open(&scratch.c_path()).expect("open");
    owner.renew(MAX, 11).expect("written");
    let config = read_config(&scratch.directory()).expect("readable").expect("there");
    assert_eq!(config.gates[MAX_DEVICES - 1].lease_ns, 11);
}

#[test]
fn a_tenant_nobody_joined_reads_as_empty_and_a_missing_one_is_an_error() {
    let scratch = Scratch::new("reader-empty");
    let at = scratch.c_path();
    assert!(UsageFile::open(&at).expect("readable").is_none());
    drop(scratch);
    assert!(matches!(UsageFile::open(&at), Err(AttachError::Directory(_))));
}

/// Whoever looks while the first process lays the file out: its head comes last.
#[test]
fn a_file_that_is_being_laid_out_reads_as_empty() {
    let scratch = Scratch::new("reader-early");
    let (at, name) = (scratch.c_path(), scratch.path().join("usage"));
    let mut begun = vec![0; 4_096];
    begun[8..16].fill(1);
    for bytes in [&begun[..0], &begun[..8], &begun[..12], &begun[..16], &begun] {
        std::fs::write(&name, bytes).expect("written");
        assert!(UsageFile::open(&at).expect("readable").is_none(), "{} bytes", bytes.len());
    }
    begun[0] = 1;
    std::fs::write(&name, &begun).expect("written");
    assert!(UsageFile::open(&at).is_err(), "another's head");
}

#[test]
fn a_file_cut_short_harms_no_reader() {
    let scratch = Scratch::new("reader-cut");
    let at = scratch.c_path();
    Tenant::attach(&at, &ConfigSource::FirstProcess(&Config::default())).expect("attached");
    let open = UsageFile::open(&at).expect("readable").expect("there");
    let file =
        std::fs::File::options().write(true).open(scratch.path().join("usage")).expect("opened");
    file.set_len(5000).expect("cut");
    assert!(matches!(UsageFile::open(&at), Err(AttachError::ShortFile { bytes: 5000, .. })));
    assert_eq!(open.totals(15).used_bytes, 0);
    assert_eq!(open.slot(900), None);
}

#[test]
fn a_text_is_cut_at_its_end() {
    assert_eq!(FieldText::new(*b"name\0rest").to_string(), "name");
    assert_eq!(FieldText::new(*b"full").to_string(), "full");
    assert!(FieldText::new([0; 4]).is_empty());
}
