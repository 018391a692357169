//! The tree that every artefact has, below a prefix: a tarball's folder, `/usr`, an image's `/divvy`.
//!
//! `divvy` finds its parts in it, and `divvy install` makes the same of the library, of which only one build is in a
//! release. Promises: the names are those that `crates/divvy/src/machine/install.rs` looks for.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::arguments::Arch;
use super::cross::{Built, Checkout};
use super::sums::fnv_1a;
use super::tree::{Tree, TreeEntry};
use crate::command::{output, run};

/// The version of everything.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where the library lies by the name that leads to the newest one.
pub(super) const NEWEST: &str = "lib/divvy/libdivvy.so";
/// Links by the names that programs and people know.
const LINKS: [(&str, &str); 3] = [
    ("lib/libdivvy.so", "divvy/libdivvy.so"),
    ("lib/libvgpu.so", "libdivvy.so"),
    ("lib/libnvshare.so", "libdivvy.so"),
];
/// The simulated driver: cargo's names and those that programs ask for.
const SIMULATOR: [(&str, &str); 3] = [
    ("simgpud", "simgpud"),
    ("libsimcuda.so", "libcuda.so.1"),
    ("libsimnvml.so", "libnvidia-ml.so.1"),
];
/// Files of the checkout that people read.
const READ: [&str; 4] = ["LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"];
/// Shells, each with the place from which it takes scripts.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/divvy"),
    ("zsh", "share/zsh/site-functions/_divvy"),
    ("fish", "share/fish/vendor_completions.d/divvy.fish"),
];

/// Text that is the same for every processor, and comes from a program that can be run here.
#[derive(Debug)]
pub(super) struct Pages(Tree);

/// Has the `divvy` that was built for this machine write its pages and scripts.
pub(super) fn pages(built: &Built, checkout: &Checkout) -> Result<Pages> {
    let divvy = built.program("divvy");
    let folder = checkout.target.join("pages");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    run(Command::new(&divvy).arg("man-pages").arg(&folder))?;
    let mut tree = Tree::default();
    for page in fs::read_dir(&folder)? {
        let page = page?;
        let name = page.file_name().to_string_lossy().into_owned();
        tree.put(format!("share/man/man1/{name}"), TreeEntry::text(read(&page.path())?));
    }
    for (shell, place) in SHELLS {
        let script = output(Command::new(&divvy).args(["completions", shell]))?;
        tree.put(place, TreeEntry::text(script));
    }
    Ok(Pages(tree))
}

/// The tree for one processor.
pub(super) fn tree(checkout: &Checkout, built: &Built, pages: &Pages) -> Result<Tree> {
    let mut tree = pages.0.clone();
    for program in ["divvy", "divvy-bench", "divvy-kube"] {
        tree.put(format!("bin/{program}"), TreeEntry::program(read(&built.program(program))?));
    }
    let library = read(&built.library)?;
    let name = format!("libdivvy-{VERSION}-{:016x}.so", fnv_1a(&library));
    tree.put(format!("lib/divvy/{name}"), TreeEntry::program(library));
    tree.put(NEWEST, TreeEntry::Link(name));
    for (link, to) in LINKS {
        tree.put(link, TreeEntry::Link(to.to_owned()));
    }
    for (file, name) in SIMULATOR {
        tree.put(format!("lib/divvy/sim/{name}"), TreeEntry::program(read(&built.program(file))?));
    }
    for client in built.clients()? {
        let name = client.file_name().unwrap_or_default().to_string_lossy().into_owned();
        tree.put(format!("lib/divvy/clients/{name}"), TreeEntry::program(read(&client)?));
    }
    for file in READ {
        tree.put(
            format!("share/doc/divvy/{file}"),
            TreeEntry::text(read(&checkout.root.join(file))?),
        );
    }
    let unit = String::from_utf8(read(&checkout.root.join("deploy/divvy.service"))?)?;
    tree.put("lib/systemd/system/divvy.service", TreeEntry::text(unit));
    Ok(tree)
}

/// Folder of a tarball, and the stem of its name.
pub(super) fn stem(arch: Arch) -> String {
    format!("divvy-{VERSION}-{}-linux", arch.name())
}

/// The tree below `/usr`, for a package manager: the unit starts the command there.
///
/// The library becomes `lib/divvy/package/libdivvy.so`, which the package's script installs as `divvy install` does: a
/// library that programs run with stays when the package is upgraded, and so what they start stays limited.
pub(super) fn packaged(tree: &Tree) -> Result<Tree> {
    let mut tree = tree.clone();
    let Some(TreeEntry::Link(name)) = tree.take(NEWEST) else {
        anyhow::bail!("{NEWEST} is no link");
    };
    let library = tree.take(&format!("lib/divvy/{name}")).context("the library is missing")?;
    tree.put("lib/divvy/package/libdivvy.so", library);
    let place = "lib/systemd/system/divvy.service";
    let unit = tree.take(place).context("the unit is missing")?;
    let unit = String::from_utf8(unit.bytes().unwrap_or_default().to_vec())?;
    tree.put(place, TreeEntry::text(unit.replace("/usr/local/bin/divvy", "/usr/bin/divvy")));
    Ok(tree.below("usr"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_leaves_the_library_that_is_in_use_to_a_script() {
        let mut tree = Tree::default();
        tree.put(NEWEST, TreeEntry::Link("libdivvy-1.so".into()));
        tree.put("lib/divvy/libdivvy-1.so", TreeEntry::program(vec![7]));
        let unit = "ExecStart=/usr/local/bin/divvy daemon\n";
        tree.put("lib/systemd/system/divvy.service", TreeEntry::text(unit));
        let packaged = packaged(&tree).unwrap();
        let paths: Vec<_> = packaged.entries().map(|(path, _)| path).collect();
        assert_eq!(
            paths,
            ["usr/lib/divvy/package/libdivvy.so", "usr/lib/systemd/system/divvy.service"]
        );
        let unit = packaged.entries().nth(1).and_then(|(_, unit)| unit.bytes());
        assert_eq!(unit, Some(&b"ExecStart=/usr/bin/divvy daemon\n"[..]));
    }
}
