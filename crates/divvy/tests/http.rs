//! The daemon's HTTP, as collectors and whoever else reaches its address see it: raw sockets, good clients and hostile ones.

mod scene;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use nix::sys::signal::Signal;
use scene::{Ends, PATIENCE, Scene, ended, signal, text, until};

/// A daemon that serves metrics, and where it says that it does.
fn collected(scene: &Scene) -> (Ends, String) {
    let mut command = scene.divvy(&["daemon", "--metrics", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    // It may say more, and must find somebody who listens.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let address = line.trim().strip_prefix("divvy: metrics are served at http://");
    let address = address.and_then(|rest| rest.strip_suffix("/metrics"));
    (Ends(child), address.unwrap_or_else(|| panic!("{line:?}")).to_owned())
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All that comes until the server closes.
fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // Whoever is thrown out while it still sends is reset.
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

/// The whole answer to `request`, whose connection must end.
fn ask(address: &str, request: &str) -> String {
    let mut stream = connect(address);
    let _ = stream.write_all(request.as_bytes());
    rest(&mut stream)
}

fn get_with(address: &str, path: &str, headers: &str) -> String {
    let ends = "Connection: close";
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}{ends}\r\n\r\n"))
}

fn get(address: &str, path: &str) -> String {
    get_with(address, path, "Accept: application/openmetrics-text; version=1.0.0\r\n")
}

/// One answer on a connection that stays: its head, and as much body as it says.
fn next(stream: &mut TcpStream, has_body: bool) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = text(&head);
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; if has_body { length.parse().unwrap() } else { 0 }];
    stream.read_exact(&mut body).unwrap();
    (head, text(&body))
}

fn has(answer: &str, status: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "not {status}: {answer}");
}

#[test]
fn the_daemon_serves_what_ps_prints() {
    let scene = Scene::new("metrics");
    let printed = text(&scene.run(&["ps", "--openmetrics"]).stdout);
    let held = "divvy_tenant_memory_held_bytes{tenant=\"seen-one\"";
    let line = printed.lines().find(|line| line.starts_with(held)).expect("the tenant");
    assert!(line.ends_with(" 3145728") && printed.ends_with("# EOF\n"), "{printed}");
    let (_daemon, address) = collected(&scene);
    let used = "divvy_tenant_used_seconds_total{tenant=\"seen-one\"";
    let mut page = String::new();
    until("the page has the tenant and its device", || {
        page = get(&address, "/metrics");
        page.contains(used) && page.contains("divvy_device_turns_total{")
    });
    has(&page, "200 OK\r\n");
    assert!(page.contains("application/openmetrics-text; version=1.0.0"), "{page}");
    assert!(page.lines().any(|l| l == line), "{page}");
    let used = page.lines().find(|line| line.starts_with(used)).unwrap();
    assert!(used.ends_with(" 2.500000000"), "{used}");
    let card = ["device_name=\"card\",device_index=\"5\"} 1", "divvy_device_memory_size_bytes{"];
    assert!(card.iter().all(|words| page.contains(words)), "{page}");
}

#[test]
fn a_collector_gets_the_format_it_asks_for() {
    let scene = Scene::new("formats");
    let (_daemon, address) = collected(&scene);
    // A page is served before the daemon has looked for tenants.
    let is_whole = || get(&address, "/metrics").contains("divvy_tenant_launches_total");
    until("a page with the tenant is served", is_whole);
    for headers in ["", "Accept: */*\r\n", "Accept: text/plain;version=0.0.4\r\nAccept: x/y\r\n"] {
        let page = get_with(&address, "/metrics", headers);
        has(&page, "200 OK\r\n");
        assert!(
            page.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            "{page}"
        );
        assert!(page.contains("vary: Accept\r\n"), "{page}");
        assert!(page.contains("\n# TYPE divvy_build_info gauge\n"), "{page}");
        assert!(page.contains("\n# TYPE divvy_tenant_launches_total counter\n"), "{page}");
        assert!(!page.contains("# EOF") && !page.contains("# UNIT"), "{page}");
    }
    let asked = "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.3\r\n";
    let page = get_with(&address, "/metrics?a=b", asked);
    assert!(page.contains("content-type: application/openmetrics-text; version=1.0.0"), "{page}");
    assert!(page.contains("\n# TYPE divvy_build info\n") && page.ends_with("# EOF\n"), "{page}");
}

#[test]
fn methods_paths_and_connections_are_http() {
    let scene = Scene::new("http");
    let (_daemon, address) = collected(&scene);
    until("a page is served", || get(&address, "/metrics").starts_with("HTTP/1.1 200"));
    has(&get(&address, "/other"), "404 Not Found\r\n");
    has(&get(&address, "/metrics/"), "404 ");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"] {
        for path in ["/metrics", "/healthz"] {
            let request =
                format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let answer = ask(&address, &request);
            has(&answer, "405 Method Not Allowed\r\n");
            assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
        }
    }
    // One connection, several requests, of which one is HEAD: it says the length and has no body.
    let mut kept = connect(&address);
    let mut on_kept = |method: &str| {
        write!(kept, "{method} /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        next(&mut kept, method == "GET")
    };
    for _ in 0..3 {
        let ((got, body), (head, none)) = (on_kept("GET"), on_kept("HEAD"));
        has(&got, "200 OK\r\n");
        has(&head, "200 OK\r\n");
        assert!(body.contains("divvy_build_info{") && none.is_empty(), "{body}");
    }
    // Two at once, as a pipeline.
    let mut piped = connect(&address);
    let one = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    piped.write_all(format!("{one}{one}").as_bytes()).unwrap();
    let both = [next(&mut piped, true), next(&mut piped, true)];
    assert!(both.iter().all(|(_, body)| body.contains("\"status\":\"ok\"")), "{both:?}");
    // The older version, without a host, and a client that closes its side when it has asked.
    let old = ask(&address, "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(old.starts_with("HTTP/1.0 200 OK\r\n") && old.contains("divvy_build_info{"), "{old}");
    let mut half = connect(&address);
    half.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let answer = rest(&mut half);
    has(&answer, "200 OK\r\n");
    assert!(answer.contains("divvy_build_info{"), "{answer}");
}

#[test]
fn what_is_no_request_is_refused_and_costs_nothing() {
    let scene = Scene::new("hostile");
    let (daemon, address) = collected(&scene);
    until("a page is served", || get(&address, "/metrics").starts_with("HTTP/1.1 200"));
    let line = "GET /metrics HTTP/1.1\r\n";
    let huge = format!("{line}X: {}\r\n\r\n", "x".repeat(1 << 20));
    let many: String = (0..1000).map(|n| format!("X-{n}: y\r\n")).collect();
    for (what, request) in [("one", huge), ("many", format!("{line}{many}\r\n"))] {
        let answer = ask(&address, &request);
        // It may be thrown out before it has read the answer, being still at it.
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{what}: {answer}");
    }
    for nonsense in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET /metrics HTTP/9.9\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /me trics HTTP/1.1\r\n\r\n",
        "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}\r\n\r\n",
    ] {
        let answer = ask(&address, nonsense);
        let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(is_refused, "{nonsense:?}: {answer}");
    }
    // A body that never comes is not waited for, and one that comes is not kept.
    let mut endless = connect(&address);
    let head = "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n";
    endless.write_all(head.as_bytes()).unwrap();
    has(&next(&mut endless, true).0, "405 ");
    // Who goes without a word, or in the middle of one.
    for words in ["", "GET /met", line] {
        let mut gone = connect(&address);
        gone.write_all(words.as_bytes()).unwrap();
        drop(gone);
    }
    has(&get(&address, "/metrics"), "200 OK\r\n");
    has(&get(&address, "/healthz"), "200 OK\r\n");
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.0.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kib < 128 << 10, "{peak_kib} KiB");
}

/// Whoever is silent, slow or endless keeps no collector waiting, and no more than a bound are served.
#[test]
fn a_collector_is_served_beside_slow_and_silent_ones() {
    let scene = Scene::new("slow");
    let (daemon, address) = collected(&scene);
    until("a page is served", || get(&address, "/metrics").starts_with("HTTP/1.1 200"));
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", daemon.0.id())).unwrap().count();
    until("those that are too many are closed", || descriptors() < 100);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // A byte of a request at a time, for as long as anybody reads, and again.
                while !is_over.load(SeqCst) {
                    let Ok(mut stream) = TcpStream::connect(&address) else { continue };
                    while stream.write_all(b"x").is_ok() && !is_over.load(SeqCst) {
                        // A slow sender's pace; nothing waits for it.
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            });
        }
        scope.spawn(|| {
            // One that asks and never reads.
            let mut deaf = TcpStream::connect(&address).unwrap();
            deaf.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
            while !is_over.load(SeqCst) {
                if deaf.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").is_err() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        for _ in 0..20 {
            let page = get(&address, "/metrics");
            has(&page, "200 OK\r\n");
            assert!(page.ends_with("# EOF\n"), "{page}");
        }
        is_over.store(true, SeqCst);
    });
    drop(silent);
}

#[test]
fn a_head_that_does_not_come_ends_its_connection() {
    let scene = Scene::new("head");
    let (_daemon, address) = collected(&scene);
    // On a machine that is busy it takes a while until the first step.
    until("the daemon is well", || health(&address).0);
    let mut slow = connect(&address);
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n").unwrap();
    let mut kept = connect(&address);
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    has(&next(&mut kept, true).0, "200 OK\r\n");
    // Within the patience of reads, or this test fails: nothing more comes on either.
    assert!(!rest(&mut slow).starts_with("HTTP/1.1 200"));
    assert_eq!(rest(&mut kept), "");
}

fn health(address: &str) -> (bool, serde_json::Value) {
    let answer = get(address, "/healthz");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    (head.starts_with("HTTP/1.1 200 OK"), serde_json::from_str(body).unwrap())
}

#[test]
fn health_is_that_of_the_daemon_which_gives_turns() {
    let scene = Scene::new("health");
    let first = scene.divvy(&["daemon"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let first = Ends(first.unwrap());
    until("the first answers", || scene.run(&["daemon", "--status"]).status.success());
    let (second, address) = collected(&scene);
    let mut seen = health(&address);
    until("the first is well", || {
        seen = health(&address);
        seen.0
    });
    assert_eq!((&seen.1["status"], &seen.1["standby"]), (&"ok".into(), &true.into()), "{seen:?}");
    assert_eq!(seen.1["pid"], first.0.id());
    assert!(seen.1["last_step_seconds"].as_f64().is_some_and(|s| s <= 2.0), "{seen:?}");
    signal(&first.0, Signal::SIGSTOP);
    until("the first is found to hang", || {
        seen = health(&address);
        !seen.0
    });
    assert_eq!(seen.1["status"], "failing");
    assert!(seen.1["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{seen:?}");
    has(&get(&address, "/metrics"), "503 Service Unavailable\r\n");
    drop(first);
    until("the second gives turns and is well", || {
        seen = health(&address);
        seen.0 && seen.1["standby"] == false
    });
    assert_eq!(seen.1["pid"], second.0.id());
}

/// Pid of the daemon that answers.
fn daemons_pid(scene: &Scene) -> serde_json::Value {
    let view = scene.run(&["daemon", "--status", "--json"]).stdout;
    serde_json::from_slice::<serde_json::Value>(&view).unwrap_or_default()["pid"].take()
}

#[test]
fn one_that_stands_by_takes_over_and_another_ends() {
    let scene = Scene::new("stand-by");
    let start = |arguments: &[&str]| {
        let child = scene.divvy(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ends(child.unwrap())
    };
    let pid = || daemons_pid(&scene);
    let first = start(&["daemon"]);
    until("the first answers", || pid() == first.0.id());
    let second = start(&["daemon", "--stand-by"]);
    let refused = scene.run(&["daemon"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(pid(), first.0.id());
    drop(first);
    until("the second takes over", || pid() == second.0.id());
    assert_eq!(scene.run(&["daemon", "--status"]).status.code(), Some(0));
}

#[test]
fn metrics_join_a_daemon_that_runs_and_go_on_when_it_ends() {
    let scene = Scene::new("join");
    let first = scene.divvy(&["daemon"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let first = Ends(first.unwrap());
    let pid = || daemons_pid(&scene);
    until("the first answers", || pid() == first.0.id());
    let (second, address) = collected(&scene);
    let has_page = || {
        let page = get(&address, "/metrics");
        page.starts_with("HTTP/1.1 200 OK") && page.contains("{tenant=\"seen-one\"")
    };
    until("the first's page is served", has_page);
    let plain = get_with(&address, "/metrics", "");
    assert!(plain.contains("\n# TYPE divvy_build_info gauge\n"), "{plain}");
    assert_eq!(pid(), first.0.id());
    drop(first);
    until("the second takes over", || pid() == second.0.id());
    until("its own page is served", has_page);
    // One that stands by ends when it is asked to.
    let (mut third, _) = collected(&scene);
    signal(&third.0, Signal::SIGTERM);
    assert_eq!(ended(&mut third.0).code(), Some(0));
    assert_eq!(pid(), second.0.id());
}
