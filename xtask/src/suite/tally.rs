//! Counts what libtest reports, and what tests say they could not do.
//!
//! A test that cannot fully run on this machine prints a line `SKIPPED <what>: <reason>` and
//! returns; libtest calls it passed, we call it skipped. Output of passing tests is swallowed but
//! for those lines. An ignored test is skipped, unless its reason begins with `a role:`: then it is a
//! process that other tests start. The end of what a failed test said is kept with its name, for the closing lines.

use std::collections::{BTreeMap, BTreeSet};

/// Begins each line that a failed test said, below its name.
const SAID: &str = "    | ";
/// Lines that are kept of what a failed test said: the last ones, in which it says why.
const KEPT: usize = 12;

/// A check or test that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    name: String,
    said: Vec<String>,
}

impl Failure {
    /// Reads back what its `Display` has written, its lines in their order.
    pub(crate) fn read(lines: &[&str]) -> Option<Self> {
        let (name, said) = lines.split_first()?;
        let name = name.strip_prefix("failed: ")?.to_owned();
        let said = said.iter().map(|line| Some(line.strip_prefix(SAID)?.to_owned()));
        Some(Self { name, said: said.collect::<Option<_>>()? })
    }
}

impl From<String> for Failure {
    fn from(name: String) -> Self {
        Self { name, said: Vec::new() }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "failed: {}", self.name)?;
        self.said.iter().try_for_each(|line| write!(f, "\n{SAID}{line}"))
    }
}

/// How many tests passed, failed and were skipped, and which.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Passed.
    pub(crate) passed: usize,
    /// Failed.
    pub(crate) failed: Vec<Failure>,
    /// Skipped, with the reason where one was given.
    pub(crate) skipped: Vec<String>,
    /// Process group of the suites that run beside.
    pub(crate) beside: Option<u32>,
}

impl Tally {
    /// Adds one check that is not a libtest test.
    pub(crate) fn check(&mut self, name: &str, holds: bool) {
        if holds {
            self.passed += 1;
        } else {
            self.failed.push(name.to_owned().into());
        }
    }

    /// The closing line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        )
    }
}

/// Reads libtest's output line by line.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    in_successes: bool,
    in_failures: bool,
    in_trace: bool,
    test: String,
    said_skipped: BTreeSet<String>,
    failed: Vec<String>,
    /// Failed tests' last lines.
    said: BTreeMap<String, Vec<String>>,
}

impl Reader {
    /// Takes one line; returns it when it is worth showing.
    pub(crate) fn line<'a>(&mut self, line: &'a str, tally: &mut Tally) -> Option<&'a str> {
        if line == "successes:" {
            self.in_successes = true;
            return None;
        }
        if line == "failures:" {
            // The same line again begins the list of their names.
            (self.in_successes, self.in_failures) = (false, !self.in_failures);
        }
        if let Some(counts) = line.strip_prefix("test result:") {
            (self.in_successes, self.in_failures, self.in_trace) = (false, false, false);
            self.close(counts, tally);
            return Some(line);
        }
        if let Some(test) =
            line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.test = test.to_owned();
            self.in_trace = false;
        } else if line == "stack backtrace:" {
            // Frames are many, and the reason stands before them.
            self.in_trace = true;
        } else if line.starts_with("note: ") {
            self.in_trace = false;
        } else if self.in_failures && !self.in_trace && !line.is_empty() && !self.test.is_empty() {
            let said = self.said.entry(self.test.clone()).or_default();
            said.drain(..(said.len() + 1).saturating_sub(KEPT));
            said.push(line.to_owned());
        }
        if self.in_successes {
            if !line.starts_with("SKIPPED") {
                return None;
            }
            if self.said_skipped.insert(self.test.clone()) {
                tally.skipped.push(format!("{}: {line}", self.test));
            }
            return Some(line);
        }
        if let Some(report) = line.strip_prefix("test ") {
            if let Some(test) = report.strip_suffix(" ... FAILED") {
                self.failed.push(test.to_owned());
            } else if let Some((test, reason)) = report.split_once(" ... ignored") {
                // A role that other tests start as a process is no test.
                if !reason.starts_with(", a role:") {
                    tally.skipped.push(format!("{test}: ignored{reason}"));
                }
            } else if report.ends_with(" ... ok") {
                return None;
            }
        }
        Some(line)
    }

    /// `ok. 3 passed; 0 failed; 1 ignored; …` ends one test binary.
    fn close(&mut self, counts: &str, tally: &mut Tally) {
        let count = |word: &str| -> usize {
            counts
                .split(['.', ';'])
                .filter_map(|part| part.trim().strip_suffix(word))
                .find_map(|number| number.trim().parse().ok())
                .unwrap_or(0)
        };
        tally.passed += count("passed").saturating_sub(self.said_skipped.len());
        let (named, counted) = (self.failed.len(), count("failed"));
        for name in self.failed.drain(..) {
            let said = self.said.remove(&name).unwrap_or_default();
            tally.failed.push(Failure { name, said });
        }
        // Output of a test may have torn the line that names it.
        for _ in named..counted {
            tally.failed.push("a test whose name was lost in its output".to_owned().into());
        }
        self.said.clear();
        self.said_skipped.clear();
        self.test.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 4 tests\ntest a::one ... ok\ntest a::two ... FAILED\n\
        test a::three ... ok\ntest a::four ... ignored, needs a card\n\
        test a::child ... ignored, a role: others start it\n\nsuccesses:\n\n\
        ---- a::three stdout ----\nnoise\nSKIPPED a::three: no GPU\nSKIPPED again: the same test\n\n\
        successes:\n    a::one\n    a::three\n\nfailures:\n\n---- a::two stdout ----\nwhy\n\n\
        failures:\n    a::two\n\n\
        test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";

    #[test]
    fn a_test_that_says_it_skipped_is_not_counted_as_passed() {
        let (mut reader, mut tally) = (Reader::default(), Tally::default());
        let shown: Vec<_> =
            OUTPUT.lines().filter_map(|line| reader.line(line, &mut tally)).collect();
        assert_eq!(tally.line(), "1 passed, 1 failed, 2 skipped");
        let two = Failure { name: "a::two".to_owned(), said: vec!["why".to_owned()] };
        assert_eq!(two.to_string(), "failed: a::two\n    | why");
        assert_eq!(tally.failed, [two]);
        assert!(shown.contains(&"why") && !shown.contains(&"noise"));
        assert!(shown.contains(&"SKIPPED a::three: no GPU"));
    }

    #[test]
    fn the_last_lines_of_a_failed_test_are_kept() {
        let (mut reader, mut tally) = (Reader::default(), Tally::default());
        let said: Vec<String> = (0..2 * KEPT).map(|line| format!("line {line}")).collect();
        let lines = ["test a ... FAILED", "failures:", "", "---- a stdout ----"].into_iter();
        let lines = lines.chain(said.iter().map(String::as_str));
        let trace = ["stack backtrace:", "   0: main", "note: some details are omitted"];
        let lines = lines.chain(trace);
        let lines = lines.chain(["", "failures:", "    a", "", "test result: FAILED. 1 failed"]);
        for line in lines {
            reader.line(line, &mut tally);
        }
        let [failure] = tally.failed.as_slice() else { panic!("{tally:?}") };
        assert_eq!(failure.said, said[KEPT..]);
        let text = failure.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(Failure::read(&lines).as_ref(), Some(failure));
    }

    #[test]
    fn binaries_are_summed_up() {
        let (mut reader, mut tally) = (Reader::default(), Tally::default());
        for _ in 0..2 {
            reader.line("test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured", &mut tally);
        }
        reader.line("test result: FAILED. 0 passed; 3 failed; 0 ignored", &mut tally);
        assert_eq!(tally.line(), "14 passed, 3 failed, 0 skipped");
    }
}
