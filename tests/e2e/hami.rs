//! HAMi-core's contract: its variables, its grammar read strictly, its file names kept clear of.

use std::fs;

use crate::harness::{Finished, GIB, MIB, Machine, Running, finish, stage};
use crate::life::wait_for;

/// A machine limited by HAMi's variables alone.
fn hami(limit: &str) -> Machine {
    let machine = Machine::new();
    let cache = machine.home().join("pod_container.cache");
    machine
        .with("CUDA_DEVICE_MEMORY_LIMIT", limit)
        .with("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache.display())
}

#[test]
fn sizes_mean_what_they_say() {
    let sizes = [
        ("1g", GIB),
        ("1G", GIB),
        ("1GB", GIB),
        ("1Gi", GIB),
        ("1GiB", GIB),
        ("1024m", GIB),
        ("3000m", 3000 * MIB),
        ("1.5g", GIB + GIB / 2),
        ("1048576k", GIB),
        ("10GB", 10 * GIB),
        ("4Gi", 4 * GIB),
        ("2147483648", 2 * GIB),
        ("50%", 8 * GIB),
    ];
    for (text, bytes) in sizes {
        let machine = hami(text).with("EXPECT_LIMIT", bytes).with("SIMGPU_MEMORY", 16 * GIB);
        let finished = finish(&mut machine.scenario("answer", "total_is_the_limit"));
        assert_eq!(finished.code(), Some(0), "{text}\n{finished}");
    }
}

#[test]
fn nonsense_is_refused_in_words() {
    for text in ["abc", "-1", "010g", "1x", "1 g", "", "99999999999999999999g", "1e3", "1,5g"] {
        let machine = hami(text).with("EXPECT_LIMIT", GIB);
        let finished = finish(&mut machine.scenario("under", "trouble"));
        assert_eq!(finished.code(), Some(0), "{text}\n{finished}");
        assert_eq!(finished.out.trim(), "refused", "{text:?} never means unlimited\n{finished}");
        assert!(
            finished.err.contains(text) && finished.err.contains("CUDA_DEVICE_MEMORY_LIMIT"),
            "{text:?}: variable and value are named\n{finished}"
        );
    }
}

#[test]
fn a_device_of_its_own_limit() {
    let machine = hami("3g")
        .with("SIMGPU_DEVICES", 2)
        .with("CUDA_DEVICE_MEMORY_LIMIT_0", "1g")
        .with("CUDA_DEVICE_MEMORY_LIMIT_1", "2g");
    let finished = finish(&mut machine.scenario("devices", "limits_by_index"));
    assert_eq!(finished.code(), Some(0), "{finished}");
}

#[test]
fn our_own_variable_comes_first() {
    let machine = hami("3g").with("DIVVY_MEMORY", "1g").with("EXPECT_LIMIT", GIB);
    let finished = finish(&mut machine.scenario("answer", "total_is_the_limit"));
    assert_eq!(finished.code(), Some(0), "{finished}");
}

#[test]
fn a_variable_that_only_begins_as_ours_is_another() {
    // It neither limits nor takes the limit of the peer's variable away.
    let machine = hami("3g").with("DIVVY_MEMORYS", "1g").with("EXPECT_LIMIT", 3 * GIB);
    let finished = finish(&mut machine.scenario("answer", "total_is_the_limit"));
    assert_eq!(finished.code(), Some(0), "{finished}");
}

#[test]
fn a_forgotten_unit_is_refused_in_our_own_variable() {
    let machine = hami("3g").with("DIVVY_MEMORY", "8").with("EXPECT_LIMIT", GIB);
    let finished = finish(&mut machine.scenario("under", "trouble"));
    assert_eq!((finished.code(), finished.out.trim()), (Some(0), "refused"), "{finished}");
    assert!(
        finished.err.contains("DIVVY_MEMORY: \"8\"") && finished.err.contains("8GiB"),
        "{finished}"
    );
}

#[test]
fn the_shared_cache_only_names_the_tenant() {
    let machine = hami("2g").with("EXPECT_LIMIT", 2 * GIB);
    let finished = finish(&mut machine.scenario("answer", "total_is_the_limit"));
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert!(!machine.home().join("pod_container.cache").exists(), "that file is HAMi's monitor's");
    let tenant = machine.home().join(".divvy/pod_container");
    for file in ["usage", "config"] {
        let path = tenant.join(file);
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_ne!(bytes.get(..4), Some(19_920_718_u32.to_le_bytes().as_slice()), "HAMi's magic");
    }
    let caches = walk(machine.home()).into_iter().filter(|name| name.ends_with(".cache")).count();
    assert_eq!(caches, 0, "no file of ours looks like HAMi's");
}

#[test]
fn the_plugins_word_lets_memory_leave_the_card() {
    // Each with what is said of its memory, if it may leave.
    let tries: [(&[(&str, &str)], bool); 5] = [
        (&[("CUDA_OVERSUBSCRIBE", "true")], true),
        (&[("CUDA_OVERSUBSCRIBE", "1"), ("DIVVY_OVERSUBSCRIBE", "")], true),
        (&[("CUDA_OVERSUBSCRIBE", "false")], false),
        (&[("CUDA_OVERSUBSCRIBE", "true"), ("DIVVY_OVERSUBSCRIBE", "false")], false),
        (&[("CUDA_OVERSUBSCRIBE", "nonsense"), ("DIVVY_OVERSUBSCRIBE", "true")], true),
    ];
    for (variables, leaves) in tries {
        let machine =
            variables.iter().fold(hami("2g"), |machine, (name, word)| machine.with(name, word));
        let mut command = machine.scenario("answer", "stay");
        let mut program = Running::start(command.env("STAY_BYTES", (64 * MIB).to_string()));
        wait_for(&machine, 64 * MIB);
        let mut freeze = machine.command(stage().join("bin/divvy"));
        freeze
            .env_remove("LD_PRELOAD")
            .arg("freeze")
            .arg(machine.home().join(".divvy/pod_container"));
        let frozen = finish(&mut freeze);
        program.kill();
        let _ = program.finish();
        assert_eq!(frozen.code(), Some(if leaves { 0 } else { 2 }), "{variables:?}\n{frozen}");
    }
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        names.push(entry.file_name().to_string_lossy().into_owned());
        if entry.path().is_dir() {
            names.extend(walk(&entry.path()));
        }
    }
    names
}

fn total(machine: &Machine, limit: &str, bytes: u64) -> Finished {
    let mut command = machine.scenario("answer", "total_is_the_limit");
    command.env("CUDA_DEVICE_MEMORY_LIMIT", limit).env("EXPECT_LIMIT", bytes.to_string());
    finish(&mut command)
}

#[test]
fn limits_are_read_again_when_the_tenant_starts_anew() {
    let machine = hami("1g");
    for (limit, bytes) in [("1g", GIB), ("2g", 2 * GIB), ("1500m", 1500 * MIB)] {
        let finished = total(&machine, limit, bytes);
        assert_eq!(finished.code(), Some(0), "{limit}\n{finished}");
    }
    // While one lives, the tenant's limit is what it started with.
    let mut command = machine.scenario("answer", "stay");
    command.env("CUDA_DEVICE_MEMORY_LIMIT", "3g").env("STAY_BYTES", (64 * MIB).to_string());
    let mut first = Running::start(&mut command);
    wait_for(&machine, 64 * MIB);
    let second = total(&machine, "1g", 3 * GIB);
    first.kill();
    let _ = first.finish();
    assert_eq!(second.code(), Some(0), "{second}");
}

#[test]
fn a_changed_limit_goes_back_to_what_the_variables_say_now() {
    let machine = hami("1g").native();
    let tenant = machine.home().join(".divvy/pod_container");
    let set = |memory: &str| {
        let mut command = machine.command(stage().join("bin/divvy"));
        finish(command.arg("set").arg(&tenant).args(["--memory", memory]))
    };
    // The second time the tenant starts anew, in the same files.
    for (limit, words) in [("1g", "memory 1GiB;"), ("2g", "memory 2GiB;")] {
        let mut command = machine.scenario("answer", "stay");
        command.env("LD_PRELOAD", stage().join("lib/libdivvy.so"));
        command.env("CUDA_DEVICE_MEMORY_LIMIT", limit).env("STAY_BYTES", (64 * MIB).to_string());
        let mut program = Running::start(&mut command);
        wait_for(&machine, 64 * MIB);
        for (memory, now) in [("4g", "memory 4GiB;"), ("0=3g", "0=3GiB;"), ("default", words)] {
            let said = set(memory);
            assert!(said.code() == Some(0) && said.out.contains(now), "{limit}: {said}");
        }
        program.kill();
        let _ = program.finish();
    }
}

#[test]
fn log_levels_are_hamis() {
    // Level 0 is errors alone; a working program has none, and is told of nothing.
    let machine = hami("2g").with("LIBCUDA_LOG_LEVEL", 0).with("EXPECT_LIMIT", 2 * GIB);
    let mut command = machine.scenario("blocks", "alloc_is_charged");
    let finished = finish(command.env_remove("DIVVY_LOG"));
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert_eq!(finished.err, "");
    let mut command = machine.scenario("blocks", "refusal_leaves_nothing");
    let finished = finish(command.env("DIVVY_LOG", "off"));
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert_eq!(finished.err, "");
    let mut command = machine.scenario("blocks", "refusal_leaves_nothing");
    let finished = finish(command.env_remove("DIVVY_LOG"));
    assert!(finished.err.lines().count() <= 2, "a thousand refusals are told once\n{finished}");
}

#[test]
fn visible_devices_are_the_drivers_business() {
    // The limit holds and NVML tells the same, whichever device is visible, by index or by UUID.
    for visible in ["1", "1,0", "0"] {
        let machine = hami("2g")
            .with("SIMGPU_DEVICES", 2)
            .with("CUDA_VISIBLE_DEVICES", visible)
            .with("EXPECT_LIMIT", 2 * GIB);
        let finished =
            finish(&mut machine.scenario("devices", "nvml_and_driver_mean_the_same_device"));
        assert_eq!(finished.code(), Some(0), "{visible}\n{finished}");
    }
}

#[test]
fn a_user_replaces_the_file_and_nothing_else() {
    let machine = hami("2g").with("EXPECT_LIMIT", 2 * GIB);
    let library = machine.home().join("libvgpu.so");
    fs::copy(stage().join("lib/libdivvy.so"), &library).expect("the library can be copied");
    let mut command = machine.scenario("blocks", "limit_is_exact");
    let finished = finish(command.env("LD_PRELOAD", &library).env("CUDA_REDIRECT", &library));
    assert_eq!(finished.code(), Some(0), "{finished}");
}
