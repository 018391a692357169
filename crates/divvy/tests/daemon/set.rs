//! `divvy set`: a change is in effect in a tenant that runs, with a daemon and without.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use divvy_abi::usage::MemoryKind;
use divvy_policy::{limit, share};
use serde_json::Value;

use crate::fake::{Fake, MS, Root, take_turns, until};

fn json(root: &Root, arguments: &[&str]) -> Value {
    let output = root.run(arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn memory_below_what_is_held_is_set_and_said() {
    let root = Root::new("memory");
    let fake = Fake::idle(&root, "train", 1);
    fake.tenant.hold(fake.row, 3 << 30, MemoryKind::Block);
    let epoch = fake.tenant.config_epoch();
    let set = ["set", "train", "--memory", "2GiB", "--compute", "30%", "--json"];
    let report = json(&root, &set);
    assert_eq!((&report["memory"][0], &report["compute"][0]), (&"2GiB".into(), &"30%".into()));
    let note = report["notes"][0].as_str().unwrap();
    assert!(note.contains("stay held") && note.contains("2 GiB"), "{note}");
    assert_ne!(fake.tenant.config_epoch(), epoch);
    let config = fake.tenant.live_config().unwrap();
    let limit = limit::resolve(config.rules(), Some(0), &[1; 16], 1 << 34);
    assert_eq!((limit, config.any_gate), (Ok(Some(2 << 30)), 1));
    let listing = json(&root, &["ps", "--json"]);
    // The user may have others, from before.
    let tenants = listing["tenants"].as_array().unwrap();
    let device = &tenants.iter().find(|tenant| tenant["name"] == "train").unwrap()["devices"][0];
    assert_eq!(
        (&device["limit_bytes"], &device["share_ppm"]),
        (&(2_u64 << 30).into(), &300_000.into())
    );
}

/// Device time since `before`, in milliseconds: what each of the two was charged for its turns, and what
/// its kernels took.
fn time_ms(root: &Root, fakes: [&Fake; 2], before: [[f64; 2]; 2]) -> [[f64; 2]; 2] {
    let view = root.view().unwrap();
    let ms = |ns: u64| ns as f64 / MS as f64;
    let held = |fake: &Fake| {
        let directory = fake.directory.display().to_string();
        let tenants = view["tenants"].as_array().unwrap();
        let tenant = tenants.iter().find(|tenant| tenant["directory"] == directory).unwrap();
        ms(tenant["held_ns"].as_u64().unwrap())
    };
    let [heavy, light] = fakes;
    let now = [[held(heavy), held(light)], [heavy, light].map(|fake| ms(fake.used_ns()))];
    std::array::from_fn(|of| std::array::from_fn(|at| now[of][at] - before[of][at]))
}

/// What is waited for is device time: its division holds on a busy host. But who has nothing in flight
/// when its turn comes loses it, and whose turn nobody ends has more: that the host can do to either.
#[test]
fn a_weight_divides_the_time_anew() {
    let root = Root::new("weight");
    let (one, two) = (Fake::busy(&root, "heavy", 1), Fake::busy(&root, "light", 1));
    let fakes = [&one, &two];
    let _daemon = root.daemon(&[]);
    take_turns(&one, &two);
    json(&root, &["set", "heavy", "--weight", "900", "--json"]);
    let passed = |before, wanted_ms: f64| {
        let mut times = [[0.0; 2]; 2];
        until("turns are charged", || {
            // A look starts a process, which would take the host from those that are measured.
            std::thread::sleep(Duration::from_millis(100));
            times = time_ms(&root, fakes, before);
            times[0].iter().sum::<f64>() >= wanted_ms
        });
        times
    };
    let before = time_ms(&root, fakes, [[0.0; 2]; 2]);
    passed(before, 500.0);
    let host_ms = || {
        let all = [&one.late_ns, &two.starved_ns, &two.over_ns];
        all.map(|one| one.load(SeqCst) as f64 / MS as f64)
    };
    let (before, host_before) = (time_ms(&root, fakes, [[0.0; 2]; 2]), host_ms());
    let times = passed(before, 4000.0);
    let host = host_ms();
    let [heavy_late, light_starved, light_over] = [0, 1, 2].map(|at| host[at] - host_before[at]);
    let seen = format!(
        "held and used {times:?} ms, late {heavy_late} and starved {light_starved} ms, the light's turns over by \
         {light_over} ms"
    );
    println!("{seen}");
    for [heavy, light] in times {
        let all = heavy + light;
        let due = all - light_over;
        assert!(
            (heavy + heavy_late) / due > 0.84 && (heavy - light_starved) / all < 0.94,
            "{seen}"
        );
    }
}

#[test]
fn a_paused_tenant_stands_still_until_it_is_resumed() {
    let root = Root::new("pause");
    let (one, two) = (Fake::busy(&root, "a", 1), Fake::busy(&root, "b", 1));
    for with_daemon in [false, true] {
        let _daemon = with_daemon.then(|| root.daemon(&[]));
        let report = json(&root, &["set", "a", "--pause", "--json"]);
        assert_eq!(report["paused"], true);
        let before = one.launches();
        for _ in 0..20 {
            two.goes_on("the other goes on");
        }
        // One may have been under way.
        assert!(one.launches() <= before + 1, "{} and {before}", one.launches());
        let listing = json(&root, &["ps", "--json"]);
        let tenants = listing["tenants"].as_array().unwrap();
        let listed = tenants.iter().find(|tenant| tenant["name"] == "a").unwrap();
        assert_eq!(listed["devices"][0]["gate"], "paused");
        json(&root, &["set", "a", "--resume", "--json"]);
        one.goes_on("it goes on");
    }
}

/// The tenant's limit and cap on its one device.
fn holds(fake: &Fake) -> (Option<u64>, Option<u32>) {
    let config = fake.tenant.live_config().unwrap();
    let limit = limit::resolve(config.rules(), Some(0), &[1; 16], 1 << 34);
    (limit.unwrap(), share::resolve(config.compute_rules(), Some(0), &[1; 16]).unwrap())
}

#[test]
fn a_limit_for_every_device_holds_whatever_was_set_before() {
    let root = Root::new("every");
    let fake = Fake::idle(&root, "train", 1);
    // As `divvy top` writes it, which knows the device by its UUID.
    let uuid = limit::UuidText(&[1; 16]).to_string();
    for spec in [format!("{uuid}=2GiB"), "0=3GiB".to_owned()] {
        json(&root, &["set", "train", "--memory", &spec, "--json"]);
    }
    assert_eq!(holds(&fake).0, Some(3 << 30), "the last word about a device counts");
    let report = json(&root, &["set", "train", "--memory", "8GiB", "--compute", "30%", "--json"]);
    assert_eq!(holds(&fake), (Some(8 << 30), Some(300_000)));
    let device = &report["devices"][0];
    assert_eq!(
        (&device["limit_bytes"], &device["share_ppm"]),
        (&(8_u64 << 30).into(), &300_000.into())
    );
    assert_eq!((&device["index"], &device["total_bytes"]), (&0.into(), &(1_u64 << 34).into()));
}

#[test]
fn an_override_and_a_weight_are_taken_back() {
    let root = Root::new("back");
    let fake = Fake::idle(&root, "train", 1);
    json(&root, &["set", "train", "--memory", "8GiB,0=2GiB", "--compute", "40%", "--json"]);
    json(
        &root,
        &["set", "train", "--weight", "9", "--priority", "high", "--class", "latency", "--json"],
    );
    assert_eq!(holds(&fake), (Some(2 << 30), Some(400_000)));
    json(&root, &["set", "train", "--memory", "0=default", "--json"]);
    assert_eq!(holds(&fake).0, Some(8 << 30));
    let words = ["--weight", "--priority", "--class"].map(|option| [option, "default"]);
    let all = [
        &["set", "train", "--memory", "default", "--compute", "default", "--json"],
        words.as_flattened(),
    ];
    let report = json(&root, &all.concat());
    // It was started without any limit.
    assert_eq!(holds(&fake), (None, None));
    let shown = ["weight", "priority", "class"].map(|name| report[name].to_string());
    assert_eq!(shown, ["0", "\"normal\"", "\"normal\""]);
}

#[test]
fn a_device_is_named_as_ps_prints_it() {
    let root = Root::new("short");
    let fake = Fake::idle(&root, "train", 1);
    json(&root, &["set", "train", "--memory", "GPU-01010101=3GiB", "--json"]);
    assert_eq!(holds(&fake).0, Some(3 << 30));
    let output = root.run(&["set", "train", "--memory", "GPU-02=3GiB"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("GPU-01010101-0101-"), "{words}");
}

#[test]
fn a_limit_above_the_device_and_limits_above_it_in_sum_are_said() {
    let root = Root::new("above");
    let fakes = [Fake::idle(&root, "train", 1), Fake::idle(&root, "infer", 1)];
    let notes = |arguments: &[&str]| json(&root, arguments)["notes"].to_string();
    let above = notes(&["set", "train", "--memory", "500GiB", "--json"]);
    assert!(above.contains("500 GiB is above the 16 GiB of device 0"), "{above}");
    let sum = notes(&["set", "infer", "--memory", "1GiB", "--json"]);
    assert!(
        sum.contains("limits of 2 tenants add up to 17 GiB of the 16 GiB of device 0"),
        "{sum}"
    );
    let listing = String::from_utf8(root.run(&["ps"]).stdout).unwrap();
    assert!(listing.contains("note: the limits of 2 tenants add up to 17 GiB"), "{listing}");
    let listing = json(&root, &["ps", "--json"]);
    assert!(listing["notes"][0].as_str().unwrap().contains("add up"), "{listing}");
    let fits = notes(&["set", "train", "--memory", "15GiB", "--json"]);
    assert_eq!(fits, "[]");
    drop(fakes);
}

#[test]
fn what_cannot_be_set_changes_nothing_and_is_named() {
    let root = Root::new("refused");
    let fake = Fake::idle(&root, "train", 1);
    let epoch = fake.tenant.config_epoch();
    for (arguments, word) in [
        (&["set", "train", "--weight", "0"][..], "\"0\""),
        (&["set", "train", "--compute", "30"], "--compute 30"),
        (&["set", "train", "--memory", "abc"], "--memory abc"),
        (&["set", "train"], "nothing to change"),
        (&["set", "nobody", "--pause"], "train"),
        (&["set", "/nowhere", "--pause"], "/nowhere"),
        (&["set", "train", "--pause", "--resume"], "--resume"),
    ] {
        let output = root.run(arguments);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains(word), "{words}");
    }
    assert_eq!(fake.tenant.config_epoch(), epoch);
}

#[test]
fn a_cap_that_is_lifted_frees_launches_of_looking() {
    let root = Root::new("lifted");
    let fake = Fake::idle(&root, "train", 1);
    let _daemon = root.daemon(&[]);
    let any = || fake.tenant.any_gate().load();
    json(&root, &["set", "train", "--compute", "30%", "--json"]);
    assert_eq!(any(), 1);
    json(&root, &["set", "train", "--compute", "0", "--json"]);
    until("nothing is looked at any more", || any() == 0);
}
