//! Suites that run beside those whose tests mostly wait for clocks.
//!
//! They are this program again, at the lowest priority, so that what is judged by time finds a processor when it wants one.
//! A test whose times matter stops them meanwhile, by the process group that [`GROUP`] names: even at the lowest priority
//! a program that computes keeps a processor for some milliseconds from one that yields it in a loop.
//!
//! Promises: what they say is printed whole when they are joined, and counted as if they had run in their turn; a run that
//! ended before it could count is a failure. Does not choose which suites may.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::tally::{Failure, Tally};

/// The lowest priority that there is.
const LOWEST: &str = "19";

/// The variable by which tests know the process group.
pub(super) const GROUP: &str = "DIVVY_BESIDE";

/// Suites under way.
#[derive(Debug)]
pub(super) struct Beside {
    names: String,
    child: Child,
    said: std::thread::JoinHandle<std::io::Result<Vec<u8>>>,
}

impl Beside {
    /// Starts the suites of these names, one after the other.
    ///
    /// # Errors
    /// There is no `nice`, or no process can be made.
    pub(super) fn start(names: &[&str]) -> Result<Self> {
        let mut command = Command::new("nice");
        command.args(["-n", LOWEST]).arg(std::env::current_exe()?).arg("test").args(names);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("nice, of coreutils")?;
        let mut output = child.stdout.take().context("its output was piped")?;
        let said = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes).map(|_| bytes)
        });
        Ok(Self { names: names.join(", "), child, said })
    }

    /// Their process group.
    pub(super) fn group(&self) -> u32 {
        self.child.id()
    }

    /// Waits for their end, prints what they said and counts it.
    pub(super) fn join(mut self, tally: &mut Tally) -> Result<()> {
        // A test that was killed may have left them stopped.
        let go_on = format!("kill -CONT -{}", self.group());
        let _ = Command::new("sh").args(["-c", &go_on]).stderr(Stdio::null()).status();
        let status = self.child.wait()?;
        let said = self.said.join().ok().context("a thread that reads ended early")??;
        let said = String::from_utf8_lossy(&said);
        let Some((shown, counted)) = split(&said) else {
            print!("{said}");
            tally.failed.push(
                format!("{}: ended with {status} before they could count", self.names).into(),
            );
            return Ok(());
        };
        print!("{shown}");
        tally.passed += counted.passed;
        tally.failed.extend(counted.failed);
        tally.skipped.extend(counted.skipped);
        Ok(())
    }
}

/// Lines before the closing lines of a run, and what they count; none if there is no count.
fn split(said: &str) -> Option<(&str, Tally)> {
    let last = said.trim_end().lines().next_back()?;
    let passed = last.split_once(" passed, ")?.0.parse().ok()?;
    let mut counted = Tally { passed, ..Tally::default() };
    let mut end = said.trim_end().len() - last.len();
    let lines: Vec<&str> = said[..end].lines().collect();
    let mut rest = lines.as_slice();
    // From the end: a failed test's lines stand below its name.
    for at in (0..lines.len()).rev() {
        let (before, one) = rest.split_at(at);
        if let [line] = one
            && let Some(skipped) = line.strip_prefix("skipped: ")
        {
            counted.skipped.push(skipped.to_owned());
        } else if let Some(failure) = Failure::read(one) {
            counted.failed.push(failure);
        } else {
            continue;
        }
        rest = before;
    }
    end -= lines[rest.len()..].iter().map(|line| line.len() + 1).sum::<usize>();
    counted.skipped.reverse();
    counted.failed.reverse();
    let has_all = counted.line() == last;
    has_all.then_some((&said[..end], counted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_run_counted_is_counted_here() {
        let said = "== model\nskipped: words of a test\nrows\n== model: 3 s\n\
            skipped: a: no GPU\nskipped: b\nfailed: c::d\n    | why\n    | at 7\nfailed: e\n\
            7 passed, 2 failed, 2 skipped\n";
        let (shown, counted) = split(said).unwrap();
        assert_eq!(shown, "== model\nskipped: words of a test\nrows\n== model: 3 s\n");
        assert_eq!(counted.line(), "7 passed, 2 failed, 2 skipped");
        let failed: Vec<String> = counted.failed.iter().map(ToString::to_string).collect();
        assert_eq!(failed, ["failed: c::d\n    | why\n    | at 7", "failed: e"]);
        assert_eq!(counted.skipped, ["a: no GPU", "b"]);
    }

    #[test]
    fn a_run_that_ended_early_counts_nothing() {
        let torn = "== model\nfailed: a\n7 passed, 2 failed, 0 skipped\n";
        for said in ["", "\n", "== model\n", "== model\n7 passed", "passed, \n", torn] {
            assert!(split(said).is_none(), "{said}");
        }
    }
}
