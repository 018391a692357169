//! The unit of the machine's daemon, as systemd judges it.

use std::path::Path;
use std::process::Command;

use crate::artefacts::{has_tool, said};

/// What systemd calls the exposure, in tenths: 0 is none, 100 all.
const MOST_TENTHS: u32 = 30;

#[test]
fn the_unit_of_a_release_is_exposed_to_little() {
    let test = "unit";
    if !has_tool(test, "systemd-analyze", "systemd") {
        return;
    }
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/divvy.service");
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=yes", "--no-pager"]).arg(&unit);
    let said = said(&mut analyze);
    let line = said.lines().find(|line| line.contains("Overall exposure level")).unwrap_or(&said);
    let digits: String =
        line.rsplit(": ").next().unwrap_or_default().chars().take_while(|c| *c != ' ').collect();
    let tenths: u32 = digits.replace('.', "").parse().unwrap_or_else(|_| panic!("{said}"));
    println!("{line}");
    assert!(tenths <= MOST_TENTHS, "{said}");
}
