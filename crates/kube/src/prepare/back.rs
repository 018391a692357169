//! Taking back: what goes of a claim, now or by a later call.

use std::collections::BTreeSet;

use super::checkpoint::ClaimLine;
use super::core::PrepareCore;
use super::daemon::NodeDaemon;
use super::disk::NodeDisk;
use super::ids;
use super::mark::CheckpointMark;
use super::reason::PrepareError;

/// Answer for one claim that was to be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprepared {
    /// The claim's UID.
    pub uid: String,
    /// Done, or why not.
    pub result: Result<(), PrepareError>,
}

impl<D: NodeDaemon, K: NodeDisk> PrepareCore<D, K> {
    /// Takes claims back, by their UIDs; one that is not known is taken back. Processes that still run in a tenant keep its
    /// limits. Where the daemon is away, its part is done by a later call.
    pub fn unprepare(&self, uids: &[String]) -> Vec<Unprepared> {
        self.unprepare_at(uids, None)
    }

    /// The same of what was asked at a mark: [`PrepareReason::Overtaken`](super::reason::PrepareReason::Overtaken) where another
    /// instance has changed the node since.
    pub fn unprepare_since(&self, uids: &[String], since: CheckpointMark) -> Vec<Unprepared> {
        self.unprepare_at(uids, Some(since))
    }

    fn unprepare_at(&self, uids: &[String], since: Option<CheckpointMark>) -> Vec<Unprepared> {
        let all = |result: &Result<(), PrepareError>| {
            let one = |uid: &String| Unprepared { uid: uid.clone(), result: result.clone() };
            uids.iter().map(one).collect()
        };
        let mut open = match self.open_since(since) {
            Ok(open) => open,
            Err(error) => return all(&Err(error)),
        };
        let mut known = BTreeSet::new();
        for uid in uids.iter().filter(|uid| ids::is_uid(uid)) {
            if !open.now.is_whole {
                // Tenants of it may turn up.
                open.now.claims.entry(uid.clone()).or_default();
            }
            if let Some(line) = open.now.claims.get_mut(uid) {
                line.removing = true;
                known.insert(uid.clone());
            }
        }
        let mut result = self.save(&mut open);
        if result.is_ok() {
            self.finish(&mut open.now);
            result = self.save(&mut open);
        }
        let answer = |uid: &String| {
            let result = match known.contains(uid) {
                true => result.clone().and_then(|()| self.has_no_file(open.now.claims.get(uid))),
                false => Ok(()),
            };
            Unprepared { uid: uid.clone(), result }
        };
        uids.iter().map(answer).collect()
    }

    /// Does what calls before have left to do; the number of claims of which something is still to be removed.
    ///
    /// # Errors
    /// Those of the checkpoint.
    pub fn sweep(&self) -> Result<usize, PrepareError> {
        let mut open = self.open()?;
        self.finish(&mut open.now);
        self.save(&mut open)?;
        Ok(open.now.claims.values().filter(|line| line.removing).count())
    }

    /// Fails where files of a claim are left, which a daemon that is away does not explain.
    fn has_no_file(&self, line: Option<&ClaimLine>) -> Result<(), PrepareError> {
        let Some(line) = line else { return Ok(()) };
        line.ids.iter().try_for_each(|id| self.remove_file(id))
    }
}
