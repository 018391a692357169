//! The tarball in systems older than this one, from unpacking to the first refused allocation; and the image's files.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::artefacts::{Scratch, folder, has_tool, named, said};
use crate::roots::{BULLSEYE, Extent, Root, XENIAL, root_of};

/// As docs/guide/install.md has it, and an upgrade of nothing: `divvy install` makes what the tarball holds.
// The doctor finds no driver, and ends with 1.
const TRY: &str = r"
cd /tmp
tar xzf /artefacts/divvy-*-x86_64-linux.tar.gz
cd divvy-*-x86_64-linux
bin/divvy --version
bin/divvy doctor || test $? = 1
bin/divvy run --sim --memory 1GiB -- lib/divvy/clients/fill </dev/null
bin/divvy install /usr/local
cmp lib/divvy/libdivvy-*.so /usr/local/lib/divvy/libdivvy-*.so
test $(basename lib/divvy/libdivvy-*.so) = $(basename /usr/local/lib/divvy/libdivvy-*.so)
for place in sim clients; do
    (cd lib/divvy/$place && sha256sum *) | (cd /usr/local/lib/divvy/$place && sha256sum --check --quiet)
done
(cd share/man && find . -type f -exec sha256sum {} +) | (cd /usr/local/share/man && sha256sum --check --quiet)
/usr/local/bin/divvy run --sim --memory 1GiB -- /usr/local/lib/divvy/clients/fill </dev/null
/usr/local/bin/divvy demo --sim --seconds 8
bin/divvy demo --sim --seconds 8
/usr/local/bin/divvy uninstall
test ! -e /usr/local/bin/divvy && test ! -e /usr/local/lib/divvy
";

fn starts(test: &str, root: &Root, artefacts: &Path) {
    println!("{test}: glibc {}", root.glibc());
    let Some(text) = root.runs(test, artefacts, TRY) else { return };
    for expected in ["divvy 0.", "\"refusal\":2", "Everything expected happened", "DV"] {
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
    }
}

#[test]
fn the_tarball_starts_on_glibc_2_23() {
    let test = "tarball on Ubuntu 16.04";
    let Some(artefacts) = folder(test) else { return };
    let Some(root) = root_of(test, XENIAL, Extent::Unpacked) else { return };
    assert_eq!(root.glibc(), "2.23");
    starts(test, &root, &artefacts);
}

#[test]
fn the_tarball_starts_on_glibc_2_31() {
    let test = "tarball on Debian 11";
    let Some(artefacts) = folder(test) else { return };
    let Some(root) = root_of(test, BULLSEYE, Extent::Unpacked) else { return };
    starts(test, &root, &artefacts);
}

/// Unpacked here, where no driver is: the two commands of docs/guide/install.md, and the same with one program. How long
/// it took is printed, and written to the file that `DIVVY_STORE` names.
#[test]
fn two_commands_lead_to_a_refused_allocation() {
    let Some(folder) = folder("two commands") else { return };
    let scratch = Scratch::new("two-commands");
    let tarball = named(&folder, "divvy-", "-x86_64-linux.tar.gz");
    let begin = Instant::now();
    said(
        Command::new("tar")
            .arg("xzf")
            .arg(&tarball)
            .arg("--strip-components=1")
            .arg("-C")
            .arg(&scratch.0),
    );
    let unpacked_s = begin.elapsed().as_secs_f64();
    let ours = || {
        let mut divvy = Command::new(scratch.0.join("bin/divvy"));
        // State of programs goes with the folder.
        divvy.env("XDG_CACHE_HOME", scratch.0.join("cache"));
        divvy
    };
    let again = Instant::now();
    let fill = scratch.0.join("lib/divvy/clients/fill");
    let text = said(ours().args(["run", "--sim", "--memory", "1GiB", "--"]).arg(fill));
    assert!(text.contains("\"refusal\":2"), "{text}");
    let run_s = again.elapsed().as_secs_f64();
    let again = Instant::now();
    let text = said(ours().args(["demo", "--sim"]));
    assert!(text.contains("greedy was refused with CUDA_ERROR_OUT_OF_MEMORY"), "{text}");
    let demo_s = again.elapsed().as_secs_f64();
    let figures = serde_json::json!({
        "what": "from the tarball to a refused allocation, in two commands, on the simulated GPU",
        "tarball": tarball.file_name().unwrap_or_default().to_string_lossy(),
        "commands": 2,
        "goal_s": 60,
        "tar_s": unpacked_s,
        "run_to_its_end_s": run_s,
        "demo_to_its_end_s": demo_s,
        "tar_and_run_s": unpacked_s + run_s,
        "tar_and_demo_s": unpacked_s + demo_s,
    });
    println!("{figures}");
    if let Some(file) = std::env::var_os("DIVVY_STORE") {
        fs::write(file, format!("{figures:#}\n")).expect("the result is stored");
    }
}

/// The image as a container has it: nothing but its layer.
#[test]
fn the_image_copies_itself_without_a_c_library() {
    let test = "image";
    let Some(folder) = folder(test) else { return };
    let scratch = Scratch::new("image");
    let unpack = |archive: &Path, into: &Path| {
        fs::create_dir_all(into).expect("a folder");
        said(Command::new("tar").arg("xf").arg(archive).arg("-C").arg(into));
    };
    let layout = scratch.0.join("layout");
    unpack(&named(&folder, "divvy-", "-image.tar"), &layout);
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&fs::read(path).expect("a blob")).expect("JSON")
    };
    let blob = |descriptor: &serde_json::Value| {
        let digest = descriptor["digest"].as_str().expect("a digest");
        layout.join("blobs").join(digest.replace(':', "/"))
    };
    let index = read(&blob(&read(&layout.join("index.json"))["manifests"][0]));
    let manifests = index["manifests"].as_array().expect("manifests");
    let is_ours = |one: &&serde_json::Value| one["platform"]["architecture"] == "amd64";
    let manifest = read(&blob(manifests.iter().find(is_ours).expect("amd64")));
    let root = scratch.0.join("root");
    unpack(&blob(&manifest["layers"][0]), &root);
    let mut chroot = Command::new("unshare");
    chroot.args(["--user", "--map-root-user", "chroot"]).arg(&root).args(["/copy", "/target"]);
    let output = chroot.output().expect("unshare is of util-linux");
    if String::from_utf8_lossy(&output.stderr).contains("unshare") {
        println!("SKIPPED {test}: {}", String::from_utf8_lossy(&output.stderr).trim());
        return;
    }
    assert!(output.status.success(), "{output:?}");
    said(
        Command::new("diff")
            .args(["-r", "--no-dereference"])
            .arg(root.join("divvy"))
            .arg(root.join("target")),
    );
    // A second time beside programs that run: files are exchanged, not written into.
    said(&mut chroot);
}

/// The image as a registry's client reads it, for both processors.
#[test]
fn the_image_is_read_by_skopeo() {
    let test = "image by skopeo";
    let Some(folder) = folder(test) else { return };
    if !has_tool(test, "skopeo", "skopeo") {
        return;
    }
    let image = named(&folder, "divvy-", "-image.tar");
    let index = said(Command::new("tar").arg("xOf").arg(&image).arg("index.json"));
    let index: serde_json::Value = serde_json::from_str(&index).expect("JSON");
    let name = &index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"];
    let mut source = std::ffi::OsString::from("oci-archive:");
    source.push(&image);
    source.push(format!(":{}", name.as_str().expect("a name")));
    for arch in ["amd64", "arm64"] {
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["inspect", "--format", "{{.Os}} {{.Architecture}}", "--override-arch", arch]);
        assert_eq!(said(skopeo.arg(&source)).trim(), format!("linux {arch}"));
    }
}
