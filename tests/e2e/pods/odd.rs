//! Pods out of the ordinary: who they run as, what their root is, what their image brings, and what they do to their
//! environment. Each is limited, or does not start.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use divvy_kube::prepare::PrepareReason;

use super::node::{Node, claim, id_of, of_class};
use super::{begun, says};
use crate::harness::{Container, Finished, Machine, Talk, finish, root};

/// Begins the program in `container`, checks that it has 2 GiB and no more, and ends it.
fn is_limited(container: Container, what: &str) {
    let program = Talk::start(&mut container.executes(&["/program", "obeys"]));
    assert_eq!(program.line(), "ready", "{what}");
    holds(program);
}

/// The same of one that has begun.
fn holds(mut program: Talk) {
    says(&mut program, "total", "total 2048");
    says(&mut program, "alloc 1000", "alloc 0");
    says(&mut program, "alloc 1000", "alloc 2");
    program.ends_well();
}

/// Uids of the host that stand for a container's.
const MAPPED: &str = "100000";

/// The container in a user namespace: its root is nobody on the host, and the host's root is nobody there.
fn in_a_user_namespace(container: Container) -> Container {
    let owner = format!("{MAPPED}:{MAPPED}");
    let owned = Command::new("chown").args(["-R", &owner]).arg(container.root()).status();
    assert!(owned.is_ok_and(|status| status.success()), "root gives files away");
    let map = format!("0:{MAPPED}:65536");
    container.with(&["--uidmap", &map, "--gidmap", &map])
}

#[test]
fn a_user_namespace_changes_no_limit() {
    let Some(node) = Node::start("a_user_namespace_changes_no_limit") else { return };
    let devices = node.prepare(&claim("mapped", 2));
    let mapped = || in_a_user_namespace(node.container(&devices));
    let told = finish(&mut mapped().runs("stat -c %u /run/divvy/tenant; cat /proc/self/uid_map"));
    let words: Vec<_> = told.out.split_whitespace().collect();
    if told.code() != Some(0) {
        println!("SKIPPED podman, a_user_namespace_changes_no_limit: {}", told.err.trim());
        return;
    }
    assert_eq!(words, ["65534", "0", MAPPED, "65536"], "{told}");
    is_limited(mapped(), "its root");
    is_limited(mapped().with(&["--user", "1000:1000"]), "its user");
    is_limited(mapped().with(&["--read-only"]), "its root, without a place to write");
    // Beside one that has no namespace of users.
    let mut first = begun(&node, &devices);
    says(&mut first, "alloc 1000", "alloc 0");
    let mut second = Talk::start(&mut mapped().executes(&["/program", "obeys"]));
    second.expect("ready");
    says(&mut second, "alloc 1000", "alloc 2");
    first.ends_well();
    second.ends_well();
}

#[test]
fn any_user_and_a_read_only_root_are_limited() {
    let Some(node) = Node::start("any_user_and_a_read_only_root_are_limited") else { return };
    let devices = node.prepare(&claim("odd", 2));
    for options in [
        &["--user", "1000:1000"][..],
        &["--read-only"],
        &["--read-only", "--read-only-tmpfs=false"],
        &[
            "--read-only",
            "--user",
            "1000:1000",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
        ],
    ] {
        is_limited(node.container(&devices).with(options), &options.join(" "));
    }
}

#[test]
fn an_image_with_a_list_of_its_own_has_ours_in_its_place_or_does_not_start() {
    let what = "an_image_with_a_list_of_its_own_has_ours_in_its_place_or_does_not_start";
    let Some(node) = Node::start(what) else { return };
    let devices = node.prepare(&claim("own", 2));
    let with_list = |make: &dyn Fn(&Path)| {
        let container = node.container(&devices);
        make(&container.root().join("etc/ld.so.preload"));
        container
    };
    is_limited(with_list(&|list| fs::write(list, "/opt/own.so\n").expect("a file")), "a file");
    is_limited(with_list(&|list| symlink("/opt/list", list).expect("a link")), "a link");
    is_limited(
        with_list(&|list| symlink("../../../x", list).expect("a link")),
        "a link that leaves",
    );
    let folder = with_list(&|list| fs::create_dir(list).expect("a folder"));
    let told = finish(&mut folder.runs("exit 0"));
    assert!(told.code() != Some(0) && told.err.contains("ld.so.preload"), "{told}");
}

#[test]
fn init_and_sidecar_containers_share_the_claim() {
    let Some(node) = Node::start("init_and_sidecar_containers_share_the_claim") else { return };
    let devices = node.prepare(&claim("sidecar", 2));
    let mut init = begun(&node, &devices);
    says(&mut init, "alloc 1500", "alloc 0");
    init.ends_well();
    // All that the first had is there again, once; the two that run beside each other have it together.
    let mut sidecar = begun(&node, &devices);
    let mut main = begun(&node, &devices);
    says(&mut sidecar, "alloc 500", "alloc 0");
    says(&mut main, "alloc 600", "alloc 2");
    says(&mut main, "alloc 400", "alloc 0");
    main.ends_well();
    sidecar.ends_well();
}

#[test]
fn a_claim_in_two_pods_goes_with_the_last() {
    let Some(node) = Node::start("a_claim_in_two_pods_goes_with_the_last") else { return };
    let shared = claim("pods", 2);
    let devices = node.prepare(&shared);
    let mut first = begun(&node, &devices);
    says(&mut first, "alloc 1000", "alloc 0");
    // The second pod comes while the first runs, and stays when that has ended.
    assert_eq!(node.prepare(&shared), devices);
    let mut second = begun(&node, &devices);
    says(&mut second, "alloc 1000", "alloc 2");
    first.ends_well();
    says(&mut second, "alloc 1000", "alloc 0");
    says(&mut second, "alloc 1000", "alloc 2");
    second.ends_well();
    assert_eq!(node.tenants(), [id_of(&devices)]);
    node.unprepare(&shared);
    assert!(node.tenants().is_empty());
}

#[test]
fn a_cleared_environment_and_variables_of_an_image_change_no_limit() {
    let what = "a_cleared_environment_and_variables_of_an_image_change_no_limit";
    let Some(node) = Node::start(what) else { return };
    let devices = node.prepare(&claim("unset", 2));
    let starts = |options: &[&str], before: &str| {
        let line = format!("exec {before} /program obeys");
        Talk::start(&mut node.container(&devices).with(options).runs(&line))
    };
    // `sudo`, `su -`, `ssh` and `cron` do as much.
    let image = ["--env", "DIVVY_MEMORY=9GiB", "--env", "CUDA_DEVICE_MEMORY_LIMIT=9g", "--env"];
    let image = [&image[..], &["CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/own.cache"]].concat();
    for (options, before) in
        [(&[][..], "env -u DIVVY_TENANT"), (&image[..], ""), (&image[..], "env -u DIVVY_TENANT")]
    {
        let program = starts(options, before);
        program.expect("ready");
        holds(program);
    }
}

/// The program for musl, compiled; none, and said so, where there is no compiler for it.
fn musl_program(node: &Node, what: &str) -> Option<PathBuf> {
    let program = node.machine.home().join("musl");
    let source = root().join("tests/e2e/pods/musl.c");
    match Command::new("musl-gcc").arg(source).arg("-o").arg(&program).output() {
        Ok(built) => {
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            Some(program)
        }
        Err(_) => {
            println!(
                "SKIPPED {what}: there is no musl-gcc; `apt-get install musl-tools` brings it"
            );
            None
        }
    }
}

#[test]
fn a_program_for_musl_lives_and_cannot_load_the_driver() {
    let what = "a_program_for_musl_lives_and_cannot_load_the_driver";
    let Some(node) = Node::start(what) else { return };
    let Some(program) = musl_program(&node, what) else { return };
    let runs = |devices: &[String]| -> Finished {
        let container = node.container(devices);
        fs::copy(&program, container.root().join("musl")).expect("a copy");
        finish(&mut container.executes(&["/musl"]))
    };
    // A list is another loader's; a variable both read, and the library asks for nothing that musl lacks.
    for (preload, library) in [("file", "not in"), ("variable", "in")] {
        let mut claim = claim(preload, 2);
        claim.config = vec![of_class(preload)];
        let told = runs(&node.prepare(&claim));
        assert_eq!(told.code(), Some(0), "{preload}: {told}");
        let words = format!("library {library}\ndriver not loaded\n");
        assert_eq!(told.out, words, "{preload}: {told}");
    }
}

/// Gives a file a label as SELinux keeps it; false, and said so, where that cannot be.
fn label(path: &Path, label: &str, what: &str) -> bool {
    let script = "import os, sys; os.setxattr(sys.argv[1], 'security.selinux', sys.argv[2].encode() + b'\\0')";
    let mut python = Command::new("python3");
    let told = finish(python.args(["-c", script]).arg(path).arg(label));
    if told.code() != Some(0) {
        println!("SKIPPED {what}: files have no labels here: {}", told.err.trim());
    }
    told.code() == Some(0)
}

#[test]
fn labels_that_keep_containers_out_are_refused_until_they_are_mended() {
    let what = "labels_that_keep_containers_out_are_refused_until_they_are_mended";
    let node = Node::on(Machine::new().native());
    let labelled = claim("labelled", 2);
    let prepared = || {
        let core = node.core().under_selinux(true);
        core.prepare(std::slice::from_ref(&labelled)).remove(0).result
    };
    let list = node.machine.home().join("state/ld.so.preload");
    for (path, kept_out, mended) in [
        (node.library(), "usr_t:s0", "container_ro_file_t:s0"),
        (list, "container_file_t:s0:c1,c2", "container_file_t:s0"),
        (node.machine.home().join("tenant"), "container_ro_file_t:s0", "container_file_t:s0"),
    ] {
        let refused = prepared().expect_err("no label yet");
        assert_eq!(refused.reason, PrepareReason::NotLabelled, "{refused}");
        // The tenant's directory is named by the daemon, which has made it by then.
        let path = match path.exists() {
            true => path,
            false => refused.words.split(": ").next().expect("a path").into(),
        };
        for (kind, is_last) in [(kept_out, false), (mended, true)] {
            let path_shown = path.display().to_string();
            let words = prepared().expect_err("its label is not for containers").words;
            assert!(words.starts_with(&path_shown) && words.contains("chcon"), "{words}");
            if !label(&path, &format!("system_u:object_r:{kind}"), what) {
                return;
            }
            let now = prepared().err().map(|error| error.words).unwrap_or_default();
            assert_eq!(now.starts_with(&path_shown), !is_last, "{kind}: {now}");
        }
    }
    assert_eq!(prepared().map(|shares| shares.len()), Ok(1));
}
