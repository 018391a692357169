//! What a hostile user does, as a process of that user's.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use divvy_abi::MAX_SLOTS;
use divvy_abi::usage;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::world::{self, BEGUN, SOCKET, STOLEN};

/// Plays `way`, which `words` describe.
pub(crate) fn act(way: &str, words: &[&str]) {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).unwrap();
    match (way, words) {
        ("set", [tenant, one, other, tries]) => set(tenant, one, other, tries.parse().unwrap()),
        ("read", [one, other, wanted, tries]) => read(one, other, wanted, tries.parse().unwrap()),
        ("swap", [one, other]) => turn(one, other),
        ("spoil", [tenant]) => spoil(Path::new(tenant)),
        ("crowd", [count]) => crowd(count.parse().unwrap()),
        ("forge", [socket, how]) => forge(Path::new(socket), how),
        ("lock", configs) => lock(configs),
        ("claim", usages) => claim(usages),
        ("join", [tenant]) => join(tenant),
        _ => panic!("no way: {way} {words:?}"),
    }
}

/// Joins a tenant that others have made, and stays.
fn join(tenant: &str) {
    let path = std::ffi::CString::new(tenant).unwrap();
    let _tenant = divvy_page::Tenant::attach(&path, &divvy_page::ConfigSource::Owner).unwrap();
    println!("\n{BEGUN}");
    loop {
        std::thread::park();
    }
}

/// Exchanges two names; the first exchange of two undoes the other.
fn swap(one: &str, other: &str) {
    let done = renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE);
    done.unwrap_or_else(|errno| panic!("{one} and {other}: {errno}"));
}

/// Exchanges two names for ever.
fn turn(one: &str, other: &str) {
    let mut chance = Chance(0x94d0_49bb_1331_11eb);
    loop {
        swap(one, other);
        std::thread::sleep(Duration::from_micros(chance.below(150)));
    }
}

/// A generator of delays, so that every instant is tried.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn spin(microseconds: u64) {
    let end = Instant::now() + Duration::from_micros(microseconds);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Sends `call`, and while it is being answered exchanges `one` and `other` for a moment.
fn ask_and_swap(call: &Value, one: &str, other: &str, chance: &mut Chance) -> Option<Value> {
    let mut stream = UnixStream::connect(SOCKET).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    stream.write_all(&world::frame(call)).ok()?;
    spin(chance.below(400));
    swap(one, other);
    spin(50 + chance.below(300));
    swap(one, other);
    world::answer(&mut stream)
}

/// Asks for another weight of its own tenant, whose name leads elsewhere for a moment. Says how often
/// the daemon has tried.
fn set(tenant: &str, one: &str, other: &str, tries: usize) {
    let change = json!({"set": {"tenant": tenant, "change": {"weight": STOLEN}}});
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let (mut tried, mut done) = (0, 0);
    while tried < tries {
        let answer = ask_and_swap(&change, one, other, &mut chance).unwrap_or_default();
        let error = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
        done += usize::from(answer.get("done").is_some());
        // Not served just now: a look met it while it led elsewhere.
        let is_away = ["no tenant", "daemon cannot serve", "too many", "just gone", "just ended"];
        if answer.is_null() || is_away.iter().any(|words| error.contains(words)) {
            std::thread::sleep(Duration::from_millis(20));
        } else {
            tried += 1;
        }
    }
    println!("\ntried {tried} done {done}");
}

/// Asks what there is to see while its own tenant's name leads elsewhere for a moment. Says how often it
/// was told something of `wanted`.
fn read(one: &str, other: &str, wanted: &str, tries: usize) {
    let mut chance = Chance(0x2545_f491_4f6c_dd1d);
    let (mut tried, mut leaked) = (0, 0);
    while tried < tries {
        let call = if tried % 2 == 0 { json!("metrics") } else { json!("list") };
        let Some(answer) = ask_and_swap(&call, one, other, &mut chance) else { continue };
        tried += 1;
        leaked += usize::from(answer.to_string().contains(wanted));
    }
    println!("\ntried {tried} leaked {leaked}");
}

/// Cuts, fills, removes and replaces the files of its own tenant, for ever.
fn spoil(tenant: &Path) {
    let files = ["config", "usage", "owner"].map(|name| tenant.join(name));
    let good = std::fs::read(&files[0]).unwrap();
    let mut chance = Chance(0xd1b5_4a32_d192_ed03);
    loop {
        for file in &files {
            let _ = std::fs::remove_file(file);
            let _ = std::fs::remove_dir(file);
            match chance.below(7) {
                0 => drop(std::fs::write(file, vec![0x55; chance.below(9000) as usize])),
                1 => drop(std::fs::write(
                    file,
                    good.get(..chance.below(5000) as usize).unwrap_or(&good),
                )),
                2 => drop(nix::unistd::mkfifo(file, nix::sys::stat::Mode::S_IRWXU)),
                3 => drop(std::os::unix::fs::symlink("/dev/zero", file)),
                4 => drop(std::fs::create_dir(file)),
                5 => {
                    drop(std::fs::write(file, &good));
                    let opened = std::fs::File::options().write(true).open(file);
                    drop(opened.map(|file| file.set_len(chance.below(5000))));
                }
                _ => drop(std::fs::write(file, &good)),
            }
            spin(chance.below(2000));
        }
    }
}

/// Keeps connections open that say nothing, and opens others for those that are closed.
fn crowd(count: usize) {
    let mut open: Vec<UnixStream> = Vec::new();
    for round in 0.. {
        open.retain(|stream| {
            stream.set_nonblocking(true).unwrap();
            !matches!(std::io::Read::read(&mut &*stream, &mut [0; 64]), Ok(0))
        });
        while open.len() < count {
            open.extend(UnixStream::connect(SOCKET));
        }
        if round == 0 {
            println!("\n{BEGUN}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a forged daemon says: tenants that are not there, in letters that a terminal obeys.
fn lie() -> Vec<u8> {
    let text = "\x1b[31mFORGED\x1b]0;FORGED\x07";
    let tenant =
        json!({"directory": text, "uid": 1001, "reason": "DV064", "detail": text, "held_ns": 1});
    let device = json!({
        "uuid": text, "mode": text, "reason": text, "detail": text, "foreign": 1, "turns": 1,
        "handovers": 1, "drain_timeouts": 1, "preemptions": 1, "trials": 1, "together_ns": 1
    });
    let view = json!({
        "pid": 1, "system": true, "seen_ns": 1, "wakes": 1, "devices": [device], "tenants": [tenant]
    });
    let body = json!({"version": 1, "answer": {"list": view}}).to_string();
    let mut frame = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    frame.extend_from_slice(body.as_bytes());
    frame
}

/// Listens where another user's daemon would.
fn forge(socket: &Path, how: &str) {
    let listener = UnixListener::bind(socket).unwrap();
    std::fs::set_permissions(socket, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    if how == "deaf" {
        // Until nobody more fits.
        let mut queue = Vec::new();
        for _ in 0..200 {
            queue.push(std::thread::spawn({
                let socket = socket.to_owned();
                move || UnixStream::connect(socket)
            }));
        }
        println!("\n{BEGUN}");
        std::thread::park();
    }
    println!("\n{BEGUN}");
    for stream in listener.incoming().flatten() {
        let is_slow = how == "drip";
        std::thread::spawn(move || {
            let mut stream = stream;
            if !is_slow {
                let _ = stream.write_all(&lie());
                std::thread::sleep(Duration::from_secs(600));
            }
            for byte in [0, 0, 1, 0].into_iter().chain(std::iter::repeat(b' ')) {
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    }
}

/// Keeps the lock of its own tenants' limits, by which others would have to wait.
fn lock(configs: &[&str]) {
    let mut kept = Vec::new();
    for config in configs {
        let directory = Path::new(config).parent().unwrap();
        kept.push(
            divvy_page::owner::Owner::open(
                &std::ffi::CString::new(world::word(directory)).unwrap(),
            )
            .unwrap(),
        );
    }
    // A change that never ends.
    let all = std::sync::Barrier::new(kept.len() + 1);
    let keep = || {
        all.wait();
        std::thread::sleep(Duration::from_secs(3600));
    };
    std::thread::scope(|scope| {
        for owner in &kept {
            scope.spawn(move || owner.update(|_| keep()));
        }
        all.wait();
        println!("\n{BEGUN}");
    });
}

/// Claims every place of a process in its own tenants, for ever.
fn claim(usages: &[&str]) {
    let open = |path: &&str| std::fs::File::options().read(true).write(true).open(path).unwrap();
    let files: Vec<std::fs::File> = usages.iter().map(open).collect();
    let all = nix::libc::flock {
        l_type: nix::libc::F_WRLCK as i16,
        l_whence: nix::libc::SEEK_SET as i16,
        l_start: usage::SLOT_LOCKS_AT.cast_signed(),
        l_len: MAX_SLOTS as i64,
        l_pid: 0,
    };
    for file in &files {
        nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_OFD_SETLK(&all)).unwrap();
    }
    println!("\n{BEGUN}");
    std::thread::park();
}
