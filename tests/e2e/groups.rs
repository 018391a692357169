//! Programs in a control group with little memory of the host: what does not fit it stays on the card, in words.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::residence::Movable;
use crate::harness::{MIB, Machine, until};
use crate::lent::Program;

/// Memory that `divvy` leaves to a group.
const SLACK_BYTES: u64 = 512 * MIB;

/// A control group of this test's own, of whichever version the machine bounds memory by.
struct Group {
    path: PathBuf,
    limit: &'static str,
    used: &'static str,
}

impl Group {
    /// None where this machine lets nobody make one.
    fn new(name: &str) -> Option<Self> {
        let versions = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ];
        versions.into_iter().find_map(|(root, limit, used)| {
            let path = Path::new(root).join(format!("divvy-{name}-{}", std::process::id()));
            fs::create_dir(&path).ok()?;
            let group = Self { path, limit, used };
            group.path.join(limit).exists().then_some(group)
        })
    }

    fn take(&self, pid: u32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("a process of ours");
    }

    /// Leaves it so much beside what it has.
    fn leave(&self, bytes: u64) {
        let used = fs::read_to_string(self.path.join(self.used)).expect("a figure");
        let used: u64 = used.trim().parse().expect("a number");
        fs::write(self.path.join(self.limit), (used + bytes).to_string()).expect("a limit");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        until("nobody is in the group", || fs::remove_dir(&self.path).is_ok());
    }
}

/// A program in `group` that has 200 MiB in four blocks.
fn holding(group: &Group, tenant: &Movable<'_>) -> Program {
    let mut program = Program::of(tenant);
    group.take(program.0.pid());
    for block in 0..4 {
        program.does(&format!("allocate {block} {}", 50 * MIB));
        program.does(&format!("fill {block} {block}"));
    }
    program
}

#[test]
fn memory_that_its_group_could_not_hold_stays_on_the_card() {
    let Some(group) = Group::new("stays") else {
        println!(
            "SKIPPED memory_that_its_group_could_not_hold_stays_on_the_card: no control group that \
             bounds memory can be made here"
        );
        return;
    };
    let machine = Machine::new();
    let tenant = Movable::new(&machine, "a");
    let mut program = holding(&group, &tenant);
    group.leave(SLACK_BYTES + 100 * MIB);
    let refused = tenant.wish("freeze", 60);
    assert_eq!(refused.code(), Some(1), "{refused}");
    for words in ["do not fit the host", "a control group of the program has", "nothing was moved"]
    {
        assert!(refused.err.contains(words), "{refused}");
    }
    assert_eq!(tenant.residence("resident_bytes"), 200 * MIB);
    group.leave(SLACK_BYTES + 400 * MIB);
    assert_eq!(tenant.wished("freeze", 60)["away_bytes"], 200 * MIB);
    for block in 0..4 {
        program.finds(block, block);
    }
    program.0.ends_well();
}
