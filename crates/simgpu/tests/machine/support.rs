//! A machine of a test's own, and clients in processes of their own that do as they are told.

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use simgpu::client::Client;
use simgpu::wire::Charge;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything that comes at all takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Questions by the last of which a machine has seen what happened before the first.
pub(crate) const ANSWERED: u32 = 50;

/// A machine: a directory and settings. The directory goes with it.
pub(crate) struct Machine {
    settings: Vec<(String, String)>,
    pub(crate) directory: PathBuf,
}

impl Machine {
    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("simgpu-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        settings.push(("SIMGPU_DIR".into(), directory.to_str().unwrap().into()));
        settings.push(("SIMGPUD".into(), env!("CARGO_BIN_EXE_simgpud").into()));
        Self { settings, directory }
    }

    /// A client in this process.
    pub(crate) fn client(&self) -> Client {
        Client::connect_with(&|name| self.lookup(name)).unwrap()
    }

    pub(crate) fn lookup(&self, name: &str) -> Option<String> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// A client in a process of its own.
    pub(crate) fn process(&self) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "support::client_process", "--ignored", "--nocapture"])
            .envs(self.settings.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Process { child, input: Some(input), output };
        assert_eq!(process.answer(), "ready");
        process
    }

    /// Whether a daemon listens.
    pub(crate) fn runs(&self) -> bool {
        self.directory.join("simgpud.sock").exists()
    }

    pub(crate) fn free_bytes(&self, client: &Client) -> u64 {
        client.memory_info(0).unwrap().free_bytes
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A client process.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Sends one command and waits for its answer.
    pub(crate) fn tell(&mut self, command: &str) -> String {
        self.say(command);
        self.answer()
    }

    /// Sends one command that has no answer.
    pub(crate) fn say(&mut self, command: &str) {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Copies of all its descriptors, as a forked child would have them.
    pub(crate) fn descriptors(&self) -> Vec<OwnedFd> {
        let pid = Pid::from_child(&self.child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        std::fs::read_dir(format!("/proc/{}/fd", self.pid()))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .filter(|number: &i32| *number > 2)
            .map(|number| pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()).unwrap())
            .collect()
    }

    /// A copy of one of its descriptors.
    pub(crate) fn descriptor(&self, number: i32) -> OwnedFd {
        let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).unwrap();
        pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// SIGKILL, and wait for the end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// End of input: the process exits normally.
    pub(crate) fn end(mut self) {
        self.input = None;
        let _ = std::io::copy(&mut self.output, &mut std::io::sink());
        assert!(self.child.wait().unwrap().success());
    }

    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the client process ended");
            if let Some(answer) = line.trim().strip_prefix(">") {
                return answer.trim().to_owned();
            }
        }
    }
}

impl Drop for Process {
    /// Lets the process end and hears it out, so that it does not complain of a broken pipe.
    fn drop(&mut self) {
        self.input = None;
        let _ = std::io::copy(&mut self.output, &mut std::io::sink());
        let _ = self.child.wait();
    }
}

/// Waits until `condition` holds, and tells how often it did not.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) -> u32 {
    let give_up = Instant::now() + PATIENCE;
    let mut looks = 0;
    while !condition() {
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::sleep(Duration::from_micros(200));
        looks += 1;
    }
    looks
}

/// Asserts that `condition`, which asks the machine, goes on to hold when it has seen all that has happened.
pub(crate) fn stays(what: &str, condition: impl Fn() -> bool) {
    for number in 0..ANSWERED {
        assert!(condition(), "no more after {number} questions: {what}");
    }
}

/// Tries until `trial` succeeds, three times at most: for what a host that stops can spoil.
pub(crate) fn best_of_three(mut trial: impl FnMut() -> Result<(), String>) {
    let wrong: Vec<String> = (0..3).map_while(|_| trial().err()).collect();
    assert!(wrong.len() < 3, "in each of three trials: {wrong:?}");
}

#[test]
#[ignore = "a role: other tests run it as a process of its own"]
fn client_process() {
    let client = Client::connect().unwrap();
    let mut blocks = Vec::new();
    let mut contexts = Vec::new();
    let mut descriptors = Vec::new();
    let mut managed = Vec::new();
    println!("\n> ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["allocate", mib] => {
                let bytes = mib.parse::<u64>().unwrap() << 20;
                match client.allocate(0, bytes, Charge::Blocks) {
                    Ok(block) => {
                        blocks.push(block);
                        "ok".into()
                    }
                    Err(problem) => problem.to_string(),
                }
            }
            ["context"] => client.create_context(0).map_or_else(
                |problem| problem.to_string(),
                |context| {
                    contexts.push(context);
                    "ok".into()
                },
            ),
            ["managed", mib] => {
                managed.push(client.make_managed(mib.parse::<u64>().unwrap() << 20).unwrap());
                "ok".into()
            }
            ["bring", first, count] => {
                let run = (first.parse().unwrap(), count.parse().unwrap());
                super::managed::told(&client.bring(managed.last().unwrap(), 0, run).unwrap())
            }
            ["resident", first, count] => {
                let run = (first.parse().unwrap(), count.parse().unwrap());
                let bytes = client.resident_bytes(managed.last().unwrap(), run).unwrap();
                (bytes >> 20).to_string()
            }
            ["export"] => {
                descriptors.push(client.export(blocks.last().unwrap()).unwrap());
                descriptors.last().unwrap().as_raw_fd().to_string()
            }
            ["write", byte] => {
                let mapping = client.map(blocks.last().unwrap()).unwrap().unwrap();
                super::memory::write(&mapping, byte.parse().unwrap());
                "ok".into()
            }
            ["share"] => {
                let block = blocks.last().unwrap();
                let handle = client.ipc_handle(block, 0, block.bytes).unwrap();
                handle.iter().map(|byte| format!("{byte:02x}")).collect()
            }
            ["close-all"] => {
                super::lifecycle::close_all();
                "ok".into()
            }
            ["churn", seed] => super::lifecycle::churn(&client, seed.parse().unwrap()),
            ["lane-and-close"] => super::time::lane_and_close(&client),
            ["nvml"] => super::nvml::list(),
            ["exec"] => super::lifecycle::become_sleep(),
            ["free"] => client.memory_info(0).unwrap().free_bytes.to_string(),
            ["work", contexts_ns, total] => {
                super::time::work(&client, contexts_ns.parse().unwrap(), total.parse().unwrap())
            }
            _ => panic!("unknown command {line}"),
        };
        println!("> {answer}");
    }
}
