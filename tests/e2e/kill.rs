//! Death at any moment: what is left is the sum of the living, and nobody waits.

use std::time::{Duration, Instant};

use crate::harness::{GIB, MIB, Machine, Running, Soaking, client, finish, stage};

/// Calls at which a process is killed, before and after the driver has done its work.
const MOMENTS: [(&str, &str, &str); 22] = [
    ("cuInit", "blocks", "alloc_is_charged"),
    ("cuDevicePrimaryCtxRetain", "context", "primary_is_charged_once"),
    ("cuDevicePrimaryCtxRelease_v2", "context", "primary_release_gives_back"),
    ("cuCtxCreate_v2", "context", "created_is_charged"),
    ("cuCtxDestroy_v2", "context", "destroy_frees_its_blocks"),
    ("cuCtxSetLimit", "context", "heap_limit_is_charged"),
    ("cuMemAlloc_v2", "blocks", "alloc_is_charged"),
    ("cuMemFree_v2", "blocks", "free_gives_back"),
    ("cuMemAllocPitch_v2", "blocks", "pitched_memory_is_charged"),
    ("cuMemAllocManaged", "blocks", "managed_memory_is_charged_in_full"),
    ("cuMemAllocAsync", "pool", "free_async_gives_back"),
    ("cuMemFreeAsync", "pool", "free_async_gives_back"),
    ("cuMemPoolTrimTo", "pool", "trim_gives_back"),
    ("cuMemPoolDestroy", "pool", "destroyed_pool_gives_back"),
    ("cuMemCreate", "vmm", "release_gives_back"),
    ("cuMemMap", "vmm", "unmap_gives_back"),
    ("cuMemRelease", "vmm", "unmap_gives_back"),
    ("cuMemUnmap", "vmm", "unmap_gives_back"),
    ("cuArray3DCreate_v2", "array", "array_is_charged"),
    ("cuArrayDestroy", "array", "array_is_charged"),
    ("cuModuleLoadData", "module", "globals_are_charged"),
    ("cuGraphLaunch", "graph", "launched_nodes_are_charged"),
];

#[test]
fn killed_at_every_call_leaves_nothing() {
    let machine = Machine::new().limited(4 * GIB);
    for (call, program, scenario) in MOMENTS {
        for moment in ["kill-before", "kill-after"] {
            let fault = format!("{call}@1={moment}");
            let finished = finish(machine.scenario(program, scenario).env("SIMGPU_FAULTS", &fault));
            assert_eq!(finished.signal(), Some(9), "{fault}\n{finished}");
            let after = machine.plays("life", "nothing_but_a_context");
            assert!(
                after.took < Duration::from_secs(5),
                "{fault}: the next waited {:?}",
                after.took
            );
        }
    }
}

/// What `divvy ps` says the tenant of `machine` holds, as JSON and on the metrics page.
fn shown_bytes(machine: &Machine) -> (u64, String) {
    let home = machine.home().display().to_string();
    let told = |as_what: &str| {
        let mut command = machine.command(stage().join("bin/divvy"));
        command.env_remove("LD_PRELOAD").args(["ps", "--root", &home, as_what]);
        finish(&mut command).out
    };
    let listing: serde_json::Value = serde_json::from_str(&told("--json")).expect("JSON");
    let tenants = listing["tenants"].as_array().expect("a list");
    let ours = |tenant: &&serde_json::Value| {
        tenant["directory"].as_str().is_some_and(|directory| directory.starts_with(&home))
    };
    let tenant = tenants.iter().find(ours).expect("the tenant");
    let page = told("--openmetrics");
    let held = "divvy_tenant_memory_held_bytes{";
    let line = page.lines().find(|line| line.starts_with(held) && line.contains(&home));
    let line = line.unwrap_or_default().rsplit(' ').next().unwrap_or_default().to_owned();
    (tenant["devices"][0]["held_bytes"].as_u64().unwrap_or(0), line)
}

/// Nobody of the tenant asks for memory after the kill, so nobody has freed what the dead held.
#[test]
fn what_the_killed_held_is_shown_no_more() {
    let context = 518 * MIB;
    let machine = Machine::new().limited(8 * GIB);
    let start = |bytes: u64| {
        let mut command = machine.scenario("under", "stay");
        Running::start(command.env("STAY_BYTES", bytes.to_string()))
    };
    let (mut first, mut second) = (start(3 * GIB), start(GIB));
    let give_up = Instant::now() + Duration::from_secs(60);
    while !machine.tenant().exists() || shown_bytes(&machine).0 < 4 * GIB + 2 * context {
        assert!(Instant::now() < give_up, "both are there: {:?}", shown_bytes(&machine));
    }
    for (killed, left) in [(&mut first, GIB + context), (&mut second, 0)] {
        killed.kill();
        while !killed.ended() {}
        assert_eq!(shown_bytes(&machine), (left, left.to_string()));
    }
    for ended in [first, second] {
        let _ = ended.finish();
    }
}

/// A small generator, so that a run can be repeated.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn random_kills_leave_nothing() {
    let wanted: u64 =
        std::env::var("DIVVY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(500);
    let budget = if wanted > 500 { Duration::from_secs(3600) } else { Duration::from_secs(60) };
    let machine = Machine::new().limited(14 * GIB).with("DIVVY_LOG", "error");
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut seed = 0_u64;
    let mut start = || {
        seed += 1;
        Running::start(machine.command(client("churn")).arg(seed.to_string()))
    };
    let mut churners: Vec<Running> = (0..16).map(|_| start()).collect();
    let since = Instant::now();
    let mut kills = 0_u64;
    let mut soaking = Soaking::new("kills", wanted);
    while kills < wanted && since.elapsed() < budget {
        std::thread::sleep(Duration::from_millis(chance.below(20)));
        let victim = usize::try_from(chance.below(16)).expect("below 16");
        let mut old = std::mem::replace(&mut churners[victim], start());
        assert!(!old.ended(), "a churner ended by itself:\n{}", old.finish());
        old.kill();
        let finished = old.finish();
        assert_eq!(finished.signal(), Some(9), "{finished}");
        kills += 1;
        soaking.note(kills, kills as f64 / wanted as f64);
    }
    for churner in &mut churners {
        churner.kill();
    }
    for churner in churners {
        let _ = churner.finish();
    }
    let rest = machine.plays("life", "nothing_but_a_context");
    let (longest, among_none) = longest_call_ms(&machine);
    machine.all_was_simulated();
    println!(
        "{kills} kills in {:?}; longest call afterwards {longest} ms, and {among_none} ms where nobody has died",
        since.elapsed()
    );
    if let Some(path) = std::env::var_os("DIVVY_RESULT") {
        let text = format!(
            "{{\"kills\": {kills}, \"seconds\": {:.1}, \"processes\": 16, \"left_bytes\": 0, \
             \"next_start_ms\": {}, \"longest_call_ms\": {longest}}}\n",
            since.elapsed().as_secs_f64(),
            rest.took.as_millis()
        );
        std::fs::write(path, text).expect("DIVVY_RESULT can be written");
    }
    let late = longest - among_none;
    assert!(
        late <= 100.0,
        "a call waited {longest} ms on the remains of the dead, {among_none} ms without"
    );
}

/// One process alone in the tenant of the dead, and in one in which nobody has died, by turns: how long did its longest
/// call take? The machine may be busy with something else, so the best of three is what the dead are blamed for, and
/// no more of it than is beyond the other's.
fn longest_call_ms(machine: &Machine) -> (f64, f64) {
    let untouched = Machine::new().limited(14 * GIB).with("DIVVY_LOG", "error");
    let longest = |machine: &Machine| -> f64 {
        let finished = finish(machine.command(client("churn")).args(["77", "200"]));
        assert_eq!(finished.code(), Some(0), "{finished}");
        finished.out.trim().parse().expect("churn prints milliseconds")
    };
    (0..3).fold((f64::INFINITY, f64::INFINITY), |(dead, none), _| {
        (longest(machine).min(dead), longest(&untouched).min(none))
    })
}
