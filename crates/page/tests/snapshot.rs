//! What an owner reads of a tenant.
#![cfg(feature = "owner")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use divvy_abi::config::{Config, Rule, quantity, selector};
use divvy_abi::usage::Kind;
use divvy_page::snapshot::{Snapshot, read_config, write_config};
use divvy_page::{AttachError, ConfigSource, Device, Tenant};

const MIB: u64 = 1 << 20;

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("divvy-snapshot-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).expect("a directory");
    path
}

fn c_path(path: &std::path::Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}

#[test]
fn an_owner_writes_limits_and_reads_what_was_used() {
    let path = directory("use");
    assert!(read_config(&path).expect("readable").is_none());
    let mut config = Config::default();
    config.name[..5].copy_from_slice(b"train");
    config.rule_count = 1;
    config.rules[0] = Rule {
        selector: selector::ALL,
        quantity: quantity::BYTES,
        value: 100 * MIB,
        ..config.rules[0]
    };
    write_config(&path, &config).expect("written");
    write_config(&path, &config).expect("written again");
    assert_eq!(read_config(&path).expect("readable").expect("there").epoch, 2);

    let tenant = Tenant::attach(&c_path(&path), &ConfigSource::Owner).expect("attached");
    assert_eq!(tenant.config().rules()[0].value, 100 * MIB);
    let device = Device {
        uuid: [3; 16],
        index: Some(1),
        total_bytes: 1 << 30,
        limit_bytes: Some(100 * MIB),
        name: b"Card \x1b[31m",
    };
    let row = tenant.device_row(&device).expect("a row");
    let limit = Some(100 * MIB);
    assert_eq!(tenant.ask(row, 60 * MIB, Kind::Block, limit), divvy_page::Request::Granted);
    assert_eq!(tenant.ask(row, 30 * MIB, Kind::Pool, limit), divvy_page::Request::Granted);
    tenant.ask(row, 30 * MIB, Kind::Pool, limit);
    tenant.give_back(row, 30 * MIB, Kind::Pool);
    tenant.note_reason(7);

    let snapshot = Snapshot::read(&path).expect("readable");
    let [one] = snapshot.devices.as_slice() else { panic!("{snapshot:?}") };
    assert_eq!((one.used_bytes, one.peak_bytes, one.refusals), (60 * MIB, 90 * MIB, 1));
    assert_eq!((one.index, one.limit_bytes, one.consistent), (Some(1), limit, true));
    assert_eq!(one.name, "Card ?[31m");
    let [process] = snapshot.processes.as_slice() else { panic!("{snapshot:?}") };
    assert!(process.alive && !process.starting);
    assert_eq!((process.pid, process.reason), (std::process::id(), 7));
    assert_eq!(process.uses[0].bytes_of(Kind::Block), 60 * MIB);
    std::fs::remove_dir_all(&path).expect("removed");
}

#[test]
fn a_tenant_nobody_joined_reads_as_empty_and_a_missing_one_is_an_error() {
    let path = directory("empty");
    let snapshot = Snapshot::read(&path).expect("readable");
    assert!(snapshot.devices.is_empty() && snapshot.processes.is_empty());
    std::fs::remove_dir_all(&path).expect("removed");
    assert!(matches!(Snapshot::read(&path), Err(AttachError::Open(..))));
}

#[test]
fn a_file_cut_short_after_it_was_judged_harms_no_reader() {
    let path = directory("cut");
    let source = Config::default();
    Tenant::attach(&c_path(&path), &ConfigSource::FirstProcess(&source)).expect("attached");
    let file = std::fs::File::options().write(true).open(path.join("usage")).expect("opened");
    file.set_len(5000).expect("cut");
    assert!(matches!(Snapshot::read(&path), Err(AttachError::ShortFile { bytes: 5000, .. })));
    std::fs::remove_dir_all(&path).expect("removed");
}
