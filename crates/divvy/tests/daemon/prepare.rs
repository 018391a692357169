//! Claims of Kubernetes, prepared against a real daemon: the core of `divvy-kube` as its client.

use std::path::{Path, PathBuf};

use divvy_kube::prepare::{
    AllocatedClaim, AllocatedShare, DaemonSocket, DriverConfig, ParametersOf, PrepareCore,
    PreparePlaces, PrepareReason,
};
use divvy_page::{ConfigSource, Tenant};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::fake::{Root, c_path};

const A: &str = "GPU-01010101-0101-0101-0101-010101010101";
const B: &str = "GPU-02020202-0202-0202-0202-020202020202";

fn core(root: &Root) -> PrepareCore<DaemonSocket> {
    let library = root.0.join("libdivvy.so");
    std::fs::write(&library, "").unwrap();
    let places = PreparePlaces {
        state: root.0.join("state"),
        cdi: root.0.join("cdi"),
        library,
        card_kind: "nvidia.com/gpu".to_owned(),
        boot_id: divvy_kube::prepare::boot_id().unwrap(),
    };
    PrepareCore::new(places, DaemonSocket::at(root.home().join("daemon.sock")))
}

fn claim(uid: &str, memory_bytes: u64) -> AllocatedClaim {
    let share = |gpu_uuid: &str, share_id: &str| AllocatedShare {
        offer: None,
        request: "gpu".to_owned(),
        pool: "node".to_owned(),
        device: "gpu-0".to_owned(),
        gpu_uuid: gpu_uuid.to_owned(),
        share_id: Some(share_id.to_owned()),
        memory_bytes,
        cores_percent: 30,
    };
    let parameters = json!({ "apiVersion": "divvy.dev/v1", "kind": "Share", "priority": "low" });
    AllocatedClaim {
        uid: uid.to_owned(),
        namespace: "team".to_owned(),
        name: "train".to_owned(),
        shares: vec![share(A, "s"), share(B, "t")],
        config: vec![DriverConfig { of: ParametersOf::Claim, requests: Vec::new(), parameters }],
    }
}

fn tenants(root: &Root) -> Vec<Value> {
    let home = root.home().display().to_string();
    let output = root.run(&["tenant", "list", "--json", "--home", &home]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    list["tenants"].as_array().unwrap().clone()
}

/// Host's path of the tenant that the only CDI file mounts.
fn mounted(root: &Root) -> PathBuf {
    let mut files = std::fs::read_dir(root.0.join("cdi")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    let spec: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mounts = spec["devices"][0]["containerEdits"]["mounts"].as_array().unwrap();
    PathBuf::from(mounts.last().unwrap()["hostPath"].as_str().unwrap())
}

#[test]
fn a_claim_is_a_tenant_of_the_daemon_until_it_is_taken_back() {
    let root = Root::new("prepare");
    let core = core(&root);
    let refused = core.prepare(&[claim("a", 8 << 30)]);
    let reason = refused[0].result.as_ref().unwrap_err().reason;
    assert_eq!(reason, PrepareReason::DaemonUnreachable);
    let mut daemon = root.daemon(&[]);

    let first = core.prepare(&[claim("a", 8 << 30)]);
    let shares = first[0].result.as_ref().unwrap();
    assert_eq!(shares[1].cdi_devices[0], format!("nvidia.com/gpu={B}"));
    let [tenant] = &tenants(&root)[..] else { panic!() };
    assert_eq!(
        shares[1].cdi_devices[1],
        format!("divvy.dev/share={}", tenant["id"].as_str().unwrap())
    );
    assert_eq!((&tenant["priority"], &tenant["weight"]), (&json!("low"), &json!(30)));
    let cards = tenant["devices"].as_array().unwrap();
    for (card, uuid) in cards.iter().zip([A, B]) {
        let limits = (&card["uuid"], &card["limit_bytes"], &card["share_ppm"]);
        assert_eq!(limits, (&json!(uuid), &json!(8_u64 << 30), &json!(300_000)));
    }
    let directory = mounted(&root);
    assert_eq!(json!(directory), tenant["directory"]);

    // Again, with a process in it, after the daemon was killed, and with other limits.
    let _process = Tenant::attach(&c_path(&directory), &ConfigSource::Owner).unwrap();
    assert_eq!(core.prepare(&[claim("a", 8 << 30)]), first);
    assert_eq!(tenants(&root)[0]["processes"], 1);
    daemon.signal(Signal::SIGKILL);
    daemon.ended();
    let _daemon = root.daemon(&[]);
    std::fs::remove_dir_all(root.0.join("cdi")).unwrap();
    assert_eq!(core.prepare(&[claim("a", 9 << 30)]), first);
    assert_eq!(mounted(&root), directory);
    assert_eq!(tenants(&root)[0]["devices"][0]["limit_bytes"], json!(9_u64 << 30));

    // Taken back without its checkpoint, while the process lives.
    std::fs::remove_file(root.0.join("state/checkpoint.json")).unwrap();
    std::fs::remove_dir_all(root.0.join("cdi")).unwrap();
    for uid in ["a", "a", "unknown"] {
        assert_eq!(core.unprepare(&[uid.to_owned()])[0].result, Ok(()));
    }
    assert!(tenants(&root).is_empty() && !Path::new(&directory).exists());
    assert_eq!(core.sweep(), Ok(0));
}
