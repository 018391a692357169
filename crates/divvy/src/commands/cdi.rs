//! `divvy cdi`: a container's limits as a device of the Container Device Interface.
//!
//! docker, podman and containerd read such a spec and do what it says when the device is asked for:
//! mount the library, an `/etc/ld.so.preload` that names it, and the tenant's directory. The limits are in
//! that directory's files, and the library knows where it is mounted: what clears a program's variables (`sudo`, `ssh`, `cron`) loses
//! no limit. The program in the container is started as ever.
//!
//! Promises: without `--out` nothing is made or changed; what the spec mounts lies in a directory of
//! the owner's alone, so no other user of the host reaches a container's tenant; everything that can be
//! wrong with a limit is found first. Does not hand out the GPU itself: that is the vendor's spec.

use std::ffi::CString;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use divvy_abi::config::{Config, FLAG_FAIL_OPEN};
use divvy_page::AttachError;
use divvy_page::owner::Owner;

use crate::log;
use crate::log::change::Subject;
use crate::log::line::ChangeAuthor;
use crate::machine::cards::Cards;
use crate::machine::install;
use crate::output::failure::usage;
use crate::output::{json, out};
use crate::tenants::dir::Dir;
use crate::tenants::share_args::ShareArgs;
use crate::tenants::snapshot::Snapshot;
use crate::tenants::{ledger, limits, tenant_dir};

/// The version of the specification: the oldest in which names may begin with a digit. Runtimes pass over specs that are
/// newer than they know, as podman 4.3 does one of 0.6.0.
const CDI_VERSION: &str = "0.5.0";
/// Vendor and class of the devices.
const KIND: &str = "divvy/tenant";
/// Where the library lies in a container.
const LIBRARY: &str = "/usr/local/divvy/libdivvy.so";
/// Where a container has its tenant; the library looks there where no variable names one.
const TENANT: &str = "/run/divvy/tenant";
/// The file in the host's directory that becomes `/etc/ld.so.preload`.
const PRELOAD: &str = "ld.so.preload";

/// Write a CDI spec: limits for containers as a device of docker, podman and containerd.
///
/// The device carries the library, an /etc/ld.so.preload, and the tenant's directory with its limits.
/// Ask for it beside the GPU itself, which the vendor's own spec describes:
///
///   docker run --device nvidia.com/gpu=0 --device divvy/tenant=train IMAGE ...
///
/// Containers that ask for the same device share its limits. Without --out the spec is printed and
/// nothing is made. With --out the file is written, and what it mounts is made under --host-dir.
/// Written again with other limits, these hold at once for containers that run.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Memory limit: 8GiB, 3000m, 50%, or for one device 0=8GiB; may be repeated
    #[arg(long, short, value_name = "SPEC", allow_hyphen_values = true)]
    memory: Vec<String>,

    #[command(flatten)]
    share: ShareArgs,

    /// Name of the device and of its tenant
    #[arg(long, short, allow_hyphen_values = true)]
    name: String,

    /// Write the spec to FILE, such as /etc/cdi/divvy-train.json, and make what it mounts
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,

    /// The library on the host; by default the one that `divvy run` preloads
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Where the tenants' files lie on the host; it must survive as long as the spec
    #[arg(long, value_name = "DIR", default_value = "/var/lib/divvy/cdi")]
    host_dir: PathBuf,

    /// Let programs run without limits when Divvy itself fails, instead of refusing them memory
    #[arg(long)]
    fail_open: bool,

    /// With --out: say what was written as JSON; without, the spec is JSON anyway
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  divvy cdi --name train --memory 8GiB --compute 30% --out /etc/cdi/divvy-train.json
  docker run --device nvidia.com/gpu=0 --device divvy/tenant=train pytorch/pytorch python train.py
  podman run --device nvidia.com/gpu=0 --device divvy/tenant=train pytorch/pytorch python train.py
  ctr run --device divvy/tenant=train docker.io/library/ubuntu:24.04 c1
  divvy ps --root /var/lib/divvy/cdi";

/// A spec: <https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md>.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    cdi_version: &'static str,
    kind: &'static str,
    devices: [Device; 1],
}

#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: Edits,
}

#[derive(Debug, serde::Serialize)]
struct Edits {
    env: Vec<String>,
    mounts: Vec<Mount>,
}

#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: PathBuf,
    container_path: &'static str,
    options: Vec<&'static str>,
}

/// Output of `--json` about the written file.
#[derive(Debug, serde::Serialize)]
struct Report<'a> {
    /// Name to ask a runtime for.
    device: String,
    file: &'a Path,
    /// Where the tenant's files will be, for `divvy ps --root` and `divvy set`.
    tenant: PathBuf,
}

/// Input of a spec.
#[derive(Debug)]
struct Wanted {
    name: String,
    config: Config,
    library: PathBuf,
    host_dir: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<u8> {
    check_name(&args.name)?;
    if !args.host_dir.is_absolute() {
        return Err(usage(format!(
            "--host-dir {}: a runtime mounts absolute paths only; write it from / on",
            args.host_dir.display()
        )));
    }
    let config = config(args)?;
    let library = match &args.library {
        Some(path) => install::link(path).with_context(|| {
            format!("--library {} is not there; name libdivvy.so", path.display())
        })?,
        // By the link: a container gets the library that is installed when it starts.
        None => install::library_link()?,
    };
    let wanted =
        Wanted { name: args.name.clone(), config, library, host_dir: args.host_dir.clone() };
    let text = wanted.text()?;
    let Some(file) = &args.out else {
        out::text(&text)?;
        return Ok(0);
    };
    check_file(file)?;
    wanted.make_directories()?;
    write_whole(file, &text)
        .context("--out: the limits hold, and what the spec mounts is there")?;
    let report = Report { device: format!("{KIND}={}", args.name), file, tenant: wanted.tenant() };
    let line = format!("{} in {}\n", report.device, file.display());
    out::after(&format!("{} was written", file.display()), || match args.json {
        true => json::print(&report),
        false => out::text(&line),
    })?;
    Ok(0)
}

/// The name is a tenant's and a CDI device's, which begins and ends with a letter or a digit.
fn check_name(name: &str) -> Result<()> {
    tenant_dir::check_name(name)?;
    let ends = [name.chars().next(), name.chars().next_back()];
    if ends.iter().flatten().all(char::is_ascii_alphanumeric) {
        return Ok(());
    }
    Err(usage(format!(
        "--name {name:?}: the name of a CDI device begins and ends with a letter or a digit, and \
         runtimes refuse a spec where it does not; write for example {:?}",
        name.trim_matches(|c: char| !c.is_ascii_alphanumeric())
    )))
}

/// A runtime reads only files that are named so.
fn check_file(file: &Path) -> Result<()> {
    let extension = file.extension().and_then(|extension| extension.to_str());
    if matches!(extension, Some("json" | "yaml")) {
        return Ok(());
    }
    Err(usage(format!(
        "--out {}: runtimes read files that end in .json or .yaml; call it {}.json",
        file.display(),
        file.display()
    )))
}

/// Writes `text` in one step: a runtime may read the directory at any time, and another of these commands write there.
fn write_whole(file: &Path, text: &str) -> Result<()> {
    let new = file.with_extension(format!("divvy-new-{}", std::process::id()));
    let cannot = || format!("{} cannot be written", file.display());
    if let Some(parent) = file.parent() {
        std::fs::create_dir_all(parent).with_context(cannot)?;
    }
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written.with_context(cannot)
}

/// The limits, as the tenant's files have them.
fn config(args: &Args) -> Result<Config> {
    let uuids: Vec<String> = Cards::of_kernel().into_iter().map(|card| card.uuid).collect();
    let memory = limits::rules(&args.memory, &uuids)?;
    let share = args.share.read(&uuids)?;
    if memory.is_empty() && share.is_empty() {
        return Err(usage(
            "a device without a limit would do nothing: give --memory, --compute, --weight, \
             --priority or --class",
        ));
    }
    let mut config = limits::config(&args.name, &memory, args.fail_open, false);
    share.apply(&mut config);
    Ok(config)
}

impl Wanted {
    /// The tenant's directory on the host.
    fn tenant(&self) -> PathBuf {
        self.host_dir.join(&self.name)
    }

    fn text(&self) -> Result<String> {
        let mount = |host_path: PathBuf, container_path, access| Mount {
            host_path,
            container_path,
            options: vec![access, "nosuid", "nodev", "bind"],
        };
        let spec = Spec {
            cdi_version: CDI_VERSION,
            kind: KIND,
            devices: [Device {
                name: self.name.clone(),
                container_edits: Edits {
                    env: vec![format!("DIVVY_TENANT={TENANT}")],
                    mounts: vec![
                        mount(self.library.clone(), LIBRARY, "ro"),
                        mount(self.host_dir.join(PRELOAD), "/etc/ld.so.preload", "ro"),
                        mount(self.tenant(), TENANT, "rw"),
                    ],
                },
            }],
        };
        Ok(serde_json::to_string_pretty(&spec)? + "\n")
    }

    /// Makes what the spec mounts.
    fn make_directories(&self) -> Result<()> {
        let host = self.host_dir.display();
        if let Some(parent) = self.host_dir.parent() {
            std::fs::create_dir_all(parent).with_context(|| {
                format!("--host-dir {host} cannot be made; be root, or name a directory of yours")
            })?;
        }
        // Of the owner alone: containers get what lies in it by mounts, other users not at all.
        tenant_dir::make_private(&self.host_dir, tenant_dir::uid())?;
        let mode = std::fs::metadata(&self.host_dir)?.permissions().mode();
        if mode & 0o077 != 0 {
            bail!(
                "--host-dir {host} lets other users in (mode {:o}), who could garble the tenants in \
                 it; chmod 700 it or name another",
                mode & 0o7777
            );
        }
        write_whole(&self.host_dir.join(PRELOAD), &format!("{LIBRARY}\n"))?;
        std::fs::set_permissions(self.host_dir.join(PRELOAD), Permissions::from_mode(0o644))?;
        let tenant = self.tenant();
        let cannot = || format!("{} cannot be made", tenant.display());
        match DirBuilder::new().mode(0o777).create(&tenant) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(cannot);
            }
            _ => {}
        }
        self.give_limits()?;
        // Containers run as any user; the umask must not keep them out.
        std::fs::set_permissions(&tenant, Permissions::from_mode(0o777)).with_context(cannot)
    }

    /// Writes the limits, or changes those that are there, which programs that run follow.
    fn give_limits(&self) -> Result<()> {
        let tenant = self.tenant();
        let path = CString::new(tenant.as_os_str().as_bytes())?;
        let wanted = &self.config;
        let owner = match Owner::open(&path) {
            Ok(owner) => owner,
            Err(AttachError::NoConfig) => return ledger::write_config(&tenant, wanted),
            Err(error) => bail!("the limits in {} cannot be changed: {error}", tenant.display()),
        };
        let mut before = wanted.clone();
        let changed = owner.update(|now| {
            before = now.clone();
            limits::replace(now, wanted);
            now.flags = now.flags & !FLAG_FAIL_OPEN | wanted.flags & FLAG_FAIL_OPEN;
        });
        let cannot = |error| {
            anyhow::anyhow!("the limits in {} cannot be changed: {error}", tenant.display())
        };
        let changed = changed.map_err(cannot)?;
        if let Ok(dir) = Dir::open(&tenant)
            && let Ok(files) = Snapshot::of(&dir)
        {
            let subject = Subject::of(&tenant, Some(&changed), dir.uid());
            let asker = ChangeAuthor::here();
            log::record(&log::change::lines(&subject, &files, [&before, &changed], &asker));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use divvy_policy::share;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        Line::try_parse_from([&["cdi"][..], words].concat()).unwrap().args
    }

    fn wanted(words: &[&str]) -> Result<Wanted> {
        let args = args(words);
        Ok(Wanted {
            name: args.name.clone(),
            config: config(&args)?,
            library: PathBuf::from("/usr/lib/divvy/libdivvy.so"),
            host_dir: args.host_dir.clone(),
        })
    }

    /// Compares with a file that was read and approved. `DIVVY_GOLDEN=write` writes it anew.
    fn golden(name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        if std::env::var_os("DIVVY_GOLDEN").is_some_and(|value| value == "write") {
            std::fs::write(&path, text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, expected, "{name}: DIVVY_GOLDEN=write writes it anew");
    }

    #[test]
    fn specs_are_the_golden_ones() {
        let memory = wanted(&["--name", "small", "-m", "8GiB"]).unwrap();
        golden("cdi-memory.json", &memory.text().unwrap());
        let all = wanted(&[
            "--name",
            "train.1",
            "-m",
            "50%,1=3000m",
            "-c",
            "30%,1=0",
            "--weight",
            "2",
            "--priority",
            "high",
            "--class",
            "latency",
            "--fail-open",
            "--host-dir",
            "/srv/divvy",
        ]);
        golden("cdi-all.json", &all.unwrap().text().unwrap());
    }

    #[test]
    fn limits_are_those_that_were_asked_for() {
        let all = wanted(&["-n", "x", "-m", "8GiB,1=50%,2=0", "-c", "12.5%,1=99.5%"]).unwrap();
        let memory = &all.config.rules[..all.config.rule_count as usize];
        let limit = |index| divvy_policy::limit::resolve(memory, index, &[0; 16], 1 << 40);
        assert_eq!(limit(Some(0)), Ok(Some(8 << 30)));
        assert_eq!(limit(Some(1)), Ok(Some(1 << 39)));
        assert_eq!(limit(Some(2)), Ok(None));
        let caps = &all.config.compute_rules[..all.config.compute_rule_count as usize];
        assert_eq!(share::resolve(caps, Some(0), &[0; 16]), Ok(Some(125_000)));
        assert_eq!(share::resolve(caps, Some(1), &[0; 16]), Ok(Some(995_000)));
    }

    #[test]
    fn what_makes_no_device_is_refused_in_words() {
        for (words, part) in [
            (vec!["-n", "x"], "--memory"),
            (vec!["-n", "x", "-m", "abc"], "--memory abc"),
            (vec!["-n", "x", "-c", "0%"], "--compute 0%"),
        ] {
            let error = wanted(&words).unwrap_err();
            assert_eq!(crate::output::failure::code_of(&error), 2, "{words:?}");
            assert!(error.to_string().contains(part), "{error}");
        }
        for (words, part) in [
            (vec!["-n", "a/b", "-m", "1g"], "\"a/b\""),
            (vec!["-n", "_a", "-m", "1g"], "\"_a\""),
            (vec!["-n", "a-", "-m", "1g"], "write for example \"a\""),
            (vec!["-n", "a.", "-m", "1g"], "a letter or a digit"),
            (vec!["-n", "_", "-m", "1g"], "\"_\""),
            (vec!["-n", "x", "-m", "1g", "--host-dir", "here"], "--host-dir here"),
        ] {
            let error = run(&args(&words)).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(check_file(Path::new("/etc/cdi/divvy.json")).is_ok());
        assert!(check_file(Path::new("/etc/cdi/divvy")).unwrap_err().to_string().contains(".json"));
    }

    #[test]
    fn what_is_mounted_is_made_and_of_the_owner_alone() {
        let base = std::env::temp_dir().join(format!("divvy-cdi-{}", std::process::id()));
        let host = base.join("host");
        let file = base.join("etc/cdi/divvy-x.json");
        let words = ["-n", "x", "-m", "1GiB", "--library", "/proc/self/exe", "--host-dir"];
        let out = ["--out", file.to_str().unwrap()];
        let args = args(&[&words[..], &[host.to_str().unwrap()][..], &out[..]].concat());
        assert_eq!(run(&args).unwrap(), 0);
        assert_eq!(run(&args).unwrap(), 0, "again, over what is there");
        let spec: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let mounts = spec["devices"][0]["containerEdits"]["mounts"].as_array().unwrap();
        assert_eq!(mounts.len(), 3);
        for mount in mounts {
            assert!(Path::new(mount["hostPath"].as_str().unwrap()).exists(), "{mount}");
        }
        let preload = std::fs::read_to_string(host.join(PRELOAD)).unwrap();
        assert_eq!(preload.trim(), LIBRARY);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&host), mode(&host.join("x"))), (0o700, 0o777));
        let limits = || {
            let path = CString::new(host.join("x").as_os_str().as_bytes()).unwrap();
            let config = Owner::open(&path).unwrap().read().unwrap();
            (config.rules[0].value, config.flags & FLAG_FAIL_OPEN)
        };
        assert_eq!(limits(), (1 << 30, 0));
        let mut other = args;
        (other.memory, other.fail_open) = (vec!["2GiB".to_owned()], true);
        assert_eq!(run(&other).unwrap(), 0);
        assert_eq!(limits(), (2 << 30, FLAG_FAIL_OPEN));
        let args = other;
        std::fs::set_permissions(&host, Permissions::from_mode(0o755)).unwrap();
        assert!(run(&args).unwrap_err().to_string().contains("chmod 700"));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
