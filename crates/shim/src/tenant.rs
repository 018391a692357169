//! This process's membership: under which limits it runs, learnt once, at its first driver call.
//!
//! Promises: nothing happens before that call; whatever fails here, the program lives: it is refused
//! memory with CUDA's own code, or runs unlimited if its operator chose so (but never for meeting
//! another version of us). What was learnt is kept,
//! but for failures that may pass (no slot free, a lock not to be had).
//!
//! Does not know devices ([`device`]) or contexts ([`context`]), nor what is charged (`account`).

pub(crate) mod context;
pub(crate) mod device;
mod limits;
mod mps;
pub(crate) mod names;
pub(crate) mod reason;

use divvy_abi::config::{Config, FLAG_BACKEND_VMM, FLAG_FAIL_OPEN, FLAG_STRICT};
use divvy_page::{AttachError, ConfigSource, OwnerWord, SharedEntry, Tenant};

use self::limits::TenantPlace;
use self::reason::Reason;
use crate::sys::log::log;
use crate::sys::once::Once;
use crate::sys::reference::Reference;

/// Result of attaching.
#[allow(clippy::large_enum_variant, reason = "there is one, in a static; nothing is allocated")]
#[derive(Debug)]
enum State {
    /// A member of a tenant.
    Member(Tenant),
    /// Attaching failed: memory is refused.
    Closed(Reason),
    /// Attaching failed, and the operator prefers no limit to no memory.
    Open,
}

/// Under which limits the process runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Membership {
    /// Those of a tenant.
    Member(&'static Tenant),
    /// None can be had, so memory is refused.
    Closed(Reason),
    /// None.
    Open,
}

static STATE: Once<State> = Once::new();

/// The tenant's word that says whether any gate is in use; none outside a tenant.
static ANY_GATE: Reference<OwnerWord> = Reference::none();

/// The process's membership.
///
/// Cost: one load once it is known; before, the tenant's files are opened.
pub(crate) fn membership() -> Membership {
    let state = match STATE.get() {
        Some(state) => Some(state),
        None => begin(),
    };
    match state {
        Some(State::Member(tenant)) => Membership::Member(tenant),
        Some(State::Closed(reason)) => Membership::Closed(*reason),
        Some(State::Open) => Membership::Open,
        None if limits::fails_open() => Membership::Open,
        None => Membership::Closed(Reason::NoTenant),
    }
}

/// Learns it.
#[cold]
fn begin() -> Option<&'static State> {
    let state = STATE.get_or_try_init(attach);
    if let Some(State::Member(tenant)) = state {
        reason::note_in(tenant);
    }
    state
}

/// Whether launches must look at their gates.
///
/// It follows that the process is a member of a tenant, and that its hooks are active.
///
/// Cost: two loads.
#[inline(always)]
pub(crate) fn is_gated() -> bool {
    ANY_GATE.get().is_some_and(|word| word.load() != 0)
}

/// Whether entry points of a memory family that the table does not know are refused.
pub(crate) fn is_strict() -> bool {
    match membership() {
        Membership::Member(tenant) => tenant.config().flags & FLAG_STRICT != 0,
        Membership::Closed(_) | Membership::Open => false,
    }
}

/// The tenant, if memory of its processes may leave the card.
///
/// Cost: two loads.
pub(crate) fn oversubscribed() -> Option<&'static Tenant> {
    match membership() {
        Membership::Member(tenant) => Some(tenant).filter(|tenant| tenant.oversubscribes()),
        Membership::Closed(_) | Membership::Open => None,
    }
}

/// Size and free bytes of a card as a tenant is to see them that has `limit_bytes` there: where its memory may exceed the
/// card, the limit stands for the card.
pub(crate) fn card_as_seen(
    tenant: &Tenant,
    limit_bytes: Option<u64>,
    (total_bytes, free_bytes): (u64, u64),
) -> (u64, u64) {
    let flags = tenant.config().flags;
    let may_exceed = tenant.oversubscribes() && flags & FLAG_BACKEND_VMM == 0;
    match limit_bytes.filter(|bytes| may_exceed && *bytes > total_bytes) {
        Some(bytes) => (bytes, bytes),
        None => (total_bytes, free_bytes),
    }
}

/// Refers to memory another process of the tenant exported; see [`Tenant::open_shared`].
pub(crate) fn open_shared(handle: &[u8; 64]) -> Option<SharedEntry> {
    match membership() {
        Membership::Member(tenant) => tenant.open_shared(handle),
        Membership::Closed(_) | Membership::Open => None,
    }
}

/// Keeps exported memory charged for as long as this process lives.
pub(crate) fn keep_shared(entry: SharedEntry) {
    if let Membership::Member(tenant) = membership() {
        tenant.refer_again(entry);
    }
}

/// Lets go of exported memory.
pub(crate) fn close_shared(entry: SharedEntry) {
    if let Membership::Member(tenant) = membership() {
        tenant.close_shared(entry);
    }
}

fn attach() -> Option<State> {
    match limits::place() {
        TenantPlace::TooLong(variable) => {
            reason::tell(
                Reason::NoTenant,
                format_args!("{variable} names a path of more than 200 bytes; use a shorter one"),
            );
            Some(failed(Reason::NoTenant))
        }
        TenantPlace::Owned(directory) => {
            settle(Tenant::attach(directory.as_c_str(), &ConfigSource::Owner), directory.as_text())
        }
        TenantPlace::Shared(directory) => {
            let Some(config) = limits::from_environment() else {
                return Some(failed(Reason::BadLimit));
            };
            let path = directory.as_c_str();
            settle(Tenant::attach(path, &ConfigSource::FirstProcess(&config)), directory.as_text())
        }
        TenantPlace::Alone => match limits::from_environment() {
            Some(config) => attach_alone(&config),
            None => Some(failed(Reason::BadLimit)),
        },
    }
}

/// Tenants of one process each: as many as a daemon serves.
const ALONE: u32 = 256;

/// Joins the first tenant in which nobody lives.
#[cold]
fn attach_alone(config: &Config) -> Option<State> {
    for number in 1..=ALONE {
        let directory = limits::numbered(number);
        match Tenant::attach(directory.as_c_str(), &ConfigSource::OnlyProcess(config)) {
            Err(AttachError::Taken | AttachError::OtherLibrary { .. }) => {}
            attached => return settle(attached, directory.as_text()),
        }
    }
    let text = "programs of this user run with libnvshare.so; end some, or give this one CUDA_DEVICE_MEMORY_SHARED_CACHE";
    reason::tell(Reason::NoTenant, format_args!("{ALONE} {text}"));
    Some(failed(Reason::NoTenant))
}

fn failed(reason: Reason) -> State {
    if limits::fails_open() { State::Open } else { State::Closed(reason) }
}

fn settle(attached: Result<Tenant, AttachError>, directory: &str) -> Option<State> {
    match attached {
        Ok(tenant) => {
            log!(
                Info,
                "tenant {directory}: joined; memory rules: {}",
                tenant.config().rules().len()
            );
            ANY_GATE.set(tenant.any_gate());
            Some(State::Member(tenant))
        }
        Err(error) => {
            reason::tell(Reason::NoTenant, format_args!("tenant {directory}: {error}"));
            match error {
                // Nothing has failed: it would be without limits in a tenant whose others have them.
                AttachError::OtherLibrary { .. } | AttachError::Version { .. } => {
                    Some(State::Closed(Reason::NoTenant))
                }
                _ => (!error.may_pass()).then(|| failed(Reason::NoTenant)),
            }
        }
    }
}

/// Whether the tenant's owner prefers no limit to no memory.
pub(crate) fn opens_on_failure(tenant: &Tenant) -> bool {
    tenant.config().flags & FLAG_FAIL_OPEN != 0
}
