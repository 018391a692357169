//! Requests for tenants by id: who may ask for which, how many there may be, and their answers.
//!
//! A user asks for what is his own, root for anybody's. Nothing is kept in memory: a daemon that is started anew knows all
//! tenants that the one before it made. Making and removing go one after another, which takes system calls alone;
//! changing and looking wait for no other request.
//!
//! Promises: an answer comes after what it tells of has happened; a request that was cut off half-way can be made again and
//! does the rest. The files of what was removed are taken by [`super::sweeper`].
//!
//! Does not write a tenant's files: that is [`crate::tenants::by_id`]'s.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;

use divvy_abi::Uuid;
use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE, selector};
use divvy_page::reader;
use divvy_policy::limit::{self, UuidText};
use divvy_policy::share;

use super::place::DaemonHome;
use super::scan::{MOST, most_of};
use super::seen::{Shared, seen};
use crate::log::change::{self, Subject};
use crate::log::line::{ChangeAuthor, Event};
use crate::machine::gpus;
use crate::tenants::asked_limits::{self, CallRefusal, check_id};
use crate::tenants::by_id::{TenantFound, TenantsById};
use crate::tenants::limits;
use crate::tenants::snapshot::Snapshot;
use crate::tenants::tenant_dir::{self, PATH_BYTES};
use crate::wire::by_id::{RefusalCode, TenantCall, TenantDeviceReport, TenantLimits, TenantReport};
use crate::wire::{Answer, TenantView};

/// Answers a request of the user and process in `who`.
pub(super) fn answer(
    call: &TenantCall,
    who: &ChangeAuthor,
    home: &DaemonHome,
    shared: &Shared,
) -> Answer {
    let desk = Desk { asker: who.uid, who, home, shared };
    desk.answer(call).unwrap_or_else(|CallRefusal { code, words }| Answer::Error {
        message: words,
        code: Some(code.word().to_owned()),
    })
}

struct Desk<'a> {
    asker: u32,
    who: &'a ChangeAuthor,
    home: &'a DaemonHome,
    shared: &'a Shared,
}

fn failed(error: anyhow::Error) -> CallRefusal {
    CallRefusal::new(RefusalCode::Failed, format!("{error:#}"))
}

fn unknown(uid: u32, id: &str) -> CallRefusal {
    let words = format!("uid {uid} has no tenant {id:?}: create it");
    CallRefusal::new(RefusalCode::UnknownTenant, words)
}

impl Desk<'_> {
    fn answer(&self, call: &TenantCall) -> Result<Answer, CallRefusal> {
        match call {
            TenantCall::Create { id, uid, limits } => self.create(self.user(*uid)?, id, limits),
            TenantCall::Set { id, uid, limits } => {
                let (uid, config) = (self.user(*uid)?, config(id, limits)?);
                let tenant = self.find(uid, id)?.ok_or_else(|| unknown(uid, id))?;
                let changed = tenant.set(&config)?;
                self.tell_change(&tenant, [&changed.0, &changed.1]);
                Ok(Answer::Tenant(Box::new(self.report(&tenant))))
            }
            TenantCall::Stat { id, uid } => {
                check_id(id)?;
                let uid = self.user(*uid)?;
                let tenant = self.find(uid, id)?.ok_or_else(|| unknown(uid, id))?;
                Ok(Answer::Tenant(Box::new(self.report(&tenant))))
            }
            TenantCall::List { uid } => self.list(*uid),
            TenantCall::Remove { id, uid } => {
                check_id(id)?;
                self.remove(self.user(*uid)?, id)
            }
        }
    }

    /// The user whose tenants are meant; those of a user's own daemon are that user's, whoever asks.
    fn user(&self, named: Option<u32>) -> Result<u32, CallRefusal> {
        let own = if self.home.is_system() { self.asker } else { tenant_dir::uid() };
        match named {
            Some(uid) if uid != own && !(self.asker == 0 && self.home.is_system()) => {
                let words =
                    format!("tenants of uid {uid} are not those of uid {own}: leave uid out");
                Err(CallRefusal::new(RefusalCode::NotYours, words))
            }
            named => Ok(named.unwrap_or(own)),
        }
    }

    fn find(&self, uid: u32, id: &str) -> Result<Option<TenantFound>, CallRefusal> {
        match TenantsById::open(self.home.directory()).map_err(failed)? {
            Some(tenants) => tenants.find(uid, id),
            None => Ok(None),
        }
    }

    fn create(&self, uid: u32, id: &str, asked: &TenantLimits) -> Result<Answer, CallRefusal> {
        let config = config(id, asked)?;
        let _one = self.shared.desk.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let tenants = TenantsById::make(self.home.directory()).map_err(failed)?;
        let (made, tenant) = match tenants.find(uid, id)? {
            Some(tenant) => {
                differs(&tenant, &config)?;
                (false, tenant)
            }
            None => {
                self.has_place(&tenants, uid, id)?;
                let tenant = tenants.create(uid, id, &config)?;
                let subject = Subject::of(&tenant.path, Some(&config), tenant.uid);
                self.shared.journal.tell(subject.line(Event::Made).by(self.who));
                (true, tenant)
            }
        };
        Ok(Answer::Created { made, tenant: Box::new(self.report(&tenant)) })
    }

    fn has_place(&self, tenants: &TenantsById, uid: u32, id: &str) -> Result<(), CallRefusal> {
        let bytes = tenants.path_of(uid, id).as_os_str().len();
        if bytes > PATH_BYTES {
            let words = format!(
                "{} has {bytes} bytes, more than {PATH_BYTES}: give a shorter id",
                tenants.path_of(uid, id).display()
            );
            return Err(CallRefusal::new(RefusalCode::LongPath, words));
        }
        let (own, most) = (tenants.count_of(uid), most_of(uid, self.home.is_system()));
        let all = || tenants.users().into_iter().map(|uid| tenants.count_of(uid)).sum::<usize>();
        let words = if own >= most {
            format!("uid {uid} has {own} tenants by id, and may have {most}: remove some")
        } else if all() >= MOST {
            format!("there are {MOST} tenants by id, as many as a daemon serves: remove some")
        } else {
            return Ok(());
        };
        Err(CallRefusal::new(RefusalCode::TooMany, words))
    }

    /// Writes down a change of a tenant's limits.
    fn tell_change(&self, tenant: &TenantFound, changed: [&Config; 2]) {
        let Ok(files) = Snapshot::of(&tenant.dir) else { return };
        let subject = Subject::of(&tenant.path, Some(changed[1]), tenant.uid);
        let lines = change::lines(&subject, &files, changed, self.who);
        lines.into_iter().for_each(|line| self.shared.journal.tell(line));
    }

    fn list(&self, named: Option<u32>) -> Result<Answer, CallRefusal> {
        let one = self.user(named)?;
        let Some(tenants) = TenantsById::open(self.home.directory()).map_err(failed)? else {
            return Ok(Answer::Tenants { tenants: Vec::new() });
        };
        let sees_all = named.is_none() && self.asker == 0 && self.home.is_system();
        let users = if sees_all { tenants.users() } else { vec![one] };
        let found = users.into_iter().flat_map(|uid| tenants.each(uid));
        let tenants = found.take(MOST).map(|tenant| self.report(&tenant)).collect();
        Ok(Answer::Tenants { tenants })
    }

    fn remove(&self, uid: u32, id: &str) -> Result<Answer, CallRefusal> {
        let Some(tenants) = TenantsById::open(self.home.directory()).map_err(failed)? else {
            return Ok(Answer::Removed { existed: false, processes: 0 });
        };
        let desk = &self.shared.desk;
        let removal = {
            let _one = desk.changing.lock().unwrap_or_else(PoisonError::into_inner);
            tenants.remove(uid, id)?
        };
        desk.tell();
        if removal.existed {
            let subject = Subject::of(&tenants.path_of(uid, id), None, uid);
            self.shared.journal.tell(subject.line(Event::Removed).by(self.who));
        }
        Ok(Answer::Removed { existed: removal.existed, processes: removal.processes })
    }

    /// The tenant as it is, by its files and by what this daemon last saw of it.
    fn report(&self, tenant: &TenantFound) -> TenantReport {
        let directory = tenant.path.display().to_string();
        let seen = seen(self.shared, self.asker, self.home).view.tenants;
        report(tenant, seen.iter().find(|view| view.directory == directory))
    }
}

fn config(id: &str, limits: &TenantLimits) -> Result<Config, CallRefusal> {
    check_id(id)?;
    let machine: Vec<String> =
        gpus::list(Path::new(gpus::PROC)).into_iter().map(|gpu| gpu.uuid).collect();
    asked_limits::config(id, limits, &machine)
}

/// Refuses a tenant that is there with other limits than those of `config`.
fn differs(tenant: &TenantFound, config: &Config) -> Result<(), CallRefusal> {
    let words = match tenant.is_as(config) {
        Ok(true) => return Ok(()),
        Ok(false) => "is there with other limits: set them".to_owned(),
        Err(error) => format!("is there with limits that cannot be read: {error}; remove it"),
    };
    Err(CallRefusal::new(RefusalCode::Differs, format!("{:?} {words}", tenant.id)))
}

fn report(tenant: &TenantFound, view: Option<&TenantView>) -> TenantReport {
    let mut report = TenantReport {
        id: tenant.id.clone(),
        uid: tenant.uid,
        directory: tenant.path.display().to_string(),
        served: view.is_some_and(|view| view.reason.is_none()),
        reason: view.and_then(|view| view.reason.clone()),
        detail: view.and_then(|view| view.detail.clone()),
        ..TenantReport::default()
    };
    let files = match Snapshot::of(&tenant.dir) {
        Ok(files) => files,
        Err(error) => {
            report.detail = Some(report.detail.unwrap_or_else(|| error.to_string()));
            // Limits that are understood are told even where a process has garbled the rest.
            let config = tenant.dir.tenant().and_then(|dir| reader::read_config(&dir));
            let config = config.ok().flatten();
            Snapshot { config, layout: None, devices: Vec::new(), processes: Vec::new() }
        }
    };
    report.joined = files.layout.is_some();
    report.processes = u32::try_from(files.processes.len()).unwrap_or(u32::MAX);
    let Some(config) = &files.config else { return report };
    report.memory = config.rules().iter().map(limits::text).collect();
    report.compute = config.compute_rules().iter().map(limits::text).collect();
    report.weight = config.weight;
    share::priority_word(config.priority).clone_into(&mut report.priority);
    share::class_word(config.class).clone_into(&mut report.class);
    report.oversubscribe = config.flags & FLAG_OVERSUBSCRIBE != 0;
    report.paused = config.paused != 0;
    let rules = config.rules().iter().chain(config.compute_rules());
    let named = rules.filter(|rule| rule.selector == selector::UUID).map(|rule| rule.uuid);
    let uuids: BTreeSet<Uuid> =
        named.chain(files.devices.iter().map(|device| device.uuid)).collect();
    report.devices = uuids.iter().map(|uuid| device(uuid, config, &files)).collect();
    report
}

fn device(uuid: &Uuid, config: &Config, files: &Snapshot) -> TenantDeviceReport {
    let met = files.devices.iter().find(|device| device.uuid == *uuid);
    let (index, total_bytes) = met.map_or((None, 0), |met| (met.index, met.total_bytes));
    let limit = limit::resolve(config.rules(), index, uuid, total_bytes);
    let cap = share::resolve(config.compute_rules(), index, uuid);
    let totals = met.map(|met| &met.totals);
    TenantDeviceReport {
        uuid: UuidText(uuid).to_string(),
        limit_bytes: limit.ok().flatten(),
        share_ppm: cap.ok().flatten(),
        held_bytes: totals.map_or(0, |totals| totals.used_bytes),
        peak_bytes: totals.map_or(0, |totals| totals.peak_bytes),
        refusals: totals.map_or(0, |totals| totals.refusals),
    }
}
