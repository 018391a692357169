//! A tenant made of files, with the library's own words, for tests of what is seen of it: this process is its only member.

#[path = "../asked/mod.rs"]
mod asked;

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output};
use std::time::{Duration, Instant};

use asked::divvy;
use divvy_abi::config::Config;
use divvy_abi::usage::MemoryKind;
use divvy_page::reader::write_config;
use divvy_page::{ConfigSource, Directory, NewDevice, Tenant};
use divvy_policy::gate::Words as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) const MIB: u64 = 1 << 20;
/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A tenant that holds a block, and a place for what commands leave.
pub(crate) struct Scene {
    pub(crate) base: PathBuf,
    _tenant: Tenant,
}

impl Scene {
    pub(crate) fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("divvy-seen-{name}-{}", std::process::id()));
        let directory = base.join("tenants/one");
        std::fs::create_dir_all(&directory).unwrap();
        let path = std::ffi::CString::new(directory.as_os_str().as_bytes()).unwrap();
        let mut config = Config::default();
        for (to, from) in config.name.iter_mut().zip(b"seen-one") {
            *to = *from;
        }
        write_config(&Directory::open(&path).unwrap(), &config).unwrap();
        let tenant = Tenant::attach(&path, &ConfigSource::Owner).unwrap();
        let device = NewDevice {
            uuid: [9; 16],
            index: Some(5),
            total_bytes: 1 << 34,
            limit_bytes: None,
            name: b"card",
        };
        let row = tenant.device_row(&device).unwrap();
        assert_eq!(tenant.ask(row, 3 * MIB, MemoryKind::Block, None), Ok(()));
        tenant.share(row).unwrap().add_used(2_500_000_000);
        Self { base, _tenant: tenant }
    }

    pub(crate) fn divvy(&self, arguments: &[&str]) -> Command {
        divvy(&self.base, arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.divvy(arguments).output().unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// Ends a daemon with the test.
pub(crate) struct Ends(pub(crate) Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until `is_so`; panics with `what` when that never comes.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// Waits for the end.
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let mut status = None;
    until("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}
