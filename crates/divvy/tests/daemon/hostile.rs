//! Files and frames that are not what they should be: they harm nobody but whoever made them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use nix::sys::stat::Mode;

use crate::fake::{Daemon, Fake, PATIENCE, Root, limit, named, take_turns, until};

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

/// A command's output, which must end by itself.
fn ends(root: &Root, arguments: &[&str]) -> String {
    let mut command = root.divvy(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Ended with the test where it does not.
    let mut child = Daemon(child);
    let (mut out, mut err) = (child.0.stdout.take().unwrap(), child.0.stderr.take().unwrap());
    until(&format!("{arguments:?} ends"), || child.0.try_wait().unwrap().is_some());
    let mut text = Vec::new();
    out.read_to_end(&mut text).unwrap();
    err.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn nothing_that_lies_there_is_waited_for_or_obeyed_by_a_terminal() {
    let root = Root::new("shown");
    let tenant = |name: &str| {
        let path = root.tenants().join(name);
        std::fs::create_dir(&path).unwrap();
        limit(&path, &divvy_abi::config::Config::default());
        path
    };
    let fifo = |path: &Path| nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap();
    fifo(&tenant("pipe-owner").join("owner"));
    std::fs::create_dir(tenant("directory-owner").join("owner")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", tenant("link-owner").join("owner")).unwrap();
    std::fs::write(tenant("garbled-owner").join("owner"), "\x1b[31m").unwrap();
    let pipes = tenant("pipes");
    std::fs::remove_file(pipes.join("config")).unwrap();
    fifo(&pipes.join("config"));
    fifo(&tenant("pipe-usage").join("usage"));
    let command = r#"{"pid":1,"command":["\u001b]0;title\u0007","\u009b31m","\u202e","a\nb"]}"#;
    std::fs::write(tenant("command").join("owner"), command).unwrap();
    tenant("name\x1b[31m\nforged: DV000: x");
    tenant("bidi\u{202e}\u{9b}31m");
    let _daemon = root.daemon(&[]);
    let directories = std::fs::read_dir(root.tenants()).unwrap().count();
    until("all are seen", || root.own_tenants(&root.view().unwrap()).len() == directories);

    let is_plain = |c: char| c == '\n' || divvy_page::reader::is_shown(c);
    for arguments in [
        &["ps"][..],
        &["ps", "--brief"],
        &["ps", "--json"],
        &["ps", "--openmetrics"],
        &["daemon", "--status"],
        &["daemon", "--status", "--json"],
        &["set", "nobody", "--pause"],
        &["set", "name\x1b[31m\nforged: DV000: x", "--weight", "2"],
        &["top", "--once", "--interval", "0.1"],
        &["top", "--json", "--interval", "0.1"],
    ] {
        let told = ends(&root, arguments);
        assert!(told.chars().all(is_plain), "{arguments:?}: {told:?}");
        assert!(!told.lines().any(|line| line.starts_with("forged")), "{arguments:?}: {told}");
    }
    let listing = ends(&root, &["ps"]);
    for name in ["pipe-owner", "directory-owner", "link-owner", "garbled-owner"] {
        assert!(listing.lines().any(|l| l.starts_with(&format!("{name}: DV067: "))), "{listing}");
    }
    for (name, why) in [("pipes", "config is not a regular file"), ("pipe-usage", "usage is not a")]
    {
        assert!(
            listing.lines().any(|l| l.contains(&format!("/{name}: ")) && l.contains(why)),
            "{listing}"
        );
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
    // Two looks at the least.
    root.goes_through(8);
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
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
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
