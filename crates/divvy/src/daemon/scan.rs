//! Which tenants there are for a daemon, and why some are not in its hands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use divvy_abi::Uuid;
use divvy_policy::limit::UuidText;

use super::adopted::{Adopted, Refusal};
use super::place::Home;
use super::wire::TenantView;
use crate::{discover, gpus, tenant_dir};

/// Tenants of one daemon. A scheduler's step costs their number, squared for those in turns.
const MOST: usize = 256;

/// Rounds after which a refused tenant is tried again.
const RETRY: u32 = 10;

/// Looks for tenants.
#[derive(Debug)]
pub(super) struct Scanner {
    home: Home,
    extra: Vec<PathBuf>,
    refused: BTreeMap<PathBuf, (u32, Refusal, u32)>,
}

impl Scanner {
    pub(super) fn new(home: Home, extra: Vec<PathBuf>) -> Self {
        Self { home, extra, refused: BTreeMap::new() }
    }

    /// The tenants that have come since `known`.
    pub(super) fn new_tenants(&mut self, known: &BTreeSet<PathBuf>) -> Vec<Adopted> {
        let uid = tenant_dir::uid();
        let mut parents = vec![self.home.directory().join("tenants")];
        parents.extend(self.extra.iter().cloned());
        if self.home.is_system() {
            parents.extend(discover::of_every_user());
        } else {
            parents.push(discover::without_owner(uid));
        }
        let there = discover::below(&parents);
        self.refused.retain(|directory, _| there.contains(directory));
        let mut taken = Vec::new();
        for directory in there.difference(known) {
            if let Some((_, _, wait @ 1..)) = self.refused.get_mut(directory) {
                *wait -= 1;
                continue;
            }
            if known.len() + taken.len() >= MOST {
                break;
            }
            let is_ours = (!self.home.is_system()).then_some(uid);
            match Adopted::take(directory, is_ours) {
                Ok(tenant) => {
                    self.refused.remove(directory);
                    taken.push(tenant);
                }
                Err(refusal) => self.refuse(directory, uid, refusal),
            }
        }
        taken
    }

    /// Notes why the tenant in `directory` is not in our hands.
    pub(super) fn refuse(&mut self, directory: &Path, uid: u32, refusal: Refusal) {
        self.refused.insert(directory.to_owned(), (uid, refusal, RETRY));
    }

    /// Those that are not in our hands.
    pub(super) fn refused(&self) -> impl Iterator<Item = TenantView> {
        self.refused.iter().map(|(directory, (uid, refusal, _))| TenantView {
            directory: directory.display().to_string(),
            uid: *uid,
            reason: Some(refusal.reason.to_string()),
            detail: Some(refusal.detail.clone()),
            held_ns: 0,
        })
    }

    /// Whether a device is to be divided. For the machine's daemon only cards that the machine has, so
    /// that no user fills the table with others.
    pub(super) fn accepts(&self, uuid: &Uuid) -> bool {
        !self.home.is_system() || gpus::index_of(&UuidText(uuid).to_string()).is_some()
    }
}
