//! What is compared: the bare driver, Divvy, and any peer, each as a way to start a program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::failure::usage;
use crate::ledger::{self, Tenant};
use crate::stage::Stage;
use crate::tenant_dir::{Owner, TenantDir};
use crate::{install, limits};

/// One column of the comparison.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// Its name in tables.
    pub(super) name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Native,
    Divvy(PathBuf),
    Peer(PathBuf),
}

/// Native, Divvy, then the peers in the order given.
pub(super) fn all(peers: &[String]) -> Result<Vec<Side>> {
    let mut sides = vec![
        Side { name: "native".to_owned(), kind: Kind::Native },
        Side { name: "divvy".to_owned(), kind: Kind::Divvy(install::library()?) },
    ];
    for peer in peers {
        let (name, path) = peer
            .split_once('=')
            .filter(|(name, path)| !name.is_empty() && !path.is_empty())
            .ok_or_else(|| {
                usage(format!("--peer {peer}: write NAME=PATH, as in hami=/x/libvgpu.so"))
            })?;
        if sides.iter().any(|side| side.name == name) {
            return Err(usage(format!("--peer {peer}: \"{name}\" is taken; give another name")));
        }
        let path = Path::new(path).canonicalize().map_err(|error| {
            usage(format!("--peer {peer}: the library cannot be opened: {error}; correct the path"))
        })?;
        sides.push(Side { name: name.to_owned(), kind: Kind::Peer(path) });
    }
    Ok(sides)
}

/// A fresh tenant of one side: programs started in it share a limit. Gone when dropped.
#[derive(Debug)]
pub(super) struct Tenancy {
    environment: Vec<(&'static str, OsString)>,
    tenant: Option<TenantDir>,
    cache: Option<PathBuf>,
}

impl Side {
    /// Whether this is the bare driver.
    pub(super) fn is_native(&self) -> bool {
        matches!(self.kind, Kind::Native)
    }

    /// A new tenant limited to `limit_bytes`. A peer gets HAMi-core's variables, which others ignore,
    /// and a cache file of its own, since limits are frozen in it.
    pub(super) fn tenancy(&self, stage: &Stage, limit_bytes: u64) -> Result<Tenancy> {
        let mut environment = Vec::new();
        let (mut tenant, mut cache) = (None, None);
        match &self.kind {
            Kind::Native => {}
            Kind::Divvy(library) => {
                let rules = limits::rules(&[format!("{limit_bytes}")], &[])?;
                let command = vec!["divvy".to_owned(), "bench".to_owned()];
                let made = TenantDir::make("bench", &Owner { pid: std::process::id(), command })?;
                ledger::write_config(made.path(), &limits::config("bench", &rules, false, false))?;
                environment.push(("DIVVY_TENANT", made.path().into()));
                environment.push(("LD_PRELOAD", library.into()));
                tenant = Some(made);
            }
            Kind::Peer(library) => {
                let file = stage.scratch().join(format!("{}.cache", self.name));
                let _ = std::fs::remove_file(&file);
                let mib = limit_bytes >> 20;
                environment.push(("LD_PRELOAD", library.into()));
                environment.push(("CUDA_REDIRECT", library.into()));
                environment.push(("CUDA_DEVICE_MEMORY_LIMIT", format!("{mib}m").into()));
                environment.push(("CUDA_DEVICE_MEMORY_SHARED_CACHE", file.clone().into()));
                environment.push(("LIBCUDA_LOG_LEVEL", "0".into()));
                cache = Some(file);
            }
        }
        Ok(Tenancy { environment, tenant, cache })
    }
}

impl Tenancy {
    /// A command that starts `program` in this tenant.
    pub(super) fn command(&self, stage: &Stage, program: &Path) -> Command {
        let mut command = stage.command(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What Divvy's ledger says; `None` on the other sides.
    pub(super) fn ledger(&self) -> Result<Option<Tenant>> {
        self.tenant
            .as_ref()
            .map(|tenant| ledger::read(tenant.path()).context("the ledger cannot be read"))
            .transpose()
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        if let Some(tenant) = self.tenant.take() {
            tenant.remove();
        }
        if let Some(cache) = &self.cache {
            let _ = std::fs::remove_file(cache);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_name_and_a_library() {
        for bad in ["x", "=y", "x=", "x=/nonexistent.so"] {
            let error = match all(&[bad.to_owned()]) {
                Err(error) => error.to_string(),
                Ok(sides) => panic!("{bad} became {sides:?}"),
            };
            // Without a built library the sides cannot be made at all, which is said first.
            assert!(error.contains(bad) || error.contains("libdivvy.so"), "{error}");
        }
    }
}
