//! Seller of a node's cards: the agent or the device plugin, never both, since each counts only what it has given away itself.
//!
//! A lock on a file of their state's folder, which both have from the host: agents of a rolling update share it, a plugin has it
//! alone. It ends with its process, however that ends.
//!
//! Does not see sellers of others, nor one of ours with another `--state`; the node's resources tell of those.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// Name of the file.
const FILE: &str = "seller.lock";

/// Kind of a seller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seller {
    /// The agent, by claims.
    Agent,
    /// The device plugin, by sizes.
    Plugin,
}

/// The lock, held until this is dropped or its process ends.
#[derive(Debug)]
pub(crate) struct SellerLock {
    _file: Flock<File>,
}

impl SellerLock {
    /// Takes the lock in the folder `state`.
    ///
    /// # Errors
    /// In words: another seller, or a file that cannot be locked.
    pub(crate) fn take(state: &Path, seller: Seller) -> Result<Self, String> {
        let path = state.join(FILE);
        let cannot =
            |why: &dyn std::fmt::Display| format!("{} cannot be locked: {why}", path.display());
        fs::create_dir_all(state).map_err(|error| cannot(&error))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|error| cannot(&error))?;
        let how = match seller {
            Seller::Agent => FlockArg::LockSharedNonblock,
            Seller::Plugin => FlockArg::LockExclusiveNonblock,
        };
        match Flock::lock(file, how) {
            Ok(file) => Ok(Self { _file: file }),
            Err((_, Errno::EWOULDBLOCK | Errno::EINTR)) => Err(match seller {
                Seller::Agent => format!(
                    "`divvy-kube plugin` sells this node's cards (it has {}): take one of the two off the node, and drain it first",
                    path.display()
                ),
                Seller::Plugin => format!(
                    "`divvy-kube agent`, or another `divvy-kube plugin`, sells this node's cards (it has {}): take one of the two off \
                     the node, and drain it first",
                    path.display()
                ),
            }),
            Err((_, errno)) => Err(cannot(&errno.desc())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_share_a_node_and_a_plugin_has_it_alone() {
        let state = std::env::temp_dir().join(format!("divvy-kube-seller-{}", std::process::id()));
        let first = SellerLock::take(&state, Seller::Agent).unwrap();
        let second = SellerLock::take(&state, Seller::Agent).unwrap();
        let refused = SellerLock::take(&state, Seller::Plugin).unwrap_err();
        assert!(
            refused.contains("`divvy-kube agent`") && refused.contains("seller.lock"),
            "{refused}"
        );
        drop((first, second));
        let plugin = SellerLock::take(&state, Seller::Plugin).unwrap();
        let refused = SellerLock::take(&state, Seller::Agent).unwrap_err();
        assert!(refused.contains("`divvy-kube plugin` sells"), "{refused}");
        assert!(SellerLock::take(&state, Seller::Plugin).unwrap_err().contains("another"));
        drop(plugin);
        SellerLock::take(&state, Seller::Agent).unwrap();
        assert!(
            SellerLock::take(&state.join(FILE), Seller::Agent)
                .unwrap_err()
                .contains("cannot be locked")
        );
        fs::remove_dir_all(&state).unwrap();
    }
}
