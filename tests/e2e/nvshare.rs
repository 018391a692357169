//! nvshare's contract: the file name of its library, and its variables.
//!
//! Tenants lie in /tmp, where other tests' daemons would find them; so each process runs in mounts of its own, in which /tmp
//! is a directory of the test's.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use divvy_abi::config::Config;
use divvy_page::reader::read_config;
use divvy_page::{Directory, effective_uid};
use serde_json::Value;

use crate::harness::{Finished, GIB, Machine, Running, Talk, client, finish, stage, until};
use crate::hostile::can_unshare;

/// A machine, and a directory in the place of /tmp.
struct Nvshare {
    machine: Machine,
    tmp: PathBuf,
}

impl Nvshare {
    /// None where this machine does not let us mount, which is said.
    fn new(what: &str) -> Option<Self> {
        if !can_unshare(&["--mount"]) {
            println!("SKIPPED {what}: this machine does not let us mount");
            return None;
        }
        let machine = Machine::new().native();
        let home = machine.home().to_owned();
        let tmp = home.join("tmp");
        fs::create_dir(&tmp).expect("a directory of the test's own");
        fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777)).expect("it is ours");
        let machine = machine
            // Its /tmp is its own.
            .without("DIVVY_ONLY_RUNTIME_DIR");
        Some(Self { machine, tmp })
    }

    /// The command in mounts of its own.
    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let tmp = self.tmp.display();
        let mut script = String::from("set -e\n");
        // What the program needs of /tmp is there under its own name.
        for needed in [self.machine.home(), stage()] {
            if let Ok(below) = needed.strip_prefix("/tmp") {
                let (below, needed) = (below.display(), needed.display());
                script.push_str(&format!(
                    "mkdir -p {tmp}/{below}\nmount --bind {needed} {tmp}/{below}\n"
                ));
            }
        }
        script.push_str(&format!("mount --rbind {tmp} /tmp\nexec \"$@\"\n"));
        let mut command = self.machine.command("unshare");
        command.args(["--mount", "--", "sh", "-c", &script, "sh"]).arg(program).args(arguments);
        command.current_dir("/");
        command
    }

    /// The user's tenants that no variable names.
    fn places(&self) -> PathBuf {
        self.tmp.join(format!(".divvy-{}", effective_uid()))
    }

    /// A program under the library by the name of nvshare's, that works for `ms` and until it is told, with so many blocks of 40 MiB, and one.
    fn works(&self, library: &Path, blocks: u64, ms: u64) -> Command {
        let mut command = self.command(&client("turns"), &["works"]);
        command.env("LD_PRELOAD", library).env("TURNS_BLOCKS", blocks.to_string());
        command.env("TURNS_MS", ms.to_string()).env("TURNS_TOLD", "1");
        command
    }

    fn divvy(&self, arguments: &[&str]) -> Finished {
        finish(&mut self.command(&stage().join("bin/divvy"), arguments))
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.divvy(&["daemon", "--status", "--json"]).out).unwrap_or_default()
    }

    /// Names of the tenants' directories.
    fn tenants(&self) -> Vec<String> {
        let entries = fs::read_dir(self.places()).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn config(&self, name: &str) -> Config {
        let path = self.places().join(name).display().to_string();
        let path = std::ffi::CString::new(path).expect("no NUL inside");
        let directory = Directory::open(&path).expect("the tenant's directory");
        read_config(&directory).expect("it is ours").expect("it is written")
    }
}

fn library() -> PathBuf {
    stage().join("lib/libnvshare.so")
}

#[test]
fn programs_are_tenants_of_their_own_that_take_turns() {
    let Some(nvshare) = Nvshare::new("programs_are_tenants_of_their_own_that_take_turns") else {
        return;
    };
    let divvy = stage().join("bin/divvy");
    let mut daemon =
        Running::start(&mut nvshare.command(&divvy, &["daemon", "--capacity", "300MiB"]));
    until("the daemon answers", || nvshare.status()["pid"].is_u64());
    // One by the name in the prefix, the other by a link of that name, as a container's mount may be.
    let link = nvshare.machine.home().join("libnvshare.so");
    symlink(stage().join("lib/libdivvy.so").canonicalize().expect("it is staged"), &link)
        .expect("a link can be made");
    let mut programs =
        [library(), link].map(|library| Talk::start(&mut nvshare.works(&library, 4, 2000)));
    for program in &programs {
        program.expect("ready");
    }
    until("memory is handed over", || {
        nvshare.status()["devices"][0]["memory"]["hand_overs"].as_u64() >= Some(1)
    });
    assert_eq!(nvshare.tenants(), ["nvshare-1", "nvshare-2"]);
    let said = nvshare.divvy(&["set", "nvshare-2", "--quantum", "1s"]);
    assert_eq!(said.code(), Some(0), "it is a tenant as others: {said}");
    programs.iter_mut().for_each(Talk::go);
    for program in programs {
        assert!(program.line().contains("rounds"), "its bytes are right");
        program.ends_well();
    }
    // Their places are the next ones', and go with them.
    let again = finish(&mut nvshare.works(&library(), 1, 1));
    assert_eq!(again.code(), Some(0), "{again}");
    until("each goes with its last process", || nvshare.tenants().is_empty());
    daemon.kill();
    let _ = daemon.finish();
}

/// Without a daemon the next command that looks takes it.
#[test]
fn a_tenant_of_variables_alone_goes_with_its_last_process() {
    let what = "a_tenant_of_variables_alone_goes_with_its_last_process";
    let Some(nvshare) = Nvshare::new(what) else { return };
    let mut command = nvshare.works(&stage().join("lib/libdivvy.so"), 1, 1);
    let mut program = Talk::start(command.env("DIVVY_MEMORY", "2GiB"));
    program.expect("ready");
    let listed = || nvshare.divvy(&["ps"]).out.lines().any(|line| line.starts_with("default "));
    assert!(listed() && nvshare.tenants() == ["default"], "it lives");
    program.go();
    assert!(program.line().contains("rounds"));
    program.ends_well();
    assert_eq!(nvshare.tenants(), ["default"]);
    assert!(!listed());
    assert_eq!(nvshare.tenants(), [""; 0], "nothing is left of it");
}

#[test]
fn by_another_name_a_program_without_limits_is_no_tenant() {
    let Some(nvshare) = Nvshare::new("by_another_name_a_program_without_limits_is_no_tenant")
    else {
        return;
    };
    let home = nvshare.machine.home();
    for name in ["libdivvy.so", "libvgpu.so", "libnvshare.so.bak", "mylibnvshare.so"] {
        let library = home.join(name);
        fs::copy(stage().join("lib/libdivvy.so"), &library).expect("it can be copied");
        let finished = finish(&mut nvshare.works(&library, 1, 1));
        assert_eq!(finished.code(), Some(0), "{finished}");
        assert_eq!(nvshare.tenants(), [""; 0], "{name}");
    }
    let copy = home.join("libnvshare.so");
    fs::copy(stage().join("lib/libdivvy.so"), &copy).expect("it can be copied");
    let finished = finish(&mut nvshare.works(&copy, 1, 1));
    assert!(finished.code() == Some(0) && nvshare.tenants() == ["nvshare-1"], "{finished}");
}

#[test]
fn variables_come_before_the_name() {
    let Some(nvshare) = Nvshare::new("variables_come_before_the_name") else { return };
    type Variables = &'static [(&'static str, &'static str)];
    // What is set, and whether memory may leave, and may be more than the card.
    let tries: [(Variables, bool, bool); 4] = [
        (&[], true, false),
        (&[("NVSHARE_ENABLE_SINGLE_OVERSUB", "")], true, true),
        (&[("DIVVY_OVERSUBSCRIBE", "false"), ("NVSHARE_ENABLE_SINGLE_OVERSUB", "1")], false, false),
        (&[("DIVVY_MEMORY", "2GiB")], true, false),
    ];
    for (variables, moves, exceeds) in tries {
        let mut command = nvshare.works(&library(), 1, 1);
        let finished = finish(command.envs(variables.iter().copied()));
        // More than the card wants a daemon.
        assert_eq!(finished.code() == Some(0), !exceeds, "{finished}");
        assert_eq!(finished.err.contains("DV212"), exceeds, "{finished}");
        let config = nvshare.config("nvshare-1");
        let is_so = config.flags & divvy_abi::config::FLAG_OVERSUBSCRIBE != 0;
        assert_eq!((is_so, config.may_exceed_card()), (moves, exceeds), "{variables:?}");
        let rules: Vec<_> = config.rules().iter().map(|rule| rule.value).collect();
        let is_limited = variables.iter().any(|(name, _)| *name == "DIVVY_MEMORY");
        assert_eq!(rules, if is_limited { vec![2 * GIB] } else { vec![] }, "{variables:?}");
    }
    let mut command = nvshare.works(&library(), 1, 1);
    let cache = nvshare.machine.home().join("pod.cache");
    let finished = finish(command.env("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache));
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert!(nvshare.machine.home().join(".divvy/pod/config").exists(), "the path names the tenant");
    assert_eq!(nvshare.tenants(), ["nvshare-1"]);
}

#[test]
fn one_process_gets_more_than_the_card_where_it_asks_and_the_daemon_lets_it() {
    let what = "one_process_gets_more_than_the_card_where_it_asks_and_the_daemon_lets_it";
    let Some(mut nvshare) = Nvshare::new(what) else { return };
    nvshare.machine = nvshare.machine.with("SIMGPU_MEMORY", "2GiB");
    let divvy = stage().join("bin/divvy");
    let mut daemon =
        Running::start(&mut nvshare.command(&divvy, &["daemon", "--managed-limit", "4GiB"]));
    until("the daemon answers", || nvshare.status()["pid"].is_u64());
    let mut command = nvshare.works(&library(), 60, 1);
    let finished = finish(command.env("NVSHARE_ENABLE_SINGLE_OVERSUB", "1"));
    assert!(finished.code() == Some(0) && finished.out.contains("rounds"), "{finished}");
    daemon.kill();
    let _ = daemon.finish();
}

#[test]
fn one_process_gets_no_more_than_the_card() {
    let Some(mut nvshare) = Nvshare::new("one_process_gets_no_more_than_the_card") else { return };
    nvshare.machine = nvshare.machine.with("SIMGPU_MEMORY", "2GiB");
    for name in ["NVSHARE_NOTHING", "NVSHARE_ENABLE_SINGLE_OVERSUB"] {
        let finished = finish(nvshare.works(&library(), 60, 1).env(name, "1"));
        assert!(
            finished.code() != Some(0) && finished.err.contains("is 2, wanted 0"),
            "{finished}"
        );
    }
}
