//! What is to be seen of tenants, as a user sees it: the trace, the screen.

#[path = "../calls/mod.rs"]
mod calls;
#[path = "../scene/mod.rs"]
mod scene;
mod screen;
#[path = "../typed/mod.rs"]
mod typed;

use std::process::Stdio;

use nix::sys::signal::Signal;
use scene::{Ends, PATIENCE, Scene, ended, signal, text, until};

#[test]
fn an_interrupted_trace_keeps_what_it_has() {
    let scene = Scene::new("trace");
    let file = scene.base.join("trace.json");
    let out = ["trace", "seen-one", "--seconds", "500", "--json", "--out"];
    let mut command = scene.divvy(&[&out[..], &[file.to_str().unwrap()][..]].concat());
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    // From the file on an interrupt is waited for.
    until("the file is made", || file.exists());
    let reads = || calls::reads(format!("/proc/{}", child.id()));
    let before = reads();
    until("the tenant has been read", || reads() > before + 100);
    signal(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["readings"].as_u64().unwrap() > 0, "{report}");
    let events: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(events.len() as u64, report["events"].as_u64().unwrap());
    assert!(events.iter().any(|event| event["args"]["name"] == "seen-one on GPU 5"), "{events:?}");
    let wrong = scene.run(&["trace", "nobody"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("seen-one"), "{}", text(&wrong.stderr));
}

#[test]
fn the_screen_without_a_terminal() {
    let scene = Scene::new("once");
    let once = text(&scene.run(&["top", "--once", "--interval", "0.1"]).stdout);
    let words = |line: &str| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    assert!(once.lines().any(|line| words(line) == "5 seen-one 3 MiB"), "{once}");
    let json = scene.run(&["top", "--json", "--interval", "0.1"]).stdout;
    let picture: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let rows = picture["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["tenant"] == "seen-one" && row["index"] == 5), "{picture}");
    let refused = scene.run(&["top"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--once"), "{}", text(&refused.stderr));
}
