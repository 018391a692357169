//! Attempts to keep others out: all places taken, tenants under other names, connections kept open.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use divvy_abi::MAX_SLOTS;
use divvy_abi::usage;
use serde_json::json;

use crate::world::{
    self, ATTACKER, Ends, TRIES, VICTIM, attack, directory, run, served, tenant, tenant_in,
    tenants, until, verdict, word,
};

/// Tenants of one user that the machine's daemon serves.
const MOST_OF_ONE: usize = 64;
/// Questions beside connections that are kept open.
const ASKED: usize = 200;

pub(crate) fn places() {
    let plant = |parent: &Path, uid: u32, count: usize| {
        for at in 0..count {
            tenant_in(parent, uid, &format!("planted-{at}"), 1);
        }
    };
    for parent in [tenants(ATTACKER), format!("/tmp/divvy-{ATTACKER}/tenants").into()] {
        plant(&parent, ATTACKER, 200);
    }
    let _daemon = world::daemon(&[]);
    until("one user has its part", || served(ATTACKER).len() == MOST_OF_ONE);
    tenant(VICTIM, "one");
    until("another is served beside it", || served(VICTIM).len() == 1);
    // Three more, and there is no place left.
    for uid in ATTACKER + 1..ATTACKER + 4 {
        plant(&tenants(uid), uid, 100);
    }
    let all = || (ATTACKER..ATTACKER + 4).map(|uid| served(uid).len()).sum::<usize>();
    until("all places are taken", || all() == 255);
    for name in ["two", "three", "four"] {
        tenant(VICTIM, name);
    }
    until("who has most makes room", || served(VICTIM).len() == 4);
    let mut missed = 0;
    for _ in 0..TRIES / 10 {
        missed += usize::from(served(VICTIM).len() != 4);
        std::thread::sleep(Duration::from_millis(20));
    }
    verdict("the victim kept out of places", missed, TRIES / 10);
    let view = world::view().unwrap();
    let refusals = view["tenants"].as_array().unwrap().iter().filter(|t| t["reason"] == "DV066");
    assert!(refusals.count() > 3, "{view}");

    // More names than are looked at: said of the directory.
    let crowded = tenants(ATTACKER + 5);
    tenant(ATTACKER + 5, "first");
    until("the first of many is served", || served(ATTACKER + 5).len() == 1);
    for at in 0..600 {
        directory(&crowded.join(at.to_string()), ATTACKER + 5);
    }
    let is_said = |view: serde_json::Value| {
        let tenants = view["tenants"].as_array().cloned().unwrap_or_default();
        tenants.iter().any(|t| t["directory"] == word(&crowded) && t["reason"] == "DV066")
    };
    until("a directory of too many is named", || world::view().is_some_and(is_said));
    let missed = (0..20).filter(|_| {
        world::daemon_goes_through(1);
        served(ATTACKER + 5).len() != 1
    });
    verdict("the first of many let go of", missed.count(), 20);

    // Whoever keeps the lock of its own limits makes nobody wait, and is served all the same.
    let kept: Vec<PathBuf> = (0..9).map(|at| tenant(ATTACKER + 6, &format!("kept-{at}"))).collect();
    for path in &kept {
        let path = std::ffi::CString::new(word(path)).unwrap();
        divvy_page::owner::Owner::open(&path).unwrap().raise_any_gate().unwrap();
    }
    let configs: Vec<String> = kept.iter().map(|path| format!("{}/config", word(path))).collect();
    let words: Vec<&str> = ["lock"].into_iter().chain(configs.iter().map(String::as_str)).collect();
    let _keeper = world::attack_begun(ATTACKER + 6, &words);
    // More than those for which a daemon leaves a word that is not needed.
    world::daemon_goes_through(60);
    until("their owner's tenants are served", || served(ATTACKER + 6).len() == kept.len());
}

/// Whoever claims a thousand processes in each of its tenants takes no more of the daemon's time.
pub(crate) fn processes() {
    // As a process lays it out; then with all its places taken.
    let path = tenant_in(Path::new("/run"), 0, "template", 1);
    let name = std::ffi::CString::new(word(&path)).unwrap();
    divvy_page::Tenant::attach(&name, &divvy_page::ConfigSource::Owner).unwrap();
    let mut head = std::fs::read(path.join("usage")).unwrap();
    head.truncate(usage::SHARED_AT);
    let mut put = |at: usize, word: u32| head[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    put(usage::SLOTS_HIGH_AT, u32::try_from(MAX_SLOTS).unwrap());
    (1..MAX_SLOTS).for_each(|slot| put(usage::slot_at(slot), usage::state::LIVE));
    std::fs::remove_dir_all(&path).unwrap();
    let usages: Vec<String> = (0..MOST_OF_ONE)
        .map(|at| {
            let file = tenant(ATTACKER, &format!("full-{at}")).join("usage");
            std::fs::write(&file, &head).unwrap();
            let opened = std::fs::File::options().write(true).open(&file).unwrap();
            opened.set_len(usage::USAGE_BYTES as u64).unwrap();
            std::os::unix::fs::chown(&file, Some(ATTACKER), Some(ATTACKER)).unwrap();
            word(&file).to_owned()
        })
        .collect();
    let words: Vec<&str> = ["claim"].into_iter().chain(usages.iter().map(String::as_str)).collect();
    let _claimer = world::attack_begun(ATTACKER, &words);
    let daemon = world::daemon(&[]);
    until("they are served", || served(ATTACKER).len() == MOST_OF_ONE);
    let reads = || crate::calls::reads(format!("/proc/{}", daemon.0.id()));
    let (since, before) = (std::time::Instant::now(), reads());
    world::daemon_goes_through(40);
    let (calls, ms) = (reads() - before, since.elapsed().as_millis() as u64);
    // Two thousand places are looked at twenty times a second, five times more closely.
    let most = 150 * ms;
    println!("{calls} reads in {ms} ms");
    verdict("reads beyond a user's part", calls.saturating_sub(most) as usize, most as usize);
}

pub(crate) fn aliases() {
    let own = tenant(VICTIM, "job");
    let theirs = tenants(VICTIM);
    let alias = |path: &str, to: &Path| {
        let path = Path::new(path);
        directory(path.parent().unwrap(), ATTACKER);
        symlink(to, path).unwrap();
        std::os::unix::fs::lchown(path, Some(ATTACKER), Some(ATTACKER)).unwrap();
    };
    // Those of other names, of no name, of the victim's name in another's hands, and of the attacker's.
    alias("/dev/shm/divvy-!/tenants", &theirs);
    alias(&format!("/dev/shm/divvy-0{VICTIM}/tenants"), &theirs);
    alias(&format!("/dev/shm/divvy-{ATTACKER}/tenants"), &theirs);
    alias(&format!("/tmp/divvy-{VICTIM}/tenants"), &theirs);
    alias(&format!("/tmp/divvy-{ATTACKER}/tenants/job"), &own);
    symlink(&theirs, format!("/tmp/.divvy-{VICTIM}")).unwrap();
    let turning = [tenants(ATTACKER + 1), "/dev/shm/divvy-2002/link".into()];
    tenant(ATTACKER + 1, "job");
    symlink(&theirs, &turning[1]).unwrap();
    // Another file system in a user's place, as a server of its own would be.
    let mounted = tenants(ATTACKER + 2).join("mounted");
    directory(&mounted, ATTACKER + 2);
    let mount = |arguments: &[&str]| {
        assert!(Command::new("mount").args(arguments).status().unwrap().success(), "{arguments:?}");
    };
    mount(&["-t", "tmpfs", "-o", "mode=755,uid=2003", "none", word(&mounted)]);
    tenant_in(&mounted.parent().unwrap().join("mounted"), ATTACKER + 2, "inner", 1);
    std::fs::copy(own.join("config"), mounted.join("config")).unwrap();
    let covered = tenant(ATTACKER + 2, "covered").join("config");
    mount(&["--bind", word(&own.join("config")), word(&covered)]);
    // The operator's own second name for it.
    std::fs::create_dir("/run/alias").unwrap();
    mount(&["--bind", word(&theirs), "/run/alias"]);

    let _turner = Ends(attack(ATTACKER + 1, &["swap", word(&turning[0]), word(&turning[1])]));
    let (mut missed, mut crossed) = (0, 0);
    for more in [&[][..], &["--root", "/run/alias"], &[], &[]] {
        let mut daemon = world::daemon(more);
        until("the victim's is served", || served(VICTIM).len() == 1);
        for _ in 0..TRIES / 4 {
            let view = world::view().unwrap_or_default();
            let tenants = view["tenants"].as_array().cloned().unwrap_or_default();
            let seen: Vec<_> = tenants.iter().filter(|t| t["uid"] == VICTIM).collect();
            let is_one = seen.len() == 1 && seen[0]["reason"].is_null();
            // Either of the operator's two names is a true one.
            let is_true = |name: &str| seen.iter().any(|tenant| tenant["directory"] == name);
            missed += usize::from(!is_one || !(is_true(word(&own)) || is_true("/run/alias/job")));
            let inside = tenants.iter().filter(|t| t["uid"] == ATTACKER + 2);
            crossed += usize::from(inside.clone().any(|t| t["reason"].is_null()));
            std::thread::sleep(Duration::from_millis(2));
        }
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(i32::try_from(daemon.0.id()).unwrap()),
            nix::sys::signal::Signal::SIGTERM,
        )
        .unwrap();
        daemon.0.wait().unwrap();
    }
    verdict("the victim's tenant under another name, or refused", missed, TRIES);
    verdict("what a user has mounted served", crossed, TRIES);
}

pub(crate) fn connections() {
    tenant(VICTIM, "job");
    let _daemon = world::daemon(&[]);
    until("the victim is served", || served(VICTIM).len() == 1);
    let crowd = |uid| world::attack_begun(uid, &["crowd", "40"]);
    let _crowds: Vec<Ends> = (ATTACKER..ATTACKER + 5).map(crowd).collect();
    let is_answered =
        || world::ask(&json!("hello")).is_some_and(|answer| answer["hello"].is_object());
    let missed = (0..ASKED).filter(|_| !is_answered()).count();
    verdict("a question that was not answered", missed, ASKED);
    let status = ["daemon", "--system", "--status", "--json"];
    let missed = (0..ASKED / 10).filter(|_| run(VICTIM, &status).0 != Some(0)).count();
    verdict("the victim's own questions", missed, ASKED / 10);
}
