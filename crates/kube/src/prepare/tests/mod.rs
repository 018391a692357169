//! Tests of the prepare core on a node that is a folder, with a daemon that is a map, and an end at any step.

mod faults;
mod kills;
mod overtaken;
mod resizes;
mod situations;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use super::{
    AllocatedClaim, AllocatedShare, CardLimits, CreatedTenant, DaemonError, DriverConfig, HostDisk,
    NodeDaemon, NodeDisk, NodeTenantLimits, ParametersOf, PrepareCore, PreparePlaces,
};

pub(crate) const A: &str = "GPU-01010101-0101-0101-0101-010101010101";
pub(crate) const B: &str = "GPU-02020202-0202-0202-0202-020202020202";

/// Tenants of a node, and failures of its daemon.
#[derive(Debug, Default)]
pub(crate) struct FakeTenants {
    pub(crate) tenants: BTreeMap<String, NodeTenantLimits>,
    /// Limits that changed ones were made with, which `create` takes for the same, as the daemon does.
    started: BTreeMap<String, NodeTenantLimits>,
    pub(crate) is_away: bool,
    /// Ids that it refuses.
    pub(crate) refused: BTreeSet<String>,
    /// Bytes that each holds of each card.
    pub(crate) held_bytes: u64,
    /// Requests that it got.
    pub(crate) asked: u64,
    /// Tenants that it has made.
    pub(crate) made: u64,
}

/// Effects that an instance has left before it is killed.
#[derive(Clone, Debug)]
pub(crate) struct Life(Arc<AtomicU64>);

impl Life {
    pub(crate) fn of(effects: u64) -> Self {
        Self(Arc::new(AtomicU64::new(effects)))
    }

    /// Whether the effect that comes still happens.
    fn goes_on(&self) -> bool {
        self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.load(SeqCst) == 0
    }
}

/// One instance's way to the daemon.
#[derive(Clone, Debug)]
pub(crate) struct FakeDaemon {
    tenants: Arc<Mutex<FakeTenants>>,
    life: Life,
}

impl FakeDaemon {
    fn asked(
        &self,
        is_effect: bool,
    ) -> std::result::Result<MutexGuard<'_, FakeTenants>, DaemonError> {
        let away = |why: &str| Err(DaemonError::Unreachable(why.to_owned()));
        if is_effect && !self.life.goes_on() {
            return away("this instance is dead");
        }
        let mut tenants = self.tenants.lock().unwrap();
        tenants.asked += 1;
        if tenants.is_away { away("no daemon answers") } else { Ok(tenants) }
    }
}

fn refusal(code: &str) -> DaemonError {
    DaemonError::Refused { code: code.to_owned(), words: "in words".to_owned() }
}

impl NodeDaemon for FakeDaemon {
    fn create(
        &self,
        id: &str,
        limits: &NodeTenantLimits,
    ) -> std::result::Result<CreatedTenant, DaemonError> {
        let mut all = self.asked(true)?;
        let is_new = !all.tenants.contains_key(id);
        if all.refused.contains(id) {
            return Err(refusal("too-many"));
        }
        match all.tenants.get(id) {
            Some(there) if there != limits && all.started.get(id) != Some(limits) => {
                return Err(refusal("differs"));
            }
            Some(_) => {}
            None => {
                all.tenants.insert(id.to_owned(), limits.clone());
                all.made += 1;
            }
        }
        Ok(CreatedTenant { directory: format!("/run/divvy/by-id/0/{id}"), is_new })
    }

    fn set(&self, id: &str, limits: &NodeTenantLimits) -> std::result::Result<String, DaemonError> {
        let mut all = self.asked(true)?;
        let there = all.tenants.get_mut(id).ok_or_else(|| refusal("unknown-tenant"))?;
        if there.oversubscribe != limits.oversubscribe {
            return Err(refusal("differs"));
        }
        let before = std::mem::replace(there, limits.clone());
        all.started.entry(id.to_owned()).or_insert(before);
        Ok(format!("/run/divvy/by-id/0/{id}"))
    }

    fn held(&self, id: &str) -> std::result::Result<BTreeMap<String, u64>, DaemonError> {
        let all = self.asked(false)?;
        let tenant = all.tenants.get(id).ok_or_else(|| refusal("unknown-tenant"))?;
        let held = |card: &CardLimits| (card.uuid.clone(), all.held_bytes);
        Ok(tenant.devices.iter().map(held).collect())
    }

    fn limits(&self, id: &str) -> std::result::Result<Option<NodeTenantLimits>, DaemonError> {
        Ok(self.asked(false)?.tenants.get(id).cloned())
    }

    fn remove(&self, id: &str) -> std::result::Result<(), DaemonError> {
        let mut all = self.asked(true)?;
        all.tenants.remove(id);
        all.started.remove(id);
        Ok(())
    }

    fn list(&self) -> std::result::Result<Vec<String>, DaemonError> {
        Ok(self.asked(false)?.tenants.keys().cloned().collect())
    }
}

/// The host's files, of which some cannot be written.
#[derive(Clone, Debug)]
pub(crate) struct FakeDisk {
    life: Life,
    /// Folder in which nothing can be written or removed, and the system's number of why.
    pub(crate) broken: Option<(PathBuf, i32)>,
}

impl FakeDisk {
    fn may(&self, path: &Path) -> Result<()> {
        if !self.life.goes_on() {
            return Err(Error::other("this instance is dead"));
        }
        match &self.broken {
            Some((folder, errno)) if path.starts_with(folder) => {
                Err(Error::from_raw_os_error(*errno))
            }
            _ => Ok(()),
        }
    }
}

impl NodeDisk for FakeDisk {
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        HostDisk.read(path)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        if self.life.is_over() {
            return self.may(path);
        }
        let result = self.may(path);
        let full = matches!(&self.broken, Some((_, nix::libc::ENOSPC)));
        match &result {
            // A disk that is full takes some of it; so does one whose writer is killed, with the last effect that it has.
            Err(_) if full => HostDisk.write_new(path, &bytes[..bytes.len() / 2]).and(result),
            Ok(()) if self.life.is_over() => HostDisk.write_new(path, &bytes[..bytes.len() / 2]),
            Ok(()) => HostDisk.write_new(path, bytes),
            Err(_) => result,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.may(to).and_then(|()| HostDisk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let is_full = matches!(&self.broken, Some((_, nix::libc::ENOSPC)));
        if is_full && !self.life.is_over() {
            return HostDisk.remove(path);
        }
        if path.exists() {
            self.may(path)?
        }
        HostDisk.remove(path)
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        HostDisk.names(folder)
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }
}

/// A node of a test's own, gone afterwards.
#[derive(Debug)]
pub(crate) struct FakeNode {
    base: PathBuf,
    pub(crate) places: PreparePlaces,
    pub(crate) tenants: Arc<Mutex<FakeTenants>>,
}

pub(crate) type FakeCore = PrepareCore<FakeDaemon, FakeDisk>;

impl FakeNode {
    pub(crate) fn new(name: &str) -> Self {
        static NODES: AtomicU64 = AtomicU64::new(0);
        let number = NODES.fetch_add(1, SeqCst);
        let own = format!("divvy-prepare-{name}-{}-{number}", std::process::id());
        let base = std::env::temp_dir().join(own);
        std::fs::create_dir_all(&base).unwrap();
        let places = PreparePlaces {
            state: base.join("state"),
            cdi: base.join("cdi"),
            library: base.join("libdivvy.so"),
            card_kind: "nvidia.com/gpu".to_owned(),
            boot_id: "boot-1".to_owned(),
        };
        std::fs::write(&places.library, "").unwrap();
        Self { base, places, tenants: Arc::default() }
    }

    pub(crate) fn core(&self) -> FakeCore {
        self.living(&Life::of(u64::MAX))
    }

    /// An instance that is killed after some effects.
    pub(crate) fn living(&self, life: &Life) -> FakeCore {
        self.on(FakeDisk { life: life.clone(), broken: None })
    }

    /// An instance whose `folder` fails.
    pub(crate) fn failing(&self, folder: &Path, errno: i32) -> FakeCore {
        let broken = Some((folder.to_owned(), errno));
        self.on(FakeDisk { life: Life::of(u64::MAX), broken })
    }

    fn on(&self, disk: FakeDisk) -> FakeCore {
        let daemon = FakeDaemon { tenants: self.tenants.clone(), life: disk.life.clone() };
        PrepareCore::with_disk(self.places.clone(), daemon, disk)
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, FakeTenants> {
        self.tenants.lock().unwrap()
    }

    /// Ids of tenants.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.known().tenants.keys().cloned().collect()
    }

    /// Names in the CDI folder.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        HostDisk.names(&self.places.cdi).unwrap().into_iter().collect()
    }

    pub(crate) fn spec(&self, id: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.places.cdi_file(id)).unwrap()).unwrap()
    }

    /// UIDs in the checkpoint.
    pub(crate) fn claims(&self) -> Vec<String> {
        let bytes = std::fs::read(self.places.checkpoint()).unwrap();
        let checkpoint: Value = serde_json::from_slice(&bytes).unwrap();
        checkpoint["claims"].as_object().unwrap().keys().cloned().collect()
    }

    /// Asserts that exactly these claims are on the node, each whole.
    #[track_caller]
    pub(crate) fn assert_holds(&self, claims: &[&AllocatedClaim]) {
        let plans: Vec<_> =
            claims.iter().map(|claim| super::plan::of(claim, None).unwrap()).collect();
        let ids: BTreeSet<String> =
            plans.iter().flat_map(|plan| plan.values()).map(|it| it.id.clone()).collect();
        assert_eq!(self.ids(), ids, "tenants");
        let files = ids.iter().map(|id| super::ids::cdi_file(id)).collect();
        assert_eq!(self.files(), files, "files");
        for tenant in plans.iter().flat_map(|plan| plan.values()) {
            assert_eq!(self.known().tenants[&tenant.id], tenant.limits);
            assert_eq!(self.spec(&tenant.id)["devices"][0]["name"], json!(tenant.id));
        }
        let mut uids: Vec<_> = claims.iter().map(|claim| claim.uid.clone()).collect();
        uids.sort();
        assert_eq!(self.claims(), uids, "checkpoint");
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// A claim with one share of A.
pub(crate) fn claim(uid: &str) -> AllocatedClaim {
    AllocatedClaim {
        uid: uid.to_owned(),
        namespace: "team".to_owned(),
        name: "train".to_owned(),
        shares: vec![share("gpu", A, uid)],
        config: Vec::new(),
    }
}

pub(crate) fn share(request: &str, gpu_uuid: &str, share_id: &str) -> AllocatedShare {
    AllocatedShare {
        request: request.to_owned(),
        pool: "node".to_owned(),
        device: "gpu-0".to_owned(),
        gpu_uuid: gpu_uuid.to_owned(),
        share_id: Some(share_id.to_owned()),
        memory_bytes: 8 << 30,
        cores_percent: 30,
        offer: None,
    }
}

pub(crate) fn parameters(of: ParametersOf, fields: &Value) -> DriverConfig {
    let mut parameters = json!({ "apiVersion": "divvy.dev/v1", "kind": "Share" });
    parameters.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    DriverConfig { of, requests: Vec::new(), parameters }
}

/// The answers of a core for `claims`, all of which it prepares.
#[track_caller]
pub(crate) fn prepared(
    core: &FakeCore,
    claims: &[AllocatedClaim],
) -> Vec<Vec<super::PreparedShare>> {
    let answers = core.prepare(claims);
    answers.into_iter().map(|it| it.result.unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[track_caller]
pub(crate) fn unprepared(core: &FakeCore, uids: &[&str]) {
    let uids: Vec<String> = uids.iter().map(|uid| (*uid).to_owned()).collect();
    for answer in core.unprepare(&uids) {
        answer.result.unwrap_or_else(|error| panic!("{}: {error}", answer.uid));
    }
}
