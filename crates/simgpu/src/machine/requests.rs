//! Requests of control connections, carried out on the machine.
//!
//! Every request is carried out whole before the next one of any client is looked at; a refusal changes
//! nothing.

use super::clients::{Client, Clients, Context};
use super::description::{Description, Device, Mode};
use super::exports::{Exports, HandleRange, random};
use super::managed::Moved;
use super::memory::{FileRange, Memory};
use super::neighbours::Neighbour;
use super::peer::Peer;
use super::usage::Usage;
use crate::calibration::CONTEXT_BYTES;
use crate::engine::{Engines, Report};
use crate::wire::{Charge, PROTOCOL, Refusal, Reply, Request, WireDevice, WireProcess, WireSample};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Everything the machine is and remembers, connections apart.
#[derive(Debug)]
pub struct Machine {
    description: Description,
    memory: Memory,
    file: OwnedFd,
    /// Connected clients.
    pub clients: Clients,
    /// Objects handed out to other processes.
    pub exports: Exports,
    /// Engines, by device.
    pub engines: Vec<Engines>,
    usage: Vec<Usage>,
}

/// An answer and what goes with it.
#[derive(Debug)]
pub struct Answer {
    /// The reply.
    pub reply: Reply,
    /// The descriptor to attach.
    pub attach: Option<OwnedFd>,
    /// Report of the engines.
    pub report: Report,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, attach: None, report: Report::default() }
    }
}

impl From<Moved> for Answer {
    fn from(Moved { came, evicted_bytes, stayed_bytes }: Moved) -> Self {
        Reply::Moved { came, evicted_bytes, stayed_bytes }.into()
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Reply::Refused { refusal: refusal as u32 }.into()
    }
}

impl Machine {
    /// A machine with nobody on it.
    pub fn new(description: Description) -> Result<Self, Errno> {
        let file = memfd_create("simgpu-memory", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, Memory::file_bytes())?;
        let devices = description.devices.len();
        let mut memory = Memory::new(&description.devices);
        for neighbour in &description.neighbours {
            memory.charge(0, neighbour.bytes).map_err(|_| Errno::NOMEM)?;
        }
        Ok(Self {
            memory,
            clients: Clients::default(),
            exports: Exports::default(),
            engines: (0..devices).map(|_| Engines::new(description.time_scale)).collect(),
            usage: (0..devices).map(|_| Usage::default()).collect(),
            description,
            file,
        })
    }

    /// Opens or resumes a client for a control connection; answers its number too.
    pub fn hello(
        &mut self,
        connection: u64,
        protocol: u32,
        ticket: [u8; 16],
        peer: Peer,
    ) -> (Answer, Option<u64>) {
        if protocol != PROTOCOL {
            return (Refusal::Protocol.into(), None);
        }
        let Ok(file) = self.file.try_clone() else { return (Refusal::Exhausted.into(), None) };
        let (client, ticket) = if ticket == [0; 16] {
            let Ok(ticket) = random() else { return (Refusal::Exhausted.into(), None) };
            (self.clients.add(Client { ticket, peer, control: Some(connection) }), ticket)
        } else {
            match self.clients.by_ticket(&ticket) {
                None => return (Refusal::Unknown.into(), None),
                Some((client, known)) => {
                    known.control = Some(connection);
                    (client, ticket)
                }
            }
        };
        let devices = self
            .description
            .devices
            .iter()
            .map(|device| WireDevice {
                name: device.name.clone(),
                uuid: device.uuid,
                nvml_total_bytes: device.nvml_total_bytes,
                total_bytes: device.total_bytes,
                speed_percent: device.speed_percent,
                partition: device.partition,
            })
            .collect();
        let calibrated = u8::from(self.description.mode == Mode::Calibrated);
        let time_scale = self.description.time_scale;
        let nvswitch = u8::from(self.description.has_nvswitch);
        let reply = Reply::Welcome { client, ticket, calibrated, time_scale, nvswitch, devices };
        (Answer { attach: Some(file), ..reply.into() }, Some(client))
    }

    /// Carries out a request of `client`.
    pub fn answer(
        &mut self,
        client: u64,
        request: Request,
        attached: Option<OwnedFd>,
        now_ns: u64,
    ) -> Answer {
        self.settle_exports();
        self.carry_out(client, request, attached, now_ns).unwrap_or_else(Answer::from)
    }

    #[expect(clippy::too_many_lines, reason = "a table: one arm for each request")]
    fn carry_out(
        &mut self,
        client: u64,
        request: Request,
        attached: Option<OwnedFd>,
        now_ns: u64,
    ) -> Result<Answer, Refusal> {
        match request {
            Request::Memory {} => {
                let file = self.file.try_clone().map_err(|_| Refusal::Exhausted)?;
                Ok(Answer { attach: Some(file), ..Reply::Done {}.into() })
            }
            Request::Allocate { device, bytes, charge } => {
                let charge = Charge::from_number(charge).ok_or(Refusal::Invalid)?;
                let (block, evicted_bytes) = self.memory.allocate(client, device, bytes, charge)?;
                self.block_reply(block, None, evicted_bytes)
            }
            Request::Release { block } => {
                let freed = self.memory.release(client, block)?;
                self.punch(freed);
                Ok(Reply::Done {}.into())
            }
            Request::Retain { block } => {
                self.memory.held(client, block)?;
                self.memory.hold(client, block)?;
                self.block_reply(block, None, 0)
            }
            Request::Export { block } => {
                self.memory.held(client, block)?;
                let attach = match attached {
                    Some(pipe) => {
                        self.exports.keep(pipe, block);
                        None
                    }
                    None => {
                        let made = self.exports.export(self.file.as_fd(), block);
                        Some(made.map_err(|_| Refusal::Exhausted)?)
                    }
                };
                self.memory.export(block);
                Ok(Answer { attach, ..Reply::Done {}.into() })
            }
            Request::Import {} => {
                let descriptor = attached.ok_or(Refusal::Invalid)?;
                let block = self.exports.block_of(self.file.as_fd(), descriptor.as_fd());
                let block = block.ok_or(Refusal::Unknown)?;
                self.memory.hold(client, block)?;
                self.block_reply(block, None, 0)
            }
            Request::IpcHandle { block, offset_bytes, length_bytes } => {
                let range_bytes = self.memory.held(client, block)?.range.bytes;
                let end = offset_bytes.checked_add(length_bytes).ok_or(Refusal::Invalid)?;
                if end > range_bytes {
                    return Err(Refusal::Invalid);
                }
                let range = HandleRange { block, offset_bytes, length_bytes };
                let handle = self.exports.handle(range).map_err(|_| Refusal::Exhausted)?;
                Ok(Reply::Handle { handle }.into())
            }
            Request::IpcOpen { handle } => {
                let range = self.exports.open(&handle).ok_or(Refusal::Unknown)?;
                self.memory.hold(client, range.block)?;
                self.block_reply(range.block, Some(range), 0)
            }
            Request::CreateContext { device } => {
                let evicted_bytes = self.memory.charge(device, self.context_bytes(device))?;
                let context = self.clients.add_context(Context { client, device });
                Ok(Reply::Context { context, evicted_bytes }.into())
            }
            Request::DestroyContext { context } => {
                let found = self.clients.remove_context(client, context).ok_or(Refusal::Unknown)?;
                let mut answer = Answer::from(Reply::Done {});
                self.end_context(context, found, now_ns, &mut answer.report);
                Ok(answer)
            }
            Request::MakeManaged { bytes } => {
                let object = self.memory.managed().make(client, bytes)?;
                Ok(Reply::Managed { object }.into())
            }
            Request::EndManaged { object } => {
                self.memory.managed().end(client, object)?;
                Ok(Reply::Done {}.into())
            }
            Request::Bring { object, device, first, count } => {
                Ok(self.memory.bring(client, object, device, (first, count))?.into())
            }
            Request::Leave { object, first, count } => {
                Ok(self.memory.managed().leave(client, object, (first, count))?.into())
            }
            Request::Resident { object, first, count } => {
                let bytes = self.memory.managed().resident_of(client, object, (first, count))?;
                Ok(Reply::Resident { bytes }.into())
            }
            Request::MemoryInfo { device } => {
                let figures = self.memory.figures(device)?;
                Ok(Reply::MemoryInfo {
                    total_bytes: figures.total_bytes,
                    reserved_bytes: figures.reserved_bytes,
                    used_bytes: figures.used_bytes,
                }
                .into())
            }
            Request::Processes { device } => Ok(self.processes(device)?.into()),
            Request::Utilisation { device } => {
                let usage = self.usage.get(device as usize).ok_or(Refusal::Unknown)?;
                let (compute_percent, memory_percent) = usage.device(now_ns);
                Ok(Reply::Utilisation { compute_percent, memory_percent }.into())
            }
            Request::ProcessUtilisation { device, since_us } => {
                Ok(self.process_utilisation(device, since_us, now_ns)?.into())
            }
            Request::Hello { .. }
            | Request::Lane { .. }
            | Request::Run { .. }
            | Request::Bye {} => Err(Refusal::Invalid),
        }
    }

    fn block_reply(
        &self,
        id: u64,
        range: Option<HandleRange>,
        evicted_bytes: u64,
    ) -> Result<Answer, Refusal> {
        let block = self.memory.block(id).ok_or(Refusal::Unknown)?;
        Ok(Reply::Block {
            block: id,
            device: block.device,
            charge: block.charge as u8,
            file_offset: block.range.offset,
            bytes: block.range.bytes,
            range_offset_bytes: range.map_or(0, |range| range.offset_bytes),
            range_bytes: range.map_or(block.range.bytes, |range| range.length_bytes),
            evicted_bytes,
        }
        .into())
    }

    /// Processes with contexts or memory on a device; several clients of one process are one.
    fn processes(&self, device: u32) -> Result<Reply, Refusal> {
        self.memory.figures(device)?;
        let mut rows: BTreeMap<u32, WireProcess> = BTreeMap::new();
        let mut add = |client: u64, contexts: u32, bytes: u64| {
            // Memory that a descriptor alone keeps may have been a client's that is gone.
            let Some(pid) = self.clients.pid(client) else { return };
            let row =
                rows.entry(pid).or_insert(WireProcess { pid, role: 0, contexts: 0, bytes: 0 });
            row.contexts += contexts;
            row.bytes += bytes;
        };
        for (client, contexts) in self.clients.contexts_on(device) {
            add(client, contexts, u64::from(contexts) * CONTEXT_BYTES);
        }
        for (client, bytes) in self.memory.listed(device) {
            add(client, 0, bytes);
        }
        let neighbours = self.neighbours(device).map(|one| WireProcess {
            pid: one.pid,
            role: one.role,
            contexts: 1,
            bytes: one.bytes,
        });
        Ok(Reply::Processes {
            processes: neighbours.chain(rows.into_values()).take(2500).collect(),
        })
    }

    /// Processes on a device that are no clients.
    fn neighbours(&self, device: u32) -> impl Iterator<Item = &Neighbour> {
        self.description.neighbours.iter().filter(move |_| device == 0)
    }

    fn process_utilisation(
        &self,
        device: u32,
        since_us: u64,
        now_ns: u64,
    ) -> Result<Reply, Refusal> {
        let usage = self.usage.get(device as usize).ok_or(Refusal::Unknown)?;
        let wall_us = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
        let age_us = (now_ns - Usage::sampled_ns(now_ns)) / 1000;
        let timestamp_us = wall_us.saturating_sub(age_us);
        let mut rows: BTreeMap<u32, u32> = BTreeMap::new();
        for one in self.neighbours(device).filter(|one| one.percent > 0) {
            rows.insert(one.pid, one.percent);
        }
        for (client, percent) in usage.clients(now_ns) {
            let Some(pid) = self.clients.pid(client) else { continue };
            *rows.entry(pid).or_insert(0) += percent;
        }
        let samples = rows
            .into_iter()
            .filter(|_| timestamp_us > since_us)
            .take(3000)
            .map(|(pid, percent)| WireSample {
                pid,
                compute_percent: percent.min(100),
                timestamp_us,
            })
            .collect();
        Ok(Reply::ProcessUtilisation { samples })
    }

    /// Lets a client go with all it held.
    pub fn forget_client(&mut self, client: u64, now_ns: u64) -> Report {
        let mut report = Report::default();
        let Some((_, contexts)) = self.clients.remove(client) else { return report };
        for (id, context) in contexts {
            self.end_context(id, context, now_ns, &mut report);
        }
        self.usage.iter_mut().for_each(|usage| usage.forget(client));
        for range in self.memory.forget(client) {
            self.punch(Some(range));
        }
        report
    }

    /// Lets go of what exported descriptors kept whose last copy is closed by now.
    fn settle_exports(&mut self) {
        for block in self.exports.closed(self.file.as_fd()) {
            let freed = self.memory.unexport(block);
            self.punch(freed);
        }
    }

    /// Counts what the engines report as busy.
    pub fn count(&mut self, report: &mut Report) {
        for stretch in report.busy.drain(..) {
            let Some(context) = self.clients.context(stretch.context) else { continue };
            if let Some(usage) = self.usage.get_mut(context.device as usize) {
                usage.add(context.client, stretch.compute, stretch.from_ns, stretch.to_ns);
            }
        }
    }

    fn context_bytes(&self, device: u32) -> u64 {
        self.description.devices.get(device as usize).map_or(0, Device::context_bytes)
    }

    fn end_context(&mut self, id: u64, context: Context, now_ns: u64, report: &mut Report) {
        self.memory.discharge(context.device, self.context_bytes(context.device));
        if let Some(engines) = self.engines.get_mut(context.device as usize) {
            engines.forget_context(id, now_ns, report);
        }
    }

    /// Gives the bytes of a freed range back to the system.
    fn punch(&mut self, freed: Option<FileRange>) {
        let Some(range) = freed else { return };
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // The range is never used again, so bytes that could not be freed are only late.
        let _ = fallocate(&self.file, flags, range.offset, range.bytes);
        let memory = &self.memory;
        self.exports.retain_handles(|block| memory.block(block).is_some());
    }
}
