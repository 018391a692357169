//! The mark of a descriptor: read back wherever the descriptor went, asked for while a copy of it is open
//! anywhere, and what it keeps charged.

#![allow(unsafe_code, reason = "a lock that is no mark")]

mod scratch;

use std::fs::File;
use std::os::fd::{AsRawFd as _, RawFd};
use std::process::{Command, Stdio};

use divvy_abi::config::Config;
use divvy_abi::usage::MemoryKind;
use divvy_page::mark::{Asker, DescriptorMark, draw_key, of, set};
use divvy_page::reader::UsageFile;
use divvy_page::{ConfigSource, DeviceRow, NewDevice, SharedEntry, Tenant};
use divvy_policy::ledger::MemoryRefusal;
use proptest::prelude::*;
use scratch::Scratch;

const MIB: u64 = 1 << 20;
const KEY: u64 = 12_345_678_901_234_567;

fn null() -> File {
    File::options().read(true).write(true).open("/dev/null").unwrap()
}

proptest! {
    #[test]
    fn what_is_marked_is_read(key in 0_u64..1 << 61, granules in 1_u64..=1 << 20) {
        let file = null();
        let set = set(file.as_raw_fd(), key, granules).unwrap();
        prop_assert_eq!((set.key, set.granules), (key, granules));
        prop_assert_eq!(of(file.as_raw_fd()), Some(set));
    }
}

#[test]
fn a_mark_goes_with_the_description_and_no_further() {
    let file = null();
    let mark = set(file.as_raw_fd(), KEY, 70_000).unwrap();
    let twin = file.try_clone().unwrap();
    drop(file);
    assert_eq!(of(twin.as_raw_fd()), Some(mark));
    // Another description of the same file, as all of the driver's are of one device.
    let other = null();
    assert_eq!(of(other.as_raw_fd()), None);
    let second = set(other.as_raw_fd(), KEY + 1_000_000, 1).unwrap();
    assert_eq!(of(other.as_raw_fd()), Some(second));
    assert_eq!(of(twin.as_raw_fd()), Some(mark));
}

#[test]
fn two_descriptions_bear_one_mark() {
    let (one, two) = (null(), null());
    let mark = set(one.as_raw_fd(), KEY, 3);
    assert_eq!(set(two.as_raw_fd(), KEY, 3), mark);
    drop(one);
    assert_eq!(of(two.as_raw_fd()), mark);
}

#[test]
fn a_child_that_executes_another_program_finds_it() {
    let file = null();
    set(file.as_raw_fd(), KEY, 3).unwrap();
    let mut cat = Command::new("cat");
    let output = cat.arg("/proc/self/fdinfo/0").stdin(Stdio::from(file)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("OFDLCK"), "{text}");
}

/// Locks bytes as no mark does.
fn lock(fd: RawFd, start: i64, length: i64) {
    // SAFETY: zeroed is a valid `flock`.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_start, lock.l_len) = (libc::F_WRLCK as libc::c_short, start, length);
    // SAFETY: one `flock` is read.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &raw const lock) }, 0);
}

#[test]
fn other_locks_are_no_marks() {
    let (_, writer) = std::io::pipe().unwrap();
    let writer = writer.as_raw_fd();
    assert_eq!(of(writer), None);
    lock(writer, 4096, 4096);
    assert_eq!(of(writer), None, "it begins too early");
    lock(writer, 1 << 61, (1 << 20) + 1);
    assert_eq!(of(writer), None, "it is too long");
    // One that can only be written to takes a lock for writing.
    let mark = set(writer, draw_key().unwrap(), 3);
    assert!(mark.is_some());
    assert_eq!(of(writer), mark, "it is one of three");
}

#[test]
fn what_cannot_be_marked_is_left_alone() {
    assert_eq!(set(-1, KEY, 3), None);
    assert_eq!(of(-1), None);
    let file = null();
    assert_eq!(set(file.as_raw_fd(), KEY, 0), None);
    assert_eq!(set(file.as_raw_fd(), KEY, (1 << 20) + 1), None);
    assert_eq!(of(file.as_raw_fd()), None);
}

/// A file of its own, which this process has open as programs have the driver's device file, and a
/// marked description of it.
struct Exported {
    path: std::path::PathBuf,
    own: File,
    marked: File,
    mark: DescriptorMark,
}

fn exported(scratch: &Scratch) -> Exported {
    let path = scratch.path().join("device");
    let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let (own, marked) = (open().unwrap(), open().unwrap());
    let mark = set(marked.as_raw_fd(), draw_key().unwrap(), 3).unwrap();
    Exported { own, marked, mark, path: path.clone() }
}

/// Waits for what comes true once children that other tests are starting have closed their copies of
/// this process's descriptors.
fn eventually(what: &str, is: impl Fn() -> bool) {
    let since = std::time::Instant::now();
    while !is() {
        assert!(since.elapsed().as_secs() < 30, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn is_held(mark: DescriptorMark) -> Option<bool> {
    Asker::default().is_held(mark.file, mark.key)
}

#[test]
fn a_mark_is_held_while_any_copy_is_open() {
    let scratch = Scratch::new("marks-held");
    let Exported { own, marked, mark, .. } = exported(&scratch);
    assert_eq!(is_held(mark), Some(true));
    assert_eq!(Asker::default().is_held(mark.file, mark.key ^ (1 << 40)), Some(false));
    // In another process.
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(marked).spawn().unwrap();
    assert_eq!(is_held(mark), Some(true));
    drop(child.stdin.take());
    child.wait().unwrap();
    eventually("the last copy is closed", || is_held(mark) == Some(false));
    drop(own);
    assert_eq!(is_held(mark), None, "without a descriptor of that file nobody can tell");
}

#[test]
fn a_mark_is_held_in_flight() {
    let scratch = Scratch::new("marks-flight");
    let Exported { own: _own, marked, mark, .. } = exported(&scratch);
    let (one, two) = std::os::unix::net::UnixStream::pair().unwrap();
    send(&one, marked.as_raw_fd());
    drop(marked);
    assert_eq!(is_held(mark), Some(true));
    drop(two);
    eventually("nothing is in flight", || is_held(mark) == Some(false));
}

/// Sends a descriptor that nobody will receive.
fn send(socket: &std::os::unix::net::UnixStream, fd: RawFd) {
    let mut byte = *b"d";
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // A header of 16 bytes (length, level, kind) and one descriptor.
    let halves = |low: i32, high: i32| u64::from(low as u32) | u64::from(high as u32) << 32;
    let mut control =
        [16 + 4, halves(libc::SOL_SOCKET, libc::SCM_RIGHTS), halves(fd, 0)].map(u64::from_le);
    // SAFETY: zeroed is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 24);
    // SAFETY: the message and what it refers to live through the call.
    assert_eq!(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) }, 1);
}

fn device() -> NewDevice<'static> {
    NewDevice {
        uuid: [7; 16],
        index: Some(0),
        total_bytes: 1 << 30,
        limit_bytes: Some(100 * MIB),
        name: b"test",
    }
}

fn join(scratch: &Scratch) -> (Tenant, DeviceRow) {
    let config = Config::default();
    let source = ConfigSource::FirstProcess(&config);
    let tenant = Tenant::attach(&scratch.c_path(), &source).unwrap();
    let row = tenant.device_row(&device()).unwrap();
    (tenant, row)
}

/// Charges 60 MiB and moves the charge to the table.
fn share(tenant: &Tenant, row: DeviceRow, handle: &[u8; 64]) -> SharedEntry {
    assert_eq!(tenant.ask(row, 60 * MIB, MemoryKind::Vmm, Some(100 * MIB)), Ok(()));
    tenant.export_shared(handle, row, 60 * MIB, MemoryKind::Vmm).unwrap()
}

#[test]
fn a_descriptor_keeps_the_charge_whoever_has_it() {
    let scratch = Scratch::new("marks-keep");
    let Exported { own: _own, marked, mark, .. } = exported(&scratch);
    let ((exporter, row), (other, _)) = (join(&scratch), join(&scratch));
    let entry = share(&exporter, row, &mark.handle());
    exporter.close_shared(entry);
    assert_eq!((exporter.used_bytes(row), exporter.own_bytes(row)), (60 * MIB, 0));
    assert_eq!(other.shared_bytes(row), 60 * MIB);
    let shown = UsageFile::open(&scratch.c_path()).unwrap().unwrap().line(row.index(), 0);
    let of_others: u64 = shown.kind_bytes.iter().sum::<u64>() - shown.bytes_of(MemoryKind::Shared);
    assert_eq!((shown.bytes_of(MemoryKind::Shared), of_others), (60 * MIB, 0));
    let over = Err(MemoryRefusal::OverLimit { held_bytes: 60 * MIB });
    assert_eq!(other.ask(row, 50 * MIB, MemoryKind::Block, Some(100 * MIB)), over);
    // Who imports it refers to it, and who lets go of that leaves it to the descriptor again.
    let imported = other.open_shared(&mark.handle()).unwrap();
    other.close_shared(imported);
    assert_eq!(other.used_bytes(row), 60 * MIB);
    drop(marked);
    eventually("the last copy is closed", || is_held(mark) == Some(false));
    assert_eq!(other.ask(row, 50 * MIB, MemoryKind::Block, Some(100 * MIB)), Ok(()));
    assert_eq!(exporter.used_bytes(row), 50 * MIB);
    assert_eq!(exporter.shared_bytes(row), 0);
    assert_eq!(other.open_shared(&mark.handle()), None);
}

#[test]
fn a_mark_nobody_can_ask_for_keeps_the_charge() {
    let scratch = Scratch::new("marks-unknown");
    let Exported { own, marked, mark, path } = exported(&scratch);
    let (tenant, row) = join(&scratch);
    let entry = share(&tenant, row, &mark.handle());
    tenant.close_shared(entry);
    drop((own, marked));
    assert_eq!((tenant.used_bytes(row), tenant.own_bytes(row)), (60 * MIB, 0));
    assert_eq!(tenant.shared_bytes(row), 60 * MIB);
    // Somebody who has the device file open asks.
    let _own = File::open(path).unwrap();
    eventually("the last copy is closed", || is_held(mark) == Some(false));
    assert_eq!(tenant.ask(row, 50 * MIB, MemoryKind::Block, Some(100 * MIB)), Ok(()));
}

#[test]
fn opening_what_one_exported_takes_nothing_away() {
    let scratch = Scratch::new("marks-own");
    let ((exporter, row), (other, _)) = (join(&scratch), join(&scratch));
    let handle = [9; 64];
    let own = share(&exporter, row, &handle);
    assert_eq!(exporter.export_shared(&handle, row, 1, MemoryKind::Vmm), None, "it is known");
    for _ in 0..3 {
        // As a driver refuses: open, and close again.
        let opened = exporter.open_shared(&handle).unwrap();
        exporter.close_shared(opened);
        assert_eq!(other.shared_bytes(row), 60 * MIB);
    }
    let (first, second) =
        (other.open_shared(&handle).unwrap(), other.open_shared(&handle).unwrap());
    other.close_shared(first);
    exporter.close_shared(own);
    assert_eq!(other.shared_bytes(row), 60 * MIB, "one opening is left");
    other.close_shared(second);
    assert_eq!(other.shared_bytes(row), 0);
    other.close_shared(second);
    assert_eq!(other.used_bytes(row), 0);
}

/// Takes and lets go of locks, as databases do, until it is told to stop; a lock that ends moves all behind
/// it in the kernel's list.
fn churn(path: &std::path::Path, stop: &std::sync::atomic::AtomicBool) {
    let open = || File::options().write(true).create(true).truncate(false).open(path).unwrap();
    let mut files: Vec<File> = Vec::new();
    for round in 0_i64.. {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let file = open();
        lock(file.as_raw_fd(), round, 1);
        files.push(file);
        if files.len() > 100 {
            files.swap_remove(round as usize * 37 % 100);
        }
    }
}

#[test]
fn what_is_listed_only_is_not_missed_while_other_locks_come_and_go() {
    const COUNT: u64 = 200;
    let scratch = Scratch::new("marks-listed");
    let (tenant, row) = join(&scratch);
    let pipes: Vec<_> = (0..COUNT).map(|_| std::io::pipe().unwrap()).collect();
    for (end, _) in &pipes {
        let mark = set(end.as_raw_fd(), draw_key().unwrap(), 1).unwrap();
        assert_eq!(tenant.ask(row, MIB, MemoryKind::Block, None), Ok(()));
        let handle = mark.listed_handle();
        tenant.close_shared(tenant.export_shared(&handle, row, MIB, MemoryKind::Block).unwrap());
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let paths = ["one", "two"].map(|name| scratch.path().join(name));
    let answers: Vec<_> = std::thread::scope(|scope| {
        for path in &paths {
            scope.spawn(|| churn(path, &stop));
        }
        let answers = (0..15).map(|_| tenant.ask(row, 1 << 30, MemoryKind::Block, Some(1 << 30)));
        let answers = answers.collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        answers
    });
    assert_eq!(answers, [Err(MemoryRefusal::OverLimit { held_bytes: COUNT * MIB }); 15]);
    drop(pipes);
    eventually("the last copies are closed", || {
        tenant.ask(row, 1 << 30, MemoryKind::Block, Some(1 << 30)) == Ok(())
    });
}
