//! The deb, installed into a bare Debian, upgraded and removed; the rpm, as rpm reads it.

use std::process::Command;

use crate::artefacts::{folder, has_tool, named, said};
use crate::roots::{BOOKWORM, Extent, root_of};

/// Installs, tries, upgrades beside a library that some program may still have, and removes.
const INSTALL: &str = r"
dpkg -i /artefacts/divvy_*_amd64.deb
dpkg --verify divvy
divvy --version
test ! -e /usr/lib/x86_64-linux-gnu/libcuda.so.1
divvy demo --sim --seconds 8
: > /usr/lib/divvy/libdivvy-0.0.1-earlier.so
dpkg -i /artefacts/divvy_*_amd64.deb
test -e /usr/lib/divvy/libdivvy-0.0.1-earlier.so
readlink /usr/lib/divvy/libdivvy.so
test -s /usr/share/man/man1/divvy-run.1
test -s /usr/share/bash-completion/completions/divvy
grep -q '^ExecStart=/usr/bin/divvy daemon --system' /usr/lib/systemd/system/divvy.service
dpkg -r divvy
test ! -e /usr/lib/divvy
test ! -e /usr/bin/divvy
";

#[test]
fn the_deb_is_installed_in_a_bare_debian_and_shows_the_demo() {
    let test = "deb";
    let Some(artefacts) = folder(test) else { return };
    let Some(root) = root_of(test, BOOKWORM, Extent::Bare) else { return };
    let Some(text) = root.runs(test, &artefacts, INSTALL) else { return };
    assert!(text.contains("Everything expected happened, on a SIMULATED GPU"), "{text}");
    assert!(text.contains("\nlibdivvy-"), "{text}");
}

#[test]
fn the_rpm_is_whole_and_has_the_same_files_as_the_deb() {
    let test = "rpm";
    let Some(folder) = folder(test) else { return };
    let tools = [("rpm", "rpm"), ("dpkg-deb", "dpkg")];
    if !tools.into_iter().all(|(tool, package)| has_tool(test, tool, package)) {
        return;
    }
    for (rpm_arch, deb_arch) in [("x86_64", "amd64"), ("aarch64", "arm64")] {
        let rpm = named(&folder, "divvy-", &format!("{rpm_arch}.rpm"));
        let deb = named(&folder, "divvy_", &format!("{deb_arch}.deb"));
        let checked = said(Command::new("rpm").args(["--checksig", "--nosignature"]).arg(&rpm));
        assert!(checked.contains("digests OK"), "{checked}");
        let scripts =
            said(Command::new("rpm").args(["-qp", "--nosignature", "--scripts"]).arg(&rpm));
        assert!(scripts.contains("divvy install /usr"), "{scripts}");
        // Modes and paths of files and links; folders are the packages' own.
        let query = "[%{FILEMODES:perms} /%{FILENAMES}\n]";
        let listed =
            said(Command::new("rpm").args(["-qp", "--nosignature", "--qf", query]).arg(&rpm));
        let of_rpm: std::collections::BTreeSet<_> = listed
            .lines()
            .filter(|line| !line.starts_with('d'))
            .map(|line| line.replacen("//", "/", 1))
            .collect();
        let listed = said(Command::new("dpkg-deb").arg("--contents").arg(&deb));
        let of_deb: std::collections::BTreeSet<_> = listed
            .lines()
            .filter(|line| !line.starts_with('d'))
            .filter_map(|line| {
                let path = line.split(" ./").nth(1)?.split(" -> ").next()?;
                Some(format!("{} /{path}", &line[..10]))
            })
            .collect();
        assert!(of_deb.len() > 30, "{listed}");
        assert_eq!(of_rpm, of_deb);
    }
}
