//! Processes of several pid and user namespaces in one tenant.

use std::process::Command;

use crate::actor::{Actor, skipped};
use crate::scratch::Scratch;

/// Prints and is true where this machine forbids new namespaces.
pub(crate) fn cannot_unshare(test: &str) -> bool {
    let can = Command::new("unshare").args(["-Urmpf", "true"]).status().is_ok_and(|s| s.success());
    if !can {
        skipped(test, "this machine does not permit `unshare -Urmpf`");
    }
    !can
}

#[test]
fn equal_pids_in_two_pid_namespaces() {
    if cannot_unshare("equal_pids_in_two_pid_namespaces") {
        return;
    }
    let scratch = Scratch::new("pids");
    let start = || {
        let before = ["unshare", "-Urpf", "--kill-child", "--mount-proc"];
        let mut actor = Actor::start_under(&before);
        actor.join(scratch.path());
        actor
    };
    let (mut one, mut two) = (start(), start());
    assert_eq!(one.say("pid"), two.say("pid"));
    one.expect("ask 600", "granted");
    two.expect("ask 600", "refused 600");
    two.expect("ask 400", "granted");
    one.kill();
    // `unshare` is killed first and takes its child with it a moment later.
    let since = std::time::Instant::now();
    while two.say("used") != "400" {
        assert!(since.elapsed().as_secs() < 60, "the dead one's charge stays");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    two.expect("ask 600", "granted");
    two.expect("own", "1000");
}

#[test]
fn two_uids_share_an_open_directory() {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        skipped("two_uids_share_an_open_directory", "needs root to become another user");
        return;
    }
    let scratch = Scratch::new("uids");
    use std::os::unix::fs::PermissionsExt as _;
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scratch.path(), open).expect("open");
    let path = scratch.path().join("sub/tenant");
    let start = |uid: &str| {
        let mut actor =
            Actor::start_under(&["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]);
        actor.join(&path);
        actor
    };
    let (mut one, mut two, mut root) = (start("4242"), start("4343"), Actor::start());
    root.join(&path);
    one.expect("ask 600", "granted");
    two.expect("ask 300", "granted");
    root.expect("ask 101", "refused 900");
    root.expect("ask 100", "granted");
    one.kill();
    two.expect("used", "400");
}
