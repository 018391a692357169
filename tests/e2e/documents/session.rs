//! A shell that a page's commands are typed into: on a simulated machine of its own, in a folder and a home of its own.
//!
//! Promises: commands run one after another in one shell, standard error among the output; what they started and left
//! ends with the session, the daemon that `divvy run` starts too. Does not judge what is printed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Machine, Talk, stage};

/// Ends what a command prints, with its exit code.
const END: &str = "\u{1}end ";

/// A shell and its machine.
#[derive(Debug)]
pub(crate) struct Session {
    shell: Talk,
    folder: PathBuf,
    home: String,
    _machine: Machine,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) printed: Vec<String>,
    pub(crate) code: i32,
}

impl Session {
    /// A shell whose machine has so many devices. With `as_driver` the simulated driver is where the machine's would be
    /// found, without it only behind `--sim`.
    pub(crate) fn new(devices: u32, as_driver: bool) -> Self {
        Self::by(&stage().join("bin"), devices, as_driver)
    }

    /// The same with the command in the folder `divvy`.
    pub(crate) fn by(divvy: &Path, devices: u32, as_driver: bool) -> Self {
        let machine = Machine::new()
            .native()
            .with("SIMGPU_MODE", "calibrated")
            .with("SIMGPU_DEVICES", devices)
            // Pages show them.
            .with("SIMGPU_SEED", 0)
            .without("SIMGPU_MEMORY")
            .without("DIVVY_LOG");
        let [home, folder, bin] = ["home", "work", "bin"].map(|name| {
            let path = machine.home().join(name);
            fs::create_dir(&path).expect("a directory of the test's own");
            path
        });
        let python = python();
        for name in ["python", "python3"] {
            symlink(&python, bin.join(name)).expect("a link can be made");
        }
        let path = format!("{}:{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display(), divvy.display());
        let mut command = machine.command("bash");
        command.args(["--noprofile", "--norc"]).current_dir(&folder);
        command.env("PATH", path).env("HOME", &home);
        if !as_driver {
            command.env_remove("LD_LIBRARY_PATH").env_remove("SIMGPUD");
        }
        let mut shell = Talk::start(&mut command);
        shell.say("exec 2>&1");
        let home = format!("HOME={}", home.display());
        Self { shell, folder, home, _machine: machine }
    }

    /// Saves a file in the session's folder.
    pub(crate) fn save(&self, name: &str, text: &str) {
        save(&self.folder, name, text);
    }

    /// Types a command and waits for its end.
    pub(crate) fn run(&mut self, command: &str) -> Done {
        // The command's own standard input is not the script.
        self.shell.say(&format!("{{ {command}\n}} < /dev/null"));
        self.shell.say("code=$?; printf '\\n\\001end %d\\n' $code; (exit $code)");
        let mut printed = Vec::new();
        loop {
            let Some(line) = self.shell.next_line() else {
                panic!("the shell has ended: {command}\n{printed:#?}");
            };
            let Some(code) = line.strip_prefix(END) else {
                printed.push(line);
                continue;
            };
            return Done { printed, code: code.parse().expect("a number") };
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        end_all(&self.home);
    }
}

/// Saves a file below `folder`; a script can be executed.
pub(crate) fn save(folder: &Path, name: &str, text: &str) {
    assert!(!Path::new(name).is_absolute() && !name.contains(".."), "{name} is not below");
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap_or(folder)).expect("a directory of the test's own");
    fs::write(&path, text).expect("the folder can be written");
    let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("modes can be set");
}

/// Ends every process with this entry in its environment.
pub(crate) fn end_all(entry: &str) {
    let has_it = |process: &fs::DirEntry| {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes())
    };
    for process in fs::read_dir("/proc").into_iter().flatten().flatten().filter(has_it) {
        let _ = Command::new("kill").arg("-KILL").arg(process.file_name()).status();
    }
}

/// Python itself: what is called so may be a script that chooses one.
pub(crate) fn python() -> PathBuf {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let output = asked.expect("there is a python3");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}
