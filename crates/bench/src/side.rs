//! Sides of a comparison: the bare driver, Divvy, and any peer, each as a way to start a program.

use std::ffi::{CString, OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use divvy_abi::config::{
    Config, FLAG_BACKEND_MANAGED, FLAG_OVERSUBSCRIBE, PPM, Rule, quantity, selector,
};
use divvy_page::owner::Owner as Limits;

use divvy_command::log::changed;
use divvy_command::machine::install;
use divvy_command::output::failure::usage;
use divvy_command::stage::ClientStage;
use divvy_command::tenants::ledger::{self, LedgerTenant};
use divvy_command::tenants::limits;
use divvy_command::tenants::tenant_dir::{OwnerNote, TenantDir};
use divvy_command::wire::LimitChange;

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

/// Limits of a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct TenantTerms {
    /// Memory.
    pub(super) limit_bytes: u64,
    /// Cap of device time in percent; `None` for none.
    pub(super) share_percent: Option<u32>,
    /// One of [`divvy_abi::config::priority`]; peers know none.
    pub(super) priority: i32,
    /// Its part against others; 0 is the default. Peers know none.
    pub(super) weight: u32,
    /// Whether its memory may leave the card.
    pub(super) oversubscribes: bool,
    /// Whether it is managed memory then.
    pub(super) managed: bool,
}

impl TenantTerms {
    /// Memory alone.
    pub(super) fn memory(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            share_percent: None,
            priority: 0,
            weight: 0,
            oversubscribes: false,
            managed: false,
        }
    }

    /// The same with a cap of device time.
    pub(super) fn share(self, percent: u32) -> Self {
        Self { share_percent: Some(percent), ..self }
    }

    /// The same before all others.
    pub(super) fn first(self) -> Self {
        Self { priority: divvy_abi::config::priority::HIGH, ..self }
    }

    /// The same with a weight.
    pub(super) fn weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// The same whose memory may leave the card.
    pub(super) fn oversubscribed(self) -> Self {
        Self { oversubscribes: true, ..self }
    }

    /// The same whose memory may leave the card as managed memory.
    pub(super) fn managed(self) -> Self {
        Self { oversubscribes: true, managed: true, ..self }
    }

    fn write(&self, config: &mut Config) {
        if self.oversubscribes {
            config.flags |= FLAG_OVERSUBSCRIBE;
        }
        if self.managed {
            config.flags |= FLAG_BACKEND_MANAGED;
        }
        config.priority = self.priority;
        config.weight = self.weight;
        config.compute_rule_count = 0;
        if let Some(percent) = self.share_percent {
            if let Some(rule) = config.compute_rules.first_mut() {
                *rule = Rule {
                    selector: selector::ALL,
                    index: 0,
                    uuid: [0; 16],
                    quantity: quantity::PPM,
                    reserved: 0,
                    value: u64::from(percent) * PPM / 100,
                };
            }
            config.compute_rule_count = 1;
        }
        // Where a daemon opens and closes gates it says so itself, from the state it finds.
        config.any_gate = u32::from(self.share_percent.is_some());
    }
}

/// A fresh tenant of one side: programs started in it share a limit. Gone when dropped.
#[derive(Debug)]
pub(super) struct Tenancy {
    environment: Vec<(&'static str, OsString)>,
    tenant: Option<TenantDir>,
    cache: Option<PathBuf>,
    terms: Option<TenantTerms>,
}

impl Side {
    /// The same under another name, for tenants under other terms.
    pub(super) fn named(&self, name: &str) -> Self {
        Self { name: name.to_owned(), kind: self.kind.clone() }
    }

    /// Whether this is the bare driver.
    pub(super) fn is_native(&self) -> bool {
        matches!(self.kind, Kind::Native)
    }

    /// Whether this is Divvy.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Divvy(_))
    }

    /// Whether this is a peer.
    pub(super) fn is_peer(&self) -> bool {
        matches!(self.kind, Kind::Peer(_))
    }

    /// A new tenant limited to `limit_bytes`.
    pub(super) fn tenancy(&self, stage: &ClientStage, limit_bytes: u64) -> Result<Tenancy> {
        self.tenancy_of(stage, &TenantTerms::memory(limit_bytes))
    }

    /// A new tenant under `terms`. A peer gets HAMi-core's variables, which others ignore, and a cache
    /// file of its own, since limits are frozen in it.
    pub(super) fn tenancy_of(&self, stage: &ClientStage, terms: &TenantTerms) -> Result<Tenancy> {
        static CACHES: AtomicU32 = AtomicU32::new(0);
        let limit_bytes = terms.limit_bytes;
        let mut environment = Vec::new();
        let (mut tenant, mut cache) = (None, None);
        match &self.kind {
            Kind::Native => {}
            Kind::Divvy(library) => {
                let rules = limits::rules(&[format!("{limit_bytes}")], &[])?;
                let command = vec!["divvy".to_owned(), "bench".to_owned()];
                let made =
                    TenantDir::make("bench", &OwnerNote { pid: std::process::id(), command })?;
                let mut config = limits::config("bench", &rules, false, false);
                terms.write(&mut config);
                ledger::write_config(made.path(), &config)?;
                environment.push(("DIVVY_TENANT", made.path().into()));
                environment.push(("LD_PRELOAD", library.into()));
                tenant = Some(made);
            }
            Kind::Peer(library) => {
                let number = CACHES.fetch_add(1, Ordering::Relaxed);
                let file = stage.scratch().join(format!("{}-{number}.cache", self.name));
                let _ = std::fs::remove_file(&file);
                let mib = limit_bytes >> 20;
                environment.push(("LD_PRELOAD", library.into()));
                environment.push(("CUDA_REDIRECT", library.into()));
                environment.push(("CUDA_DEVICE_MEMORY_LIMIT", format!("{mib}m").into()));
                environment.push(("CUDA_DEVICE_MEMORY_SHARED_CACHE", file.clone().into()));
                environment.push(("LIBCUDA_LOG_LEVEL", "0".into()));
                if terms.oversubscribes {
                    environment.push(("CUDA_OVERSUBSCRIBE", "true".into()));
                }
                if let Some(percent) = terms.share_percent {
                    environment.push(("CUDA_DEVICE_SM_LIMIT", percent.to_string().into()));
                    environment.push(("GPU_CORE_UTILIZATION_POLICY", "FORCE".into()));
                }
                cache = Some(file);
            }
        }
        let terms = (!self.is_native()).then_some(*terms);
        Ok(Tenancy { environment, tenant, cache, terms })
    }
}

impl Tenancy {
    /// A command that starts `program` in this tenant.
    pub(super) fn command(&self, stage: &ClientStage, program: &Path) -> Command {
        let mut command = stage.command(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The library that is loaded into its programs; `None` on the bare driver.
    pub(super) fn library(&self) -> Option<&OsStr> {
        let preload = self.environment.iter().find(|(name, _)| *name == "LD_PRELOAD");
        preload.map(|(_, library)| library.as_os_str())
    }

    /// Whether it is one of Divvy's.
    pub(super) fn is_ours(&self) -> bool {
        self.tenant.is_some()
    }

    /// The memory its programs must be shown; `None` on the bare driver.
    pub(super) fn limit_bytes(&self) -> Option<u64> {
        self.terms.map(|terms| terms.limit_bytes)
    }

    /// A hand on its limits; `None` on the other sides.
    pub(super) fn limits(&self) -> Result<Option<Limits>> {
        let Some(tenant) = &self.tenant else { return Ok(None) };
        let path = CString::new(tenant.path().as_os_str().as_encoded_bytes())?;
        let limits = Limits::open(&path).map_err(|error| anyhow::anyhow!("{error}"));
        Ok(Some(limits.context("the tenant's limits cannot be read")?))
    }

    /// Changes its limits as `divvy set` does; nothing on the other sides.
    pub(super) fn change(&self, change: &LimitChange) -> Result<()> {
        let Some(tenant) = &self.tenant else { return Ok(()) };
        changed::make(tenant.path(), change).context("the limits cannot be changed")?;
        Ok(())
    }

    /// The cap was changed through [`Tenancy::limits`].
    pub(super) fn expect_share(&mut self, percent: u32) {
        self.terms = self.terms.map(|terms| terms.share(percent));
    }

    /// Makes sure that the cap asked for is the one that stands in the config.
    pub(super) fn check_share(&self) -> Result<()> {
        let (Some(limits), Some(terms)) = (self.limits()?, self.terms) else { return Ok(()) };
        let config = limits.read().map_err(|error| anyhow::anyhow!("{error}"))?;
        let found = config.compute_rules().first().map(|rule| rule.value * 100 / PPM);
        ensure!(
            found == terms.share_percent.map(u64::from),
            "void: the cap asked for is {:?} % and the config says {found:?}",
            terms.share_percent
        );
        Ok(())
    }

    /// Divvy's ledger; `None` on the other sides.
    pub(super) fn ledger(&self) -> Result<Option<LedgerTenant>> {
        self.tenant
            .as_ref()
            .map(|tenant| ledger::read(tenant.path()).context("the ledger cannot be read"))
            .transpose()
    }
}

/// Changes the cap of device time of programs that run.
pub(super) fn change_share(limits: Option<&Limits>, percent: u32) -> Result<()> {
    let Some(limits) = limits else { return Ok(()) };
    let changed = limits.update(|config| {
        if let Some(rule) = config.compute_rules.first_mut() {
            rule.value = u64::from(percent) * PPM / 100;
        }
    });
    changed.map_err(|error| anyhow::anyhow!("{error}")).context("the limit cannot be changed")?;
    Ok(())
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
