//! Hostile surroundings: garbage for files, no room, no rights. The program lives, is never without
//! its limit, and reads what is wrong.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Finished, GIB, Machine, client, finish};

/// Plays a simple allocation; the program must live, and must not have got memory unlimited.
fn lives(machine: &Machine, what: &str) -> Finished {
    let finished = finish(&mut machine.scenario("under", "trouble"));
    assert_eq!(finished.code(), Some(0), "{what}\n{finished}");
    finished
}

fn tenant_with(file: &str, bytes: &[u8]) -> Machine {
    let machine = Machine::new().limited(2 * GIB);
    fs::create_dir_all(machine.tenant()).expect("the tenant's directory can be made");
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(machine.tenant(), mode).expect("its mode can be set");
    fs::write(machine.tenant().join(file), bytes).expect("its files can be written");
    machine
}

/// Bytes without a pattern, the same in every run.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

#[test]
fn garbage_in_the_files_is_told_and_not_obeyed() {
    for file in ["usage", "config"] {
        for bytes in [noise(10), noise(4096), noise(1 << 20), vec![0; 64], b"DIVVYUSE".to_vec()] {
            let machine = tenant_with(file, &bytes);
            let told = lives(&machine, file);
            assert!(
                told.err.contains(file) || told.out.contains("limited"),
                "{file} of {} bytes: neither refused in words nor limited\n{told}",
                bytes.len()
            );
        }
    }
}

/// A tenant of an owner's, whose config no process may write anew, after `change` of one file.
fn owned(file: &str, change: impl FnOnce(&Path)) -> (Machine, PathBuf) {
    let machine = Machine::new().limited(2 * GIB);
    machine.plays("blocks", "alloc_is_charged");
    change(&machine.tenant().join(file));
    let tenant = machine.tenant();
    let machine = machine.without("DIVVY_MEMORY").with("DIVVY_TENANT", tenant.display());
    (machine, tenant)
}

/// The tenant's file is refused in words that name it.
fn refused(machine: &Machine, file: &str) {
    let told = lives(machine, file);
    assert!(told.out.contains("refused"), "{file}\n{told}");
    assert!(told.err.contains(file), "{file} is named\n{told}");
}

#[test]
fn an_owners_tenant_is_obeyed() {
    let (machine, _) = owned("config", |_| ());
    let told = lives(&machine, "unchanged");
    assert!(told.out.contains("limited"), "{told}");
}

/// A tenant of an owner's with another byte at `at` of one file.
fn with_another_byte(file: &str, at: usize) -> Machine {
    let (machine, _) = owned(file, |path| {
        let mut bytes = fs::read(path).expect("the tenant has its files");
        bytes[at] ^= 0x5a;
        fs::write(path, bytes).expect("its files can be written");
    });
    machine
}

#[test]
fn another_magic_and_limits_of_an_unknown_version_are_exact_errors() {
    for (file, at) in [("usage", 0), ("config", 0), ("config", 8)] {
        refused(&with_another_byte(file, at), file);
    }
}

#[test]
fn a_ledger_of_another_version_in_which_nobody_lives_gives_way_under_the_same_limits() {
    let told = lives(&with_another_byte("usage", 8), "another version");
    assert!(told.out.contains("limited"), "{told}");
}

#[test]
fn a_short_file_is_an_exact_error_and_no_signal() {
    for file in ["usage", "config"] {
        let (machine, _) = owned(file, |path| {
            let half = fs::metadata(path).expect("it is there").len() / 2;
            let opened = fs::OpenOptions::new().write(true).open(path).expect("it can be opened");
            opened.set_len(half).expect("it can be cut");
        });
        refused(&machine, file);
    }
}

#[test]
fn files_of_somebody_else_are_refused_where_anybody_may_write() {
    if !is_root() {
        println!("SKIPPED files_of_somebody_else: only root can give files away");
        return;
    }
    let chown = |path: &Path| {
        std::os::unix::fs::chown(path, Some(12345), None).expect("root can give files away");
    };
    let sticky = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o1777)).expect("modes can be set");
    };
    let machine = Machine::new().limited(2 * GIB);
    machine.plays("blocks", "alloc_is_charged");
    sticky(&machine.tenant());
    chown(&machine.tenant().join("usage"));
    let told = lives(&machine, "foreign file");
    assert!(told.out.contains("refused") && told.err.contains("12345"), "{told}");

    let machine = Machine::new().limited(2 * GIB);
    machine.plays("blocks", "alloc_is_charged");
    sticky(&machine.home().join(".divvy"));
    chown(&machine.tenant());
    let told = lives(&machine, "foreign directory");
    assert!(told.out.contains("refused") && told.err.contains("12345"), "{told}");
}

#[test]
fn links_and_directories_in_place_of_files_are_refused() {
    for file in ["usage", "config"] {
        let machine = tenant_with("unrelated", b"");
        let aim = machine.home().join("aim");
        fs::write(&aim, b"precious").expect("it can be written");
        symlink(&aim, machine.tenant().join(file)).expect("a link can be made");
        let told = lives(&machine, file);
        assert!(told.out.contains("refused"), "{file}\n{told}");
        assert_eq!(fs::read(&aim).expect("it is there"), b"precious", "the aim is untouched");

        let machine = tenant_with("unrelated", b"");
        fs::create_dir(machine.tenant().join(file)).expect("a directory can be made");
        let told = lives(&machine, file);
        assert!(told.out.contains("refused"), "{file}\n{told}");
    }
}

#[test]
fn an_unwritable_directory_is_told() {
    // /proc takes no directory from anybody, root included.
    let machine =
        Machine::new().limited(2 * GIB).with("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/proc/x/y.cache");
    let told = lives(&machine, "unwritable");
    assert!(told.out.contains("refused"), "{told}");
    assert!(told.err.contains("/proc/x"), "the directory is named\n{told}");
}

#[test]
fn the_operator_may_choose_open() {
    let machine = Machine::new()
        .limited(2 * GIB)
        .with("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/proc/x/y.cache")
        .with("DIVVY_FAIL", "open");
    let told = lives(&machine, "open");
    assert!(told.out.contains("unlimited"), "{told}");
}

#[test]
fn a_full_disk_is_told() {
    if !can_unshare(&["--mount"]) {
        println!("SKIPPED a_full_disk_is_told: this machine does not let us mount");
        return;
    }
    let machine = Machine::new().limited(2 * GIB);
    let small = machine.home().join("small");
    fs::create_dir(&small).expect("a directory can be made");
    let cache = small.join("tenant.cache");
    let script = format!(
        "mount -t tmpfs -o size=16k,mode=700 none {} && exec {} trouble",
        small.display(),
        client("under").display()
    );
    let mut command = machine.command("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let finished =
        finish(command.env("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache.display().to_string()));
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert!(finished.out.contains("refused"), "{finished}");
    assert!(finished.err.contains("small"), "the directory is named\n{finished}");
}

/// Whether `unshare` with these options works here.
pub(crate) fn can_unshare(options: &[&str]) -> bool {
    let tried = Command::new("unshare").args(options).args(["--", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Whether we are root.
pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout == b"0\n")
}
