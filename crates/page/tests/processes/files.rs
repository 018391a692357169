//! Files and directories that are not what they should be: each gives its exact error, and the
//! program lives.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use divvy_abi::config::{CONFIG_FILE_BYTES, Config};
use divvy_abi::usage::USAGE_BYTES;
use divvy_page::{AttachError, ConfigSource, Tenant, TenantFile};

use crate::actor::{join, skipped};
use crate::scratch::{Scratch, c_path};

fn attach(path: &Path) -> Result<Tenant, AttachError> {
    Tenant::attach(&c_path(path), &ConfigSource::FirstProcess(&Config::default()))
}

/// Lays a tenant out with no process in it, and returns the bytes of a file of it.
fn laid_out(path: &Path, file: &str) -> Vec<u8> {
    let aside = path.join("aside");
    attach(&aside).expect("attached");
    let bytes = fs::read(aside.join(file)).expect("readable");
    fs::remove_dir_all(aside).expect("removed");
    bytes
}

/// Bytes without order; the same at every run.
fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..bytes).map(next).collect()
}

#[test]
fn random_bytes_are_not_ours() {
    for (name, file) in [("usage", TenantFile::Usage), ("config", TenantFile::Config)] {
        for bytes in [16, 4096, USAGE_BYTES] {
            let scratch = Scratch::new(&format!("random-{name}-{bytes}"));
            let content = random(bytes, bytes as u64);
            fs::write(scratch.path().join(name), &content).expect("written");
            match attach(scratch.path()) {
                Err(AttachError::BadMagic { file: found, found: magic }) => {
                    assert_eq!((found, &magic[..]), (file, &content[..8]));
                }
                other => panic!("{name} {bytes}: {other:?}"),
            }
            assert_eq!(fs::read(scratch.path().join(name)).expect("there"), content, "untouched");
        }
    }
}

#[test]
fn random_bytes_behind_a_good_head_harm_nobody() {
    for seed in 1..6 {
        let scratch = Scratch::new(&format!("garbled-{seed}"));
        let mut bytes = laid_out(scratch.path(), "usage");
        let noise = random(bytes.len() - 16, seed);
        bytes[16..].copy_from_slice(&noise);
        fs::write(scratch.path().join("usage"), &bytes).expect("written");
        let tenant = attach(scratch.path()).expect("the head is good");
        // Sixteen devices of noise are registered, so there is no row; whatever there is, it ends.
        let row = tenant.device_row(&crate::actor::device());
        assert!(matches!(row, Err(AttachError::NoDeviceRow)), "{row:?}");
        let reader = divvy_page::reader::UsageFile::open(&c_path(scratch.path()));
        let reader = reader.expect("readable").expect("there");
        for row in 0..16 {
            let _ = (reader.device(row), reader.totals(row));
        }
        for slot in 1..reader.slots_high() {
            let _ = reader.slot(slot).map(|slot| slot.comm.to_string());
        }
    }
}

#[test]
fn a_file_of_zeros_is_laid_out_anew() {
    let scratch = Scratch::new("zeros");
    let mut bytes = vec![0; USAGE_BYTES];
    bytes[64..8192].fill(0xff);
    fs::write(scratch.path().join("usage"), &bytes).expect("written");
    let (tenant, row) = join(scratch.path());
    assert_eq!((row.index(), tenant.used_bytes(row)), (0, 0));
}

#[test]
fn a_short_file_says_how_short() {
    let scratch = Scratch::new("short");
    let usage = laid_out(scratch.path(), "usage");
    fs::write(scratch.path().join("usage"), &usage[..5000]).expect("written");
    let error = attach(scratch.path()).expect_err("short");
    let (bytes, expected_bytes) = (5000, USAGE_BYTES as u64);
    assert_eq!(error, AttachError::ShortFile { file: TenantFile::Usage, bytes, expected_bytes });
    assert!(error.to_string().contains("5000"), "{error}");

    let scratch = Scratch::new("short-config");
    let config = laid_out(scratch.path(), "config");
    fs::write(scratch.path().join("config"), &config[..100]).expect("written");
    let (bytes, expected_bytes) = (100, CONFIG_FILE_BYTES as u64);
    let short = AttachError::ShortFile { file: TenantFile::Config, bytes, expected_bytes };
    assert_eq!(attach(scratch.path()).expect_err("short"), short);
}

#[test]
fn what_is_no_file_is_not_opened_as_one() {
    let scratch = Scratch::new("kinds");
    let usage = scratch.path().join("usage");
    fs::create_dir(&usage).expect("made");
    assert!(matches!(attach(scratch.path()), Err(AttachError::Open(TenantFile::Usage, _))));
    fs::remove_dir(&usage).expect("removed");
    symlink("/etc/passwd", &usage).expect("linked");
    let error = attach(scratch.path()).expect_err("a link");
    assert_eq!(error, AttachError::Open(TenantFile::Usage, divvy_page::Errno(libc::ELOOP)));
    fs::remove_file(&usage).expect("removed");
    let fifo = c_path(&usage);
    // SAFETY: a NUL-terminated string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    assert_eq!(
        attach(scratch.path()).expect_err("a pipe"),
        AttachError::NotAFile(TenantFile::Usage)
    );
    let scratch = Scratch::new("kinds-config");
    let _first = join(scratch.path());
    let config = scratch.path().join("config");
    fs::remove_file(&config).expect("removed");
    let fifo = c_path(&config);
    // SAFETY: a NUL-terminated string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    assert_eq!(
        attach(scratch.path()).expect_err("a pipe"),
        AttachError::NotAFile(TenantFile::Config)
    );
}

/// Prints and is true where this user cannot give files away, and a test of owners proves nothing.
fn cannot_chown(test: &str) -> bool {
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        skipped(test, "needs root to give a file to another user");
    }
    !root
}

#[test]
fn a_foreign_owner_is_refused_in_a_sticky_directory() {
    if cannot_chown("a_foreign_owner_is_refused_in_a_sticky_directory") {
        return;
    }
    let scratch = Scratch::new("foreign");
    join(scratch.path());
    let usage = scratch.path().join("usage");
    chown(&usage, Some(4242), None).expect("given away");
    assert!(attach(scratch.path()).is_ok(), "the directory's owner lets them in");
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o1777)).expect("sticky");
    let error = attach(scratch.path()).expect_err("foreign");
    assert_eq!(error, AttachError::ForeignFile { file: TenantFile::Usage, uid: 4242 });
    assert!(error.to_string().contains("4242"), "{error}");
}

#[test]
fn a_foreign_directory_is_judged_by_where_it_lies() {
    if cannot_chown("a_foreign_directory_is_judged_by_where_it_lies") {
        return;
    }
    let scratch = Scratch::new("foreign-directory");
    let inner = scratch.path().join("inner");
    fs::create_dir(&inner).expect("made");
    chown(&inner, Some(4242), None).expect("given away");
    assert!(attach(&inner).is_ok(), "our own directory lets them in");
    // A place that a container's runtime has made for a mount, as crun does.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o1755)).expect("sticky");
    assert!(attach(&inner).is_ok(), "nobody else makes directories in a sticky one of ours");
    for mode in [0o1775, 0o1757] {
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(mode)).expect("sticky");
        let error = attach(&inner).expect_err("others write it");
        assert_eq!(error, AttachError::ForeignDirectory { uid: 4242 }, "{mode:o}");
    }
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o1777)).expect("sticky");
    let error = attach(&inner).expect_err("foreign");
    assert_eq!(error, AttachError::ForeignDirectory { uid: 4242 });
    let below = inner.join("below");
    let error = attach(&below).expect_err("nothing is made in it");
    assert_eq!(error, AttachError::ForeignDirectory { uid: 4242 });
    assert!(!below.exists());
}

#[test]
fn a_missing_directory_is_made_as_open_as_what_it_lies_in() {
    let scratch = Scratch::new("make");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).expect("open");
    let open = scratch.path().join("a/b");
    join(&open);
    let files = [mode(&open.join("usage")), mode(&open.join("config"))];
    assert_eq!((mode(&scratch.path().join("a")), mode(&open), files), (0o777, 0o777, [0o666; 2]));
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o1777)).expect("sticky");
    let own = scratch.path().join("c/d/");
    join(&own);
    let files = [mode(&own.join("usage")), mode(&own.join("config"))];
    assert_eq!((mode(&scratch.path().join("c")), mode(&own), files), (0o700, 0o700, [0o600; 2]));
    let far = attach(&scratch.path().join("x/y/z")).expect_err("two levels only");
    assert_eq!(far, AttachError::Directory(divvy_page::Errno(libc::ENOENT)));
}

#[test]
fn a_tenant_without_an_owners_config_says_so() {
    let scratch = Scratch::new("no-config");
    let error = Tenant::attach(&c_path(scratch.path()), &ConfigSource::Owner).expect_err("none");
    assert_eq!(error, AttachError::NoConfig);
    // The failed attach has left no slot behind.
    let (tenant, row) = join(scratch.path());
    assert_eq!(tenant.used_bytes(row), 0);
}

#[test]
fn a_long_path_is_named() {
    let scratch = Scratch::new("long");
    let error = attach(&scratch.path().join("x".repeat(220))).expect_err("long");
    assert!(matches!(error, AttachError::PathTooLong { bytes: 221.. }), "{error:?}");
}

#[test]
fn limits_are_read_anew_when_the_tenant_starts_anew() {
    let strict = Config { flags: 2, ..Config::default() };
    let flags = |scratch: &Scratch| {
        let source = ConfigSource::FirstProcess(&strict);
        Tenant::attach(&c_path(scratch.path()), &source).expect("attached").config().flags
    };
    let (running, ended) = (Scratch::new("running"), Scratch::new("ended"));
    let (mut one, mut two) = (crate::actor::Actor::start(), crate::actor::Actor::start());
    one.join(running.path());
    two.join(ended.path());
    two.kill();
    assert_eq!(flags(&running), 0, "the first process's limits hold while it lives");
    assert_eq!(flags(&ended), 2, "nothing is frozen in a stale file");
}
