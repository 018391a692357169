//! Preparing: the effects, in their order. What is to be done is decided in [`super::plan`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::allocated::AllocatedClaim;
use super::checkpoint::{ClaimCheckpoint, FoundCheckpoint, TenantLine, VERSION};
use super::daemon::{DaemonError, NodeDaemon, NodeTenantLimits};
use super::disk::{HostDisk, NodeDisk, replace};
use super::held::HeldClaim;
use super::ids;
use super::lock::CheckpointLock;
use super::mark::{CheckpointMark, InstanceMark};
use super::plan::{self, ClaimPlan, PlannedTenant};
use super::reason::{PrepareError, PrepareReason};
use super::room;
use super::selinux::{self, LabelUse};
use super::settings::PreloadBy;
use super::size::ClaimSize;
use super::spec::{self, ContainerEdits, PreparePlaces};
use super::taken::{TakenPart, taken};

/// Prepares claims on one node.
#[derive(Debug)]
pub struct PrepareCore<D, K = HostDisk> {
    pub(super) places: PreparePlaces,
    pub(super) daemon: D,
    pub(super) disk: K,
    /// Whether labels of what is mounted are looked at.
    is_labelled: bool,
    /// Whether more memory is sold than cards have.
    is_beyond: bool,
    pub(super) instance: InstanceMark,
}

/// Answer for one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedClaim {
    /// The claim's UID.
    pub uid: String,
    /// Its shares, in the order of the allocation.
    pub result: Result<Vec<PreparedShare>, PrepareError>,
}

/// A share that a container may be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedShare {
    /// As allocated.
    pub request: String,
    /// As allocated.
    pub pool: String,
    /// As allocated.
    pub device: String,
    /// As allocated.
    pub share_id: Option<String>,
    /// CDI devices: the card's own first, which brings its nodes and the driver's libraries.
    pub cdi_devices: Vec<String>,
    /// The same as the last of them brings, for a runtime that knows no CDI.
    pub edits: ContainerEdits,
}

/// Tenants that were made for a claim, by request: their ids, and what a container is given of them.
type MadeTenants = BTreeMap<String, (String, ContainerEdits)>;

/// The checkpoint, as it is on the disk and as it is to be; under the lock.
pub(super) struct OpenCheckpoint {
    saved: Option<ClaimCheckpoint>,
    pub(super) now: ClaimCheckpoint,
    _lock: CheckpointLock,
}

pub(super) fn of_daemon(error: &DaemonError) -> PrepareError {
    let reason = match error {
        DaemonError::Unreachable(_) => PrepareReason::DaemonUnreachable,
        DaemonError::Refused { .. } => PrepareReason::DaemonRefused,
    };
    PrepareError::new(reason, error.to_string())
}

pub(super) fn of_file(
    reason: PrepareReason,
    path: &Path,
    done: &str,
    error: &dyn std::fmt::Display,
) -> PrepareError {
    PrepareError::new(reason, format!("{} cannot be {done}: {error}", path.display()))
}

/// Request and cards of a tenant, by its id.
fn known(request: &str, tenant: &PlannedTenant) -> (String, TenantLine) {
    let cards = tenant.limits.devices.iter().map(|card| card.uuid.clone()).collect();
    (tenant.id.clone(), TenantLine { request: request.to_owned(), cards })
}

impl<D: NodeDaemon> PrepareCore<D> {
    /// On the host's own files.
    pub fn new(places: PreparePlaces, daemon: D) -> Self {
        Self::with_disk(places, daemon, HostDisk)
    }
}

impl<D: NodeDaemon, K: NodeDisk> PrepareCore<D, K> {
    /// On other files.
    pub fn with_disk(places: PreparePlaces, daemon: D, disk: K) -> Self {
        let instance = InstanceMark::new();
        Self { places, daemon, disk, is_labelled: false, is_beyond: false, instance }
    }

    /// The same on a node where SELinux enforces a policy, if `enforces`: what is to be mounted needs a label for containers.
    #[must_use]
    pub fn under_selinux(self, enforces: bool) -> Self {
        Self { is_labelled: enforces, ..self }
    }

    /// The same on a node that sells more memory than its cards have, if `beyond`: whatever a share's class says, its memory may
    /// leave the card.
    #[must_use]
    pub fn sold_beyond(self, beyond: bool) -> Self {
        Self { is_beyond: beyond, ..self }
    }

    /// Plan of a claim on this node, by its size where it has one.
    pub(super) fn plan(
        &self,
        claim: &AllocatedClaim,
        size: Option<&ClaimSize>,
    ) -> Result<ClaimPlan, PrepareError> {
        let mut plan = plan::of(claim, size)?;
        plan.values_mut().for_each(|tenant| tenant.limits.oversubscribe |= self.is_beyond);
        Ok(plan)
    }

    /// The checkpoint's state, to be taken before a call's claims are read.
    pub fn mark(&self) -> CheckpointMark {
        self.instance.now(&self.disk, &self.places)
    }

    /// Prepares claims, whether they are prepared already or not; one answer for each, in their order.
    pub fn prepare(&self, claims: &[AllocatedClaim]) -> Vec<PreparedClaim> {
        self.prepare_at(claims, None)
    }

    /// The same of claims that were read at a mark: [`PrepareReason::Overtaken`] where another instance has changed the node since.
    pub fn prepare_since(
        &self,
        claims: &[AllocatedClaim],
        since: CheckpointMark,
    ) -> Vec<PreparedClaim> {
        self.prepare_at(claims, Some(since))
    }

    fn prepare_at(
        &self,
        claims: &[AllocatedClaim],
        since: Option<CheckpointMark>,
    ) -> Vec<PreparedClaim> {
        let mut plans: Vec<_> = claims.iter().map(|claim| self.plan(claim, None)).collect();
        let failed = |error: &PrepareError| vec![Err(error.clone()); claims.len()];
        let mut made = Vec::new();
        if plans.iter().any(Result::is_ok) {
            made = match self.announce(claims, &mut plans, since) {
                Ok(mut open) => {
                    let made = self.make_all(claims, &plans, &mut open.now);
                    self.finish(&mut open.now);
                    // Where this fails, the file on the disk still names all there is, and perhaps more.
                    let _ = self.save(&mut open);
                    made
                }
                Err(error) => failed(&error),
            };
        }
        let mut made = made.into_iter();
        let answer = |(claim, plan): (&AllocatedClaim, Result<ClaimPlan, PrepareError>)| {
            let made = made.next();
            let result = plan.and_then(|_| made.unwrap_or_else(|| Ok(MadeTenants::new())));
            let result = result.map(|made| self.shares(claim, &made));
            PreparedClaim { uid: claim.uid.clone(), result }
        };
        claims.iter().zip(plans).map(answer).collect()
    }

    /// Claims of this boot that may be on the node, but for those that are to go.
    ///
    /// # Errors
    /// Those of the checkpoint; [`PrepareReason::DaemonUnreachable`] where it was lost, and the daemon cannot be asked what there is.
    pub fn known(&self) -> Result<Vec<HeldClaim>, PrepareError> {
        let mut open = self.open()?;
        self.save(&mut open)?;
        if !open.now.is_whole {
            let words =
                "the checkpoint was made again, and no daemon answers that knows the tenants";
            return Err(PrepareError::new(PrepareReason::DaemonUnreachable, words));
        }
        Ok(open.now.held())
    }

    fn shares(&self, claim: &AllocatedClaim, made: &MadeTenants) -> Vec<PreparedShare> {
        let share = |share: &super::allocated::AllocatedShare| {
            let (id, edits) = made.get(&share.request)?;
            Some(PreparedShare {
                request: share.request.clone(),
                pool: share.pool.clone(),
                device: share.device.clone(),
                share_id: share.share_id.clone(),
                cdi_devices: vec![self.places.card(&share.gpu_uuid), ids::cdi_device(id)],
                edits: edits.clone(),
            })
        };
        claim.shares.iter().filter_map(share).collect()
    }

    /// Opens the checkpoint and puts into it all names that the claims may come to have. Plans become those of the claims' sizes.
    fn announce(
        &self,
        claims: &[AllocatedClaim],
        plans: &mut [Result<ClaimPlan, PrepareError>],
        since: Option<CheckpointMark>,
    ) -> Result<OpenCheckpoint, PrepareError> {
        let mut open = self.open_since(since)?;
        for (claim, answer) in claims.iter().zip(plans) {
            if let Ok(plan) = &*answer
                && let Err(error) = room::check(&open.now, claim, plan)
            {
                *answer = Err(error);
            }
            let Ok(plan) = &*answer else { continue };
            let line = open.now.claims.entry(claim.uid.clone()).or_default();
            // One of another allocation may not fit.
            line.size = line.size.take().filter(|size| size.check(claim).is_ok());
            line.namespace.clone_from(&claim.namespace);
            line.name.clone_from(&claim.name);
            line.removing = false;
            line.ids.extend(plan.values().map(|tenant| tenant.id.clone()));
            line.shares = claim.shares.iter().filter_map(|share| share.share_id.clone()).collect();
            line.taken = taken(claim);
            line.tenants = plan.iter().map(|(request, tenant)| known(request, tenant)).collect();
            if line.size.is_some() {
                *answer = self.plan(claim, line.size.as_ref());
            }
        }
        self.save(&mut open)?;
        Ok(open)
    }

    /// Makes what is planned; one answer for each claim.
    fn make_all(
        &self,
        claims: &[AllocatedClaim],
        plans: &[Result<ClaimPlan, PrepareError>],
        checkpoint: &mut ClaimCheckpoint,
    ) -> Vec<Result<MadeTenants, PrepareError>> {
        let mut away: Option<PrepareError> = None;
        let mut answers = Vec::with_capacity(claims.len());
        for (claim, plan) in claims.iter().zip(plans) {
            // A daemon that does not answer is waited for once.
            let made = plan.as_ref().map_err(Clone::clone).and_then(|plan| {
                let made = away.clone().map_or_else(|| self.make(plan), Err)?;
                let wanted: BTreeSet<_> = plan.values().map(|tenant| &tenant.id).collect();
                if let Some(line) = checkpoint.claims.get_mut(&claim.uid) {
                    // Of another allocation of the same claim. Where that fails the name stays, for a later call.
                    line.ids.retain(|id| wanted.contains(id) || self.remove(id).is_err());
                }
                Ok(made)
            });
            if let Err(error) = &made
                && error.reason == PrepareReason::DaemonUnreachable
            {
                away = Some(error.clone());
            }
            answers.push(made);
        }
        answers
    }

    fn make(&self, plan: &ClaimPlan) -> Result<MadeTenants, PrepareError> {
        let library = &self.places.library;
        if !self.disk.is_file(library) {
            let words = format!("{} is not there; install Divvy's library", library.display());
            return Err(PrepareError::new(PrepareReason::NoLibrary, words));
        }
        self.check_label(library, LabelUse::Reads)?;
        if plan.values().any(|tenant| tenant.preload == PreloadBy::File) {
            self.make_preload()?;
        }
        let make = |(request, tenant): (&String, &PlannedTenant)| {
            Ok((request.clone(), (tenant.id.clone(), self.make_tenant(tenant)?)))
        };
        plan.iter().map(make).collect()
    }

    /// The list of what to preload is written where it is not as it should be: containers have the one that is there.
    fn make_preload(&self) -> Result<(), PrepareError> {
        let (path, text) = (self.places.preload(), spec::preload_text());
        let cannot = |error| of_file(PrepareReason::CdiFailed, &path, "written", &error);
        match self.disk.read(&path) {
            Ok(Some(bytes)) if bytes == text.as_bytes() => Ok(()),
            _ => replace(&self.disk, &path, text.as_bytes()).map_err(cannot),
        }?;
        self.check_label(&path, LabelUse::Reads)
    }

    fn check_label(&self, path: &Path, wanted: LabelUse) -> Result<(), PrepareError> {
        if !self.is_labelled {
            return Ok(());
        }
        let shown = path.display();
        selinux::check(path, wanted).map_err(|why| {
            let words = format!(
                "{shown}: {why}; SELinux lets containers use container_file_t of level s0: run `chcon -R -t container_file_t -l s0` on \
                 its folder, which what is made there then has too"
            );
            PrepareError::new(PrepareReason::NotLabelled, words)
        })
    }

    fn make_tenant(&self, tenant: &PlannedTenant) -> Result<ContainerEdits, PrepareError> {
        let PlannedTenant { id, limits, preload } = tenant;
        // One that is there may have other limits than it was made with: a size that nobody knows of, or what its programs wrote.
        let directory = match self.daemon.create(id, limits) {
            Ok(created) if created.is_new => created.directory,
            Err(error) if !error.is_differs() => return Err(of_daemon(&error)),
            _ => self.set(id, limits)?,
        };
        self.check_label(Path::new(&directory), LabelUse::Writes)?;
        let path = self.places.cdi_file(id);
        let cannot = |error: &dyn std::fmt::Display| {
            of_file(PrepareReason::CdiFailed, &path, "written", error)
        };
        let edits = spec::edits(&self.places, Path::new(&directory), *preload);
        let text = spec::text(id, &edits).map_err(|error| cannot(&error))?;
        replace(&self.disk, &path, text.as_bytes()).map_err(|error| cannot(&error))?;
        Ok(edits)
    }

    /// Gives a tenant that is there these limits; its directory. Whether its memory may leave was settled when it was made, perhaps by an
    /// agent that sold otherwise, and stays so.
    pub(super) fn set(&self, id: &str, limits: &NodeTenantLimits) -> Result<String, PrepareError> {
        let set = match self.daemon.set(id, limits) {
            Err(error) if error.is_differs() => {
                let oversubscribe = !limits.oversubscribe;
                self.daemon.set(id, &NodeTenantLimits { oversubscribe, ..limits.clone() })
            }
            other => other,
        };
        set.map_err(|error| of_daemon(&error))
    }

    /// Removes a tenant and its file.
    fn remove(&self, id: &str) -> Result<(), PrepareError> {
        let file = self.remove_file(id);
        self.daemon.remove(id).map_err(|error| of_daemon(&error))?;
        file
    }

    pub(super) fn remove_file(&self, id: &str) -> Result<(), PrepareError> {
        let path = self.places.cdi_file(id);
        let aside = self.places.cdi.join(ids::aside(&ids::cdi_file(id)));
        let removed = self.disk.remove(&path).and_then(|()| self.disk.remove(&aside));
        removed.map_err(|error| of_file(PrepareReason::CdiFailed, &path, "removed", &error))
    }

    /// Removes what is to go, as far as that can be done now.
    pub(super) fn finish(&self, checkpoint: &mut ClaimCheckpoint) {
        let mut is_away = false;
        for line in checkpoint.claims.values_mut().filter(|line| line.removing) {
            line.ids.retain(|id| {
                if is_away {
                    let _ = self.remove_file(id);
                    return true;
                }
                let removed = self.remove(id).map_err(|error| error.reason);
                is_away = removed == Err(PrepareReason::DaemonUnreachable);
                removed.is_err()
            });
        }
        let is_whole = checkpoint.is_whole;
        checkpoint.claims.retain(|_, line| !(line.removing && line.ids.is_empty() && is_whole));
    }

    pub(super) fn save(&self, open: &mut OpenCheckpoint) -> Result<(), PrepareError> {
        if open.saved.as_ref() == Some(&open.now) {
            return Ok(());
        }
        self.instance.sign(&mut open.now);
        let path = self.places.checkpoint();
        replace(&self.disk, &path, open.now.text().as_bytes())
            .map_err(|error| of_file(PrepareReason::CheckpointFailed, &path, "written", &error))?;
        open.saved = Some(open.now.clone());
        Ok(())
    }

    /// The same as [`Self::open`], for a call that may have begun at a mark.
    pub(super) fn open_since(
        &self,
        since: Option<CheckpointMark>,
    ) -> Result<OpenCheckpoint, PrepareError> {
        let open = self.open()?;
        since.map_or(Ok(()), |since| self.instance.check(since)).map(|()| open)
    }

    /// Takes the lock and reads the checkpoint, or makes it again.
    pub(super) fn open(&self) -> Result<OpenCheckpoint, PrepareError> {
        let _lock = CheckpointLock::take(&self.places.lock())?;
        let (path, boot_id) = (self.places.checkpoint(), &self.places.boot_id);
        let failed = |done, error| of_file(PrepareReason::CheckpointFailed, &path, done, &error);
        let bytes = self.disk.read(&path).map_err(|error| failed("read", error))?;
        let found = bytes.map(|bytes| ClaimCheckpoint::read(&bytes, boot_id));
        let (saved, mut now) = match found {
            Some(FoundCheckpoint::Ours(found)) => (Some(found.clone()), found),
            Some(FoundCheckpoint::OtherBoot(found)) => {
                let mut now = found.ended(boot_id);
                self.adopt_files(&mut now)?;
                now.claims.values_mut().for_each(|line| line.removing = true);
                (None, now)
            }
            Some(FoundCheckpoint::Newer(version)) => {
                let words = format!(
                    "{} is of version {version}, and this agent knows {VERSION}: the newer one goes on",
                    path.display()
                );
                return Err(PrepareError::new(PrepareReason::CheckpointNewer, words));
            }
            garbled_or_none => {
                if garbled_or_none.is_some() {
                    let kept = self.disk.rename(&path, &self.places.garbled());
                    kept.map_err(|error| failed("set aside", error))?;
                }
                let mut now = ClaimCheckpoint::new(boot_id);
                self.adopt_files(&mut now)?;
                (None, now)
            }
        };
        self.instance.see(&now);
        if !now.is_whole
            && let Ok(listed) = self.daemon.list()
        {
            listed.iter().for_each(|id| now.adopt(id));
            now.is_whole = true;
        }
        self.adopt_parts(&mut now);
        Ok(OpenCheckpoint { saved, now, _lock })
    }

    /// Enters what claims have that were found, or that an agent of the first version has written down, so that the last look before
    /// programs run counts them ([`room`]). If the daemon tells nothing about one, it is asked again.
    fn adopt_parts(&self, checkpoint: &mut ClaimCheckpoint) {
        for line in checkpoint.without_parts() {
            let limits: Result<Vec<_>, _> =
                line.ids.iter().map(|id| self.daemon.limits(id)).collect();
            // The agent waits once for a daemon that does not answer: such a daemon makes no tenant either.
            let Ok(limits) = limits else { return };
            for tenant in limits.into_iter().flatten() {
                for card in &tenant.devices {
                    let part = TakenPart::of_limits(card, tenant.weight);
                    line.taken.entry(card.uuid.clone()).or_default().add(part);
                }
            }
        }
    }

    fn adopt_files(&self, checkpoint: &mut ClaimCheckpoint) -> Result<(), PrepareError> {
        let folder = &self.places.cdi;
        let names = self.disk.names(folder);
        let names =
            names.map_err(|error| of_file(PrepareReason::CdiFailed, folder, "read", &error))?;
        names.iter().filter_map(|name| ids::id_of_file(name)).for_each(|id| checkpoint.adopt(id));
        Ok(())
    }
}
