//! An upgrade of all that is on the node, part by part, under containers that run.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::node::{Node, claim};
use super::{begun, says};

#[test]
fn an_upgrade_under_running_pods_loses_no_limit() {
    let Some(mut node) = Node::start("an_upgrade_under_running_pods_loses_no_limit") else {
        return;
    };
    let kept = claim("kept", 4);
    let devices = node.prepare(&kept);
    let mut program = begun(&node, &devices);
    says(&mut program, "alloc 2000", "alloc 0");
    let holds = |program: &mut _| {
        says(program, "total", "total 4096");
        says(program, "alloc 2000", "alloc 2");
    };
    holds(&mut program);

    // The library: the container keeps the file that it has mounted, one that starts has the new one.
    let inode = |node: &Node| fs::metadata(node.library()).expect("it is there").ino();
    let before = inode(&node);
    node.renew_library();
    assert_ne!(inode(&node), before);
    holds(&mut program);
    let mut beside = begun(&node, &devices);
    says(&mut beside, "alloc 1500", "alloc 2");
    beside.ends_well();

    // The daemon, gone and there again; the agent, which is started anew with each request here, and looks at all it has.
    node.kill_daemon();
    holds(&mut program);
    node.start_daemon();
    assert_eq!(node.core().sweep(), Ok(0));
    holds(&mut program);
    assert_eq!(node.prepare(&kept), devices);
    holds(&mut program);
    let mut after = begun(&node, &devices);
    says(&mut after, "total", "total 4096");
    says(&mut after, "alloc 1500", "alloc 2");
    after.ends_well();
    program.ends_well();
}
