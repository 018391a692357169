//! Any bytes as what others write for a node: a claim, a list of slices, a class, the checkpoint. Whatever is in them, nothing panics, what is
//! read is read again alike, and a claim that is understood becomes files that are JSON, of names of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Result;
use std::path::{Path, PathBuf};

use divvy_kube::cards::NodeCard;
use divvy_kube::cluster::allocated_of;
use divvy_kube::prepare::{
    CreatedTenant, DaemonError, NodeDaemon, NodeDisk, NodeTenantLimits, PrepareCore, PreparePlaces,
};
use divvy_kube::{lenient, offered};
use serde_json::Value;

/// One input; panics where it must not.
pub(crate) fn run(bytes: &[u8]) {
    let mended = lenient::mended(bytes);
    assert_eq!(lenient::mended(&mended), mended, "what is mended needs no more");
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        let same = serde_json::from_slice::<Value>(&mended).expect("valid JSON stays valid");
        let is_cut = String::from_utf8_lossy(&mended).contains("divvy: nested too deep");
        assert!(same == value || is_cut, "nothing but depth is taken from it");
    }
    let _ = offered(bytes);
    let _ = lenient::object::<Value>(bytes);
    let card = NodeCard { gpu_uuid: "GPU-0a".to_owned(), ..NodeCard::default() };
    prepare(allocated_of(bytes, &card).ok(), bytes);
}

/// Prepares it on a node whose checkpoint these bytes are.
fn prepare(claim: Option<divvy_kube::prepare::AllocatedClaim>, checkpoint: &[u8]) {
    let state = std::env::temp_dir().join(format!("divvy-fuzz-cluster-{}", std::process::id()));
    let places = PreparePlaces {
        cdi: state.join("cdi"),
        library: state.join("libdivvy.so"),
        card_kind: "nvidia.com/gpu".to_owned(),
        boot_id: "boot".to_owned(),
        state: state.clone(),
    };
    let disk = Memory(RefCell::new(BTreeMap::from([(
        state.join("checkpoint.json"),
        checkpoint.to_vec(),
    )])));
    let files = Shared(std::rc::Rc::new(disk));
    let core = PrepareCore::with_disk(places, Nobody, files.clone());
    let known = core.known();
    for prepared in core.prepare(&Vec::from_iter(claim)) {
        let Ok(shares) = prepared.result else { continue };
        assert!(!shares.is_empty());
        let id = divvy_id(&shares[0].cdi_devices);
        let written = files.0.0.borrow();
        let file = written.iter().find(|(path, _)| path.to_string_lossy().contains(&id));
        let (_, text) = file.unwrap_or_else(|| panic!("no file of {id}: {:?}", written.keys()));
        let spec: Value = serde_json::from_slice(text).expect("a CDI file is JSON");
        assert!(spec["devices"].is_array(), "{spec}");
    }
    assert!(known.is_ok() || core.known().is_err(), "a checkpoint that was read is not lost");
    let _ = std::fs::remove_dir_all(state);
}

/// Name of the tenant among a share's CDI devices.
fn divvy_id(devices: &[String]) -> String {
    let last = devices.last().expect("the tenant's is the last");
    last.rsplit('=').next().unwrap_or_default().to_owned()
}

/// A daemon that makes whatever is asked, and knows of none.
struct Nobody;

impl NodeDaemon for Nobody {
    fn create(
        &self,
        id: &str,
        _: &NodeTenantLimits,
    ) -> std::result::Result<CreatedTenant, DaemonError> {
        Ok(CreatedTenant { directory: format!("/run/divvy/by-id/0/{id}"), is_new: true })
    }

    fn set(&self, id: &str, _: &NodeTenantLimits) -> std::result::Result<String, DaemonError> {
        Ok(format!("/run/divvy/by-id/0/{id}"))
    }

    fn held(&self, _: &str) -> std::result::Result<BTreeMap<String, u64>, DaemonError> {
        Ok(BTreeMap::new())
    }

    fn limits(&self, _: &str) -> std::result::Result<Option<NodeTenantLimits>, DaemonError> {
        Ok(None)
    }

    fn remove(&self, _: &str) -> std::result::Result<(), DaemonError> {
        Ok(())
    }

    fn list(&self) -> std::result::Result<Vec<String>, DaemonError> {
        Ok(Vec::new())
    }
}

/// Files in memory.
struct Memory(RefCell<BTreeMap<PathBuf, Vec<u8>>>);

#[derive(Clone)]
struct Shared(std::rc::Rc<Memory>);

impl NodeDisk for Shared {
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        Ok(self.0.0.borrow().get(path).cloned())
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.0.0.borrow_mut().insert(path.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut files = self.0.0.borrow_mut();
        let bytes = files.remove(from).unwrap_or_default();
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.0.0.borrow_mut().remove(path);
        Ok(())
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let files = self.0.0.borrow();
        let names = files.keys().filter(|path| path.parent() == Some(folder));
        Ok(names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn is_file(&self, _: &Path) -> bool {
        true
    }
}
