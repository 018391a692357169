//! The parts of a release: a CycloneDX 1.6 list of every crate that is linked into one of its files, and of what the
//! compilers add.
//!
//! Made of `cargo metadata` and `Cargo.lock`. Crates that only build or test something are not in it. Promises: the same
//! lock file gives the same bytes; no time and no random number is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::arguments::Arch;
use super::commit::Commit;
use super::cross::Checkout;
use super::layout::VERSION;
use super::sums::sha256;
use crate::command::output;
use crate::workspace::cargo;

/// Packages whose output is shipped.
const SHIPPED: [&str; 7] =
    ["divvy", "divvy-bench", "divvy-kube", "divvy-shim", "simgpu", "simgpu-cuda", "simgpu-nvml"];

/// Name of the file.
pub(super) fn name() -> String {
    format!("divvy-{VERSION}.cdx.json")
}

/// The list for `archs`.
pub(super) fn list(checkout: &Checkout, commit: &Commit, archs: &[Arch]) -> Result<Vec<u8>> {
    let mut metadata = cargo();
    metadata.current_dir(&checkout.root);
    metadata.args(["metadata", "--format-version", "1", "--locked"]);
    for arch in archs {
        metadata.args(["--filter-platform", &arch.triple()]);
    }
    let metadata: Value = serde_json::from_str(&output(&mut metadata)?)?;
    let lock = fs::read_to_string(checkout.root.join("Cargo.lock"))?;
    let zig = fs::read_to_string(checkout.root.join("packaging/zig.txt"))?;
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let mut list = of(&metadata, &lock)?;
    let brought = [
        ("rust-std", rustc.split(' ').nth(1).unwrap_or_default(), "MIT OR Apache-2.0"),
        ("compiler-rt, libunwind (ziglang)", pinned(&zig)?, "Apache-2.0 WITH LLVM-exception"),
        ("musl (ziglang; the image's program)", pinned(&zig)?, "MIT"),
    ];
    let components = list["components"].as_array_mut().context("components are a list")?;
    for (name, version, license) in brought {
        components.push(json!({
            "type": "library",
            "bom-ref": format!("{name}@{version}"),
            "name": name,
            "version": version,
            "licenses": [{ "expression": license }],
        }));
    }
    list["metadata"]["properties"] = json!([{ "name": "commit", "value": commit.hash }]);
    list["serialNumber"] = json!(serial(&list.to_string()));
    let mut bytes = serde_json::to_vec_pretty(&list)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The version of Zig that is pinned.
fn pinned(list: &str) -> Result<&str> {
    let line = list.lines().find_map(|line| line.strip_prefix("ziglang=="));
    let version = line.and_then(|line| line.split(' ').next());
    version.context("packaging/zig.txt pins no ziglang")
}

/// A number in the form of a UUID, made of the content.
fn serial(content: &str) -> String {
    let hash = sha256(content.as_bytes());
    let [a, b, c, d, e] = [&hash[..8], &hash[8..12], &hash[13..16], &hash[17..20], &hash[20..32]];
    format!("urn:uuid:{a}-{b}-8{c}-8{d}-{e}")
}

/// The list of crates, from cargo's answer and its lock file.
fn of(metadata: &Value, lock: &str) -> Result<Value> {
    let sums = checksums(lock);
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = array(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let linked: BTreeMap<String, Vec<String>> = array(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| (text(&node["id"]), linked(node)))
        .collect();
    let is_macro = |id: &String| {
        packages.get(id).is_some_and(|package| {
            array(&package["targets"]).iter().any(|target| target["kind"] == json!(["proc-macro"]))
        })
    };
    let mut open: Vec<String> = packages
        .iter()
        .filter(|(_, package)| SHIPPED.contains(&text(&package["name"]).as_str()))
        .map(|(id, _)| id.clone())
        .collect();
    anyhow::ensure!(open.len() == SHIPPED.len(), "a shipped package is not in cargo's answer");
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !is_macro(&id) && found.insert(id.clone()) {
            open.extend(linked.get(&id).into_iter().flatten().cloned());
        }
    }
    let purl = |id: &String| {
        let package = &packages[id];
        format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
    };
    let component = |id: &String| {
        let package = &packages[id];
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let mut component = json!({
            "type": "library", "bom-ref": purl(id), "name": name, "version": version, "purl": purl(id),
        });
        // Before 2018 crates wrote "MIT/Apache-2.0".
        if let Some(license) = package["license"].as_str() {
            let expression = license.replace('/', " OR ");
            component["licenses"] = json!([{ "expression": expression }]);
        }
        if let Some(sum) = sums.get(&(name, version)) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        component
    };
    let dependencies: Vec<_> = found
        .iter()
        .map(|id| {
            let on: BTreeSet<_> =
                linked[id].iter().filter(|id| found.contains(*id)).map(purl).collect();
            json!({ "ref": purl(id), "dependsOn": on })
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": "divvy", "name": "divvy-release", "version": VERSION,
            "licenses": [{ "expression": "Apache-2.0" }],
        } },
        "components": found.iter().map(component).collect::<Vec<_>>(),
        "dependencies": dependencies,
    }))
}

/// Packages that a package is linked with, not those that build or test it.
fn linked(node: &Value) -> Vec<String> {
    let is_linked = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let dependencies = node["deps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ids =
        dependencies.iter().filter(is_linked).filter_map(|dependency| dependency["pkg"].as_str());
    ids.map(str::to_owned).collect()
}

/// Checksums of a lock file, by names and versions.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |part: &str, key: &str| {
        let line = part.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
    };
    lock.split("[[package]]")
        .filter_map(|part| {
            Some(((value(part, "name")?, value(part, "version")?), value(part, "checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_only_build_or_test_are_left_out() {
        let package = |name: &str| {
            let kind = if name == "derive" { "proc-macro" } else { "lib" };
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                    "targets": [{ "kind": [kind] }] })
        };
        let dependency =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let others = ["inner", "derive", "cc", "proptest"];
        let packages: Vec<_> = SHIPPED.iter().chain(&others).map(|name| package(name)).collect();
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [{ "id": "divvy", "deps": [
                dependency("inner", Value::Null),
                dependency("derive", Value::Null),
                dependency("cc", json!("build")),
                dependency("proptest", json!("dev")),
            ] }, { "id": "inner", "deps": [] }, { "id": "divvy-bench", "deps": [] },
            { "id": "divvy-kube", "deps": [] }, { "id": "divvy-shim", "deps": [] }, { "id": "simgpu", "deps": [] },
            { "id": "simgpu-cuda", "deps": [] }, { "id": "simgpu-nvml", "deps": [] }] },
        });
        let lock = "[[package]]\nname = \"inner\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let list = of(&metadata, lock).unwrap();
        let components = list["components"].as_array().unwrap();
        let names: Vec<_> = components.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"inner") && names.len() == SHIPPED.len() + 1, "{names:?}");
        let inner = components.iter().find(|one| one["name"] == "inner").unwrap();
        assert_eq!(inner["hashes"][0]["content"], "ab");
        assert_eq!(inner["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }

    #[test]
    fn a_serial_number_is_of_the_content() {
        let one = serial("a");
        assert_eq!(one, serial("a"));
        assert_ne!(one, serial("b"));
        assert_eq!(one.len(), "urn:uuid:00000000-0000-8000-8000-000000000000".len());
    }
}
