//! Recorded events of known readings, and a trace of a tenant made of files.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use divvy_abi::config::{GateLine, gate};
use divvy_page::owner::Owner;
use divvy_page::reader::{GateEntry, write_config};
use divvy_page::{ConfigSource, NewDevice, ResidenceEntry, Tenant};
use divvy_policy::gate::Words as _;
use serde_json::Value;

use super::*;

const MS: u64 = 1_000_000;
const START_NS: u64 = 1_000 * MS;

fn line(state: u32, turn: u64) -> GateLine {
    GateLine { gate: state, epoch: turn, active: 1, lease_ns: u64::MAX, ..GateLine::default() }
}

fn events(recorder: &Recorder) -> Vec<Value> {
    recorder.events().iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

/// Name, start and length in milliseconds of the intervals of one track.
fn intervals(recorder: &Recorder, track: u64) -> Vec<(String, f64, f64)> {
    events(recorder)
        .iter()
        .filter(|event| event["ph"] == "X" && event["tid"] == track)
        .map(|event| {
            let ms = |field: &str| event[field].as_f64().unwrap() / 1000.0;
            (event["name"].as_str().unwrap().to_owned(), ms("ts"), ms("dur"))
        })
        .collect()
}

#[test]
fn readings_become_intervals_and_rates() {
    let mut recorder = Recorder::default();
    recorder.begin(START_NS);
    recorder.name(0, "train on GPU 0");
    for ms in 0..40 {
        let now = START_NS + ms * MS;
        let is_closed = (10..20).contains(&ms);
        let state = if is_closed { gate::CLOSED } else { gate::TIMED };
        // Runs for half of the time while it is open, and waits from 12 ms on while closed.
        let open_ms = ms.min(10) + ms.saturating_sub(20);
        let sum = GateEntry {
            used_ns: open_ms * MS / 2,
            launches: 3 * open_ms,
            want_ns: if ms >= 12 { START_NS + ms.min(20) * MS } else { 0 },
            waited_ns: ms.saturating_sub(12).min(8) * MS,
            busy_until_ns: if is_closed { 0 } else { now + MS },
            ..GateEntry::default()
        };
        let turn = if ms < 10 { 7 } else { 8 };
        let closed_until_ns = if ms < 5 { START_NS + 5 * MS } else { 0 };
        let line = line(state, turn);
        let reading = Reading { line, closed_until_ns, sum, ..Reading::default() };
        recorder.push(0, now, &reading);
    }
    recorder.end(START_NS + 40 * MS);
    let named = |name: &str, from: f64, length: f64| (name.to_owned(), from, length);
    assert_eq!(
        intervals(&recorder, 0),
        [named("timed", 0.0, 10.0), named("closed", 10.0, 10.0), named("timed", 20.0, 20.0)]
    );
    assert_eq!(intervals(&recorder, 1), [named("throttled", 0.0, 5.0)]);
    assert_eq!(intervals(&recorder, 2), [named("waiting", 12.0, 8.0)]);
    // Time charged by the closing was seen there.
    assert_eq!(intervals(&recorder, 3), [named("work", 0.0, 11.0), named("work", 20.0, 20.0)]);
    let rate = |name: &str, key: &str| -> Vec<f64> {
        let all = events(&recorder);
        let named = all.iter().filter(|event| event["ph"] == "C" && event["name"] == name);
        named.map(|event| event["args"][key].as_f64().unwrap()).collect()
    };
    assert_eq!(rate("device time, %", "used"), [50.0, 0.0, 50.0]);
    assert_eq!(rate("launches", "launches"), [30.0, 0.0, 30.0]);
    assert_eq!(rate("threads that wait", "for a turn"), [0.0, 0.8, 0.0]);
}

#[test]
fn turns_split_an_interval_and_a_lost_daemon_shows() {
    let mut recorder = Recorder::default();
    recorder.begin(START_NS);
    let mut push = |ms: u64, line: GateLine| {
        recorder.push(2, START_NS + ms * MS, &Reading { line, ..Reading::default() });
    };
    push(0, line(gate::TIMED, 1));
    push(3, line(gate::TIMED, 2));
    push(5, GateLine { lease_ns: START_NS, ..line(gate::CLOSED, 3) });
    push(6, GateLine::default());
    recorder.end(START_NS + 8 * MS);
    let names: Vec<_> = intervals(&recorder, 0).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["timed", "timed", "left by its daemon", "free"]);
    assert!(events(&recorder).iter().all(|event| event["pid"] == 2));
}

#[test]
fn memory_has_tracks_of_its_own_behind_the_others() {
    let mut recorder = Recorder::default();
    recorder.begin(START_NS);
    recorder.name(0, "train on GPU 0");
    let named = |recorder: &Recorder, name: &str| {
        events(recorder).iter().any(|event| event["args"]["name"] == name)
    };
    let push = |recorder: &mut Recorder, ms: u64, memory: Option<ResidenceEntry>| {
        recorder.push(0, START_NS + ms * MS, &Reading { memory, ..Reading::default() });
    };
    push(&mut recorder, 0, None);
    push(&mut recorder, 1, Some(ResidenceEntry::default()));
    assert!(!named(&recorder, "memory leaves"), "only where there is such memory");
    let here = ResidenceEntry { movable_bytes: 2 << 30, ..ResidenceEntry::default() };
    push(&mut recorder, 2, Some(here));
    let away = ResidenceEntry {
        away_bytes: 1 << 30,
        out_bytes: 500_000_000,
        out_ns: 10 * MS,
        waits_from_ns: START_NS + 20 * MS,
        ..here
    };
    push(&mut recorder, 30, Some(away));
    recorder.end(START_NS + 40 * MS);
    assert!(named(&recorder, "memory leaves") && named(&recorder, "waiting for memory"));
    assert_eq!(intervals(&recorder, 4), [("out".to_owned(), 20.0, 10.0)]);
    assert_eq!(intervals(&recorder, 5), []);
    assert_eq!(intervals(&recorder, 6), [("waits for memory".to_owned(), 20.0, 20.0)]);
    let all = events(&recorder);
    let out = all.iter().find(|event| event["name"] == "out").unwrap();
    assert_eq!((&out["args"]["bytes"], &out["args"]["GB/s"]), (&500_000_000.into(), &50.0.into()));
    let places: Vec<_> = all.iter().filter(|event| event["name"] == "memory, GiB").collect();
    assert_eq!(places.len(), 2);
    assert_eq!(
        (&places[1]["args"]["away"], &places[1]["args"]["on the card"]),
        (&1.0.into(), &1.0.into())
    );
}

#[test]
fn a_tenant_that_counts_backwards_spoils_nothing() {
    let mut recorder = Recorder::default();
    recorder.begin(START_NS);
    for (ms, used_ns) in [(0, u64::MAX), (20, 5), (40, u64::MAX)] {
        let sum = GateEntry { used_ns, want_ns: u64::MAX, ..GateEntry::default() };
        recorder.push(0, START_NS + ms * MS, &Reading { sum, ..Reading::default() });
    }
    recorder.end(START_NS);
    for event in events(&recorder) {
        assert!(event["ts"].as_f64().is_some_and(|ts| ts >= 0.0), "{event}");
        assert!(event["dur"].is_null() || event["dur"].as_f64().unwrap() >= 0.0, "{event}");
    }
}

#[path = "../../../tests/calls/mod.rs"]
mod calls;

#[test]
fn a_tenant_of_files_is_traced_from_outside() {
    let base = std::env::temp_dir().join(format!("divvy-trace-{}", std::process::id()));
    let directory = base.join("one");
    std::fs::create_dir_all(&directory).unwrap();
    let path = CString::new(directory.as_os_str().as_bytes()).unwrap();
    write_config(&Directory::open(&path).unwrap(), &Config::default()).unwrap();
    let tenant = Tenant::attach(&path, &ConfigSource::Owner).unwrap();
    let mut traced = [Traced::open("one".to_owned(), &directory).unwrap()];
    let device = NewDevice {
        uuid: [7; 16],
        index: Some(3),
        total_bytes: 1 << 30,
        limit_bytes: None,
        name: b"card",
    };
    let share = tenant.share(tenant.device_row(&device).unwrap()).unwrap();
    Owner::open(&path).unwrap().set_gate(0, &line(gate::TIMED, 5)).unwrap();
    let stop = AtomicBool::new(false);
    let reader = std::fs::read_link("/proc/thread-self").unwrap();
    let reads = || calls::reads(Path::new("/proc").join(&reader));
    let before = reads();
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rounds = 0;
            // However little of the host the reader has.
            while rounds < 20 || reads() < before + 200 {
                assert!(rounds < 20_000, "nothing is read");
                std::thread::sleep(std::time::Duration::from_millis(3));
                share.add_used(1_000_000);
                share.count_launches(1);
                share.count_launches(1);
                rounds += 1;
            }
            stop.store(true, Relaxed);
        });
        take(&mut traced, 500_000, 600_000 * MS, &stop)
    });
    assert!(taken.readings > 2, "{taken:?}");
    let mut text = Vec::new();
    write(&mut text, &traced).unwrap();
    let events: Vec<Value> = serde_json::from_slice(&text).unwrap();
    let has = |ph: &str, name: &str| events.iter().any(|e| e["ph"] == ph && e["name"] == name);
    assert!(has("X", "timed") && has("X", "work") && has("C", "launches"), "{events:?}");
    let named = events.iter().find(|event| event["name"] == "process_name").unwrap();
    assert_eq!(named["args"]["name"], "one on GPU 3");
    let turn = events.iter().find(|event| event["name"] == "timed").unwrap();
    assert_eq!((&turn["args"]["turn"], &turn["pid"]), (&Value::from(5), &Value::from(1)));
    std::fs::remove_dir_all(&base).unwrap();
}
