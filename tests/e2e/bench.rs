//! The benchmarks of device time run, and what they find is valid. How good it is, only a card shows.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::harness::{Finished, Machine, best_of_three, finish, stage};

/// `divvy bench NAME` on the simulated card, which stores its results in the machine's home.
fn bench(machine: &Machine, name: &str, options: &[&str]) -> Finished {
    let mut command = machine.command(stage().join("bin/divvy"));
    command.args(["bench", name, "--sim"]).args(options);
    finish(command.arg("--out").arg(machine.home().join("results")))
}

/// The figures of a report in JSON.
fn figures(finished: &Finished) -> Vec<Value> {
    let report: Value = serde_json::from_str(&finished.out)
        .unwrap_or_else(|error| panic!("no report: {error}\n{finished}"));
    report["figures"].as_array().expect("figures").clone()
}

/// The figures of the one report that was stored.
fn stored(machine: &Machine) -> Vec<Value> {
    let files = std::fs::read_dir(machine.home().join("results")).expect("results were stored");
    let paths = files.flatten().map(|file| file.path());
    let reports: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    let [report] = &reports[..] else { panic!("no single report: {reports:?}") };
    let text = std::fs::read_to_string(report).expect("it can be read");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    report["figures"].as_array().expect("figures").clone()
}

/// Those of `names` that have no value of Divvy's, and why not.
fn missing(figures: &[Value], names: &[&str]) -> BTreeMap<String, String> {
    let missing = |name: &&str| {
        let mut named = figures.iter().filter(|figure| figure["name"] == *name);
        let is_there = named.clone().any(|figure| figure["medians"]["divvy"].is_f64());
        let why = named.next().map(|figure| figure["failures"].to_string());
        (!is_there).then(|| ((*name).to_owned(), why.unwrap_or_default()))
    };
    names.iter().filter_map(missing).collect()
}

/// `divvy bench NAME --quick` on the simulated card measures these, and all else it speaks of.
fn measures(name: &str, names: &[&str]) {
    measures_with(name, &["--quick"], names);
}

/// The same with other options. A host that is another one before and after makes what was measured between
/// void.
fn measures_with(name: &str, options: &[&str], names: &[&str]) {
    best_of_three(name, || {
        let machine = Machine::new();
        let finished = bench(&machine, name, &[options, &["--json"]].concat());
        let figures = figures(&finished);
        assert_eq!(stored(&machine), figures, "{finished}");
        let mut wrong = missing(&figures, names);
        for figure in &figures {
            for why in figure["failures"].as_object().expect("failures").values() {
                // How fast a changed cap takes hold is a matter of how good it is; a short run may have no turns.
                let why_not = why.as_str().unwrap_or_default();
                if why_not != "not within a second" && !why_not.starts_with("left out: some copy") {
                    wrong.insert(figure["name"].to_string(), why.to_string());
                }
            }
        }
        wrong
    });
}

#[test]
fn a_capped_program_is_measured() {
    measures("share", &["share, 100 us sync at 30 %", "share, 100 us async at 30 %"]);
}

#[test]
fn kernels_that_differ_are_measured() {
    let names = [
        "share, liar: 200 of 5 us then 4 of 40 ms at 30 %",
        "share, graphupd: one graph of 5 us and 20 ms by turns at 30 %",
        "share, newproc: a process for each two of 300 ms at 30 %",
        "share, poll: 100 and 700 us by turns and polled at 30 %",
    ];
    measures_with("share", &["--quick", "--family", "varied"], &names);
}

#[test]
fn kernels_that_differ_are_measured_by_name() {
    let only =
        "us and 2 ms by turns at 30 %,20 us to 2 ms over the run at 30 %,on two streams at 30 %";
    let names = [
        "share, mix2: 50 us and 2 ms by turns at 30 %",
        "share, grow: 20 us to 2 ms over the run at 30 %",
        "share, two: 60 and 200 us on two streams at 30 %",
    ];
    let options = ["--family", "varied", "--seconds", "0.5", "--only", only];
    measures_with("share", &options, &names);
}

#[test]
fn threads_and_processes_of_one_tenant_are_measured() {
    let names = [
        "share, 4 threads of 200 us at 30 %",
        "share, 2 processes of 100 us sync at 50 %, sum",
        "share, 2 processes of 100 us sync at 50 %, least of most",
        "share, 4 processes of 5 ms async at 50 %, longest without progress",
        "share, 4 processes of 100 us sync under a daemon, sum of one alone",
    ];
    measures_with("share", &["--quick", "--family", "threads,processes"], &names);
}

#[test]
fn programs_that_divide_a_card_are_measured() {
    let equal = "3 equal tenants, 100 us sync, sum of one alone";
    let cost = "daemon with 8 busy tenants of 4 processes, of a processor";
    measures("fairness", &["tenants of 30 and 70 %, 30 %'s share", equal, cost]);
}

#[test]
fn weights_are_measured_from_fresh_starts() {
    let names = [
        "weights 1:3, 1st of weight 1: furthest part after the 1st s",
        "weights 1:3, 2nd of weight 3: furthest part in the 1st s",
        "weights 1:3, least sum",
    ];
    measures_with("fairness", &["--quick", "--family", "weights"], &names);
}

#[test]
fn limits_that_change_are_measured_there_and_back() {
    let names = [
        "queues of 1 ms and weight 3 for one, there: part of both from 0.1 to 1.1 s",
        "queues of 1 ms and priority high for one, back: part of both from 0.1 to 1.1 s",
        "queues of 1 ms and priority low for one, back: least of its due in 0.5 s",
        "queues of 1 ms and a cap of 20 % for one, there: share from 0.1 to 1.1 s",
    ];
    measures_with("fairness", &["--quick", "--family", "changes"], &names);
}

#[test]
fn caps_beside_each_other_are_measured() {
    let names = [
        "caps of 20 and 30 and 50 %, 20 % (100 us sync): share",
        "caps of 20 and 30 and 50 %, 50 % (5 ms queue): worst 1 s window off by",
        "30 % (1 ms queue) at high priority beside a queue of 1 ms, sum",
    ];
    measures_with("fairness", &["--quick", "--family", "caps"], &names);
}

#[test]
fn a_cap_beside_a_stranger_is_measured() {
    let names = [
        "50 % of 1 ms async beside a stranger's 1 ms queue, share",
        "50 % of 1 ms async beside a stranger's 1 ms queue, most in 5 s",
        "50 % of 1 ms async beside a stranger's 1 ms queue, the stranger's share",
        "50 % of 1 ms async beside a stranger that idles, share",
    ];
    measures_with("fairness", &["--quick", "--family", "strangers"], &names);
}

#[test]
fn requests_beside_a_flood_are_measured() {
    measures("latency", &["request beside a flood of 100 us, 99th percentile"]);
}

/// Copies that fit the card together: what a daemon makes of those that do not is another test's.
const COPIES: [&str; 5] = ["--quick", "--seconds", "0.5", "--bytes", "16MiB"];

#[test]
fn copies_beside_each_other_are_measured() {
    let names = [
        "2 x 16 MiB, always busy, steps of all, of one alone",
        "2 x 16 MiB, always busy, makespan",
        "2 x 16 MiB, always busy, longest wait between two steps",
        "2 x 16 MiB, always busy, left the card",
    ];
    measures_with("oversubscribe", &[&COPIES[..], &["--copies", "2"]].concat(), &names);
}

#[test]
fn copies_that_exceed_the_card_are_measured_both_ways() {
    let name = "2 x 192 MiB on 296 MiB, always busy";
    let options = ["--copies", "2", "--bytes", "192MiB", "--capacity", "296MiB", "--seconds", "1"];
    best_of_three("oversubscribe", || {
        let machine = Machine::new();
        let finished = bench(&machine, "oversubscribe", &[&options[..], &["--json"]].concat());
        let figures = figures(&finished);
        let figure = |what: &str| {
            let name = format!("{name}, {what}");
            figures.iter().find(|figure| figure["name"] == *name).cloned().unwrap_or_default()
        };
        let came_back = figure("came back")["medians"].clone();
        let has_come = |side: &&str| came_back[*side].as_f64().is_some_and(|gib| gib > 0.0);
        // In a second of a host that stops there may be no turn.
        let stayed = ["divvy", "managed"].into_iter().filter(|side| !has_come(side));
        let stayed = stayed.map(|side| (format!("{side} came back"), finished.to_string()));
        let serial = &figure("makespan, of one after the other")["medians"]["serial"];
        assert_eq!(serial.as_f64(), Some(100.0), "{finished}");
        let plots = std::fs::read_dir(machine.home().join("results")).expect("they were stored");
        let names = plots.flatten().map(|plot| plot.file_name().to_string_lossy().into_owned());
        assert!(names.filter(|name| name.contains("-turns-2-x-192-MiB")).count() == 1);
        let fits = "2 x 128 MiB on 296 MiB, all fits, of Divvy's without --oversubscribe";
        let mut wrong = missing(&figures, &[&format!("{name}, steps of all, of one alone"), fits]);
        wrong.extend(stayed);
        wrong
    });
}

#[test]
fn copies_that_rest_are_measured() {
    let names = ["3 x 16 MiB, busy for 50 % in phases of 0.2 s, steps of all, of one alone"];
    let rests = ["--copies", "3", "--busy", "0.5", "--phase", "200ms"];
    measures_with("oversubscribe", &[&COPIES[..], &rests].concat(), &names);
}

#[test]
fn copies_that_cannot_be_are_refused_before_they_start() {
    let machine = Machine::new();
    for (options, word) in [
        (["--bytes", "1TiB"], "one copy must fit"),
        (["--capacity", "1TiB"], "the card has"),
        (["--bytes", "16"], "16MiB"),
        (["--busy", "2"], "0.05 to 1"),
    ] {
        let finished = bench(&machine, "oversubscribe", &options);
        assert_eq!(finished.code(), Some(2), "{finished}");
        assert!(finished.err.contains(word), "{finished}");
    }
    assert!(!machine.home().join("results").exists());
}

#[test]
fn memory_that_leaves_and_comes_back_is_measured() {
    let names = [
        "grant, memory is there",
        "128 MiB, leaves",
        "128 MiB, leaves: of the link",
        "128 MiB, comes back: of the link",
        "128 MiB, out and in",
        "128 MiB, out and in: worst",
        "128 MiB, out and in: rate",
        "128 MiB, right behind an answer",
        "128 MiB, its own memory there: grant",
    ];
    best_of_three("handover", || {
        let machine = Machine::new();
        let options = ["--rounds", "2", "--sizes", "128MiB,1TiB", "--json"];
        let figures = figures(&bench(&machine, "handover", &options));
        let link = figures.iter().find(|figure| figure["name"] == "link, both ways");
        assert!(link.is_some_and(|link| link["medians"]["native"].is_f64()), "{figures:?}");
        let larger = figures.iter().find(|figure| figure["name"] == "1 TiB, out and in");
        let why = larger.and_then(|figure| figure["failures"]["divvy"].as_str());
        assert!(why.is_some_and(|why| why.starts_with("left out: ")), "{figures:?}");
        missing(&figures, &names)
    });
}

/// A machine on which the benchmarks' client `name` is this script, which finds the real one as `$real`.
fn playing(name: &str, script: &str) -> Machine {
    let machine = Machine::new();
    let clients = machine.home().join("clients");
    std::fs::create_dir(&clients).expect("a directory of the test's own");
    for client in ["add", "link", "touch"] {
        let real = stage().join("clients").join(client);
        std::os::unix::fs::symlink(real, clients.join(client)).expect("a link can be made");
    }
    let path = clients.join(name);
    std::fs::remove_file(&path).expect("it is one of them");
    let real = stage().join("clients").join(name);
    let script = format!("#!/bin/sh\nreal={}\n{script}\n", real.display());
    std::fs::write(&path, script).expect("it can be written");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("modes can be set");
    machine.with("DIVVY_CLIENTS", clients.display())
}

#[test]
fn a_wrong_byte_is_a_failure_that_is_named() {
    // Under Divvy alone it finds a block wrong that is not.
    let spoilt = r#"case $LD_PRELOAD in
*divvy*) "$real" "$@" | sed -u 's/"wrong":0/"wrong":1/';;
*) exec "$real" "$@";;
esac"#;
    let machine = playing("add", spoilt);
    let finished = bench(&machine, "oversubscribe", &[&COPIES[..], &["--json"]].concat());
    assert_eq!(finished.code(), Some(1), "{finished}");
    assert!(finished.err.contains("on divvy: wrong value in 1 block(s)"), "{finished}");
    let figures = figures(&finished);
    assert!(figures[0]["medians"]["native"].is_f64(), "{finished}");
    assert!(figures[0]["failures"]["divvy"].as_str().expect("why").contains("wrong value"));
}

/// A machine whose benchmarks' program of kernels fails where one of its arguments is `mode`.
fn failing(mode: &str) -> Machine {
    let machine = Machine::new();
    let clients = machine.home().join("clients");
    std::fs::create_dir(&clients).expect("a directory of the test's own");
    let (path, busy) = (clients.join("busy"), stage().join("clients/busy"));
    let script = format!(
        "#!/bin/sh\ncase $1 in {mode}) echo spoilt >&2; exit 3;; esac\nexec {} \"$@\"\n",
        busy.display()
    );
    std::fs::write(&path, script).expect("it can be written");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("modes can be set");
    machine.with("DIVVY_CLIENTS", clients.display())
}

#[test]
fn what_fails_natively_costs_no_other_figure() {
    let options = ["--seconds", "0.5", "--only", "us ex,us cooperative,us streams", "--json"];
    best_of_three("share", || {
        let machine = failing("mode=cooperative");
        let finished = bench(&machine, "share", &options);
        assert_eq!(finished.code(), Some(0), "{finished}");
        let figures = figures(&finished);
        let spoilt = figures.iter().find(|figure| figure["name"] == "share, 100 us cooperative");
        let why = &spoilt.expect("it is named")["failures"]["native"];
        assert!(why.as_str().is_some_and(|why| why.contains("spoilt")), "{finished}");
        let stored = std::fs::read_dir(machine.home().join("results")).expect("it was stored");
        assert!(stored.flatten().any(|file| file.path().extension().is_some_and(|e| e == "json")));
        missing(&figures, &["share, 100 us ex at 30 %", "share, 100 us streams at 30 %"])
    });

    let machine = failing("mode=*");
    let finished = bench(&machine, "share", &options);
    assert!(finished.code() == Some(125) && finished.err.contains("spoilt"), "{finished}");
    assert!(!machine.home().join("results").exists(), "nothing was measured");
}

#[test]
fn what_is_not_measured_is_said_and_nothing_stored() {
    let machine = Machine::new();
    for name in ["share", "fairness", "latency", "overhead", "oversubscribe", "handover"] {
        let finished = bench(&machine, name, &["--only", "noise,nothing"]);
        assert!(!finished.status.success(), "{finished}");
        assert!(finished.err.contains("--only noise,nothing: "), "{finished}");
    }
    assert!(!machine.home().join("results").exists());
}

#[test]
fn what_cannot_be_stored_is_printed() {
    let machine = Machine::new();
    std::fs::write(machine.home().join("results"), "a file").expect("it can be written");
    let options = ["--seconds", "0.5", "--only", "us ex"];
    let finished = bench(&machine, "share", &options);
    assert_eq!(finished.code(), Some(125), "{finished}");
    assert!(finished.err.contains("results cannot be made"), "{finished}");
    assert!(finished.out.contains("share, 100 us ex at 30 %"), "{finished}");
    assert!(finished.out.ends_with("\nnot stored\n"), "{finished}");
}
