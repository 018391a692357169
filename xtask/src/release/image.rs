//! An OCI image layout in a tar file: `/divvy`, and a program that copies it, for both processors.
//!
//! Written without a registry and without docker; the formats are those of the OCI image specification 1.1. The image
//! holds our files and nothing else, no C library either: it is there to be copied from, by its own program as an init
//! container, by `COPY --from`, or as a volume. Promises: every blob lies under its own SHA-256.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::arguments::Arch;
use super::commit::Commit;
use super::layout::VERSION;
use super::sums::sha256;
use super::tree::{Tree, TreeEntry, gzip};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// One processor's part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) arch: Arch,
    /// Files below `/divvy`.
    pub(super) tree: Tree,
    /// The program that copies them.
    pub(super) copier: Vec<u8>,
}

/// Name of the file.
pub(super) fn name() -> String {
    format!("divvy-{VERSION}-image.tar")
}

/// The image of all `parts`.
pub(super) fn image(parts: Vec<Part>, commit: &Commit) -> Result<Vec<u8>> {
    let mut blobs = Blobs::default();
    let manifests = parts
        .into_iter()
        .map(|part| manifest(part, commit, &mut blobs))
        .collect::<Result<Vec<_>>>()?;
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    let mut whole = blobs.add(INDEX, &index.to_string().into_bytes());
    // Podman takes this for the whole name, and calls an image of a version alone `localhost/0.1.0`.
    let name = format!("divvy:{VERSION}");
    whole["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
    let outer = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [whole] });
    let mut layout = Tree::default();
    layout.put("oci-layout", TreeEntry::text(json!({ "imageLayoutVersion": "1.0.0" }).to_string()));
    layout.put("index.json", TreeEntry::text(outer.to_string()));
    for (digest, bytes) in blobs.0 {
        layout.put(format!("blobs/sha256/{digest}"), TreeEntry::text(bytes));
    }
    layout.tar("", commit.epoch_s)
}

/// Adds a processor's layer, configuration and manifest; how an index names the last.
fn manifest(part: Part, commit: &Commit, blobs: &mut Blobs) -> Result<Value> {
    let platform = json!({ "architecture": part.arch.debian(), "os": "linux" });
    let mut tree = part.tree.below("divvy");
    tree.put("copy", TreeEntry::program(part.copier));
    let layer = tree.tar("", commit.epoch_s)?;
    let config = json!({
        "architecture": platform["architecture"],
        "os": platform["os"],
        "config": { "Entrypoint": ["/copy"], "Cmd": ["/target"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
    });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blobs.add(CONFIG, &config.to_string().into_bytes()),
        "layers": [blobs.add(LAYER, &gzip(&layer)?)],
        "annotations": {
            "org.opencontainers.image.version": VERSION,
            "org.opencontainers.image.revision": commit.hash,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.source": "https://github.com/divvy-gpu/divvy",
        },
    });
    let mut named = blobs.add(MANIFEST, &manifest.to_string().into_bytes());
    named.as_object_mut().context("a descriptor is an object")?.insert("platform".into(), platform);
    Ok(named)
}

/// Blobs by their digests.
#[derive(Debug, Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Adds one; its descriptor.
    fn add(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = sha256(bytes);
        self.0.insert(digest.clone(), bytes.to_vec());
        json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.path().unwrap().display().to_string(), bytes)
        });
        entries.collect()
    }

    #[test]
    fn descriptors_lead_from_the_index_to_the_files() {
        let commit = Commit { hash: "c0ffee".into(), epoch_s: 5, is_clean: true };
        let part = |arch| {
            let mut tree = Tree::default();
            tree.put("lib/libdivvy.so", TreeEntry::program(vec![1, 2, 3]));
            Part { arch, tree, copier: vec![9] }
        };
        let make = || image(vec![part(Arch::X86_64), part(Arch::Aarch64)], &commit).unwrap();
        let bytes = make();
        assert_eq!(bytes, make());
        let files = files(&bytes);
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let bytes = &files[&format!("blobs/sha256/{digest}")];
            assert_eq!(sha256(bytes), digest);
            assert_eq!(descriptor["size"], bytes.len());
            bytes.clone()
        };
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let outer = read(&files["index.json"]);
        let index = read(&blob(&outer["manifests"][0]));
        for (at, arch) in [(0, "amd64"), (1, "arm64")] {
            let named = &index["manifests"][at];
            assert_eq!(named["platform"]["architecture"], arch);
            let manifest = read(&blob(named));
            let config = read(&blob(&manifest["config"]));
            let layer = blob(&manifest["layers"][0]);
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&*layer).read_to_end(&mut unpacked).unwrap();
            let diff = format!("sha256:{}", sha256(&unpacked));
            assert_eq!(config["rootfs"]["diff_ids"][0], diff);
            assert_eq!(super::tests::files(&unpacked)["divvy/lib/libdivvy.so"], [1, 2, 3]);
        }
    }
}
