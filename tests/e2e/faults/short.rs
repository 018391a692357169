//! Memory that is short while memory moves: on the card, or on the host, from the first byte on or half-way.
//!
//! Promises: nothing is lost without memory; what is to leave stays, what is to come waits, and both go on when there is
//! some.

use std::process::Command;
use std::time::Duration;

use super::{Broken, DEADLINE_S, Step, each, machine, survives_each};
use crate::harness::MIB;

/// Lets the driver fail as these rules say for a while.
fn waits(all: &[(Step, &'static str)]) {
    each(all, |(step, rules)| {
        let machine = machine();
        let mut broken = Broken::new(&machine);
        match step {
            Step::Leaving => {
                broken.fails(rules);
                broken.stays();
                broken.leave();
                broken.go_on();
            }
            Step::ComingBack => {
                broken.leave();
                broken.fails(rules);
                broken.client.go();
                let said = broken.client.line_within(Duration::from_millis(500));
                assert_eq!(said, None, "it waits");
                broken.fails("");
                broken.is_back();
            }
        }
        assert!(broken.failed() > 0, "nothing failed");
        broken.client.ends_well();
    });
}

impl Broken<'_> {
    /// The owner wishes the memory away, which stays, and the program goes on with it. The wish stands.
    fn stays(&mut self) {
        let finished = self.tenant.wish("freeze", 1);
        assert_eq!(finished.code(), Some(1), "{finished}");
        assert!(finished.err.contains("still on the card"), "{finished}");
        self.go_on();
    }

    /// Lets the program's address space grow by so much at most; by all it wants without a number.
    fn may_grow(&self, bytes: Option<u64>) {
        let pid = self.client.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("it runs");
        let pages = status.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
        let now = pages.expect("a number of pages") * 4096;
        let most = bytes.map_or("unlimited".to_owned(), |bytes| (now + bytes).to_string());
        let mut command = Command::new("prlimit");
        let done =
            command.arg(format!("--pid={pid}")).arg(format!("--as={most}:unlimited")).status();
        assert!(done.is_ok_and(|status| status.success()), "{command:?}");
    }
}

#[test]
fn what_lacks_memory_waits() {
    waits(&[
        (Step::Leaving, "cuMemHostRegister_v2@*=fail:2"),
        (Step::Leaving, "cuMemHostRegister_v2@2+=fail:2"),
        (Step::Leaving, "cuStreamCreate@*=fail:2"),
        (Step::ComingBack, "cuMemCreate@*=fail:2"),
        (Step::ComingBack, "cuMemCreate@2+=fail:2"),
    ]);
}

#[test]
fn what_lacks_memory_for_a_stream_waits() {
    waits(&[(Step::ComingBack, "cuStreamCreate@*=fail:2")]);
    survives_each(&[(Step::ComingBack, "cuMemCreate@2=fail:2;cuStreamCreate@2=fail:2")]);
}

/// The host has room for no piece, or for some: how many those are depends on what the driver keeps in a process.
#[test]
fn a_host_without_room_loses_nothing() {
    each(&[4 * MIB, 20 * MIB, 40 * MIB, 80 * MIB], |bytes| {
        let machine = machine();
        let mut broken = Broken::new(&machine);
        // The program has what it needs for a comparison then.
        broken.go_on();
        broken.may_grow(Some(bytes));
        let finished = broken.tenant.wish("freeze", 1);
        assert!(bytes > 4 * MIB || finished.code() == Some(1), "{finished}");
        broken.may_grow(None);
        // The wish stands, and would come about at any moment from here on.
        broken.tenant.wished("thaw", DEADLINE_S);
        broken.go_on();
        broken.leave();
        broken.go_on();
        broken.client.ends_well();
    });
}
