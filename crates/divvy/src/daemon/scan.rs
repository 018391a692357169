//! Which tenants there are for a daemon, and why some are not in its hands.
//!
//! The machine's daemon looks into directories of all users, and each of them can make as many as it
//! likes. So everything here has a bound by user: names looked at, directories opened, refusals kept, and
//! tenants served ([`Quota`]). A tenant is what its directory is, not what it is called: another name of
//! one that is served is passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use divvy_abi::Uuid;
use divvy_policy::limit::UuidText;

use super::adopted::{Adopted, Hand, NotAdopted};
use super::place::DaemonHome;
use super::quota::{self, Quota, Verdict};
use crate::log::change::Subject;
use crate::log::journal::Journal;
use crate::log::line::{Event, LogLine};
use crate::machine::gpus;
use crate::output::reason::Reason;
use crate::tenants::by_id::TenantsById;
use crate::tenants::dir::{Dir, FileIdentity};
use crate::tenants::discover::{Candidate, KnownNames, TenantRoot, Unusable, Users};
use crate::tenants::tenant_dir;
use crate::wire::TenantView;

/// Tenants of one daemon. A scheduler's step costs their number, squared for those in turns.
pub(super) const MOST: usize = 256;
/// Of one user, where a daemon serves several. Root, whose containers' they are, may have all.
const MOST_OF_ONE: usize = 64;
/// Names looked at in one directory of tenants.
const MOST_NAMES: usize = 512;
/// The part of a user's places that is tried in one look.
const TRIED: usize = 4;
/// Refusals that are kept: of one user, and in all. An answer that names them all fits its frame.
const MOST_REFUSED: (usize, usize) = (32, 256);
/// The longest path that a program can join a tenant by.
const MOST_PATH_BYTES: usize = 200;

/// Rounds after which a refused tenant is tried again.
const RETRY: u32 = 10;

/// Tenants that `uid` may have, of a daemon that serves several users or one.
pub(super) fn most_of(uid: u32, is_system: bool) -> usize {
    if is_system && uid != 0 { MOST_OF_ONE } else { MOST }
}

/// Looks between two that also remove the files of processes and commands that have ended.
const REAP: u32 = 10;

/// Looks for tenants.
#[derive(Debug)]
pub(super) struct Scanner {
    looks: u32,
    home: DaemonHome,
    journal: Arc<Journal>,
    places: Vec<TenantRoot>,
    users: Users,
    refused: BTreeMap<FileIdentity, Refused>,
    /// Places with more in them than is looked at, and whose they are.
    crowded: BTreeMap<PathBuf, u32>,
}

/// A tenant that is not served.
#[derive(Debug)]
struct Refused {
    path: String,
    uid: u32,
    refusal: NotAdopted,
    wait: u32,
    is_there: bool,
}

/// Where a tenant lies that is not served, and what its directory is and whose.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) path: PathBuf,
    pub(super) identity: FileIdentity,
    pub(super) uid: u32,
}

/// A tenant that has come.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) tenant: Adopted,
    /// User whose tenant leaves for it.
    pub(super) instead: Option<u32>,
}

/// Result of a look.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) arrivals: Vec<Arrival>,
    /// Of those that are served, the ones that lie where they were found.
    pub(super) in_place: BTreeSet<FileIdentity>,
}

/// One look for tenants.
struct ScanRound<'a> {
    scanner: &'a mut Scanner,
    known: &'a BTreeMap<FileIdentity, Arc<Hand>>,
    /// Those that are served, and those that have come.
    held: BTreeMap<u32, usize>,
    seen: BTreeSet<FileIdentity>,
    tried: BTreeMap<u32, usize>,
    found: Found,
}

impl Scanner {
    pub(super) fn new(
        home: DaemonHome,
        extra: impl Iterator<Item = PathBuf>,
        journal: Arc<Journal>,
    ) -> Self {
        let mut places = vec![TenantRoot::of_home(home.directory())];
        places.extend(extra.map(TenantRoot::named));
        if !home.is_system() {
            places.push(TenantRoot::by_id(home.directory(), tenant_dir::uid()));
            let uid = tenant_dir::uid();
            let base = tenant_dir::ownerless_base(uid);
            places.extend(base.map(|base| TenantRoot::without_owner(&base, uid)));
        }
        Self {
            looks: 0,
            home,
            journal,
            places,
            users: Users::default(),
            refused: BTreeMap::new(),
            crowded: BTreeMap::new(),
        }
    }

    /// The tenants that have come since those of `known`, and which of those lie where they did.
    pub(super) fn look(&mut self, known: &BTreeMap<FileIdentity, Arc<Hand>>) -> Found {
        if Dir::open(Path::new("/")).is_err() {
            // No descriptor is left, or no memory: nothing can be looked at, and nobody loses by it.
            let in_place = known.keys().copied().collect();
            return Found { in_place, ..Found::default() };
        }
        let mut names = KnownNames::new();
        for hand in known.values() {
            if let (Some(parent), Some(name)) = (hand.path.parent(), hand.path.file_name()) {
                names.entry(parent.to_owned()).or_default().push(name.to_owned());
            }
        }
        let mut places = self.places.clone();
        if self.home.is_system() {
            places.extend(self.by_id());
            places.extend(self.users.places());
        }
        self.looks = self.looks.wrapping_add(1);
        if self.looks % REAP == 1 {
            places.iter().for_each(TenantRoot::reap);
            if !self.home.is_system() {
                tenant_dir::sweep_home(self.home.directory());
            }
        }
        self.refused.values_mut().for_each(|refused| refused.is_there = false);
        self.crowded.clear();
        let mut round = ScanRound {
            held: quota::count(known.values().map(|hand| hand.uid)),
            seen: known.keys().copied().collect(),
            tried: BTreeMap::new(),
            found: Found::default(),
            known,
            scanner: self,
        };
        for place in &places {
            // A place that is not there, or another user's, has no tenants.
            let all = place.each(MOST_NAMES, &names, |candidate| round.look(&candidate));
            if all == Ok(false) {
                let uid = place.uid().unwrap_or_else(tenant_dir::uid);
                round.scanner.crowded.insert(place.path(), uid);
            }
        }
        let found = round.found;
        self.refused.retain(|_, refused| refused.is_there);
        found
    }

    /// Places of tenants by id, of all users who have one.
    fn by_id(&self) -> Vec<TenantRoot> {
        let home = self.home.directory();
        let tenants = TenantsById::open(home).ok().flatten();
        let users = tenants.map(|tenants| tenants.users()).unwrap_or_default();
        users.into_iter().map(|uid| TenantRoot::by_id(home, uid)).collect()
    }

    fn quota_of(&self, uid: u32) -> Quota {
        Quota { most: MOST, most_of_one: most_of(uid, self.home.is_system()) }
    }

    /// Notes why the tenant at `path` is not in our hands.
    pub(super) fn refuse(
        &mut self,
        path: &Path,
        what: FileIdentity,
        uid: u32,
        refusal: NotAdopted,
    ) {
        let own = self.refused.values().filter(|refused| refused.uid == uid).count();
        if !self.refused.contains_key(&what)
            && (own >= MOST_REFUSED.0 || self.refused.len() >= MOST_REFUSED.1)
        {
            return;
        }
        // A tenant that is tried again and again has one line.
        let is_known = |known: &Refused| known.refusal == refusal;
        if !self.refused.get(&what).is_some_and(is_known) {
            self.journal.tell(LogLine {
                code: Some(refusal.reason.to_string()),
                message: Some(refusal.detail.clone()),
                ..Subject::of(path, None, uid).line(Event::NotServed)
            });
        }
        let path = path.display().to_string();
        let refused = Refused { path, uid, refusal, wait: RETRY, is_there: true };
        self.refused.insert(what, refused);
    }

    /// Those that are not in our hands.
    pub(super) fn refused(&self) -> impl Iterator<Item = TenantView> {
        let crowded = self.crowded.iter().take(MOST_REFUSED.0).map(|(place, uid)| {
            let refusal = NotAdopted {
                reason: Reason::TooMany,
                detail: Unusable::Crowded { most: MOST_NAMES }.to_string(),
            };
            view(place.display().to_string(), *uid, &refusal)
        });
        let refused = self.refused.values();
        refused.map(|one| view(one.path.clone(), one.uid, &one.refusal)).chain(crowded)
    }

    /// The same as directories.
    pub(super) fn spots(&self) -> impl Iterator<Item = Spot> {
        self.refused.iter().map(|(identity, refused)| Spot {
            path: PathBuf::from(&refused.path),
            identity: *identity,
            uid: refused.uid,
        })
    }

    /// Whether tenants of all users are served.
    pub(super) fn serves_all(&self) -> bool {
        self.home.is_system()
    }

    /// Whether a device is to be divided. For the machine's daemon only cards that the machine has, so
    /// that no user fills the table with others.
    pub(super) fn accepts(&self, uuid: &Uuid) -> bool {
        !self.home.is_system() || gpus::index_of(&UuidText(uuid).to_string()).is_some()
    }
}

fn view(directory: String, uid: u32, refusal: &NotAdopted) -> TenantView {
    TenantView {
        directory,
        uid,
        reason: Some(refusal.reason.to_string()),
        detail: Some(refusal.detail.clone()),
        held_ns: 0,
        memory: None,
        memories: Vec::new(),
    }
}

impl ScanRound<'_> {
    fn look(&mut self, candidate: &Candidate<'_>) {
        let (what, uid) = (candidate.identity, candidate.user());
        if self.known.get(&what).is_some_and(|hand| hand.path == candidate.path) {
            self.found.in_place.insert(what);
        }
        if !self.seen.insert(what) {
            return;
        }
        if let Some(refused) = self.scanner.refused.get_mut(&what) {
            refused.is_there = true;
            if let Some(wait) = refused.wait.checked_sub(1) {
                refused.wait = wait;
                return;
            }
        } else {
            let own = self.scanner.refused.values().filter(|refused| refused.uid == uid);
            if own.count() >= MOST_REFUSED.0 {
                return;
            }
        }
        let tried = self.tried.entry(uid).or_default();
        if *tried >= most_of(uid, self.scanner.home.is_system()) / TRIED {
            return;
        }
        *tried += 1;
        match candidate.open() {
            Ok(Some(dir)) if (dir.identity(), dir.uid()) == (what, candidate.owner) => {
                self.take(&candidate.path, what, dir);
            }
            // It is another by now, which the next look meets.
            Ok(Some(_)) => {}
            Ok(None) => {
                self.scanner.refused.remove(&what);
            }
            Err(error) => {
                let refusal =
                    NotAdopted { reason: Reason::GatesNotHeld, detail: error.to_string() };
                self.scanner.refuse(&candidate.path, what, uid, refusal);
            }
        }
    }

    fn take(&mut self, path: &Path, what: FileIdentity, dir: Dir) {
        let uid = dir.uid();
        let instead = match self.check(path, uid) {
            Ok(instead) => instead,
            Err(refusal) => return self.scanner.refuse(path, what, uid, refusal),
        };
        match Adopted::take(path.to_owned(), dir) {
            Ok(tenant) => {
                self.scanner.refused.remove(&what);
                if let Some(count) = instead.and_then(|other| self.held.get_mut(&other)) {
                    *count = count.saturating_sub(1);
                }
                *self.held.entry(uid).or_default() += 1;
                self.found.arrivals.push(Arrival { tenant, instead });
            }
            Err(refusal) => self.scanner.refuse(path, what, uid, refusal),
        }
    }

    /// Whether a tenant of `uid` at `path` can be served, and whose leaves for it.
    fn check(&self, path: &Path, uid: u32) -> Result<Option<u32>, NotAdopted> {
        let refusal = |reason, detail: String| Err(NotAdopted { reason, detail });
        if !self.scanner.home.is_system() && uid != tenant_dir::uid() {
            let detail = format!(
                "it belongs to uid {uid}; run `divvy daemon --system` as root to serve all users"
            );
            return refusal(Reason::GatesNotHeld, detail);
        }
        let bytes = path.as_os_str().len();
        if bytes > MOST_PATH_BYTES || path.to_str().is_none() {
            let detail = format!("its path must be UTF-8 of at most {MOST_PATH_BYTES} bytes");
            return refusal(Reason::GatesNotHeld, detail);
        }
        match self.scanner.quota_of(uid).judge(&self.held, uid) {
            Verdict::Free => Ok(None),
            Verdict::Instead(other) => Ok(Some(other)),
            Verdict::None => Err(too_many(self.held.get(&uid).copied().unwrap_or(0))),
        }
    }
}

/// The refusal of a user's tenant where `served` of its others have places.
pub(super) fn too_many(served: usize) -> NotAdopted {
    let detail = format!(
        "the daemon serves {served} tenants of this user and has no place for more; it has {MOST} in all"
    );
    NotAdopted { reason: Reason::TooMany, detail }
}
