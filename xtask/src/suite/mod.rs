//! `cargo xtask test`: everything that must hold before a change lands.
//!
//! Promises: each suite runs even when an earlier one failed; what could not be run is counted as
//! skipped, with its reason; the last line is `N passed, N failed, N skipped`, and the exit status is
//! a failure exactly when something failed. Suites that want processors alone run beside those whose tests
//! mostly wait.

mod beside;
mod checks;
mod golang;
mod kube;
mod metrics;
mod tally;

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::aarch64;
use crate::budget;
use crate::clients;
use crate::command::lines;
use crate::stage;
use crate::workspace::{cargo, cargo_of, target};
use beside::Beside;
use checks::{check, run_tests};
use tally::Tally;

/// One suite: its name on the command line and what it does.
type Suite = (&'static str, fn(&mut Tally) -> Result<()>);

/// In the order they run: what is cheap and fails often comes first.
const SUITES: [Suite; 6] = [
    ("format", format),
    ("lint", lint),
    ("budget", budgets),
    ("workspace", workspace),
    ("metrics", metrics::suite),
    ("packaging", packaging),
];

/// Suites in which nothing depends on a clock: from [`WAITS`] on they run beside the others, one after the other. The first ones
/// have target directories of their own, so that nobody waits for cargo's lock.
const BESIDE: [Suite; 6] = [
    ("model", model),
    ("miri", miri),
    ("searcher", searcher),
    ("rustdoc", rustdoc),
    ("aarch64", arm64),
    ("build of kube", kube::build),
];

/// The suite that runs when those beside have ended. Stopped for minutes, as they are, an API server gives its calls up.
const LAST: Suite = ("kube", kube::suite);

/// The suite whose tests leave processors idle for most of its time.
const WAITS: &str = "workspace";

/// Suites that run only where they are named: one needs roots of other systems, and builds everything once more for an old C
/// library; the others build another version of Kubernetes each, for ten minutes.
const BY_NAME: [Suite; 3] = [("release", release), kube::BY_NAME[0], kube::BY_NAME[1]];

/// The package of [`searcher`].
const SEARCHER: &str = "divvy-searcher";

/// The toolchain whose interpreter is used: it is built for some days only.
const MIRI: &str = "nightly-2026-10-30";

/// Whether everything held; an error only when nothing could be tried.
pub(crate) fn chore(only: &[String]) -> Result<bool> {
    let mut chosen: Vec<Suite> = SUITES
        .into_iter()
        .chain(BESIDE)
        .chain([LAST])
        .chain(BY_NAME.into_iter().filter(|_| !only.is_empty()))
        .filter(|(name, _)| only.is_empty() || only.iter().any(|word| name.contains(word.as_str())))
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = SUITES
            .iter()
            .chain(&BESIDE)
            .chain(&BY_NAME)
            .chain([&LAST])
            .map(|suite| suite.0)
            .collect();
        bail!("no suite is called {}; there are: {}", only.join(" "), names.join(" "));
    }
    let mut tally = Tally::default();
    if only.is_empty() {
        let skipped =
            |(name, _): &Suite| format!("{name}: it runs by its name, `cargo xtask test {name}`");
        tally.skipped.extend(BY_NAME.iter().map(skipped));
    }
    let mut later = Vec::new();
    if chosen.iter().any(|(name, _)| *name == WAITS) {
        later =
            chosen.extract_if(.., |(name, _)| BESIDE.iter().any(|one| one.0 == *name)).collect();
    }
    let later: Vec<&str> = later.iter().map(|suite| suite.0).collect();
    let mut beside = None;
    let (mut at, count) = (0, chosen.len() + later.len());
    for (name, suite) in chosen {
        if name == WAITS && !later.is_empty() {
            at += later.len();
            println!("== beside, {} suites of {count}: {}", later.len(), later.join(", "));
            let started = Beside::start(&later)?;
            tally.beside = Some(started.group());
            beside = Some(started);
        }
        if name == LAST.0
            && let Some(beside) = beside.take()
        {
            beside.join(&mut tally)?;
        }
        let begin = Instant::now();
        at += 1;
        println!("== {name}: suite {at} of {count}");
        if let Err(error) = suite(&mut tally) {
            println!("{error:#}");
            tally.failed.push(name.to_owned().into());
        }
        println!("== {name}: {:.0} s", begin.elapsed().as_secs_f64());
    }
    if let Some(beside) = beside {
        beside.join(&mut tally)?;
    }
    for skipped in &tally.skipped {
        println!("skipped: {skipped}");
    }
    for failed in &tally.failed {
        println!("{failed}");
    }
    println!("{}", tally.line());
    Ok(tally.failed.is_empty())
}

/// Whether cargo has this part of the toolchain, which is installed where it can be; a skip is counted where it cannot.
fn has_component(tally: &mut Tally, suite: &str, command: &str, component: &str) -> bool {
    let works = |command: &mut Command| command.output().is_ok_and(|told| told.status.success());
    let is_there = || works(cargo().args([command, "--version"]));
    if is_there() {
        return true;
    }
    let how = ["component", "add", component];
    let is_there = works(Command::new("rustup").args(how)) && is_there();
    if !is_there {
        tally.skipped.push(format!("{suite}: there is no {component}; `rustup {}`", how.join(" ")));
    }
    is_there
}

fn format(tally: &mut Tally) -> Result<()> {
    if !has_component(tally, "format", "fmt", "rustfmt") {
        return Ok(());
    }
    check(tally, cargo().args(["fmt", "--all", "--check"]))
}

fn lint(tally: &mut Tally) -> Result<()> {
    if !has_component(tally, "lint", "clippy", "clippy") {
        return Ok(());
    }
    let strict = ["--all-targets", "--", "-D", "warnings"];
    check(tally, cargo().args(["clippy", "--quiet", "--workspace"]).args(strict))?;
    // Chores that need more are behind features, and a feature that nobody builds rots.
    for feature in ["regen", "release"] {
        let behind = ["clippy", "--quiet", "--package", "xtask", "--features", feature];
        check(tally, cargo().args(behind).args(strict))?;
    }
    Ok(())
}

fn budgets(tally: &mut Tally) -> Result<()> {
    for finding in budget::check(&stage::build_shim()?)? {
        budget::report(std::slice::from_ref(&finding));
        tally.check(finding.what, finding.holds);
    }
    Ok(())
}

fn workspace(tally: &mut Tally) -> Result<()> {
    let stage = stage::build(clients::ALL)?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--exclude", SEARCHER, "--no-fail-fast"]);
    run_tests(tally, &mut tests, Some(&stage))?;
    // A fault that is planted stands in today's text; who plants them is behind a feature.
    let mut faults = cargo();
    faults.args([
        "test",
        "--package",
        "xtask",
        "--features",
        "mutants",
        "--bin",
        "xtask",
        "mutants::",
    ]);
    run_tests(tally, &mut faults, None)
}

/// Simulated programs and cards, in which time is a number.
fn searcher(tally: &mut Tally) -> Result<()> {
    let mut tests = cargo();
    tests.args(["test", "--package", SEARCHER, "--no-fail-fast"]);
    run_tests(tally, &mut tests, None)
}

/// The ledger's protocol over all interleavings, and the gate's threads and a tenant's turns over many.
fn model(tally: &mut Tally) -> Result<()> {
    let models = [("loom", "ledger_model"), ("shuttle", "lane_model"), ("shuttle", "inside_model")];
    for (checker, test) in models {
        let mut tests = cargo();
        tests.args(["test", "--release", "--package", "divvy-policy", "--test", test]);
        tests.arg("--target-dir").arg(target().join(checker));
        tests.env("RUSTFLAGS", format!("--cfg {checker}"));
        run_tests(tally, &mut tests, None)?;
    }
    Ok(())
}

/// Tests that can be interpreted, each access checked: layouts, decisions, shared words and the decisions on them. Other
/// tests of `page` begin with system calls in assembly, which cannot.
fn miri(tally: &mut Tally) -> Result<()> {
    let found = cargo_of(MIRI).args(["miri", "--version"]).output();
    if !found.is_ok_and(|answer| answer.status.success()) {
        let how = format!("rustup toolchain install {MIRI} --profile minimal -c miri -c rust-src");
        tally.skipped.push(format!("miri: there is none of {MIRI}; `{how}`"));
        return Ok(());
    }
    for (package, of) in [
        ("divvy-abi", None),
        ("divvy-policy", None),
        ("divvy-page", Some("meet::")),
        ("divvy-page", Some("usage::")),
    ] {
        let mut tests = cargo_of(MIRI);
        tests.args(["miri", "test", "--package", package, "--lib"]).args(of);
        // Seeds of property tests are kept in files.
        tests.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "2");
        tests.env("CARGO_TARGET_DIR", target().join("miri"));
        run_tests(tally, &mut tests, None)?;
    }
    Ok(())
}

fn rustdoc(tally: &mut Tally) -> Result<()> {
    check(
        tally,
        cargo()
            .args(["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// The library for the other architecture: built, linked, and checked as a file.
fn arm64(tally: &mut Tally) -> Result<()> {
    let how = ["target", "add", aarch64::TRIPLE];
    let add = || Command::new("rustup").args(how).output().is_ok_and(|told| told.status.success());
    if aarch64::needs_target().is_err() && !(add() && aarch64::needs_target().is_ok()) {
        let how = how.join(" ");
        tally.skipped.push(format!("aarch64: the toolchain cannot build for it; `rustup {how}`"));
        return Ok(());
    }
    for finding in budget::check_aarch64()? {
        budget::report(std::slice::from_ref(&finding));
        tally.check(finding.what, finding.holds);
    }
    Ok(())
}

/// Archives, checks of artefacts and the unit as systemd judges it: all that needs none of the artefacts themselves.
fn packaging(tally: &mut Tally) -> Result<()> {
    let mut tests = cargo();
    tests.args(["test", "--package", "xtask", "--features", "release"]);
    run_tests(tally, tests.args(["--bin", "xtask", "--test", "release", "release"]), None)
}

/// Artefacts for users: made, and tried on other systems. One that cannot be fetched is a skip, not a failure.
fn release(tally: &mut Tally) -> Result<()> {
    let xtask = ["--package", "xtask", "--features", "release"];
    let ours = |what: &[&str]| {
        let mut command = cargo();
        command.args(["run", "--quiet"]).args(xtask).args(["--", "release"]).args(what);
        command
    };
    let mut units = cargo();
    run_tests(tally, units.arg("test").args(xtask).args(["--bin", "xtask", "release::"]), None)?;
    if !lines(&mut ours(&["--fetch"]), |line| println!("{line}"))?.success() {
        tally
            .skipped
            .push("release: pip could not fetch the linker of packaging/zig.txt".to_owned());
        return Ok(());
    }
    let out = target().join("release-artefacts");
    let mut make = ours(&["--out"]);
    make.arg(&out);
    let made = lines(&mut make, |line| println!("{line}"))?.success();
    tally.check("release: artefacts are made", made);
    if !made {
        return Ok(());
    }
    let mut tests = cargo();
    tests.arg("test").args(xtask).args(["--test", "release"]).env("DIVVY_RELEASE", &out);
    run_tests(tally, &mut tests, None)
}
