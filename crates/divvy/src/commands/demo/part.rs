//! One tenant of the demonstration: a client program under a limit, its events, its ledger.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context, Result};

use crate::commands::run;
use crate::machine::install;
use crate::signals::quiet_thread;
use crate::stage::ClientStage;
use crate::tenants::ledger::{self, DeviceUse};
use crate::tenants::limits;
use crate::tenants::tenant_dir::{OwnerNote, TenantDir};

/// A line of a client's output; see bench/clients/tenant.c.
#[derive(Debug, serde::Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Start {
        device: String,
        total_bytes: u64,
    },
    Work {
        rounds: u64,
        errors: u64,
    },
    Refused {
        code: i32,
    },
    Recovered {},
    /// Not the client's: a line the library wrote to standard error.
    #[serde(skip)]
    Said(String),
    End {
        rounds: u64,
        errors: u64,
    },
}

/// Observations of a tenant.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Seen {
    /// The tenant's name.
    pub(crate) name: String,
    /// Its limit.
    pub(crate) limit_bytes: u64,
    /// The card's name, as the program was told.
    pub(crate) device: Option<String>,
    /// The card's size, as the program was told.
    pub(crate) told_total_bytes: u64,
    /// Bytes in the ledger, as last read.
    pub(crate) held_bytes: u64,
    /// The most bytes the ledger has had.
    pub(crate) peak_bytes: u64,
    /// Requests the ledger refused.
    pub(crate) refusals: u64,
    /// The codes the program got from the driver for them.
    pub(crate) codes: Vec<i32>,
    /// Its and the library's lines on standard error.
    pub(crate) said: Vec<String>,
    /// Whether it took memory again after a refusal.
    pub(crate) recovered: bool,
    /// Rounds of work done.
    pub(crate) rounds: u64,
    /// Words read back wrong.
    pub(crate) errors: u64,
    /// Whether it said that it ended.
    pub(crate) ended: bool,
    /// Its exit code.
    pub(crate) exit_code: Option<i32>,
}

impl Seen {
    fn take(&mut self, event: Event) {
        match event {
            Event::Start { device, total_bytes } => {
                self.device = Some(device);
                self.told_total_bytes = total_bytes;
            }
            Event::Work { rounds, errors } => (self.rounds, self.errors) = (rounds, errors),
            Event::Refused { code } => self.codes.push(code),
            Event::Recovered {} => self.recovered = true,
            Event::Said(line) => self.said.push(line),
            Event::End { rounds, errors } => {
                (self.rounds, self.errors) = (rounds, errors);
                self.ended = true;
            }
        }
    }

    fn take_ledger(&mut self, device: &DeviceUse) {
        self.held_bytes = device.held_bytes;
        self.peak_bytes = self.peak_bytes.max(device.peak_bytes);
        self.refusals = self.refusals.max(device.refusals);
    }
}

/// Task of a tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its limit.
    pub(crate) limit: &'static str,
    /// How much it tries to take.
    pub(crate) wanted_bytes: u64,
}

/// Bytes a tenant takes at once.
const BLOCK_BYTES: u64 = 256 << 20;

/// A tenant that runs. Dropped, its program is ended and its directory removed, so that a demonstration
/// that nobody reads to its end leaves nothing.
#[derive(Debug)]
pub(crate) struct DemoTenant {
    /// Observations of it so far.
    pub(crate) seen: Seen,
    /// Taken when this is dropped.
    tenant: Option<TenantDir>,
    child: Child,
    events: Receiver<Event>,
}

impl DemoTenant {
    /// Starts `role` on `stage` for `milliseconds`.
    pub(crate) fn start(
        stage: &ClientStage,
        library: &Path,
        role: &Role,
        milliseconds: u64,
    ) -> Result<Self> {
        let client = install::client("tenant")?;
        let rules = limits::rules(&[role.limit.to_owned()], &[])?;
        let owner = OwnerNote {
            pid: std::process::id(),
            command: vec!["divvy".to_owned(), "demo".to_owned(), role.name.to_owned()],
        };
        let tenant = TenantDir::make(&format!("demo-{}", role.name), &owner)?;
        ledger::write_config(tenant.path(), &limits::config(role.name, &rules, false, false))?;
        let mut command = stage.command(&client);
        command.args([BLOCK_BYTES, role.wanted_bytes, milliseconds].map(|n| n.to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        run::join_tenant(&mut command, library, tenant.path());
        let mut child =
            command.spawn().with_context(|| format!("{} cannot be started", client.display()))?;
        let out = child.stdout.take().context("the client has no output")?;
        let err = child.stderr.take().context("the client has no error output")?;
        let (send, events) = channel();
        let tell = send.clone();
        quiet_thread("divvy demo", move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                if tell.send(Event::Said(line)).is_err() {
                    return;
                }
            }
        })?;
        quiet_thread("divvy demo", move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let Ok(event) = serde_json::from_str(&line) else { continue };
                if send.send(event).is_err() {
                    return;
                }
            }
        })?;
        let divvy_policy::size::Limit::Bytes(limit_bytes) =
            divvy_policy::size::parse(role.limit).map_err(|error| anyhow::anyhow!("{error}"))?
        else {
            anyhow::bail!("a role's limit is a number of bytes")
        };
        let seen = Seen { name: role.name.to_owned(), limit_bytes, ..Seen::default() };
        Ok(Self { seen, tenant: Some(tenant), child, events })
    }

    /// Takes what has happened since; says whether the program still runs.
    pub(crate) fn look(&mut self) -> Result<bool> {
        let status = self.child.try_wait()?;
        while let Ok(event) = self.events.try_recv() {
            self.seen.take(event);
        }
        if let Some(tenant) = &self.tenant
            && let Some(device) = ledger::read(tenant.path())?.devices.first()
        {
            self.seen.take_ledger(device);
        }
        if let Some(status) = status {
            self.seen.exit_code = status.code();
        }
        Ok(status.is_none())
    }

    /// Takes the last events, ends the program if it still runs, and the tenant.
    pub(crate) fn finish(mut self) -> Seen {
        let _ = self.child.kill();
        if let Ok(status) = self.child.wait()
            && self.seen.exit_code.is_none()
        {
            self.seen.exit_code = status.code();
        }
        while let Ok(event) = self.events.recv() {
            self.seen.take(event);
        }
        std::mem::take(&mut self.seen)
    }
}

impl Drop for DemoTenant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(tenant) = self.tenant.take() {
            tenant.remove();
        }
    }
}
