//! Command line of who sells a node's cards, the agent or the device plugin: the node, and where things are on it.
//!
//! Promises: a path that a runtime reads on the host is refused where it is not absolute, before anything is started.

use std::path::{Path, PathBuf};

use crate::cards::{ALL_OF_A_CARD, CardTerms, SLOTS};
use crate::failure::{ServeFailure, failed};
use crate::prepare::{DaemonSocket, PrepareCore, PreparePlaces, boot_id, selinux_enforces};

/// The node, and places on it.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// Name of the node, which is the pool of its cards
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,

    /// The kubelet's directory; the same path here as on the host
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    pub(crate) kubelet_root: PathBuf,

    /// Directory of CDI files, which the container runtime reads
    #[arg(long, value_name = "DIR", default_value = "/var/run/cdi")]
    cdi: PathBuf,

    /// Directory of state; the same path here as on the host, kept over reboots, and one for agent and plugin
    #[arg(long, value_name = "DIR", default_value = "/var/lib/divvy/kube")]
    pub(crate) state: PathBuf,

    /// Socket of the node's daemon
    #[arg(long, value_name = "SOCKET", default_value = "/run/divvy/daemon.sock")]
    daemon: PathBuf,

    /// Path of libdivvy.so; the same here as on the host
    #[arg(long, value_name = "FILE", default_value = "/opt/divvy/lib/libdivvy.so")]
    library: PathBuf,

    /// Vendor and class of the CDI devices that bring a card's nodes and the driver's libraries
    #[arg(long, value_name = "KIND", default_value = "nvidia.com/gpu")]
    card_kind: String,

    /// Shares that may be on a card at a time
    #[arg(long, value_name = "N", default_value_t = SLOTS, value_parser = clap::value_parser!(u32).range(1..=256))]
    slots: u32,

    /// Memory that is sold of each card, in percent of what it has. Above 100 all shares of the node oversubscribe: their memory
    /// leaves the card for others by turns, and the host needs room for what does not fit
    #[arg(long, value_name = "PERCENT", default_value_t = ALL_OF_A_CARD, value_parser = clap::value_parser!(u32).range(10..=400))]
    memory_percent: u32,
}

impl NodeArgs {
    /// The node's name, where the places are such as the host can read.
    ///
    /// # Errors
    /// [`ServeFailure::Usage`].
    pub(crate) fn node(&self) -> Result<&str, ServeFailure> {
        let name = self.node_name.as_deref().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            let words =
                "no node is named; set NODE_NAME from the pod's spec.nodeName, or give --node-name";
            ServeFailure::Usage(words.to_owned())
        })?;
        for (flag, path) in
            [("--state", &self.state), ("--cdi", &self.cdi), ("--library", &self.library)]
        {
            absolute(flag, path)?;
        }
        Ok(name)
    }

    /// Terms on which the node's cards are sold.
    pub(crate) fn terms(&self) -> CardTerms {
        CardTerms { slots: self.slots, memory_percent: self.memory_percent }
    }

    /// Client of the node's daemon.
    pub(crate) fn daemon(&self) -> DaemonSocket {
        DaemonSocket::at(&self.daemon)
    }

    /// Core that prepares on the node. `enforces` is whether SELinux does.
    ///
    /// # Errors
    /// [`ServeFailure::Failed`].
    pub(crate) fn core(&self, enforces: bool) -> Result<PrepareCore<DaemonSocket>, ServeFailure> {
        let places = PreparePlaces {
            state: self.state.clone(),
            cdi: self.cdi.clone(),
            library: self.library.clone(),
            card_kind: self.card_kind.clone(),
            boot_id: boot_id().map_err(failed("the boot's id cannot be read"))?,
        };
        let core = PrepareCore::new(places, self.daemon()).under_selinux(enforces);
        Ok(core.sold_beyond(self.terms().sells_beyond()))
    }
}

/// Whether SELinux enforces a policy on the node.
pub(crate) fn enforces() -> bool {
    selinux_enforces(Path::new("/"))
}

fn absolute(flag: &str, path: &Path) -> Result<(), ServeFailure> {
    if path.is_absolute() {
        return Ok(());
    }
    let words = format!(
        "{flag} {}: give an absolute path; the runtime reads it on the host",
        path.display()
    );
    Err(ServeFailure::Usage(words))
}
