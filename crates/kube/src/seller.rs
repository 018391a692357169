//! Seller of a node's cards: the agent or the device plugin, never both, since each counts only what it has given away itself.
//!
//! A lock on a file of their state's folder, which both have from the host: agents of a rolling update share it, a plugin has it
//! alone. It ends with its process, however that ends.
//!
//! Does not see sellers of others, nor one of ours with another `--state`; the node's resources tell of those.

use std::path::Path;

use crate::file_lock::FileLock;

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
    _file: FileLock,
}

impl SellerLock {
    /// Takes the lock in the folder `state`.
    ///
    /// # Errors
    /// In words: another seller, or a file that cannot be locked.
    pub(crate) fn take(state: &Path, seller: Seller) -> Result<Self, String> {
        let path = state.join(FILE);
        let taken = match seller {
            Seller::Agent => FileLock::try_shared(&path),
            Seller::Plugin => FileLock::try_alone(&path),
        };
        match taken {
            Ok(Some(file)) => Ok(Self { _file: file }),
            Ok(None) => Err(match seller {
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
            Err(error) => Err(format!("{} cannot be locked: {error}", path.display())),
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
        std::fs::remove_dir_all(&state).unwrap();
    }
}
