//! Why memory that may leave a card stays on it, or does not come back: one closed list, for `freeze`, `thaw` and `ps`.
//!
//! What a process says of its last attempt counts first ([`Stays`]), then what the daemon decided, then what can be seen from
//! outside. Promises: a reason is given only where something says so; where nothing does, that is the answer.

use divvy_abi::usage::Stays;

use crate::tenants::ledger::{DeviceUse, LedgerTenant};

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $text:literal;)*) => {
        /// A reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause { $($(#[$doc])* $name,)* }

        impl Cause {
            /// All of them.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its word for programs.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// A clause for people.
            pub(crate) const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

causes! {
    /// A call of the program has not returned.
    Calls = "calls", "a call of the program that may use it has not returned";
    /// Work has not ended.
    Work = "work", "work on the card does not end, a stream that waits for the program itself perhaps";
    /// A stream captures.
    Capture = "capture", "a stream is being captured";
    /// The host is full.
    Host = "host", "the host has no room for it";
    /// Contexts are broken.
    Context = "context", "its contexts are broken, and answer no call any more";
    /// The driver fails.
    Driver = "driver", "the driver refuses to move it";
    /// Nobody lives in the tenant.
    NoProcess = "no-process", "no process of the tenant is alive";
    /// The process has not looked at the wish.
    NotAnswered = "not-answered", "its program has not answered yet: it is stopped, or only just begins";
    /// Paused tenants have no turn.
    Paused = "paused", "the tenant is paused: `divvy set TENANT --resume` lets it go on";
    /// Others have their turn.
    Turn = "turn", "other tenants have their turn with the card, and its own has not come";
    /// It is too large.
    Larger = "larger", "it is larger than the room that the card has for memory that may leave";
    /// What others have cannot leave.
    PinnedOut = "pinned-out", "memory of others that cannot leave takes the room on the card";
    /// It did not leave in time before.
    Bypassed = "bypassed", "it did not leave in its time, and counts as memory that stays until it does";
    /// Its turn has come.
    Coming = "coming", "it is on its way back";
    /// It was sent away.
    Frozen = "frozen", "it was sent away by `divvy freeze`";
    /// Another program has the room, and no daemon makes some.
    NoDaemon = "no-daemon", "the card has no room for it, and no daemon serves the tenant that would have others make some";
    /// The card is full.
    CardFull = "card-full", "the card has no room for it";
}

impl serde::Serialize for Cause {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Cause {
    /// What a process says.
    pub(crate) const fn said(stays: Stays) -> Option<Self> {
        match stays {
            Stays::Not => None,
            Stays::Calls => Some(Self::Calls),
            Stays::Work => Some(Self::Work),
            Stays::Capture => Some(Self::Capture),
            Stays::Host => Some(Self::Host),
            Stays::Context => Some(Self::Context),
            Stays::Driver => Some(Self::Driver),
        }
    }

    /// Why memory of `tenant` that was told to leave is on a card still.
    pub(crate) fn of_staying(tenant: &LedgerTenant) -> Self {
        let said = tenant.devices.iter().find_map(|device| device.residence.as_ref()?.stays);
        match said {
            Some(said) => said,
            None if tenant.processes.is_empty() => Self::NoProcess,
            None => Self::NotAnswered,
        }
    }

    /// Why memory of `tenant` that may come back is on the host still; with the daemons' views added.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
