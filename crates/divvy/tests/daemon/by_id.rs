//! Tenants by id, asked of a real daemon: the command as a client, bare frames, and daemons that are killed at any instant.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use divvy_abi::config::Config;
use divvy_page::{ConfigSource, Directory, Tenant, reader};
use divvy_policy::limit;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::fake::{Root, c_path, until};

const A: &str = "GPU-01010101-0101-0101-0101-010101010101";
const B: &str = "GPU-02020202-0202-0202-0202-020202020202";

/// Exit code and answer of `divvy tenant`, and its words where it fails.
fn tenant(root: &Root, words: &[&str]) -> (Option<i32>, Value, String) {
    let home = root.home().display().to_string();
    let output = root.run(&[&["tenant"], words, &["--json", "--home", &home]].concat());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), told)
}

/// The same of what is to be done.
fn done(root: &Root, words: &[&str]) -> Value {
    let (code, answer, told) = tenant(root, words);
    assert_eq!(code, Some(0), "{words:?}: {told}");
    answer
}

/// Asks the daemon by a frame of this test's own.
fn ask(root: &Root, call: &Value) -> Value {
    root.ask(&json!({ "tenant": call }))
}

fn create(id: &str, memory_bytes: u64) -> Value {
    let devices = json!([{ "uuid": A, "memory_bytes": memory_bytes, "share_ppm": 300_000 }]);
    json!({ "create": { "id": id, "limits": { "devices": devices } } })
}

fn config(directory: &Path) -> Config {
    reader::read_config(&Directory::open(&c_path(directory)).unwrap()).unwrap().unwrap()
}

fn limit_on(config: &Config, uuid: u8) -> Option<u64> {
    limit::resolve(config.rules(), Some(0), &[uuid; 16], 1 << 40).unwrap()
}

/// What an environment variable gives a process of this test to live in.
const LIVES_IN: &str = "DIVVY_LIVES_IN";

#[test]
#[ignore = "a role: a process in a tenant, which another test starts"]
fn live_in() {
    let directory = PathBuf::from(std::env::var_os(LIVES_IN).expect("a directory"));
    let _tenant = Tenant::attach(&c_path(&directory), &ConfigSource::Owner).unwrap();
    // Until whoever started it has seen enough.
    let _ = std::io::stdin().read(&mut [0]);
}

/// A process in the tenant in `directory`; it ends with its standard input.
fn process_in(directory: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["by_id::live_in", "--exact", "--ignored"]).env(LIVES_IN, directory);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_tenant_is_made_changed_looked_at_and_removed_and_all_of_it_twice() {
    let root = Root::new("by-id");
    let memory = format!("{A}=8GiB");
    let (code, _, told) = tenant(&root, &["create", "job", "-m", &memory]);
    assert!(code == Some(1) && told.contains("no daemon answers"), "{told}");
    let _daemon = root.daemon(&[]);

    let made = done(&root, &["create", "job", "-m", &memory, "-c", "30%", "--weight", "2"]);
    assert_eq!(made["made"], true);
    let directory = made["tenant"]["directory"].as_str().unwrap().to_owned();
    let again = done(&root, &["create", "job", "-m", &memory, "-c", "30%", "--weight", "2"]);
    assert_eq!((&again["made"], &again["tenant"]["directory"]), (&json!(false), &json!(directory)));
    let first = config(Path::new(&directory));
    // The least there is on a device that it was not given.
    assert_eq!([1, 2].map(|uuid| limit_on(&first, uuid)), [Some(8 << 30), Some(1)]);

    let joined = Tenant::attach(&c_path(Path::new(&directory)), &ConfigSource::Owner).unwrap();
    let (code, _, told) = tenant(&root, &["create", "job", "-m", &format!("{A}=9GiB")]);
    assert!(code == Some(2) && told.contains("differs: \"job\" is there"), "{told}");
    for _ in 0..2 {
        let set = done(&root, &["set", "job", "-m", &format!("{A}=9GiB,{B}=1GiB")]);
        assert_eq!(set["tenant"]["weight"], 0, "what is left out is the default");
        let live = joined.live_config().unwrap();
        assert_eq!([1, 2].map(|uuid| limit_on(&live, uuid)), [Some(9 << 30), Some(1 << 30)]);
    }
    let (code, _, told) = tenant(&root, &["set", "job", "-m", &memory, "--oversubscribe"]);
    assert!(code == Some(2) && told.contains("differs: "), "{told}");
    // As it was made: not changed back, and no error.
    let again = done(&root, &["create", "job", "-m", &memory, "-c", "30%", "--weight", "2"]);
    assert_eq!(again["tenant"]["devices"][0]["limit_bytes"], json!(9_u64 << 30));

    until("it is served", || done(&root, &["stat", "job"])["tenant"]["served"] == true);
    let stat = &done(&root, &["stat", "job"])["tenant"];
    assert_eq!((&stat["processes"], &stat["joined"]), (&json!(1), &json!(true)));
    assert_eq!(stat["memory"], json!(["1B", format!("{A}=9GiB"), format!("{B}=1GiB")]));
    let list = done(&root, &["list"]);
    assert_eq!(list["tenants"].as_array().unwrap().len(), 1, "{list}");
    let shown = root.run(&["ps", "--json"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains(&directory), "divvy ps has it too");

    assert_eq!(done(&root, &["remove", "job"])["processes"], 1);
    assert_eq!(done(&root, &["remove", "job"])["existed"], false);
    assert!(!Path::new(&directory).exists());
    for call in [&["stat", "job"][..], &["set", "job", "-m", &memory]] {
        let (code, _, told) = tenant(&root, call);
        assert!(code == Some(2) && told.contains("unknown-tenant: "), "{told}");
    }
    assert!(done(&root, &["list"])["tenants"].as_array().unwrap().is_empty());
}

#[test]
fn a_daemon_that_comes_back_knows_its_tenants_and_sweeps_what_is_left() {
    let root = Root::new("by-id-again");
    let mut daemon = root.daemon(&[]);
    let memory = format!("{A}=8GiB");
    let made = done(&root, &["create", "job", "-m", &memory]);
    let directory = made["tenant"]["directory"].as_str().unwrap().to_owned();
    let mut process = process_in(&directory);
    until("it lives there", || done(&root, &["stat", "job"])["tenant"]["processes"] == 1);
    daemon.signal(Signal::SIGKILL);
    daemon.ended();
    let all = root.home().join("by-id");
    std::fs::create_dir(all.join(".new.1")).unwrap();
    std::fs::write(all.join(".new.1/config"), "half").unwrap();

    let mut daemon = root.daemon(&[]);
    assert!(!all.join(".new.1").exists());
    let again = done(&root, &["create", "job", "-m", &memory]);
    assert_eq!((&again["made"], &again["tenant"]["directory"]), (&json!(false), &json!(directory)));
    until("it is served", || done(&root, &["stat", "job"])["tenant"]["served"] == true);

    // Removed under its process, which has a daemon that serves it all the same, and one that comes later.
    assert_eq!(done(&root, &["remove", "job"])["processes"], 1);
    let of_user = Path::new(&directory).parent().unwrap().to_owned();
    let left = || {
        let names = std::fs::read_dir(&of_user).unwrap().flatten().map(|entry| entry.path());
        names.filter(|path| !path.ends_with(".meet")).collect::<Vec<_>>()
    };
    let is_served = || {
        let (view, left) = (root.view().unwrap_or_default(), left());
        root.own_tenants(&view).iter().any(|tenant| {
            tenant["reason"].is_null() && left.iter().any(|path| tenant["directory"] == json!(path))
        })
    };
    until("what is removed is served", is_served);
    assert_eq!(limit_on(&config(&left()[0]), 1), Some(8 << 30));
    daemon.signal(Signal::SIGKILL);
    daemon.ended();
    let _daemon = root.daemon(&[]);
    until("what is removed is served again", is_served);
    drop(process.stdin.take());
    process.wait().unwrap();
    until("its files go with its last process", || left().is_empty());
}

#[test]
fn a_daemon_killed_at_any_instant_leaves_whole_tenants_or_none() {
    let root = Root::new("by-id-killed");
    let of_user = root.home().join(format!("by-id/{}", nix::unistd::geteuid()));
    for round in 0..12_u64 {
        let mut daemon = root.daemon(&[]);
        let is_over = AtomicBool::new(false);
        let socket = root.home().join("daemon.sock");
        let asked = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let mut asked = 0_u64;
                while !is_over.load(SeqCst) && socket.exists() {
                    let id = format!("job-{}", asked % 5);
                    let removed = json!({ "remove": { "id": id } });
                    for call in [&create(&id, 5), &create(&id, 5), &removed] {
                        // The daemon's end is the end of this.
                        if std::panic::catch_unwind(|| ask(&root, call)).is_err() {
                            return asked;
                        }
                        asked += 1;
                    }
                }
                asked
            });
            std::thread::sleep(Duration::from_micros(3_000 + 1_700 * round));
            daemon.signal(Signal::SIGKILL);
            daemon.ended();
            is_over.store(true, SeqCst);
            asking.join().unwrap()
        });
        println!("killed after {asked} requests");
        for entry in std::fs::read_dir(&of_user).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if !name.starts_with('.') {
                assert_eq!(limit_on(&config(&entry.path()), 1), Some(5), "{name} is whole");
            }
        }
        let _daemon = root.daemon(&[]);
        for id in 0..5 {
            let id = format!("job-{id}");
            assert!(ask(&root, &create(&id, 5))["created"].is_object());
            assert_eq!(ask(&root, &json!({ "remove": { "id": id } }))["removed"]["processes"], 0);
        }
        until("nothing is left", || {
            let names = |path: &Path| std::fs::read_dir(path).unwrap().flatten().count();
            names(&of_user) == 1 && names(of_user.parent().unwrap()) == 1
        });
    }
}

#[test]
fn what_is_not_understood_is_refused_whole_by_a_code() {
    let root = Root::new("by-id-frames");
    let _daemon = root.daemon(&[]);
    let code = |call: &Value| ask(&root, call)["error"]["code"].as_str().map(str::to_owned);
    let limits = |limits: Value| json!({ "create": { "id": "job", "limits": limits } });
    let one = |device: Value| limits(json!({ "devices": [device] }));
    let good = json!({ "uuid": A, "memory_bytes": 1 });
    let uid = nix::unistd::geteuid().as_raw() + 1;
    for (call, expected) in [
        (limits(json!({})), "bad-request"),
        (limits(json!({ "devices": [] })), "bad-limit"),
        (limits(json!({ "devices": [good, good] })), "bad-limit"),
        (limits(json!({ "devices": [good], "memory": "8GiB" })), "bad-request"),
        (limits(json!({ "devices": [good], "weight": 0 })), "bad-limit"),
        (limits(json!({ "devices": [good], "weight": "2" })), "bad-request"),
        (limits(json!({ "devices": [good], "priority": "urgent" })), "bad-limit"),
        (limits(json!({ "devices": [good], "class": "\u{1b}[31m" })), "bad-limit"),
        (limits(json!({ "devices": [good], "oversubscribe": "no" })), "bad-request"),
        (one(json!({ "uuid": A })), "bad-request"),
        (one(json!({ "uuid": A, "memory_bytes": 0 })), "bad-limit"),
        (one(json!({ "uuid": A, "memory_bytes": u64::MAX })), "bad-limit"),
        (one(json!({ "uuid": A, "memory_bytes": -1 })), "bad-request"),
        (one(json!({ "uuid": A, "memory_bytes": 1e9 })), "bad-request"),
        (one(json!({ "uuid": A, "memory_bytes": "0" })), "bad-request"),
        (one(json!({ "uuid": A, "memory_bytes": 1, "share_ppm": 0 })), "bad-limit"),
        (one(json!({ "uuid": A, "memory_bytes": 1, "share": 30 })), "bad-request"),
        (one(json!({ "uuid": "GPU-0", "memory_bytes": 1 })), "unknown-device"),
        (json!({ "stat": { "id": "../job" } }), "bad-id"),
        (json!({ "remove": { "id": "" } }), "bad-id"),
        (json!({ "remove": { "id": "x".repeat(129) } }), "bad-id"),
        (json!({ "remove": { "id": "job", "force": true } }), "bad-request"),
        (json!({ "stat": { "id": "job" } }), "unknown-tenant"),
        (json!({ "stat": { "id": "job", "uid": uid } }), "not-yours"),
        (json!({ "list": { "uid": uid } }), "not-yours"),
        (json!({ "fly": {} }), "bad-request"),
        (json!("list"), "bad-request"),
        (json!({ "create": { "id": "x".repeat(128), "limits": { "devices": [good] } } }), ""),
    ] {
        let told = code(&call);
        // The longest id may be too long for this test's own directory.
        let is_so = told.as_deref().unwrap_or("").replace("long-path", "") == expected;
        assert!(is_so, "{call}: {told:?}, not {expected}");
    }
    let made = ask(&root, &json!({ "list": {} }))["tenants"]["tenants"].clone();
    let ids = made.as_array().unwrap().iter().map(|tenant| tenant["id"].as_str().unwrap());
    assert!(ids.into_iter().all(|id| id.len() == 128), "nothing of the others was done: {made}");
}

#[test]
fn a_user_has_as_many_tenants_as_a_daemon_serves() {
    let root = Root::new("by-id-many");
    let _daemon = root.daemon(&[]);
    for at in 0..256 {
        assert!(ask(&root, &create(&format!("job-{at}"), 5))["created"].is_object(), "{at}");
    }
    let more = create("one-more", 5);
    assert_eq!(ask(&root, &more)["error"]["code"], "too-many");
    let again = ask(&root, &create("job-7", 5));
    assert_eq!(again["created"]["made"], false, "what is there needs no place");
    let list = ask(&root, &json!({ "list": {} }))["tenants"]["tenants"].clone();
    assert_eq!(list.as_array().unwrap().len(), 256);
    ask(&root, &json!({ "remove": { "id": "job-7" } }));
    until("its place is free", || ask(&root, &more)["created"].is_object());
}
