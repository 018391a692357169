//! The actor: a process that does to a tenant what lines on its standard input say.
//!
//! `attach DIR`, `join DIR` (as a process of a tenant with an owner), `row`, `ask MIB`, `give MIB`, `used`, `own`, `child` (fork one that claims a slot
//! and sleeps), `fork` (one that only sleeps), `closeall`, `lowfds`, `killat N`, `ahead`, `pid`,
//! `churn N` and `used_at_once N` (on four threads), `export MIB`, `open`, `close`, `shared`, `mark FILE` (share 600 MiB
//! that a marked descriptor keeps), `have FILE` (open it). Answers are one line each, after `@`.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use divvy_abi::config::Config;
use divvy_abi::usage::MemoryKind;
use divvy_page::mark::{draw_key, set};
use divvy_page::{ConfigSource, DeviceRow, NewDevice, SharedEntry, Tenant};
use divvy_policy::ledger::MemoryRefusal;

use crate::scratch::c_path;

pub(crate) const MIB: u64 = 1 << 20;
/// Every tenant here may hold this much.
pub(crate) const LIMIT: u64 = 1000 * MIB;
const ENVIRONMENT: &str = "DIVVY_PAGE_ACTOR";

pub(crate) fn device() -> NewDevice<'static> {
    NewDevice {
        uuid: [5; 16],
        index: Some(0),
        total_bytes: 4000 * MIB,
        limit_bytes: Some(LIMIT),
        name: b"card",
    }
}

/// Joins the tenant in `path` as this process.
pub(crate) fn join(path: &Path) -> (Tenant, DeviceRow) {
    let tenant =
        Tenant::attach(&c_path(path), &ConfigSource::FirstProcess(&Config::default())).expect("in");
    let row = tenant.device_row(&device()).expect("a row");
    (tenant, row)
}

/// A running actor; killed when dropped.
#[derive(Debug)]
pub(crate) struct Actor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Actor {
    pub(crate) fn start() -> Self {
        Self::start_under(&[])
    }

    /// Starts the actor as the last argument of another command, such as `unshare`.
    pub(crate) fn start_under(before: &[&str]) -> Self {
        let me = std::env::current_exe().expect("my path");
        let mut words = before.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
        words.push(me.into_os_string());
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .args(["actor::act", "--exact", "--nocapture", "--test-threads=1"])
            .env(ENVIRONMENT, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the actor starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, input, output }
    }

    /// Says a line and returns the answer; `None` when the actor died instead.
    pub(crate) fn try_say(&mut self, line: &str) -> Option<String> {
        writeln!(self.input, "{line}").ok()?;
        self.answer()
    }

    /// Says a line and leaves its answer for later.
    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the actor listens");
    }

    /// The next answer.
    pub(crate) fn answer(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            // The test harness writes lines of its own, and no newline before the first answer.
            if let Some((_, answer)) = line.split_once('@') {
                return Some(answer.trim_end().to_owned());
            }
        }
    }

    pub(crate) fn say(&mut self, line: &str) -> String {
        self.try_say(line).unwrap_or_else(|| panic!("the actor died at {line:?}"))
    }

    /// Says a line and checks the answer.
    pub(crate) fn expect(&mut self, line: &str, answer: &str) {
        assert_eq!(self.say(line), answer, "to {line:?}");
    }

    /// Attaches to `path` and finds the device's row.
    pub(crate) fn join(&mut self, path: &Path) {
        self.expect(&format!("attach {}", path.display()), "ok");
        self.expect("row", "ok");
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it ended by SIGKILL, which is waited for.
    pub(crate) fn was_killed(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt as _;
        self.child.wait().is_ok_and(|status| status.signal() == Some(libc::SIGKILL))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills a process by its number and waits until it has given back all it had, whoever its parent is, and whether
/// that has asked how it ended or not.
pub(crate) fn kill_pid(pid: i32) {
    // SAFETY: numbers only.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let since = std::time::Instant::now();
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    };
    while lives() {
        assert!(since.elapsed().as_secs() < 60, "a killed process does not end");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Says that a test proves nothing on this machine, past the harness's capture.
pub(crate) fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// The actor's own main; an ordinary run of the tests passes through it.
#[test]
fn act() {
    if std::env::var_os(ENVIRONMENT).is_none() {
        return;
    }
    let mut stage = Stage::default();
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let mut words = line.split(' ');
        let (verb, argument) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let answer = stage.act(verb, argument);
        println!("@{answer}");
    }
}

#[derive(Default)]
struct Stage {
    tenant: Option<Tenant>,
    row: Option<DeviceRow>,
    opened: Option<SharedEntry>,
    files: Vec<File>,
}

impl Stage {
    fn tenant(&self) -> &Tenant {
        self.tenant.as_ref().expect("attached")
    }

    fn row(&self) -> DeviceRow {
        self.row.expect("a row")
    }

    #[expect(clippy::too_many_lines, reason = "a table: one arm for each word of its tests")]
    fn act(&mut self, verb: &str, argument: &str) -> String {
        let number = || argument.parse::<u64>().expect("a number");
        match verb {
            "attach" => {
                let config = Config::default();
                let path = c_path(Path::new(argument));
                match Tenant::attach(&path, &ConfigSource::FirstProcess(&config)) {
                    Ok(tenant) => {
                        self.tenant = Some(tenant);
                        "ok".to_owned()
                    }
                    Err(error) => format!("{error:?} {error}"),
                }
            }
            "join" => match Tenant::attach(&c_path(Path::new(argument)), &ConfigSource::Owner) {
                Ok(tenant) => {
                    let value = tenant.config().rules().first().map_or(0, |rule| rule.value);
                    self.tenant = Some(tenant);
                    format!("ok {value}")
                }
                Err(error) => format!("{error:?} {error}"),
            },
            "row" => match self.tenant().device_row(&device()) {
                Ok(row) => {
                    self.row = Some(row);
                    "ok".to_owned()
                }
                Err(error) => format!("{error:?} {error}"),
            },
            "ask" => self.ask(number() * MIB),
            "give" => {
                self.tenant().give_back(self.row(), number() * MIB, MemoryKind::Block);
                "ok".to_owned()
            }
            "used" => (self.tenant().used_bytes(self.row()) / MIB).to_string(),
            "own" => (self.tenant().own_bytes(self.row()) / MIB).to_string(),
            "pid" => std::process::id().to_string(),
            "fork" => fork_and_sleep(|| {}).to_string(),
            "child" => {
                let bytes = number() * MIB;
                let (tenant, row) = (self.tenant(), self.row());
                fork_and_sleep(|| {
                    // What the parent holds is not the child's to give back.
                    tenant.give_back(row, 1, MemoryKind::Block);
                    let granted = tenant.ask(row, bytes, MemoryKind::Block, Some(LIMIT));
                    if granted != Ok(()) {
                        // SAFETY: ends the child at once.
                        unsafe { libc::_exit(3) };
                    }
                })
                .to_string()
            }
            "closeall" => {
                // SAFETY: everything but the three standard descriptors is closed; the harness and
                // this actor use no others.
                let result = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
                result.to_string()
            }
            "lowfds" => {
                let limit = libc::rlimit { rlim_cur: number(), rlim_max: number() };
                // SAFETY: one rlimit is read.
                unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }.to_string()
            }
            "lowmem" => {
                let limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
                // SAFETY: one rlimit is read.
                unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }.to_string()
            }
            "smallfiles" => {
                let limit = libc::rlimit { rlim_cur: number(), rlim_max: number() };
                // SAFETY: ignoring a signal and setting a limit.
                unsafe {
                    libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                    libc::setrlimit(libc::RLIMIT_FSIZE, &limit)
                }
                .to_string()
            }
            #[cfg(debug_assertions)]
            "killat" => {
                divvy_page::fault::kill_at(u32::try_from(number()).expect("a small number"));
                "ok".to_owned()
            }
            #[cfg(debug_assertions)]
            "ahead" => divvy_page::fault::is_ahead().to_string(),
            "export" => {
                let bytes = number() * MIB;
                let shared =
                    self.tenant().export_shared(&[7; 64], self.row(), bytes, MemoryKind::Block);
                self.opened = shared.or(self.opened);
                shared.is_some().to_string()
            }
            "open" => {
                self.opened = self.tenant().open_shared(&[7; 64]);
                self.opened.is_some().to_string()
            }
            "close" => {
                self.opened.take().into_iter().for_each(|it| self.tenant().close_shared(it));
                "ok".to_owned()
            }
            "mark" => {
                let open = || File::options().read(true).write(true).open(argument);
                let (own, marked) = (open().expect("a file"), open().expect("a file"));
                let key = draw_key().expect("noise");
                let mark = set(marked.as_raw_fd(), key, 300).expect("a lock");
                let bytes = 600 * MIB;
                let shared =
                    self.tenant().export_shared(&mark.handle(), self.row(), bytes, MemoryKind::Vmm);
                self.opened = shared;
                self.files = vec![own, marked];
                shared.is_some().to_string()
            }
            "have" => {
                self.files.push(File::open(argument).expect("a file"));
                "ok".to_owned()
            }
            "shared" => (self.tenant().shared_bytes(self.row()) / MIB).to_string(),
            "churn" => self.churn(number()),
            "used_at_once" => self.used_at_once(number()),
            other => panic!("no such act: {other:?}"),
        }
    }

    fn ask(&self, bytes: u64) -> String {
        let start = std::time::Instant::now();
        let answer = match self.tenant().ask(self.row(), bytes, MemoryKind::Block, Some(LIMIT)) {
            Ok(()) => "granted".to_owned(),
            Err(MemoryRefusal::OverLimit { held_bytes }) => format!("refused {}", held_bytes / MIB),
            Err(other) => format!("{other:?}"),
        };
        // Hundreds of times what a contended request waits.
        assert!(start.elapsed().as_secs() < 60, "waited {:?}", start.elapsed());
        answer
    }

    /// Asks and gives back `times` times on four threads; the most that was ever used.
    fn churn(&self, times: u64) -> String {
        let most = std::thread::scope(|scope| {
            let one = |thread: u64| {
                let mut most = 0;
                for time in 0..times {
                    let bytes = (1 + (thread * 7 + time * 13) % 300) * MIB;
                    let asked =
                        self.tenant().ask(self.row(), bytes, MemoryKind::Block, Some(LIMIT));
                    if asked == Ok(()) {
                        most = most.max(self.tenant().own_bytes(self.row()));
                        self.tenant().give_back(self.row(), bytes, MemoryKind::Block);
                    }
                }
                most
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || one(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("joined")).max()
        });
        format!("{}", most.unwrap_or(0) / MIB)
    }

    /// Asks how much is used, on four threads at once, which reaps on all of them.
    fn used_at_once(&self, times: u64) -> String {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..times {
                        let used = self.tenant().used_bytes(self.row());
                        assert!(used <= LIMIT, "{used}");
                    }
                });
            }
        });
        "ok".to_owned()
    }
}

/// Forks a child that does `act` and then sleeps until it is killed or orphaned for a minute. The
/// child has closed the pipes, so that the test sees its parent's end.
fn fork_and_sleep(act: impl FnOnce()) -> i32 {
    let mut pipe = [0; 2];
    // SAFETY: two descriptors are written.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the child only calls `act`, which allocates nothing, and system calls.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        act();
        // SAFETY: system calls on numbers and one byte of the stack; ends the child.
        unsafe {
            libc::write(pipe[1], (&raw const pipe).cast(), 1);
            libc::close(0);
            libc::close(1);
            libc::sleep(60);
            libc::_exit(0);
        }
    }
    let mut byte = [0_u8; 1];
    // SAFETY: one byte is read into `byte`; the descriptors are ours.
    let got = unsafe {
        libc::close(pipe[1]);
        let got = libc::read(pipe[0], byte.as_mut_ptr().cast(), 1);
        libc::close(pipe[0]);
        got
    };
    assert_eq!(got, 1, "the child failed");
    pid
}
