//! Why the memory of a tenant is where it is: the [`Cause`] that holds, by the tenant's ledger; and the daemons' views of the
//! tenant, added to that ledger.
//!
//! Promises: the note of a process about its last attempt counts first, then the daemon's decision, then the state seen from
//! outside. A reason is given only where one of these gives it; otherwise the answer is that no reason is known.

use std::path::Path;

use crate::output::reason::Reason;
use crate::tenants::cause::Cause;
use crate::tenants::ledger::{DeviceUse, LedgerTenant, Note};
use crate::tenants::tenant_dir;
use crate::wire::View;

impl Cause {
    /// Why memory of `tenant` that was told to leave is still on a card.
    pub(crate) fn of_staying(tenant: &LedgerTenant) -> Self {
        let said = tenant.devices.iter().find_map(|device| device.residence.as_ref()?.stays);
        match said {
            Some(said) => said,
            None if tenant.processes.is_empty() => Self::NoProcess,
            None => Self::NotAnswered,
        }
    }

    /// Why memory of `tenant` that may come back is still on the host; the daemons' views are added.
    pub(crate) fn of_away(tenant: &LedgerTenant) -> Self {
        let away =
            |device: &&DeviceUse| device.residence.is_some_and(|memory| memory.away_bytes > 0);
        let device = tenant.devices.iter().find(away);
        device.map_or(Self::CardFull, |device| Self::of_waiting(tenant, device))
    }

    /// Why memory of `tenant` is not on `device`.
    pub(crate) fn of_waiting(tenant: &LedgerTenant, device: &DeviceUse) -> Self {
        if tenant.processes.is_empty() {
            return Self::NoProcess;
        }
        match device.memory_status.as_deref() {
            Some("larger") => Self::Larger,
            Some("pinned-out") => Self::PinnedOut,
            Some("bypassed") => Self::Bypassed,
            _ if tenant.paused => Self::Paused,
            Some("waits") => Self::Turn,
            Some("restores") => Self::Coming,
            _ if tenant.frozen => Self::Frozen,
            Some(_) => Self::CardFull,
            None => Self::NoDaemon,
        }
    }
}

/// Adds the daemons' views to the tenants that they serve. A tenant with a cap and no place to meet others gets a note.
pub(crate) fn add_views(tenants: &mut [LedgerTenant], views: &[View]) {
    let note = |reason: &Option<String>, detail: &Option<String>| {
        reason.clone().map(|reason| Note { reason, detail: detail.clone().unwrap_or_default() })
    };
    for (view, seen) in views.iter().flat_map(|view| view.tenants.iter().map(move |t| (view, t))) {
        let mut named = tenants.iter_mut().filter(|tenant| tenant.directory == seen.directory);
        let Some(tenant) = named.next() else { continue };
        tenant.reasons.extend(note(&seen.reason, &seen.detail));
        if seen.reason.is_some() {
            continue;
        }
        for device in &mut tenant.devices {
            let known = view.devices.iter().find(|known| known.uuid == device.uuid);
            device.mode = known.map(|known| known.mode.clone());
            let memory = seen.memories.iter().find(|memory| memory.gpu == device.uuid);
            device.memory_status = memory.map(|memory| memory.status.clone());
            device.memory_waited_ns = memory.map(|memory| memory.waited_ns);
            device.reasons.extend(memory.and_then(|one| note(&one.reason, &one.detail)));
            device.reasons.extend(known.and_then(|known| note(&known.reason, &known.detail)));
        }
    }
    for tenant in tenants.iter_mut() {
        let waits =
            |device: &DeviceUse| device.residence.is_some_and(|memory| memory.waiting_ns > 0);
        let cause = |device: &DeviceUse| waits(device).then(|| Cause::of_waiting(tenant, device));
        let causes: Vec<_> = tenant.devices.iter().map(cause).collect();
        for (device, cause) in tenant.devices.iter_mut().zip(causes) {
            device.memory_cause = cause;
        }
    }
    let is_served = |tenant: &LedgerTenant| {
        let mut served = views.iter().flat_map(|view| &view.tenants);
        served.any(|seen| seen.directory == tenant.directory)
    };
    for tenant in tenants.iter_mut().filter(|tenant| !is_served(tenant)) {
        let is_capped = tenant.devices.iter().any(|device| device.share_ppm.is_some());
        if is_capped && !tenant_dir::can_meet(Path::new(&tenant.directory)) {
            let detail = "no daemon and no directory .meet: beside others the cap is best effort";
            let reason = Reason::NoMeeting.to_string();
            tenant.reasons.push(Note { reason, detail: detail.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use divvy_abi::usage::Stays;

    use super::*;
    use crate::tenants::ledger::{Process, ResidenceUse};

    fn tenant(stays: Stays, status: Option<&str>) -> LedgerTenant {
        let residence =
            ResidenceUse { away_bytes: 1, stays: Cause::said(stays), ..ResidenceUse::default() };
        let process = Process {
            pid: 1,
            pid_namespace: 0,
            comm: String::new(),
            starting: false,
            last_reason: 0,
            uses: Vec::new(),
        };
        let device = DeviceUse {
            residence: Some(residence),
            memory_status: status.map(str::to_owned),
            ..DeviceUse::default()
        };
        LedgerTenant { devices: vec![device], processes: vec![process], ..LedgerTenant::default() }
    }

    /// Each reason, from what says it: none is given by guessing, and none is missing here.
    #[test]
    fn each_reason_has_what_says_it() {
        let mut met = BTreeSet::new();
        let mut is = |found: Cause, expected: Cause| {
            assert_eq!(found, expected);
            met.insert(expected.word());
        };
        for (stays, cause) in [
            (Stays::Calls, Cause::Calls),
            (Stays::Work, Cause::Work),
            (Stays::Capture, Cause::Capture),
            (Stays::Host, Cause::Host),
            (Stays::Context, Cause::Context),
            (Stays::Driver, Cause::Driver),
            (Stays::Not, Cause::NotAnswered),
        ] {
            is(Cause::of_staying(&tenant(stays, None)), cause);
        }
        for (status, cause) in [
            (Some("larger"), Cause::Larger),
            (Some("pinned-out"), Cause::PinnedOut),
            (Some("bypassed"), Cause::Bypassed),
            (Some("waits"), Cause::Turn),
            (Some("restores"), Cause::Coming),
            (Some("holds"), Cause::CardFull),
            (None, Cause::NoDaemon),
        ] {
            is(Cause::of_away(&tenant(Stays::Not, status)), cause);
        }
        let changed = |change: fn(&mut LedgerTenant)| {
            let mut tenant = tenant(Stays::Not, Some("waits"));
            change(&mut tenant);
            tenant
        };
        let gone = changed(|tenant| tenant.processes.clear());
        is(Cause::of_away(&gone), Cause::NoProcess);
        is(Cause::of_staying(&gone), Cause::NoProcess);
        is(Cause::of_away(&changed(|tenant| tenant.paused = true)), Cause::Paused);
        let frozen = changed(|tenant| {
            tenant.frozen = true;
            tenant.devices[0].memory_status = Some("frozen".to_owned());
        });
        is(Cause::of_away(&frozen), Cause::Frozen);
        let all: BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.word()).collect();
        assert_eq!(met, all, "a reason that nothing gives");
        assert!(Cause::ALL.iter().all(|cause| !cause.text().ends_with('.')));
    }
}
