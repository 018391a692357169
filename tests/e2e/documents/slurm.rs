//! The recipe for Slurm, really played: munge, slurmctld and slurmd of this machine are one node with ten shards of a simulated GPU,
//! and a job with three of them prints what the page shows. The scripts are the page's own.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::compare::{Numbers, is_shown};
use super::page::{command_of, file_of};
use super::session::{end_all, python, save};
use crate::harness::{Machine, Running, finish, stage, until};
use crate::hostile::is_root;

const PAGE: &str = "docs/guide/recipes.md";
const SCRIPTS: [&str; 3] = ["prolog.sh", "epilog.sh", "task_prolog.sh"];

/// Whether Slurm can be tried; says so when not.
fn is_possible() -> bool {
    let has = |program: &str| {
        let folders = ["/usr/sbin", "/usr/bin"];
        folders.iter().any(|folder| Path::new(folder).join(program).exists())
    };
    let why = if !is_root() {
        "slurmd needs root"
    } else if !["munged", "slurmctld", "slurmd", "srun"].into_iter().all(has) {
        "there is none; `apt-get install slurmd slurmctld slurm-client munge` brings it"
    } else {
        return true;
    };
    println!("SKIPPED slurm: {why}");
    false
}

/// A node of a cluster of its own, which ends with the test.
struct Node {
    machine: Machine,
    settings: String,
    running: Vec<Running>,
}

impl Node {
    fn new() -> Self {
        let machine =
            Machine::new().native().with("SIMGPU_MODE", "calibrated").without("SIMGPU_MEMORY");
        let home = machine.home().to_owned();
        for folder in ["munge", "state", "spool", "jobs", "bin"] {
            fs::create_dir(home.join(folder)).expect("a directory of the test's own");
        }
        std::os::unix::fs::symlink(python(), home.join("bin/python3")).expect("a link can be made");
        save(&home, "work.py", &file_of("docs/guide/tutorial.md", "work.py"));
        for script in SCRIPTS {
            let text = file_of(PAGE, script);
            let text = text.replace("/run/divvy-jobs", &home.join("jobs").display().to_string());
            let library = stage().join("lib/libdivvy.so").display().to_string();
            save(&home, script, &text.replace("/usr/local/lib/libdivvy.so", &library));
        }
        save(&home, "gres.conf", "Name=gpu File=/dev/null\nName=shard Count=10\n");
        save(&home, "cgroup.conf", "CgroupAutomount=no\n");
        save(&home, "slurm.conf", &configuration(&home));
        let settings = home.join("slurm.conf").display().to_string();
        let mut node = Self { machine, settings, running: Vec::new() };
        node.start_munge();
        node.start("slurmctld", &["-D", "-c"]);
        node.start("slurmd", &["-D"]);
        until("the node is idle", || {
            let finished = finish(node.command("sinfo").args(["-h", "-o", "%t"]));
            finished.out.trim() == "idle"
        });
        node
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.machine.command(program);
        let path = format!("{}/bin:/usr/sbin:/usr/bin:/sbin:/bin", self.machine.home().display());
        command.env("PATH", path).env("SLURM_CONF", &self.settings);
        command.current_dir(self.machine.home());
        command
    }

    fn start(&mut self, program: &str, arguments: &[&str]) {
        let running = Running::start(self.command(program).args(arguments));
        self.running.push(running);
    }

    fn start_munge(&mut self) {
        let folder = self.machine.home().join("munge");
        let key: Vec<u8> = (0..128).map(|at: u8| at.wrapping_mul(37)).collect();
        fs::write(folder.join("key"), key).expect("the folder can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o400);
        fs::set_permissions(folder.join("key"), mode).expect("modes can be set");
        let files = [("key-file", "key"), ("socket", "socket"), ("pid-file", "pid")];
        let files = files.into_iter().chain([("seed-file", "seed"), ("log-file", "log")]);
        let options = files.map(|(name, file)| format!("--{name}={}", folder.join(file).display()));
        let running = Running::start(self.command("munged").arg("--foreground").args(options));
        self.running.push(running);
        until("munge answers", || folder.join("socket").exists());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        end_all(&format!("SLURM_CONF={}", self.settings));
        for one in self.running.drain(..) {
            let _ = one.finish();
        }
    }
}

/// One node, of which this test alone knows the ports.
fn configuration(home: &Path) -> String {
    let host = finish(Command::new("hostname").arg("-s"));
    let (host, home) = (host.out.trim(), home.display());
    let port = 20_000 + std::process::id() % 20_000;
    let next = port + 1;
    format!(
        "ClusterName=one\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={home}/munge/socket\n\
         SlurmctldPort={port}\nSlurmdPort={next}\nStateSaveLocation={home}/state\n\
         SlurmdSpoolDir={home}/spool\nSlurmctldPidFile={home}/ctld.pid\nSlurmdPidFile={home}/d.pid\n\
         SlurmctldLogFile={home}/ctld.log\nSlurmdLogFile={home}/d.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
         MpiDefault=none\nJobAcctGatherType=jobacct_gather/none\nReturnToService=2\n\
         AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\n\
         GresTypes=gpu,shard\nProlog={home}/prolog.sh\nEpilog={home}/epilog.sh\n\
         TaskProlog={home}/task_prolog.sh\n\
         NodeName={host} NodeAddr=127.0.0.1 Gres=gpu:1,shard:10 State=UNKNOWN\n\
         PartitionName=all Nodes=ALL Default=YES State=UP\n"
    )
}

#[test]
fn a_job_of_slurm_has_its_shards_of_memory_and_time() {
    if !is_possible() {
        return;
    }
    let node = Node::new();
    let (typed, shown) = command_of(PAGE, "srun");
    let ran = finish(node.command("sh").args(["-c", &typed]));
    assert_eq!(ran.code(), Some(0), "{ran}");
    let printed: Vec<String> = ran.out.lines().map(str::to_owned).collect();
    assert!(is_shown(&shown, &printed, Numbers::Volatile), "{shown:#?}\n{ran}");
    until("the job's directory is gone", || {
        fs::read_dir(node.machine.home().join("jobs")).is_ok_and(|mut jobs| jobs.next().is_none())
    });
}
