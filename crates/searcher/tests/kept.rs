//! The kept cases hold: each once failed, or fails with a fault planted in the gates.
//!
//! `DIVVY_SHRINK` names what fails, a kind and a seed or `case` and a file, and has it made small and written to
//! `DIVVY_RESULT` (`cargo xtask soak share --shrink`). With `DIVVY_FAULT`, a planted fault's number, it fails with that fault
//! and holds without. Each try is a process of its own, which may hang and has one fault on or none: it is told its case by
//! `DIVVY_CASE`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use divvy_searcher::case::Case;
use divvy_searcher::kept::{self, Kept, Oracle};
use divvy_searcher::{beside, judge, lone, mixed, oracle, shrink};

/// Tries of a shrinker, and what each may take before it hangs.
const TRIES: usize = 400;
const HANGS: Duration = Duration::from_secs(10);

#[test]
fn every_kept_case_holds() {
    let mut wrong = Vec::new();
    let files = Kept::files().expect("the folder of cases");
    assert!(!files.is_empty(), "no case is kept");
    for path in files {
        let kept = Kept::read(&path).expect("a kept case");
        let verdict = kept::verdict(&kept.case, kept.oracle);
        let name = path.file_stem().unwrap_or_default().display();
        let row = format!("{name}: {:.2} {}; it found: {}", verdict.off, verdict.text, kept.found);
        println!("{row}");
        wrong.extend((!verdict.holds()).then_some(row));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_field_that_nobody_knows_is_refused() {
    let read = |case: &str| {
        let text = format!(r#"{{"found": "", "commit": "", "oracle": "share", "case": {case}}}"#);
        serde_json::from_str::<Kept>(&text).map_err(|error| error.to_string())
    };
    read(r#"{"knobs": {}, "tenants": [{"processes": [{"ops": ["Sync"]}]}]}"#).expect("known");
    for unknown in [
        r#"{"knobs": {"other": 1}, "tenants": []}"#,
        r#"{"knobs": {"card": {"other": 1}}, "tenants": []}"#,
        r#"{"knobs": {}, "tenants": [{"other": 1}]}"#,
        r#"{"knobs": {}, "tenants": [{"processes": [{"other": 1}]}]}"#,
        r#"{"knobs": {}, "tenants": [{"processes": [{"ops": [{"Pause": {"ns": 1, "other": 1}}]}]}]}"#,
        r#"{"knobs": {}, "tenants": [], "devs": [], "other": 1}"#,
    ] {
        let error = read(unknown).expect_err(unknown);
        assert!(error.contains("other"), "{error}");
    }
}

/// The end of [`tried`]: says of a case in a file how far off it is.
#[test]
fn the_case_that_is_named_is_judged() {
    let Some(path) = std::env::var_os("DIVVY_CASE") else { return };
    let kept = Kept::read(Path::new(&path)).expect("a kept case");
    let verdict = kept::verdict(&kept.case, kept.oracle);
    println!("\noff {} {}", verdict.off, verdict.text);
}

/// How far off a case is in a process of its own with that fault on, or none, and what that took; without end where it
/// hangs or ends early.
fn tried(kept: &Kept, fault: Option<&str>) -> (f64, Duration) {
    let path = std::env::temp_dir().join(format!("divvy-case-{}.json", std::process::id()));
    kept.write(&path).expect("the folder for what is temporary");
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "the_case_that_is_named_is_judged", "--nocapture"]);
    command.env("DIVVY_CASE", &path).env_remove("DIVVY_SHRINK").env_remove("DIVVY_MUTANT");
    command.envs(fault.map(|fault| ("DIVVY_MUTANT", fault)));
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("this test once more");
    let begun = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begun.elapsed() > HANGS {
            child.kill().expect("a child");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let said = child.wait_with_output().expect("a child").stdout;
    let said = String::from_utf8_lossy(&said);
    let off =
        said.lines().find_map(|line| line.strip_prefix("off ")?.split(' ').next()?.parse().ok());
    (off.unwrap_or(f64::INFINITY), begun.elapsed())
}

/// Whether a case fails clearly, and for the fault alone where there is one.
fn fails(kept: &Kept, fault: Option<&str>) -> bool {
    let (least, most) = oracle::CLEARLY;
    let holds = || {
        let (off, took) = tried(kept, None);
        // Nor is it slow where others use the host, which is not to be taken for hanging.
        off < most && took < HANGS / 10
    };
    tried(kept, fault).0 > least && (fault.is_none() || holds())
}

/// The case that is asked for, and who judges it.
fn drawn(kind: &str, which: &str) -> Kept {
    if kind == "case" {
        return Kept::read(Path::new(which)).expect("a kept case");
    }
    let seed = || which.parse::<u64>().expect("the number of a seed");
    let (oracle, case): (_, Case) = match kind {
        "short" => (Oracle::Broken, judge::short_case(seed())),
        "mixed" => (Oracle::AboveCap, mixed::case(seed())),
        "lone" => (Oracle::Share, lone::case(seed())),
        "beside" => (Oracle::Share, beside::case(seed(), false)),
        "caps" => (Oracle::Share, beside::case(seed(), true)),
        _ => panic!("{kind} is none of short, mixed, lone, beside, caps and case"),
    };
    let said = |name: &str| std::env::var(name).ok();
    Kept {
        found: format!("{kind} {which}"),
        commit: said("DIVVY_COMMIT").unwrap_or_default(),
        fault: said("DIVVY_FAULT_NAME"),
        oracle,
        case,
    }
}

#[test]
fn what_fails_is_made_small() {
    let Ok(asked) = std::env::var("DIVVY_SHRINK") else { return };
    let (kind, which) = asked.split_once(' ').expect("a kind and a seed");
    let result = PathBuf::from(std::env::var_os("DIVVY_RESULT").expect("DIVVY_RESULT"));
    let fault = std::env::var("DIVVY_FAULT").ok();
    let mut kept = drawn(kind, which);
    if matches!(kind, "lone" | "beside" | "caps") {
        // What is judged of these begins when all have begun.
        kept.case.knobs.heal_ns =
            (beside::BEGUN_NS + divvy_searcher::SECOND).min(kept.case.knobs.run_ns / 2);
    }
    assert!(fails(&kept, fault.as_deref()), "{asked} does not fail clearly");
    let tries =
        std::env::var("DIVVY_TRIES").ok().map_or(TRIES, |text| text.parse().expect("tries"));
    let about = Kept { case: Case::default(), ..kept.clone() };
    let smaller = |case: &Case| Kept { case: case.clone(), ..about.clone() };
    kept.case = shrink::shrink(kept.case, tries, &|case| fails(&smaller(case), fault.as_deref()));
    kept.write(&result).expect("the result can be written");
    println!("{}: {:?}", result.display(), kept.case.size());
}
