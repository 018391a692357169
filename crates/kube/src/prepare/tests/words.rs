//! Answers and files: what a container gets of a claim.

use std::collections::BTreeSet;

use super::super::plan;
use super::super::{CardLimits, PrepareReason};
use super::*;

#[test]
fn the_cards_own_device_comes_first_and_ours_after_it() {
    let node = FakeNode::new("devices");
    let mut both = claim("a");
    both.shares = vec![share("x", B, "s"), share("y", A, "t"), share("x", A, "u")];
    let [shares] = &prepared(&node.core(), std::slice::from_ref(&both))[..] else { panic!() };
    let plan = plan::of(&both, None).unwrap();
    let devices: Vec<_> = shares.iter().map(|share| share.cdi_devices.clone()).collect();
    let expected = |uuid: &str, request: &str| {
        vec![format!("nvidia.com/gpu={uuid}"), format!("divvy.dev/share={}", plan[request].id)]
    };
    assert_eq!(devices, [expected(B, "x"), expected(A, "y"), expected(A, "x")]);
    assert_eq!(shares[0].share_id.as_deref(), Some("s"));
}

#[test]
fn mounts_are_those_of_the_command_and_the_tenants_directory() {
    let node = FakeNode::new("mounts");
    let mut file = claim("a");
    file.config.push(parameters(ParametersOf::Class, &json!({ "preload": "file" })));
    prepared(&node.core(), &[file, claim("b")]);
    let golden = include_str!("../../../../divvy/tests/golden/cdi-memory.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let places = |spec: &Value| -> Vec<Value> {
        let mounts = spec["devices"][0]["containerEdits"]["mounts"].as_array().unwrap();
        mounts.iter().map(|it| json!([it["containerPath"], it["options"]])).collect()
    };
    let ids = Vec::from_iter(node.ids());
    let [with, without] = &ids[..] else { panic!("{ids:?}") };
    let command = places(&golden);
    for (id, is_file) in [(with, true), (without, false)] {
        let spec = node.spec(id);
        assert_eq!(spec["cdiVersion"], golden["cdiVersion"]);
        assert_eq!(spec["kind"], "divvy.dev/share");
        let tenant = "/run/divvy/tenant";
        let own = json!([tenant, command[2][1]]);
        let edits = &spec["devices"][0]["containerEdits"];
        let (mounts, env) = (places(&spec), &edits["env"]);
        let host = |at: usize| edits["mounts"][at]["hostPath"].as_str().unwrap().to_owned();
        assert_eq!(host(0), node.places.library.display().to_string());
        assert_eq!(host(mounts.len() - 1), format!("/run/divvy/by-id/0/{id}"));
        if is_file {
            assert_eq!(mounts, [command[0].clone(), command[1].clone(), own]);
            assert_eq!(env, &json!([format!("DIVVY_TENANT={tenant}")]));
            assert_eq!(std::fs::read_to_string(host(1)).unwrap(), "/usr/local/divvy/libdivvy.so\n");
        } else {
            assert_eq!(mounts, [command[0].clone(), own]);
            let preload = "LD_PRELOAD=/usr/local/divvy/libdivvy.so";
            assert_eq!(env, &json!([format!("DIVVY_TENANT={tenant}"), preload]));
        }
    }
}

#[test]
fn limits_are_what_the_shares_of_a_request_have_together() {
    let mut claim = claim("a");
    claim.shares =
        vec![share("x", B, "s"), share("x", A, "t"), share("x", B, "u"), share("y", A, "v")];
    claim.shares[3].cores_percent = 100;
    let class = json!({ "burst": { "cores": "45" }, "priority": "high", "class": "latency",
        "oversubscribe": true });
    claim.config.push(parameters(ParametersOf::Class, &class));
    claim.config.push(parameters(ParametersOf::Claim, &json!({ "priority": "low" })));
    let plan = plan::of(&claim, None).unwrap();
    let card = |uuid: &str, memory_bytes, share_ppm| CardLimits {
        uuid: uuid.to_owned(),
        memory_bytes,
        share_ppm,
    };
    let x = &plan["x"].limits;
    assert_eq!(x.devices, [card(A, 8 << 30, 450_000), card(B, 16 << 30, 600_000)]);
    assert_eq!((x.weight, &*x.priority, &*x.class, x.oversubscribe), (30, "low", "latency", true));
    assert_eq!(plan["y"].limits.devices, [card(A, 8 << 30, 1_000_000)]);
    let ids: BTreeSet<_> = plan.values().map(|tenant| &tenant.id).collect();
    assert_eq!(ids.len(), 2);
}

#[test]
fn an_allocation_that_is_none_is_refused_in_words() {
    let refused = |change: &dyn Fn(&mut AllocatedClaim)| {
        let mut bad = claim("a");
        change(&mut bad);
        let error = plan::of(&bad, None).unwrap_err();
        assert_eq!(error.reason, PrepareReason::BadClaim, "{error}");
        error.words
    };
    for uid in ["", "../a", "a.b", "-a", &"a".repeat(65)] {
        assert!(refused(&|claim| uid.clone_into(&mut claim.uid)).contains("UID"), "{uid}");
    }
    assert!(refused(&|claim| claim.shares.clear()).contains("no device"));
    assert!(refused(&|claim| claim.shares.push(share("gpu", A, "a"))).contains("one share twice"));
    assert!(refused(&|claim| claim.shares[0].memory_bytes = 0).contains("no memory"));
    for cores in [0, 101, u32::MAX] {
        assert!(refused(&|claim| claim.shares[0].cores_percent = cores).contains("1 to 100"));
    }
    for uuid in ["", "0", "GPU-a/b", "GPU-a=b", "gpu-0"] {
        assert!(
            refused(&|claim| uuid.clone_into(&mut claim.shares[0].gpu_uuid)).contains("no card")
        );
    }
    assert!(refused(&|claim| claim.shares[0].request.clear()).contains("without a name"));
    let much = |claim: &mut AllocatedClaim| {
        claim.shares[0].memory_bytes = u64::MAX;
        claim.shares.push(share("gpu", A, "b"));
    };
    assert!(refused(&much).contains("more than can be counted"));
}
