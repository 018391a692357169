//! Files of another version: left alone while somebody lives in them, laid out anew with the limits once
//! nobody does, whoever comes at once and wherever one is killed.
//!
//! A tenant of another version is one of this version whose files say so: what is common to all is the
//! head and the locks, and nothing else of it may be looked at.

use std::fs::{self, File as Opened};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use divvy_abi::ABI_VERSION;
use divvy_abi::config::{Config, Rule, quantity, selector};
use divvy_abi::usage::SLOT_LOCKS_AT;
use divvy_page::owner::Owner;
use divvy_page::reader::{UsageFile, read_config, write_config};
use divvy_page::{AttachError, ConfigSource, Tenant, TenantFile};
use zerocopy::IntoBytes as _;

use crate::actor::{Actor, join};
use crate::scratch::{Scratch, c_path};

const BEFORE: u32 = ABI_VERSION - 1;
/// The limit of a tenant with an owner.
const OWNERS: u64 = 777 << 20;

/// Makes both files of `path`, those that are there, of `version`.
fn becomes(path: &Path, version: u32) {
    for name in ["usage", "config"] {
        if let Ok(file) = Opened::options().write(true).open(path.join(name)) {
            file.write_all_at(&version.to_ne_bytes(), 8).expect("written");
        }
    }
}

fn version_of(path: &Path, name: &str) -> u32 {
    let mut word = [0; 4];
    let file = Opened::open(path.join(name)).expect("there");
    file.read_exact_at(&mut word, 8).expect("long enough");
    u32::from_ne_bytes(word)
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path.join("usage")).expect("there").ino()
}

/// A tenant with an owner, and a process of it that holds 600 MiB.
fn with_an_owner(scratch: &Scratch) -> Actor {
    let rule = Rule {
        selector: selector::ALL,
        quantity: quantity::BYTES,
        value: OWNERS,
        ..Config::default().rules[0]
    };
    let mut config = Config { rule_count: 1, weight: 7, paused: 1, ..Config::default() };
    config.rules[0] = rule;
    config.gates[0].gate = 2;
    write_config(&scratch.directory(), &config).expect("written");
    let mut actor = Actor::start();
    let limit = format!("ok {OWNERS}");
    actor.expect(&format!("join {}", scratch.path().display()), &limit);
    actor.expect("row", "ok");
    actor.expect("ask 600", "granted");
    actor
}

fn attach(path: &Path) -> Result<Tenant, AttachError> {
    Tenant::attach(&c_path(path), &ConfigSource::FirstProcess(&Config::default()))
}

/// Joins by `join` where nobody of another version lives in the tenant. A child that another test begins has
/// our descriptors until it executes, and with them the locks of those that were open at that instant.
fn soon(join: impl Fn() -> Result<Tenant, AttachError>) -> Result<Tenant, AttachError> {
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        match join() {
            Err(AttachError::OtherLibrary { .. }) if std::time::Instant::now() < give_up => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

#[test]
fn while_one_of_another_version_lives_others_are_refused_in_words() {
    for version in [1, BEFORE, ABI_VERSION + 1, ABI_VERSION + 7] {
        let scratch = Scratch::new(&format!("version-alive-{version}"));
        let mut old = with_an_owner(&scratch);
        becomes(scratch.path(), version);
        let before = ["usage", "config"].map(|name| {
            let path = scratch.path().join(name);
            (fs::metadata(&path).expect("there").ino(), fs::read(path).expect("readable"))
        });
        let error = attach(scratch.path()).expect_err("another version lives");
        assert_eq!(error, AttachError::OtherLibrary { found: version });
        let words = error.to_string();
        for part in [&version.to_string(), &ABI_VERSION.to_string(), "end them first"] {
            assert!(words.contains(part), "{words}");
        }
        assert!(!error.may_pass());
        let mut new = Actor::start();
        let answer = new.say(&format!("join {}", scratch.path().display()));
        assert!(answer.contains("OtherLibrary"), "{answer}");
        for (name, (inode, bytes)) in ["usage", "config"].into_iter().zip(before) {
            let path = scratch.path().join(name);
            assert_eq!(fs::metadata(&path).expect("there").ino(), inode, "{name}");
            assert!(fs::read(path).expect("readable") == bytes, "{name} was changed");
        }
        assert!(scratch.directory().is_inhabited());
        // Whoever lives there goes on.
        old.expect("own", "600");
        old.expect("ask 401", "refused 600");
        old.expect("ask 400", "granted");
        assert_eq!(fs::read_dir(scratch.path()).expect("listed").count(), 2);
    }
}

#[test]
fn once_all_are_dead_it_is_laid_out_anew_with_the_limits() {
    let scratch = Scratch::new("version-dead");
    let mut old = with_an_owner(&scratch);
    let owner = Owner::open(&scratch.c_path()).expect("open");
    owner.update(|config| config.priority = 1).expect("changed");
    becomes(scratch.path(), BEFORE);
    for name in ["usage", "config"] {
        let mode = fs::Permissions::from_mode(0o666);
        fs::set_permissions(scratch.path().join(name), mode).expect("set");
    }
    let read = || read_config(&scratch.directory()).expect("readable").expect("there");
    let limits = read();
    assert_eq!((limits.version, limits.rules()[0].value, limits.priority), (BEFORE, OWNERS, 1));
    let (mapped, bytes) = (inode(scratch.path()), fs::read(scratch.path().join("usage")));
    let kept = Opened::open(scratch.path().join("usage")).expect("open");
    old.kill();
    assert!(!scratch.directory().is_inhabited());

    let mut new = Actor::start();
    new.expect(&format!("join {}", scratch.path().display()), &format!("ok {OWNERS}"));
    new.expect("row", "ok");
    new.expect("used", "0");
    let now = read();
    assert_eq!((limits.gates[0].gate, now.gates[0].gate), (2, 0), "a daemon closes it again");
    let carried = Config { version: ABI_VERSION, gates: now.gates, ..limits };
    assert!(now.as_bytes() == carried.as_bytes(), "{now:?}");
    assert_eq!(version_of(scratch.path(), "usage"), ABI_VERSION);
    assert_ne!(inode(scratch.path()), mapped);
    let mut left = Vec::new();
    std::io::Read::read_to_end(&mut &kept, &mut left).expect("readable");
    assert!(left == bytes.expect("readable"), "the old file was written into");
    assert_eq!(fs::read_dir(scratch.path()).expect("listed").count(), 2, "nothing is left over");
    for name in ["usage", "config"] {
        let mode = fs::metadata(scratch.path().join(name)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "{name}");
    }
    // Who has the old file open is told, instead of changing what nobody goes by.
    let error = owner.update(|config| config.priority = 0).expect_err("replaced");
    assert_eq!(error, AttachError::Open(TenantFile::Config, divvy_page::Errno(libc::ENOENT)));
}

#[test]
fn limits_of_an_unknown_version_are_not_guessed() {
    for (usage, config) in [(BEFORE, 1), (ABI_VERSION + 1, ABI_VERSION + 1), (ABI_VERSION, 1)] {
        let scratch = Scratch::new(&format!("version-unknown-{usage}-{config}"));
        with_an_owner(&scratch).kill();
        becomes(scratch.path(), config);
        let file = Opened::options().write(true).open(scratch.path().join("usage"));
        file.expect("open").write_all_at(&usage.to_ne_bytes(), 8).expect("written");
        let before = (inode(scratch.path()), fs::read(scratch.path().join("config")));
        let error = Tenant::attach(&scratch.c_path(), &ConfigSource::Owner).expect_err("unknown");
        assert!(
            matches!(error, AttachError::Version { file: TenantFile::Config, found, .. } if found == config),
            "{error:?}"
        );
        assert!(
            error.to_string().contains(&format!("has version {config}, served are")),
            "{error}"
        );
        let after = (inode(scratch.path()), fs::read(scratch.path().join("config")));
        assert!(before.0 == after.0 && before.1.ok() == after.1.ok(), "it was changed");
        // Without an owner, limits are what the first process says.
        soon(|| attach(scratch.path())).expect("laid out anew");
        assert_eq!(version_of(scratch.path(), "config"), ABI_VERSION);
    }
}

#[test]
fn a_config_of_the_version_before_is_carried_into_a_new_ledger() {
    let scratch = Scratch::new("version-config");
    with_an_owner(&scratch).kill();
    becomes(scratch.path(), BEFORE);
    fs::remove_file(scratch.path().join("usage")).expect("removed");
    let join = || Tenant::attach(&scratch.c_path(), &ConfigSource::Owner);
    let tenant = soon(join).expect("carried");
    assert_eq!(tenant.config().rules()[0].value, OWNERS);
    assert_eq!(version_of(scratch.path(), "config"), ABI_VERSION);
}

#[test]
fn eight_that_lay_out_at_once_share_one_ledger() {
    for round in 0..8 {
        let scratch = Scratch::new(&format!("version-eight-{round}"));
        let mut old = Actor::start();
        old.join(scratch.path());
        old.expect("ask 600", "granted");
        becomes(scratch.path(), BEFORE);
        old.kill();
        let mut all: Vec<_> = (0..8).map(|_| Actor::start()).collect();
        for actor in &mut all {
            actor.send(&format!("attach {}", scratch.path().display()));
        }
        for actor in &mut all {
            assert_eq!(actor.answer().as_deref(), Some("ok"));
            actor.expect("row", "ok");
        }
        for actor in &mut all {
            actor.expect("ask 100", "granted");
        }
        let (_, row) = join(scratch.path());
        let file = UsageFile::open(&scratch.c_path()).expect("readable").expect("there");
        assert_eq!((file.totals(row.index()).used_bytes, file.version()), (800 << 20, ABI_VERSION));
        all[0].expect("ask 201", "refused 800");
    }
}

#[cfg(debug_assertions)]
#[test]
fn killed_anywhere_while_laying_out_the_next_one_finds_the_limits() {
    let mut ended = 0;
    for point in 1..200 {
        let scratch = Scratch::new(&format!("version-kill-{point}"));
        with_an_owner(&scratch).kill();
        becomes(scratch.path(), BEFORE);
        let mut dies = Actor::start();
        dies.expect(&format!("killat {point}"), "ok");
        ended += u32::from(dies.try_say(&format!("join {}", scratch.path().display())).is_some());
        // One that died has no slot, and what it leaves is either version.
        let config = read_config(&scratch.directory()).expect("whole").expect("there");
        assert_eq!(config.rules()[0].value, OWNERS, "killed at {point}");
        drop(dies);
        let mut next = Actor::start();
        let limit = format!("ok {OWNERS}");
        next.expect(&format!("join {}", scratch.path().display()), &limit);
        next.expect("row", "ok");
        next.expect("used", "0");
        if ended == 3 {
            return;
        }
    }
    panic!("laying out never ended");
}

/// Takes a slot as the library of any version does, on a description of its own.
fn takes_a_slot(file: &Opened) -> bool {
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: i64::try_from(SLOT_LOCKS_AT + 5).expect("small"),
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: one flock is read.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) == 0 }
}

#[test]
fn one_of_the_version_before_that_joins_meanwhile_is_seen_or_finds_other_limits() {
    let (mut seen, mut too_late) = (0, 0);
    for round in 0..60 {
        let scratch = Scratch::new(&format!("version-meanwhile-{round}"));
        with_an_owner(&scratch).kill();
        becomes(scratch.path(), BEFORE);
        // It has judged the file, and will read the limits once it has a slot.
        let old = Opened::options().read(true).write(true).open(scratch.path().join("usage"));
        let (old, begins) = (old.expect("open"), AtomicBool::new(false));
        let (joined, limits) = std::thread::scope(|scope| {
            let new = scope.spawn(|| {
                while !begins.load(SeqCst) {
                    std::hint::spin_loop();
                }
                Tenant::attach(&scratch.c_path(), &ConfigSource::Owner).map(|_| ())
            });
            begins.store(true, SeqCst);
            // Each round a little later, so that it comes before, between and behind.
            (0..round * 400).for_each(|_| std::hint::spin_loop());
            while !takes_a_slot(&old) {}
            let limits = version_of(scratch.path(), "config");
            (new.join().expect("joined"), limits)
        });
        match joined {
            Err(AttachError::OtherLibrary { found: BEFORE }) => {
                assert_eq!(limits, BEFORE);
                seen += 1;
            }
            Ok(()) => {
                assert_eq!(limits, ABI_VERSION, "it would run by limits that others have left");
                too_late += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    println!("{seen} seen, {too_late} too late");
}
