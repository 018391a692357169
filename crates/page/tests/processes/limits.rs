//! Nothing left: no disk, no descriptors, no right to write.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;

use divvy_abi::usage::MemoryKind;
use divvy_page::AttachError;
use divvy_policy::ledger::MemoryRefusal;

use crate::actor::{Actor, device, join};
use crate::naps::{A_SECOND, naps};
use crate::scratch::Scratch;

/// A file system of so many KiB, in a mount namespace of the actor's own.
fn on_a_disk_of(kib: u32, scratch: &Scratch) -> Actor {
    let path = scratch.path().display();
    let script = format!("mount -t tmpfs -o size={kib}k none {path} && exec \"$0\" \"$@\"");
    Actor::start_under(&["unshare", "-Urm", "sh", "-c", &script])
}

#[test]
fn a_full_disk_is_an_error_when_attaching_and_when_a_device_is_seen() {
    if crate::namespaces::cannot_unshare("a_full_disk") {
        return;
    }
    let scratch = Scratch::new("full");
    let attach = format!("attach {}", scratch.path().display());
    // The header and tables want 132 KiB, the config 8, a device's rows 256.
    for (kib, at_attach) in [(64, true), (136, true), (140, false), (264, false), (392, false)] {
        let mut actor = on_a_disk_of(kib, &scratch);
        let answer = actor.say(&attach);
        if at_attach {
            assert!(answer.contains("NoSpace") && answer.contains("ENOSPC"), "{kib}: {answer}");
            continue;
        }
        assert_eq!(answer, "ok", "{kib} KiB");
        let answer = actor.say("row");
        assert!(answer.contains("NoSpace") && answer.contains("ENOSPC"), "{kib}: {answer}");
        // It lives, and so does the tenant.
        assert!(actor.say("pid").parse::<u32>().is_ok());
    }
    let mut actor = on_a_disk_of(396, &scratch);
    actor.join(scratch.path());
    actor.expect("ask 600", "granted");
}

#[test]
fn a_file_size_limit_is_an_error_not_a_signal() {
    let scratch = Scratch::new("fsize");
    let mut actor = Actor::start();
    actor.expect("smallfiles 100000", "0");
    let answer = actor.say(&format!("attach {}", scratch.path().display()));
    assert!(answer.contains("NoSpace") && answer.contains("EFBIG"), "{answer}");
}

#[test]
fn no_descriptors_left_is_an_error_when_attaching() {
    let scratch = Scratch::new("nofd");
    let mut actor = Actor::start();
    actor.expect("lowfds 3", "0");
    let answer = actor.say(&format!("attach {}", scratch.path().display()));
    assert!(answer.contains("EMFILE"), "{answer}");
    assert!(answer.contains("no file descriptors left in this process"), "{answer}");
}

#[test]
fn no_descriptors_left_at_the_limit_refuses_and_grants_as_ever() {
    let scratch = Scratch::new("nofd-ask");
    let (mut one, mut two) = (Actor::start(), Actor::start());
    one.join(scratch.path());
    two.join(scratch.path());
    one.expect("ask 600", "granted");
    two.expect("lowfds 3", "0");
    two.expect("ask 401", "refused 600");
    two.expect("ask 400", "granted");
    two.expect("give 400", "ok");
    one.kill();
    // The dead cannot be told from the living without a descriptor: a refusal, and in words.
    two.expect("ask 401", "refused 600");
}

#[test]
fn a_directory_that_vanishes_takes_no_memory_away() {
    let scratch = Scratch::new("vanish");
    let (mut one, mut two) = (Actor::start(), Actor::start());
    one.join(scratch.path());
    two.join(scratch.path());
    one.expect("ask 600", "granted");
    std::fs::remove_dir_all(scratch.path()).expect("removed");
    two.expect("ask 401", "refused 600");
    two.expect("ask 400", "granted");
}

#[test]
fn an_unwritable_directory_is_named() {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 && crate::namespaces::cannot_unshare("an_unwritable") {
        return;
    }
    let scratch = Scratch::new("unwritable");
    let path = scratch.path().join("tenant");
    std::fs::create_dir(&path).expect("made");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o555)).expect("closed");
    // Root may write anywhere, so the directory is mounted read-only for it.
    let script = format!(
        "mount --bind {0} {0} && mount -o remount,bind,ro {0} && exec \"$0\" \"$@\"",
        path.display()
    );
    // SAFETY: no arguments.
    let mut actor = if unsafe { libc::geteuid() } == 0 {
        Actor::start_under(&["unshare", "-m", "sh", "-c", &script])
    } else {
        Actor::start()
    };
    let answer = actor.say(&format!("attach {}", path.display()));
    assert!(answer.contains("EROFS") || answer.contains("EACCES"), "{answer}");
    assert!(answer.contains("usage"), "{answer}");
}

#[test]
fn no_memory_left_is_an_error_when_attaching() {
    let scratch = Scratch::new("nomem");
    let mut actor = Actor::start();
    actor.expect("lowmem", "0");
    let answer = actor.say(&format!("attach {}", scratch.path().display()));
    assert!(answer.contains("ENOMEM: no memory left"), "{answer}");
}

#[test]
fn no_slot_left_is_an_error_and_passes() {
    let scratch = Scratch::new("noslot");
    let mut one = Actor::start();
    one.join(scratch.path());
    one.expect("ask 600", "granted");
    let tenants: Vec<_> = (2..divvy_abi::MAX_SLOTS).map(|_| join(scratch.path())).collect();
    assert_eq!(tenants.len(), 1022);
    let mut late = Actor::start();
    let attach = format!("attach {}", scratch.path().display());
    let answer = late.say(&attach);
    assert!(answer.starts_with("NoSlot") && answer.contains("1023"), "{answer}");
    one.kill();
    late.join(scratch.path());
    late.expect("ask 1000", "granted");
}

#[test]
fn no_row_left_for_a_device_is_an_error() {
    let scratch = Scratch::new("norow");
    let (tenant, first) = join(scratch.path());
    let seen = |n: u8| tenant.device_row(&divvy_page::NewDevice { uuid: [n; 16], ..device() });
    for n in 100..115 {
        assert!(seen(n).is_ok(), "{n}");
    }
    assert!(matches!(seen(115), Err(AttachError::NoDeviceRow)));
    assert_eq!(seen(5).expect("known"), first);
}

/// Holds the tenant's admission lock until dropped, as a stopped process would.
struct StuckLock(std::fs::File);

impl StuckLock {
    fn on(scratch: &Scratch) -> Self {
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).open(scratch.path().join("usage"));
        let file = file.expect("opened");
        let lock = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: i64::try_from(divvy_abi::usage::ADMISSION_LOCK_AT).expect("small"),
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: one flock is read.
        let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        assert_eq!(locked, 0);
        Self(file)
    }
}

#[test]
fn a_stopped_lock_holder_costs_a_second_each_time_and_nothing_once_gone() {
    let scratch = Scratch::new("stuck");
    let (one, row) = join(scratch.path());
    let (two, _) = join(scratch.path());
    two.hold(row, 900 << 20, MemoryKind::Block);
    let another = divvy_page::NewDevice { uuid: [99; 16], ..device() };
    let ask = |mib: u64| one.ask(row, mib << 20, MemoryKind::Block, Some(crate::actor::LIMIT));
    let stuck = StuckLock::on(&scratch);
    // A fresh deadline each time: the second wait is neither shorter nor longer.
    for _ in 0..2 {
        let start = std::time::Instant::now();
        let waits = naps(|| {
            assert_eq!(one.device_row(&another), Err(AttachError::LockTimeout));
        });
        let waited_ms = start.elapsed().as_millis();
        assert!(waited_ms >= 995 && waits <= A_SECOND, "{waited_ms} ms, {waits} times");
    }
    // What fits needs no lock, nor does a refusal, and joining needs none.
    let waits = naps(|| {
        assert_eq!(ask(200), Err(MemoryRefusal::OverLimit { held_bytes: 900 << 20 }));
        assert_eq!(ask(100), Ok(()));
        one.give_back(row, 100 << 20, MemoryKind::Block);
        join(scratch.path());
    });
    assert!(waits < 50, "waited {waits} times");
    drop(stuck.0);
    let waits = naps(|| assert!(one.device_row(&another).is_ok()));
    assert!(waits < 50, "waited {waits} times");
}
