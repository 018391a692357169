//! Files and frames that are not what they should be: they harm nobody but whoever made them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::stat::Mode;

use crate::fake::{Fake, Root, limit, named, take_turns, until};

fn cut(path: &Path, bytes: u64) {
    std::fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn bad_files_are_named_and_the_others_take_their_turns() {
    let root = Root::new("files");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let tenant = |name: &str| {
        let path = root.tenants().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let good = |path: &Path| limit(path, &named("x"));
    let fifo = |path: &Path| nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap();

    std::fs::write(tenant("garbage").join("config"), [0x55; 9000]).unwrap();
    std::fs::write(tenant("empty").join("config"), "").unwrap();
    fifo(&tenant("pipe").join("config"));
    std::fs::create_dir(tenant("directory").join("config")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", tenant("link").join("config")).unwrap();
    let short = tenant("short");
    good(&short);
    cut(&short.join("config"), 700);
    let usage = tenant("usage");
    good(&usage);
    std::fs::write(usage.join("usage"), "DIVVYUSE and no more").unwrap();
    let pipes = tenant("pipes");
    good(&pipes);
    fifo(&pipes.join("usage"));
    fifo(&pipes.join("owner"));
    let foreign = tenant("foreign");
    good(&foreign);
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&foreign, Some(65534), Some(65534)).unwrap();
    }

    let _daemon = root.daemon(&[]);
    take_turns(&one, &two);
    let mut bad = vec!["garbage", "empty", "pipe", "directory", "link", "short", "usage", "pipes"];
    bad.extend(is_root.then_some("foreign"));
    let view = root.view().unwrap();
    for name in bad {
        let directory = root.tenants().join(name).display().to_string();
        let tenants = view["tenants"].as_array().unwrap();
        let seen = tenants.iter().find(|tenant| tenant["directory"] == directory);
        assert_eq!(seen.unwrap()["reason"], "DV064", "{name}: {view}");
        assert!(!seen.unwrap()["detail"].as_str().unwrap().is_empty());
    }
}

#[test]
fn files_that_change_under_the_daemon_cost_their_tenant_alone() {
    let root = Root::new("changing");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let mut others: Vec<Fake> =
        ["c", "d", "e", "f"].iter().map(|name| Fake::idle(&root, name, 1)).collect();
    let _daemon = root.daemon(&[]);
    let adopted = |name: &str| {
        let directory = root.tenants().join(name).display().to_string();
        let view = root.view().unwrap();
        let tenants = view["tenants"].as_array().unwrap();
        tenants.iter().any(|t| t["directory"] == directory && t["reason"].is_null())
    };
    until("all are adopted", || ["c", "d", "e", "f"].iter().all(|name| adopted(name)));

    // The files that this process has mapped itself must keep their pages: it would die of them.
    let at = |fake: &Fake, name: &str| fake.directory.join(name);
    let replaced = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        std::fs::write(path, [0xff; 8192]).unwrap();
    };
    replaced(&at(&others[0], "config"));
    replaced(&at(&others[1], "usage"));
    std::fs::remove_file(at(&others[2], "usage")).unwrap();
    std::fs::remove_dir_all(&others[3].directory).unwrap();
    // One that no process has mapped is cut while it is served.
    let plain = root.tenants().join("plain");
    std::fs::create_dir(&plain).unwrap();
    limit(&plain, &named("plain"));
    until("it is adopted", || adopted("plain"));
    cut(&plain.join("config"), 0);

    until("they are let go", || !["c", "d", "f", "plain"].iter().any(|name| adopted(name)));
    take_turns(&one, &two);
    // Put right, they come back.
    limit(&others[0].directory, &named("c"));
    limit(&plain, &named("plain"));
    until("they are served again", || adopted("c") && adopted("plain"));
    others.clear();
}

#[test]
fn a_vanished_directory_of_tenants_is_no_end() {
    let root = Root::new("vanished");
    let _daemon = root.daemon(&[]);
    std::fs::remove_dir_all(root.tenants()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    std::fs::create_dir(root.tenants()).unwrap();
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    take_turns(&one, &two);
}

/// A frame around `body`.
fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

/// What is answered to `bytes`, until the daemon closes or has answered once.
fn answer(root: &Root, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(root.home().join("daemon.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // It may close before it has read all.
    let _ = stream.write_all(bytes);
    let mut head = [0; 4];
    if stream.read_exact(&mut head).is_err() {
        return String::new();
    }
    let mut body = vec![0; usize::try_from(u32::from_le_bytes(head)).unwrap()];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn no_frame_stops_the_turns_or_the_socket() {
    let root = Root::new("frames");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    let _daemon = root.daemon(&[]);
    let hello = frame(br#"{"version":1,"call":"hello"}"#);
    assert!(answer(&root, &hello).contains("\"hello\""));
    for (bytes, word) in [
        (vec![0xff; 4096], "a frame of"),
        (frame(b"nonsense"), "not understood"),
        (frame(b""), "not understood"),
        (frame(br#"{"version":9,"call":"hello"}"#), "version 9"),
        (frame(br#"{"version":1,"call":"fly"}"#), "not understood"),
        (
            frame(br#"{"version":1,"call":{"set":{"tenant":"/etc","change":{"weight":"1"}}}}"#),
            "no tenant",
        ),
        (frame(&b"[".repeat(60_000)), "not understood"),
    ] {
        let answer = answer(&root, &bytes);
        assert!(answer.contains("\"error\"") && answer.contains(word), "{answer}");
    }
    // Silent ones, half a frame, and more than there is room for.
    let crowd: Vec<UnixStream> = (0..60)
        .map(|at| {
            let mut stream = UnixStream::connect(root.home().join("daemon.sock")).unwrap();
            let half = hello.get(..at % 9).unwrap();
            let _ = stream.write_all(half);
            stream
        })
        .collect();
    take_turns(&one, &two);
    // Whoever asks something is answered beside them.
    for _ in 0..20 {
        assert!(answer(&root, &hello).contains("\"hello\""));
    }
    drop(crowd);
    until("it answers again", || answer(&root, &hello).contains("\"hello\""));
    take_turns(&one, &two);
}
