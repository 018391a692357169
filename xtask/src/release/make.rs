//! All artefacts of a commit, in memory first: none is written unless all could be made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::arguments::Arch;
use super::commit::Commit;
use super::cross::{self, Built, Checkout};
use super::tree::{Tree, gzip};
use super::zig::{GLIBC, Zig};
use super::{deb, floor, image, layout, rpm, sbom, sums};
use crate::budget;

/// Files by their names.
pub(super) type Artefacts = BTreeMap<String, Vec<u8>>;

/// Makes everything for `archs`.
pub(super) fn all(checkout: &Checkout, commit: &Commit, archs: &[Arch]) -> Result<Artefacts> {
    ensure!(
        cfg!(target_arch = "x86_64") && archs.contains(&Arch::X86_64),
        "a release is made on x86-64 and has x86-64 in it: the pages are written by the program itself"
    );
    let zig = Zig::installed()?;
    let (mut made, mut parts) = (Artefacts::new(), Vec::new());
    let (mut pages, mut native) = (None, None);
    let mut archs = archs.to_vec();
    archs.sort();
    archs.dedup();
    for &arch in &archs {
        eprintln!("building for {}", arch.name());
        let built = cross::build(checkout, commit, arch, &zig, native.as_ref())?;
        if arch == Arch::X86_64 {
            within_budget(&built)?;
            pages = Some(layout::pages(&built, checkout)?);
        }
        let pages = pages.as_ref().context("x86-64 comes first")?;
        let tree = layout::tree(checkout, &built, pages)?;
        let checked = floor::check(&tree)?;
        eprintln!("{checked} files of {} start on glibc {}.{}", arch.name(), GLIBC.0, GLIBC.1);
        archives(checkout, commit, arch, &tree, &mut made)?;
        let copier = fs::read(&built.copier).context("the image's program")?;
        parts.push(image::Part { arch, tree, copier });
        native.get_or_insert(built);
    }
    made.insert(image::name(), image::image(parts, commit)?);
    made.insert(sbom::name(), sbom::list(checkout, commit, &archs)?);
    let lines = made.iter().map(|(name, bytes)| format!("{}  {name}\n", sums::sha256(bytes)));
    let lines: String = lines.collect();
    made.insert("SHA256SUMS".to_owned(), lines.into_bytes());
    Ok(made)
}

/// Tarball and packages of one tree.
fn archives(
    checkout: &Checkout,
    commit: &Commit,
    arch: Arch,
    tree: &Tree,
    made: &mut Artefacts,
) -> Result<()> {
    let stem = layout::stem(arch);
    let tarball = gzip(&tree.clone().tar(&format!("{stem}/"), commit.epoch_s)?)?;
    made.insert(format!("{stem}.tar.gz"), tarball);
    let script = |name: &str| {
        let path = checkout.root.join("packaging/scripts").join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let packaged = layout::packaged(tree)?;
    let debian = [("postinst", script("postinst")?), ("postrm", script("postrm")?)];
    let package = deb::package(arch, &packaged, &debian, commit.epoch_s)?;
    made.insert(deb::name(arch), package);
    let scripts = rpm::Scripts { installed: script("post")?, removed: script("postun")? };
    made.insert(rpm::name(arch), rpm::package(arch, &packaged, &scripts, commit.epoch_s)?);
    Ok(())
}

/// The library that is shipped has the budget of every library of ours.
fn within_budget(built: &Built) -> Result<()> {
    let broken = budget::report(&budget::check(&built.library)?);
    ensure!(broken == 0, "{broken} budgets of the library are broken");
    Ok(())
}

/// Writes them into `out`, which holds nothing else then.
pub(super) fn write(made: &Artefacts, out: &Path) -> Result<()> {
    if out.exists() {
        let is_ours = out.join("SHA256SUMS").exists() || fs::read_dir(out)?.next().is_none();
        ensure!(
            is_ours,
            "{} is not empty and no earlier release; name another folder",
            out.display()
        );
        fs::remove_dir_all(out).with_context(|| out.display().to_string())?;
    }
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    for (name, bytes) in made {
        fs::write(out.join(name), bytes).with_context(|| name.clone())?;
        println!("{:>12}  {name}", bytes.len());
    }
    Ok(())
}
