//! A limit by index is for the machine's device of that index, in NVML's order, however CUDA numbers what a program
//! sees, with NVML and without, in every process of a tenant, and whoever wrote the limit.
//!
//! The machine's last device is the fastest, so that CUDA's own order is the other way round; each has a limit of its own.

use std::collections::BTreeMap;
use std::process::Command;

use crate::harness::{Finished, MIB, Machine, best_of_three, client, finish, stage};

/// Limits of the devices in MiB, by the last byte of their UUID, which is their index.
const LIMITS_MIB: [u64; 3] = [1024, 2048, 3072];
const RULES: &str = "0=1GiB,1=2GiB,2=3GiB";

/// Lists that a program may be given, and the devices it sees then by CUDA's order and by that of the bus.
const VISIBLE: &[(Option<&str>, &[usize], &[usize])] = &[
    (None, &[2, 1, 0], &[0, 1, 2]),
    (Some("0"), &[2], &[0]),
    (Some("1,0"), &[1, 2], &[1, 0]),
    (Some("2"), &[0], &[2]),
    (Some("2,0,1"), &[0, 2, 1], &[2, 0, 1]),
    (Some("0,9,1"), &[2], &[0]),
    (Some("1,-1,0"), &[1], &[1]),
    (Some("GPU-0b"), &[1], &[1]),
    (Some("GPU-0c0c0c0c-0000-0000-0000-000000000002,GPU-0a"), &[2, 0], &[2, 0]),
    (Some(""), &[], &[]),
    (Some("-1"), &[], &[]),
    (Some("1,1"), &[], &[]),
];

fn machine() -> Machine {
    Machine::new()
        .with("SIMGPU_DEVICES", 3)
        .with("SIMGPU_SPEED", "50,80,100")
        .with("SIMGPU_UUID_0", "GPU-0a0a0a0a-0000-0000-0000-000000000000")
        .with("SIMGPU_UUID_1", "GPU-0b0b0b0b-0000-0000-0000-000000000001")
        .with("SIMGPU_UUID_2", "GPU-0c0c0c0c-0000-0000-0000-000000000002")
}

/// A machine limited by variables alone, in a tenant of its own.
fn by_variables(name: &str) -> Machine {
    let machine = machine();
    let cache = machine.home().join(format!("{name}.cache"));
    machine.with("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache.display())
}

/// Memory that each device has, in the order of the program's numbers.
fn told(finished: &Finished) -> Vec<(usize, u64)> {
    assert_eq!(finished.code(), Some(0), "{finished}");
    let line = |line: &str| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("three words");
        let device = usize::from_str_radix(word(), 16).expect("a device");
        let (limit, got) = (word().parse().expect("MiB"), word().parse::<u64>().expect("MiB"));
        assert!(got <= limit && got + 600 > limit, "what can be had is the limit\n{finished}");
        (device, limit)
    };
    finished.out.lines().map(line).collect()
}

fn wanted(devices: &[usize]) -> Vec<(usize, u64)> {
    devices.iter().map(|device| (*device, LIMITS_MIB[*device])).collect()
}

/// Plays the client in every order, with NVML and without, for the lists that `some` takes.
fn every_way(command: impl Fn(&str) -> Command, some: impl Fn(usize) -> bool) {
    let lists = VISIBLE.iter().enumerate().filter(|(at, _)| some(*at));
    for (at, (visible, by_speed, by_bus)) in lists {
        for (order, seen) in
            [(None, by_speed), (Some("FASTEST_FIRST"), by_speed), (Some("PCI_BUS_ID"), by_bus)]
        {
            let scenario = if at % 2 == 0 { "without_nvml" } else { "with_nvml_first" };
            let mut command = command(scenario);
            command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("CUDA_DEVICE_ORDER");
            command.envs(visible.map(|list| ("CUDA_VISIBLE_DEVICES", list)));
            command.envs(order.map(|order| ("CUDA_DEVICE_ORDER", order)));
            let finished = finish(&mut command);
            let words = format!("{visible:?} {order:?} {scenario}\n{finished}");
            assert_eq!(told(&finished), wanted(seen), "{words}");
        }
    }
}

#[test]
fn variables_mean_the_machines_devices() {
    let machine = by_variables("own").with("DIVVY_MEMORY", RULES);
    every_way(|scenario| machine.scenario("numbered", scenario), |_| true);
}

#[test]
fn hamis_variables_mean_the_machines_devices() {
    let mut machine = by_variables("hami");
    for (index, mib) in LIMITS_MIB.iter().enumerate() {
        machine = machine.with(&format!("CUDA_DEVICE_MEMORY_LIMIT_{index}"), format!("{mib}m"));
    }
    every_way(|scenario| machine.scenario("numbered", scenario), |at| at < 5);
}

#[test]
fn options_mean_the_machines_devices() {
    let machine = machine().native();
    let run = |scenario: &str| {
        let mut command = machine.divvy(&["run", "--no-daemon", "--memory", RULES, "--"]);
        command.arg(client("numbered")).arg(scenario);
        command
    };
    every_way(run, |_| true);
}

#[test]
fn a_change_means_the_machines_devices() {
    let machine = machine().native();
    let script = format!(
        "divvy set t --memory 2=3GiB >&2 && divvy set t --memory 1=2GiB,0=1GiB >&2 && \
         for v in 0 1,2 GPU-0a; do CUDA_VISIBLE_DEVICES=$v {} without_nvml; done",
        client("numbered").display()
    );
    let mut command = machine.divvy(&["run", "--no-daemon", "-n", "t", "--memory", "0=4GiB"]);
    let path = format!("{}:/usr/bin:/bin", stage().join("bin").display());
    let finished = finish(command.env("PATH", path).args(["--", "sh", "-c", &script]));
    assert_eq!(told(&finished), wanted(&[2, 1, 0, 0]), "{finished}");
}

#[test]
fn processes_of_a_tenant_agree() {
    let machine = by_variables("two").with("DIVVY_MEMORY", RULES);
    // The first stays, so that its limits are the tenant's.
    let script = format!(
        "{0} without_nvml; CUDA_VISIBLE_DEVICES=1 {0} with_nvml_first; \
         CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2,1 {0} without_nvml",
        client("numbered").display()
    );
    let finished = finish(machine.command("/bin/sh").args(["-c", &script]));
    assert_eq!(told(&finished), wanted(&[2, 1, 0, 1, 2, 1]), "{finished}");
}

#[test]
fn an_index_that_cannot_be_learnt_is_refused() {
    let machine = by_variables("none").with("DIVVY_MEMORY", RULES);
    let without = machine.home().join("without");
    std::fs::create_dir(&without).expect("a directory of the test's own");
    let cuda = "libcuda.so.1";
    std::os::unix::fs::symlink(stage().join("sim").join(cuda), without.join(cuda)).expect("a link");
    let machine = machine.with("LD_LIBRARY_PATH", without.display());
    let mut hidden = machine.scenario("numbered", "without_nvml");
    let finished = finish(hidden.env("CUDA_VISIBLE_DEVICES", "1,0"));
    let refused: Vec<_> = finished.out.lines().filter(|line| line.ends_with(" 0")).collect();
    assert_eq!(refused.len(), 2, "nothing is granted\n{finished}");
    for word in ["DV203", "GPU-0b0b0b0b-", "libnvidia-ml.so.1", "by UUID"] {
        assert!(finished.err.contains(word), "{word}\n{finished}");
    }
    // Where nothing can be hidden the bus tells.
    let finished = finish(&mut machine.scenario("numbered", "without_nvml"));
    assert_eq!(told(&finished), wanted(&[2, 1, 0]), "{finished}");
}

#[test]
fn an_instance_goes_by_the_limits_of_its_card() {
    let machine = by_variables("instance")
        .with("SIMGPU_MIG_1", "1g.2gb")
        .with("SIMGPU_MIG_2", "1g.2gb,2g.4gb")
        .with("DIVVY_MEMORY", "0=1GiB,1=1500MiB,2=700MiB");
    let uuid = |card: u32, number: u32| {
        format!(
            "MIG-0{0}0{0}0{0}0{0}-0000-0000-0000-0000000{number:03x}0{card}",
            ["a", "b", "c"][card as usize]
        )
    };
    for (visible, mib) in [(uuid(1, 1), 1500), (uuid(2, 1), 700), (uuid(2, 2), 700)] {
        let mut command = machine.scenario("numbered", "without_nvml");
        let finished = finish(command.env("CUDA_VISIBLE_DEVICES", &visible));
        let limits: Vec<u64> = told(&finished).into_iter().map(|(_, mib)| mib).collect();
        assert_eq!(limits, [mib], "{visible}\n{finished}");
    }
}

/// How much a program got done on each device, by the last byte of its UUID.
fn paces(command: &mut Command) -> BTreeMap<usize, u64> {
    let finished = finish(command);
    assert_eq!(finished.code(), Some(0), "{finished}");
    let line = |line: &str| {
        let (device, done) = line.split_once(' ').expect("two words");
        let device = usize::from_str_radix(device, 16).expect("a device");
        (device, done.parse().expect("a number"))
    };
    finished.out.lines().map(line).collect()
}

/// The device `capped` is slower than the others. A busy host may slow one of them down for a moment.
fn is_slow(capped: usize, mut start: impl FnMut() -> Command) {
    best_of_three(&format!("device {capped} is the slow one"), || {
        let paces = paces(&mut start());
        let (slow, fast) = paces.iter().partition::<Vec<_>, _>(|(device, _)| **device == capped);
        let is_slower = |other: &(&usize, &u64)| slow[0].1 * 3 < *other.1;
        let is_right = slow.len() == 1 && fast.iter().all(is_slower);
        let wrong = (!is_right).then(|| ("paces".to_owned(), format!("{paces:?}")));
        wrong.into_iter().collect()
    });
}

#[test]
fn caps_mean_the_machines_devices() {
    let calibrated = || {
        let machine = by_variables("caps").with("SIMGPU_MODE", "calibrated");
        machine.with("SIMGPU_MEMORY", 16 * 1024 * MIB)
    };
    let machine = calibrated();
    let visible = "CUDA_VISIBLE_DEVICES";
    let scenario = |pairs: &[(&str, &str)]| {
        let mut command = machine.scenario("numbered", "pace");
        command.envs(pairs.iter().copied());
        command
    };
    is_slow(2, || scenario(&[("DIVVY_COMPUTE_2", "10%"), (visible, "1,0")]));
    is_slow(0, || scenario(&[("CUDA_DEVICE_SM_LIMIT_0", "10")]));
    let native = calibrated().native();
    is_slow(1, || {
        let mut command = native.divvy(&["run", "--no-daemon", "--compute", "1=10%", "--"]);
        command.arg(client("numbered")).arg("pace").env(visible, "0,1");
        command
    });
}
