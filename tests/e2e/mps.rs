//! Where an MPS daemon serves a card: no turns between tenants, nor between the processes of one, and a code that says so.
//!
//! The simulated driver has no MPS: what is judged is what the library and the daemon do when they find its pipe, or
//! NVML names its clients.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use divvy_page::reader::{GateEntry, UsageFile};
use serde_json::Value;

use crate::harness::{Divided, GIB, Machine, Talk, client, finish, until};

fn machine() -> Machine {
    Machine::new().with("SIMGPU_MODE", "calibrated")
}

/// A machine whose programs and daemon look for the pipe in a directory, and that.
fn with_pipe(machine: Machine) -> (Machine, PathBuf) {
    let place = machine.home().join("mps");
    std::fs::create_dir(&place).expect("a directory of the test's own");
    let machine = machine.with("CUDA_MPS_PIPE_DIRECTORY", place.display());
    (machine, place.join("control"))
}

fn usage(directory: &Path) -> UsageFile {
    let directory = CString::new(directory.as_os_str().as_bytes()).expect("no NUL inside");
    let usage = UsageFile::open(&directory).expect("it can be read");
    usage.expect("the tenant has a usage file")
}

fn told(divided: &Divided, arguments: &[&str]) -> Value {
    let told = finish(&mut divided.divvy(arguments));
    serde_json::from_str(&told.out).unwrap_or_default()
}

/// The test's own tenants in what a command tells: others of this user may be found in places that all share.
fn tenants(divided: &Divided, arguments: &[&str]) -> Vec<Value> {
    let tenants = told(divided, arguments)["tenants"].as_array().cloned().unwrap_or_default();
    let home = divided.machine.home();
    let is_own = |tenant: &Value| {
        tenant["directory"].as_str().is_some_and(|directory| Path::new(directory).starts_with(home))
    };
    tenants.into_iter().filter(is_own).collect()
}

/// Waits until what the daemon says of the device is as `is_so` wants it.
fn until_device(divided: &Divided, what: &str, is_so: impl Fn(&Value) -> bool) {
    until(what, || is_so(&told(divided, &["daemon", "--status", "--json"])["devices"][0]));
}

/// How many of the tenants that `ps` tells of have the code for a device of theirs.
fn named_by_ps(divided: &Divided) -> usize {
    let tenants = tenants(divided, &["ps", "--json"]);
    tenants.iter().filter(|tenant| tenant.to_string().contains("DV045")).count()
}

/// Two tenants that want all of the device.
fn two(divided: &Divided) -> [Talk; 2] {
    [(), ()].map(|()| {
        let talk = Talk::start(divided.tenant(&[], &client("pace")).arg("async_loop"));
        talk.line();
        talk
    })
}

/// What both have been counted for, and waited.
fn counted(divided: &Divided) -> Vec<(u64, u64)> {
    let tenants = tenants(divided, &["daemon", "--status", "--json"]);
    let directories = tenants.iter().filter_map(|tenant| tenant["directory"].as_str());
    let of = |GateEntry { launches, waited_ns, .. }: GateEntry| (launches, waited_ns);
    directories.map(|directory| of(usage(Path::new(directory)).gate_sum(0))).collect()
}

#[test]
fn tenants_take_no_turns_where_its_pipe_is() {
    let (machine, pipe) = with_pipe(machine());
    let divided = Divided::new(machine);
    let tenants = two(&divided);
    until_device(&divided, "turns are taken", |device| device["handovers"].as_u64() > Some(3));
    assert_eq!(named_by_ps(&divided), 0);

    std::fs::write(&pipe, "").expect("it can be written");
    until_device(&divided, "it is seen", |device| {
        device["reason"] == "DV045" && device["mode"] == "mps"
    });
    assert_eq!(named_by_ps(&divided), 2);
    // Gates that are free count nothing and let nobody wait; who waits just now may be counted once more.
    until("nobody waits", || {
        let before = counted(&divided);
        for tenant in tenants.iter().chain(&tenants) {
            tenant.newest_line();
        }
        before.len() == 2 && before == counted(&divided)
    });

    std::fs::remove_file(&pipe).expect("it can be removed");
    until_device(&divided, "it is gone", |device| device["reason"].is_null());
    let before = counted(&divided);
    until("turns are taken again", || {
        counted(&divided).iter().zip(&before).all(|(now, before)| now.0 > before.0)
    });
}

#[test]
fn tenants_take_no_turns_beside_clients_that_nvml_names() {
    let divided = Divided::new(machine().with("SIMGPU_NEIGHBOURS", "mps:3000072:1GiB:30"));
    let _tenants = two(&divided);
    until_device(&divided, "it is seen", |device| {
        device["reason"] == "DV045" && device["mode"] == "mps"
    });
    assert_eq!(named_by_ps(&divided), 2);
}

/// A tenant that is alone on its device is told as well, with a cap and without one: its clients take no turns either.
#[test]
fn a_lone_tenant_of_two_clients_is_told() {
    for share in [&["--compute", "50%"][..], &[]] {
        let (machine, pipe) = with_pipe(machine());
        std::fs::write(&pipe, "").expect("it can be written");
        let divided = Divided::new(machine);
        let server = Talk::start(divided.tenant(share, &client("workers")).arg("2"));
        server.line();
        until_device(&divided, "it is seen", |device| {
            device["reason"] == "DV045" && device["mode"] == "mps"
        });
        assert_eq!(named_by_ps(&divided), 1, "{share:?}");
    }
}

/// Whether a process of a tenant under a cap says that its work may wait for another's, where there is a pipe of
/// `owner`'s: such processes take no turns between them.
fn is_one_unit(owner: Option<u32>) -> bool {
    let (machine, pipe) = with_pipe(machine().limited(4 * GIB).with("DIVVY_COMPUTE", "50%"));
    if owner.is_some() {
        std::fs::write(&pipe, "").expect("it can be written");
        chown(&pipe, owner, None).expect("it can be given away");
    }
    let talk = Talk::start(&mut machine.scenario("pace", "sync_loop"));
    talk.line();
    let file = std::fs::read(machine.tenant().join("usage")).expect("it can be read");
    let at = divvy_abi::usage::gate_at(0, 1) + divvy_abi::usage::gate::JOINED;
    let word = file.get(at..at + 8).and_then(|word| word.try_into().ok()).expect("a word");
    u64::from_ne_bytes(word) != 0
}

#[test]
fn processes_of_a_tenant_take_no_turns_where_its_pipe_is() {
    assert!(!is_one_unit(None));
    assert!(is_one_unit(Some(divvy_page::effective_uid())));
}

/// A pipe that another user has laid there is nobody's reason to do without turns.
#[test]
fn anothers_pipe_is_not_believed() {
    if divvy_page::effective_uid() != 0 {
        println!("SKIPPED another user's pipe: only root can give files away");
        return;
    }
    assert!(!is_one_unit(Some(65534)));
}
