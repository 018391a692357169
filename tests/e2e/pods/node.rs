//! A node as pods have it: the daemon, the prepare core as the agent runs it, and a simulated card, whose CDI spec brings a
//! container the driver as the vendor's would. What the kubelet would hand on is handed to podman.
//!
//! Promises: the CDI file of a claim is the prepare core's own; a container has the devices that it answered, and no more.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use divvy_kube::prepare::{
    AllocatedClaim, AllocatedShare, DaemonSocket, DriverConfig, ParametersOf, PrepareCore,
    PreparePlaces, boot_id,
};
use serde_json::{Value, json};

use crate::harness::{
    Container, MIB, Machine, Running, client, finish, podman_works, stage, until,
};
use crate::life::wait_for;

/// The simulated card.
pub(crate) const CARD: &str = "GPU-513d9a0b-7e42-4c11-9f20-d177e5000000";
/// What starts the card for all, and what that takes of it.
const KEEPER_BYTES: u64 = 520 * MIB;

/// A node.
pub(crate) struct Node {
    pub(crate) machine: Machine,
    daemon: Option<Running>,
    keeper: Option<Running>,
}

impl Node {
    /// A node for the test `what`; none, and said so, where podman starts no containers.
    pub(crate) fn start(what: &str) -> Option<Self> {
        podman_works(what).then(|| Self::on(Machine::new().native()))
    }

    /// The same on a machine, whose simulated driver and library are to be the node's.
    pub(crate) fn on(machine: Machine) -> Self {
        let home = machine.home().to_owned();
        for folder in ["divvy", "divvy/tenants"] {
            fs::DirBuilder::new().mode(0o700).create(home.join(folder)).expect("a folder");
        }
        for folder in ["cdi", "opt"] {
            fs::create_dir(home.join(folder)).expect("a folder");
        }
        // Whoever a container runs as finds the card.
        fs::set_permissions(home.join("sim"), fs::Permissions::from_mode(0o777)).expect("a mode");
        let locks = home.join("locks").display().to_string();
        let machine = machine.with("DIVVY_DEVICE_LOCKS", locks).with("SIMGPU_SEED", 0);
        let mut keeper = machine.command("sh");
        keeper.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(client("under")).arg("stay");
        let keeper = Running::start(keeper.env("STAY_BYTES", (2 * MIB).to_string()));
        wait_for(&machine, KEEPER_BYTES);
        let mut node = Self { machine, daemon: None, keeper: Some(keeper) };
        node.renew_library();
        node.describe_card(CARD);
        node.start_daemon();
        node
    }

    fn home(&self) -> &Path {
        self.machine.home()
    }

    /// The library of the node, as an upgrade puts it there: under its name from one moment to the next.
    pub(crate) fn renew_library(&self) {
        let (new, library) = (self.home().join("opt/new"), self.library());
        fs::copy(stage().join("lib/libdivvy.so"), &new).expect("the library can be copied");
        fs::rename(&new, library).expect("a file can be renamed");
    }

    /// The library on the host.
    pub(crate) fn library(&self) -> PathBuf {
        self.home().join("opt/libdivvy.so")
    }

    /// Writes what the vendor's tool would of the card.
    pub(crate) fn describe_card(&self, uuid: &str) {
        let sim = stage().join("sim");
        let options = |access| json!([access, "nosuid", "nodev", "bind"]);
        let mount = |path: &Path, access| json!({ "hostPath": path, "containerPath": path, "options": options(access) });
        let variables = [
            ("LD_LIBRARY_PATH", sim.clone()),
            ("SIMGPUD", sim.join("simgpud")),
            ("SIMGPU_DIR", self.home().join("sim")),
            ("SIMGPU_SEED", "0".into()),
            // The vendor's brings device files of this one alone.
            ("CUDA_VISIBLE_DEVICES", uuid.into()),
        ];
        let env = variables.map(|(name, value)| format!("{name}={}", value.display()));
        let mounts = [mount(&sim, "ro"), mount(&self.home().join("sim"), "rw")];
        let spec = json!({ "cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
            "devices": [{ "name": uuid, "containerEdits": { "env": env, "mounts": mounts } }] });
        let file = self.home().join(format!("cdi/{uuid}.json"));
        fs::write(file, spec.to_string()).expect("the folder can be written");
    }

    /// Starts the daemon, and waits until it answers.
    pub(crate) fn start_daemon(&mut self) {
        let home = self.daemon_home();
        self.daemon = Some(Running::start(&mut self.machine.divvy(&["daemon", "--home", &home])));
        until("the daemon answers", || self.divvy(&["tenant", "list"]).is_some());
    }

    /// Ends the daemon by SIGKILL.
    pub(crate) fn kill_daemon(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        daemon.kill_with_children();
        let _ = daemon.finish();
    }

    fn daemon_home(&self) -> String {
        self.home().join("divvy").display().to_string()
    }

    /// What the command tells of this node's daemon; none where that refuses, or is away.
    pub(crate) fn divvy(&self, words: &[&str]) -> Option<String> {
        let mut command = self.machine.divvy(words);
        let told = finish(command.args(["--home", &self.daemon_home()]));
        (told.code() == Some(0)).then_some(told.out)
    }

    /// Ids of the daemon's tenants.
    pub(crate) fn tenants(&self) -> Vec<String> {
        let told = self.divvy(&["tenant", "list", "--json"]).expect("the daemon answers");
        let list: Value = serde_json::from_str(&told).expect("JSON");
        let ids = list["tenants"].as_array().expect("a list").iter();
        ids.map(|tenant| tenant["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// The prepare core, as a newly started agent has it.
    pub(crate) fn core(&self) -> PrepareCore<DaemonSocket> {
        let places = PreparePlaces {
            state: self.home().join("state"),
            cdi: self.home().join("cdi"),
            library: self.library(),
            card_kind: "nvidia.com/gpu".to_owned(),
            boot_id: boot_id().expect("the kernel has one"),
        };
        PrepareCore::new(places, DaemonSocket::at(self.home().join("divvy/daemon.sock")))
    }

    /// Prepares a claim, as the kubelet asks for each pod that has it; the CDI devices of its first share.
    pub(crate) fn prepare(&self, claim: &AllocatedClaim) -> Vec<String> {
        let mut answers = self.core().prepare(std::slice::from_ref(claim));
        let shares = answers.remove(0).result.expect("it is prepared");
        shares[0].cdi_devices.clone()
    }

    /// Takes a claim back, as the kubelet asks when its last pod is gone.
    pub(crate) fn unprepare(&self, claim: &AllocatedClaim) {
        let answers = self.core().unprepare(std::slice::from_ref(&claim.uid));
        assert_eq!(answers[0].result, Ok(()));
    }

    /// A container that has these devices, and the program that does what it is told at `/program`.
    pub(crate) fn container(&self, devices: &[String]) -> Container {
        let container = Container::new(&self.machine, &self.home().join("cdi")).devices(devices);
        fs::copy(client("upgrade"), container.root().join("program")).expect("a copy");
        container
    }

    /// That program in a container that has these devices and nothing odd.
    pub(crate) fn program(&self, devices: &[String]) -> Command {
        self.container(devices).executes(&["/program", "obeys"])
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill_daemon();
        if let Some(mut keeper) = self.keeper.take() {
            keeper.kill_with_children();
            let _ = keeper.finish();
        }
    }
}

/// A claim on a share of the card, with so much memory, of the class that `deploy/kubernetes` has.
pub(crate) fn claim(uid: &str, gib: u64) -> AllocatedClaim {
    let share = AllocatedShare {
        request: "gpu".to_owned(),
        pool: "node".to_owned(),
        device: CARD.to_ascii_lowercase(),
        gpu_uuid: CARD.to_owned(),
        share_id: Some(format!("share-{uid}")),
        memory_bytes: gib << 30,
        cores_percent: 50,
        offer: None,
    };
    AllocatedClaim {
        uid: uid.to_owned(),
        namespace: "default".to_owned(),
        name: format!("claim-{uid}"),
        shares: vec![share],
        config: vec![of_class("file")],
    }
}

/// What a class says of how the library comes into programs.
pub(crate) fn of_class(preload: &str) -> DriverConfig {
    let parameters = json!({ "apiVersion": "divvy.dev/v1", "kind": "Share", "preload": preload });
    DriverConfig { of: ParametersOf::Class, requests: Vec::new(), parameters }
}

/// Id of the tenant behind a claim's devices.
pub(crate) fn id_of(devices: &[String]) -> &str {
    devices.last().and_then(|device| device.split_once('=')).expect("a CDI device").1
}
