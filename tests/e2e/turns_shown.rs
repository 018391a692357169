//! Turns of memory as people and programs see them: in `divvy ps`, `top` and `trace`, on the metrics page, by `divvy doctor`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{
    Divided, Finished, MIB, Machine, Running, Talk, finish, signal, stage, until,
};
use crate::turns::{count, machine, memory, programs, status, tenant};

/// Two tenants that take turns until they are dropped, of which each works for as long as it may.
struct Turns {
    machine: Divided,
    tenants: Vec<Talk>,
}

impl Turns {
    /// Of which at least one hand-over has been.
    fn new() -> Self {
        let machine = machine("300MiB");
        let tenants: Vec<_> =
            ["a", "b"].map(|name| tenant(&machine, name, 4, 600_000, 0)).into_iter().collect();
        for tenant in &tenants {
            tenant.expect("ready");
        }
        for name in ["a", "b"] {
            let set = finish(&mut machine.divvy(&["set", name, "--quantum", "100ms"]));
            assert_eq!(set.code(), Some(0), "{set}");
        }
        let turns = Self { machine, tenants };
        turns.until_handed_over(1);
        turns
    }

    /// None while the daemon looks at no memory.
    fn hand_overs(&self) -> u64 {
        match memory(&self.machine) {
            Value::Null => 0,
            memory => count(&memory, "hand_overs"),
        }
    }

    fn until_handed_over(&self, times: u64) {
        until(format!("{times} hand-overs"), || self.hand_overs() >= times);
    }

    fn says(&self, arguments: &[&str]) -> Finished {
        let finished = finish(&mut self.machine.divvy(arguments));
        assert_eq!(finished.code(), Some(0), "{finished}");
        finished
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(arguments).out).expect("JSON")
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        for name in ["a", "b"] {
            programs(&self.machine, name).iter().for_each(|pid| signal(*pid, "KILL"));
        }
        self.tenants.clear();
    }
}

/// Intervals of a track of a tenant in a trace: name, and when it began and ended.
fn intervals(events: &[Value], pid: &Value, track: &str) -> Vec<(String, f64, f64)> {
    let of_tenant = || events.iter().filter(|event| event["pid"] == *pid);
    let named = of_tenant().find(|e| e["name"] == "thread_name" && e["args"]["name"] == track);
    let named = named.unwrap_or_else(|| panic!("no track {track}"));
    let of_track = of_tenant().filter(|e| e["ph"] == "X" && e["tid"] == named["tid"]);
    let all = of_track.map(|event| {
        let at = event["ts"].as_f64().expect("a time");
        let length = event["dur"].as_f64().expect("a length");
        (event["name"].as_str().unwrap_or_default().to_owned(), at, at + length)
    });
    all.collect()
}

/// Records a trace in which memory was handed over at least four times: its events.
fn traced(turns: &Turns, out: &Path) -> Vec<Value> {
    let file = out.display().to_string();
    let trace = Running::start(&mut turns.machine.divvy(&[
        "trace",
        "a",
        "b",
        "--seconds",
        "600",
        "--out",
        &file,
    ]));
    // The file is made just before the first reading.
    until("a trace is recorded", || out.exists());
    turns.until_handed_over(turns.hand_overs() + 4);
    signal(trace.pid(), "INT");
    let finished = trace.finish();
    assert_eq!(finished.code(), Some(0), "{finished}");
    let text = fs::read_to_string(out).expect("the trace");
    serde_json::from_str(&text).expect("a JSON array")
}

#[test]
fn a_trace_shows_how_memory_is_handed_over() {
    let turns = Turns::new();
    let events = traced(&turns, &turns.machine.machine.home().join("turns.json"));
    let tenants = events.iter().filter(|event| event["name"] == "process_name");
    let pids: Vec<&Value> = tenants.map(|event| &event["pid"]).collect();
    assert_eq!(pids.len(), 2);
    for pid in pids {
        for (track, name) in [
            ("memory leaves", "out"),
            ("memory comes back", "in"),
            ("waiting for memory", "waits for memory"),
            ("work on the device", "work"),
        ] {
            let shown = intervals(&events, pid, track);
            assert!(shown.iter().any(|(shown, ..)| shown == name), "{track}: {shown:?}");
            for pair in shown.windows(2) {
                let [(_, _, ended), (_, began, _)] = pair else { continue };
                // A float's last digits.
                assert!(*began >= ended - 0.01, "{track}: {pair:?}");
            }
        }
        let moved = events.iter().filter(|event| event["pid"] == *pid && event["name"] == "out");
        let moved = moved.map(|event| (&event["args"]["bytes"], &event["args"]["GB/s"]));
        for (bytes, speed) in moved {
            assert!(bytes.as_u64().is_some_and(|bytes| bytes >= MIB), "{bytes}");
            assert!(speed.as_f64().is_some_and(|speed| speed > 0.0), "{speed}");
        }
        let places = events.iter().filter(|e| e["pid"] == *pid && e["name"] == "memory, GiB");
        assert!(places.into_iter().any(|e| e["args"]["away"].as_f64() > Some(0.0)));
    }
}

#[test]
fn ps_top_and_the_metrics_say_who_runs_and_what_is_away() {
    let turns = Turns::new();
    until("ps says whose memory is away", || {
        let text = turns.says(&["ps", "--brief"]).out;
        let lines = text.lines().skip_while(|line| !line.contains("ON CARD"));
        let lines: Vec<_> = lines.skip(1).take(2).collect();
        let says = |word: &str| lines.iter().any(|line| line.contains(word));
        says("runs") && (says("waits") || says("restores"))
    });
    until("top shows what moves", || {
        let shown = turns.json(&["top", "--json", "--interval", "0.5"]);
        let rows = shown["rows"].as_array().cloned().unwrap_or_default();
        let memory = &shown["gpus"][0]["memory"];
        assert_eq!(count(memory, "capacity_bytes"), 300 * MIB);
        let speed = |row: &Value| row["memory"]["out_bytes_per_second"].as_f64();
        rows.iter().any(|row| count(&row["memory"], "away_bytes") > 0)
            && rows.iter().any(|row| speed(row).is_some_and(|speed| speed > 0.0))
    });
    let text = turns.says(&["top", "--once", "--interval", "0.1"]).out;
    assert!(text.contains("ON CARD") && text.contains(" hand-overs, longest wait "), "{text}");
    until("the daemon has counted waits", || {
        let status = status(&turns.machine);
        let tenants = status["tenants"].as_array().cloned().unwrap_or_default();
        tenants.iter().all(|tenant| count(&tenant["memories"][0], "waited_ns") > 0)
    });
    let page = turns.says(&["ps", "--openmetrics"]).out;
    for way in ["out", "in"] {
        let moved = page.lines().filter(|line| {
            line.starts_with("divvy_tenant_memory_moved_bytes_total{")
                && line.contains(&format!("direction=\"{way}\""))
        });
        assert_eq!(moved.filter(|line| !line.ends_with(" 0")).count(), 2, "{page}");
    }
}

#[test]
fn doctor_says_how_memory_would_leave() {
    let machine = Divided::new(Machine::new());
    until("the daemon answers", || status(&machine)["pid"].is_u64());
    let mut command = machine.machine.command(stage().join("bin/divvy"));
    let finished = finish(command.args(["doctor", "--json"]));
    let report: Value = serde_json::from_str(&finished.out).expect("doctor's JSON");
    let found = |code: &str| {
        let findings = report["findings"].as_array().expect("findings");
        let about = findings.iter().find(|finding| finding["code"] == code);
        let about = about.unwrap_or_else(|| panic!("no {code}\n{finished}"));
        (about["level"].clone(), about["found"].as_str().unwrap_or_default().to_owned())
    };
    let (level, words) = found("DV036");
    assert!(level == "ok" && words.contains("by vmm"), "{words}");
    let (level, words) = found("DV060");
    assert!(level == "ok" && words.contains("gives turns"), "{words}");
    assert!(found("DV047").1.contains("of memory free"), "{finished}");
    let said = &report["oversubscription"];
    assert_eq!(said["devices"][0]["back_end"], "vmm", "{said}");
    assert_eq!(said["daemons"][0], status(&machine)["pid"], "{said}");
    assert!(said["host"]["machine_bytes"].is_u64(), "{said}");
}
