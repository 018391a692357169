//! Pods: real containers with the devices that the prepare core answers, on a simulated card. Limits of two claims hold
//! beside each other, follow what is set while they run, and outlive daemon and claim; what is odd about a pod is in [`odd`],
//! an upgrade under it in [`renewal`], a partitioned card in [`instances`].

mod instances;
mod node;
mod odd;
mod renewal;

use crate::harness::{Talk, finish};
use node::{Node, claim, id_of};

/// Says a line to a container's program and checks its answer.
fn says(program: &mut Talk, line: &str, answer: &str) {
    program.say(line);
    assert_eq!(program.line(), answer, "to {line:?}");
}

/// A program that has begun in a container of its own.
fn begun(node: &Node, devices: &[String]) -> Talk {
    let program = Talk::start(&mut node.program(devices));
    program.expect("ready");
    program
}

#[test]
fn two_pods_have_the_limits_of_their_claims() {
    let Some(node) = Node::start("two_pods_have_the_limits_of_their_claims") else { return };
    let devices = [claim("large", 4), claim("small", 2)].map(|claim| node.prepare(&claim));
    let [mut large, mut small] = devices.map(|devices| begun(&node, &devices));
    says(&mut large, "total", "total 4096");
    says(&mut small, "total", "total 2048");
    says(&mut large, "alloc 3000", "alloc 0");
    says(&mut large, "alloc 1000", "alloc 2");
    says(&mut small, "alloc 1000", "alloc 0");
    says(&mut small, "alloc 1000", "alloc 2");
    large.ends_well();
    small.ends_well();
}

#[test]
fn the_library_is_in_every_program_and_its_list_is_read_only() {
    let what = "the_library_is_in_every_program_and_its_list_is_read_only";
    let Some(node) = Node::start(what) else { return };
    let devices = node.prepare(&claim("list", 2));
    let script = r#"
list=/etc/ld.so.preload library=/usr/local/divvy/libdivvy.so
cat $list
for way in "echo > $list" "rm -f $list" "mv $list /tmp/list" "ln -sf /dev/null $list" "umount $list" \
    "mount -o remount,bind,rw $list" "echo > $library" "rm -f $library" "umount $library"; do
    (eval "$way") 2> /dev/null && echo "undone: $way"
done
cat $list
grep -q $library /proc/self/maps && env -i grep -q $library /proc/self/maps && echo everywhere
"#;
    let told = finish(&mut node.container(&devices).runs(script));
    assert_eq!(told.code(), Some(0), "{told}");
    let list = "/usr/local/divvy/libdivvy.so";
    assert_eq!(told.out.lines().collect::<Vec<_>>(), [list, list, "everywhere"], "{told}");
}

#[test]
fn a_change_is_seen_inside_and_a_killed_daemon_changes_nothing() {
    let what = "a_change_is_seen_inside_and_a_killed_daemon_changes_nothing";
    let Some(mut node) = Node::start(what) else { return };
    let devices = node.prepare(&claim("live", 2));
    let id = id_of(&devices).to_owned();
    let mut program = begun(&node, &devices);
    says(&mut program, "total", "total 2048");
    let set = |node: &Node, memory: &str| {
        let limits = ["--memory", memory, "--compute", "50%"];
        node.divvy(&[&["tenant", "set", &id], &limits[..]].concat()).expect("it is set");
    };
    set(&node, "4GiB");
    says(&mut program, "total", "total 4096");
    says(&mut program, "alloc 3000", "alloc 0");
    set(&node, "3GiB");
    says(&mut program, "alloc 100", "alloc 2");

    node.kill_daemon();
    says(&mut program, "total", "total 3072");
    says(&mut program, "alloc 100", "alloc 2");
    // More is held than there may be: nothing is left for a context.
    let second = finish(&mut node.program(&devices));
    assert!(second.err.contains("DV206") && !second.out.contains("ready"), "{second}");
    node.start_daemon();
    set(&node, "5GiB");
    says(&mut program, "alloc 1000", "alloc 0");
    program.ends_well();
}

#[test]
fn containers_of_one_claim_share_its_limit() {
    let Some(node) = Node::start("containers_of_one_claim_share_its_limit") else { return };
    let shared = claim("shared", 4);
    // The kubelet asks once for each pod that has the claim.
    let devices = node.prepare(&shared);
    assert_eq!(node.prepare(&shared), devices);
    let mut first = begun(&node, &devices);
    let mut second = begun(&node, &devices);
    says(&mut first, "alloc 2000", "alloc 0");
    says(&mut second, "alloc 2000", "alloc 2");
    first.ends_well();
    says(&mut second, "alloc 2000", "alloc 0");
    second.ends_well();
    assert_eq!(node.tenants(), [id_of(&devices)]);
}

#[test]
fn a_claim_that_is_taken_back_lets_nobody_in_and_keeps_who_is_there_limited() {
    let what = "a_claim_that_is_taken_back_lets_nobody_in_and_keeps_who_is_there_limited";
    let Some(node) = Node::start(what) else { return };
    let (gone, stays) = (claim("gone", 2), claim("stays", 4));
    let [devices, others] = [&gone, &stays].map(|claim| node.prepare(claim));
    let mut program = begun(&node, &devices);
    node.unprepare(&gone);
    assert_eq!(node.tenants(), [id_of(&others)]);
    says(&mut program, "total", "total 2048");
    says(&mut program, "alloc 1000", "alloc 0");
    says(&mut program, "alloc 1000", "alloc 2");
    let late = finish(&mut node.program(&devices));
    assert!(late.code() != Some(0) && late.err.contains(id_of(&devices)), "{late}");
    program.ends_well();
    let mut other = begun(&node, &others);
    says(&mut other, "total", "total 4096");
    other.ends_well();
}
