//! A client library's connection to the simulated machine.
//!
//! One [`Client`] per library and process: it starts the machine if nobody has, takes and gives back
//! device memory, makes contexts, opens lanes, and answers what NVML asks. Every call blocks until the
//! daemon has answered (a driver knows no time-out) but none outlives the daemon: its end is an error.
//!
//! Promises to a program that misbehaves: every descriptor is close-on-exec; one that the program
//! closed, or put something else in the place of, is noticed before use and replaced, so a program that
//! closes all descriptors keeps its memory; a forked child finds [`Client::forked`] true and touches
//! nothing of its parent's.
//!
//! Does not interpret: device addresses, streams, handles and their rules are the driver's
//! (`crate::driver`). In null mode nothing is connected and there are no bytes behind memory.

mod error;
mod holdings;
mod lane;
mod link;
mod managed;
mod null;
mod start;

pub use error::{ClientError, StartError};
pub use holdings::{Block, Context, Managed, MemoryInfo, SharedRange};
pub use lane::{Completion, Lane, Work};
pub use start::{socket_path, start_lock};

use crate::machine::description::{self, Description, Device, Lookup, Mode};
use crate::sys::descriptor;
use crate::sys::fork::ForkWord;
use crate::sys::mapping::Mapping;
use crate::wire::{Charge, Reply, Request, WireProcess, WireSample};
use link::Link;
use null::NullMachine;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

enum Machine {
    Daemon(Mutex<Link>),
    Null(NullMachine),
}

/// The connection of one client library.
#[derive(Debug)]
pub struct Client {
    machine: Machine,
    description: Description,
    fork: ForkWord,
}

impl Drop for Client {
    /// Lets go of everything at once, not only at the end of the process.
    fn drop(&mut self) {
        let forked = self.forked();
        let Machine::Daemon(link) = &mut self.machine else { return };
        if !forked {
            link.get_mut().unwrap_or_else(PoisonError::into_inner).bye();
        }
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Daemon(_) => "Daemon",
            Self::Null(_) => "Null",
        })
    }
}

impl Client {
    /// Connects to the machine the environment names, starting it if need be.
    ///
    /// In null mode it connects to nothing and never fails but for a bad setting.
    pub fn connect() -> Result<Self, ClientError> {
        Self::connect_with(&description::from_environment)
    }

    /// The same, with settings from elsewhere than the environment.
    pub fn connect_with(lookup: Lookup<'_>) -> Result<Self, ClientError> {
        let fork = ForkWord::new().map_err(ClientError::System)?;
        if description::mode(lookup)? == Mode::Null {
            let description = Description::read(lookup)?;
            let machine = Machine::Null(NullMachine::new(&description));
            return Ok(Self { machine, description, fork });
        }
        let (link, description) = Link::open(lookup)?;
        Ok(Self { machine: Machine::Daemon(Mutex::new(link)), description, fork })
    }

    /// Whether this process is a forked child of the one that connected. Cost: one load.
    pub fn forked(&self) -> bool {
        self.fork.forked()
    }

    /// The daemon's pid, while there is one.
    pub fn daemon_pid(&self) -> Option<u32> {
        let Machine::Daemon(link) = &self.machine else { return None };
        link.lock().unwrap_or_else(PoisonError::into_inner).daemon_pid()
    }

    /// How time is spent.
    pub fn mode(&self) -> Mode {
        self.description.mode
    }

    /// How many times slower than the hardware the machine is.
    pub fn time_scale(&self) -> u32 {
        self.description.time_scale
    }

    /// Whether the devices lie behind an NVSwitch.
    pub fn has_nvswitch(&self) -> bool {
        self.description.has_nvswitch
    }

    /// The devices, by index.
    pub fn devices(&self) -> &[Device] {
        &self.description.devices
    }

    /// Takes memory of a device; `bytes` is rounded up to 2 MiB. Its content is zeros.
    pub fn allocate(&self, device: u32, bytes: u64, charge: Charge) -> Result<Block, ClientError> {
        match &self.machine {
            Machine::Null(null) => null.allocate(device, bytes, charge),
            Machine::Daemon(_) => {
                let charge = charge as u8;
                self.block(&Request::Allocate { device, bytes, charge }, None).map(|r| r.block)
            }
        }
    }

    /// Gives a hold back; with the last one the memory is free.
    pub fn release(&self, block: Block) -> Result<(), ClientError> {
        match &self.machine {
            Machine::Null(null) => null.release(block.device, block.bytes),
            Machine::Daemon(_) => self.done(&Request::Release { block: block.id }),
        }
    }

    /// Takes one more hold on a block this process holds.
    pub fn retain(&self, block: &Block) -> Result<Block, ClientError> {
        match &self.machine {
            Machine::Null(_) => Err(ClientError::NotSupported),
            Machine::Daemon(_) => {
                self.block(&Request::Retain { block: block.id }, None).map(|range| range.block)
            }
        }
    }

    /// The bytes of a block in this process, zeros until somebody writes; `None` in null mode.
    ///
    /// Unmapping (dropping) does not give memory back, and giving memory back does not unmap.
    pub fn map(&self, block: &Block) -> Result<Option<Mapping>, ClientError> {
        let Machine::Daemon(link) = &self.machine else { return Ok(None) };
        self.refuse_in_fork()?;
        let bytes = usize::try_from(block.bytes).map_err(|_| ClientError::NotSupported)?;
        let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = link.memory()?;
        Mapping::new(memory, block.file_offset, bytes).map(Some).map_err(ClientError::System)
    }

    /// A descriptor other processes can import the block by. While it is open anywhere, or in flight
    /// between two processes, the block lives.
    pub fn export(&self, block: &Block) -> Result<OwnedFd, ClientError> {
        let (reply, attached) = self.call(&Request::Export { block: block.id }, None)?;
        match (reply, attached) {
            (Reply::Done {}, Some(descriptor)) => Ok(descriptor),
            (reply, _) => Err(ClientError::from_reply(&reply)),
        }
    }

    /// Has the block live for as long as somebody has the other end of the pipe whose writing end this is.
    pub fn keep(&self, block: &Block, pipe: BorrowedFd<'_>) -> Result<(), ClientError> {
        match self.call(&Request::Export { block: block.id }, Some(pipe))? {
            (Reply::Done {}, None) => Ok(()),
            (reply, _) => Err(ClientError::from_reply(&reply)),
        }
    }

    /// Takes a hold on the block that the program's descriptor `number` was exported for. The
    /// descriptor stays the program's.
    pub fn import(&self, number: i32) -> Result<Block, ClientError> {
        let descriptor = descriptor::duplicate(number).map_err(|_| ClientError::Unknown)?;
        self.import_descriptor(descriptor.as_fd())
    }

    /// The same for a descriptor that is known to be open.
    pub fn import_descriptor(&self, descriptor: BorrowedFd<'_>) -> Result<Block, ClientError> {
        self.block(&Request::Import {}, Some(descriptor)).map(|range| range.block)
    }

    /// The 64-byte handle of a range of a block, good while the block lives.
    pub fn ipc_handle(
        &self,
        block: &Block,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<[u8; 64], ClientError> {
        let request = Request::IpcHandle { block: block.id, offset_bytes, length_bytes };
        match self.call(&request, None)?.0 {
            Reply::Handle { handle } => Ok(handle),
            reply => Err(ClientError::from_reply(&reply)),
        }
    }

    /// Takes a hold on the block that a 64-byte handle of any process names.
    pub fn ipc_open(&self, handle: &[u8; 64]) -> Result<SharedRange, ClientError> {
        self.block(&Request::IpcOpen { handle: *handle }, None)
    }

    /// Makes a context: 518 MiB of the device.
    pub fn create_context(&self, device: u32) -> Result<Context, ClientError> {
        if let Machine::Null(null) = &self.machine {
            return null.create_context(device);
        }
        match self.call(&Request::CreateContext { device }, None)?.0 {
            Reply::Context { context, evicted_bytes } => {
                Ok(Context { id: context, device, evicted_bytes })
            }
            reply => Err(ClientError::from_reply(&reply)),
        }
    }

    /// Ends a context and whatever it still has queued. Memory allocated in it is the caller's to
    /// give back.
    pub fn destroy_context(&self, context: Context) -> Result<(), ClientError> {
        match &self.machine {
            Machine::Null(null) => null.destroy_context(&context),
            Machine::Daemon(_) => self.done(&Request::DestroyContext { context: context.id }),
        }
    }

    /// Memory figures of a device.
    pub fn memory_info(&self, device: u32) -> Result<MemoryInfo, ClientError> {
        if let Machine::Null(null) = &self.machine {
            return null.memory_info(device);
        }
        match self.call(&Request::MemoryInfo { device }, None)?.0 {
            Reply::MemoryInfo { total_bytes, reserved_bytes, used_bytes } => Ok(MemoryInfo {
                total_bytes,
                free_bytes: total_bytes.saturating_sub(used_bytes),
                used_bytes,
                reserved_bytes,
            }),
            reply => Err(ClientError::from_reply(&reply)),
        }
    }

    /// The processes that hold memory of a device, in the daemon's pids.
    pub fn processes(&self, device: u32) -> Result<Vec<WireProcess>, ClientError> {
        if let Machine::Null(null) = &self.machine {
            return null.memory_info(device).map(|_| Vec::new());
        }
        match self.call(&Request::Processes { device }, None)?.0 {
            Reply::Processes { processes } => Ok(processes),
            reply => Err(ClientError::from_reply(&reply)),
        }
    }

    /// Part of the last second the device computed, and copied, in percent.
    pub fn utilisation(&self, device: u32) -> Result<(u32, u32), ClientError> {
        if let Machine::Null(null) = &self.machine {
            return null.memory_info(device).map(|_| (0, 0));
        }
        match self.call(&Request::Utilisation { device }, None)?.0 {
            Reply::Utilisation { compute_percent, memory_percent } => {
                Ok((compute_percent, memory_percent))
            }
            reply => Err(ClientError::from_reply(&reply)),
        }
    }

    /// How busy each process kept the device in each period that ended after `since_us`.
    pub fn process_utilisation(
        &self,
        device: u32,
        since_us: u64,
    ) -> Result<Vec<WireSample>, ClientError> {
        if let Machine::Null(null) = &self.machine {
            return null.memory_info(device).map(|_| Vec::new());
        }
        match self.call(&Request::ProcessUtilisation { device, since_us }, None)?.0 {
            Reply::ProcessUtilisation { samples } => Ok(samples),
            reply => Err(ClientError::from_reply(&reply)),
        }
    }

    /// A lane for the work of one stream. In fast and null mode it is local and instant.
    pub fn lane(&self) -> Result<Lane, ClientError> {
        self.refuse_in_fork()?;
        match &self.machine {
            Machine::Daemon(link) if self.mode() == Mode::Calibrated => {
                let link = link.lock().unwrap_or_else(PoisonError::into_inner);
                Lane::open(link.directory(), link.ticket(), self.fork)
            }
            _ => Ok(Lane::local(self.fork)),
        }
    }

    fn refuse_in_fork(&self) -> Result<(), ClientError> {
        if self.forked() { Err(ClientError::Forked) } else { Ok(()) }
    }

    fn call(
        &self,
        request: &Request,
        attach: Option<BorrowedFd<'_>>,
    ) -> Result<(Reply, Option<OwnedFd>), ClientError> {
        self.refuse_in_fork()?;
        let Machine::Daemon(link) = &self.machine else { return Err(ClientError::NotSupported) };
        link.lock().unwrap_or_else(PoisonError::into_inner).call(request, attach)
    }

    fn done(&self, request: &Request) -> Result<(), ClientError> {
        match self.call(request, None)?.0 {
            Reply::Done {} => Ok(()),
            reply => Err(ClientError::from_reply(&reply)),
        }
    }

    fn block(
        &self,
        request: &Request,
        attach: Option<BorrowedFd<'_>>,
    ) -> Result<SharedRange, ClientError> {
        match self.call(request, attach)?.0 {
            Reply::Block {
                block,
                device,
                charge,
                file_offset,
                bytes,
                range_offset_bytes,
                range_bytes,
                evicted_bytes,
            } => {
                let charge = Charge::from_number(charge).ok_or(ClientError::Protocol)?;
                Ok(SharedRange {
                    block: Block { id: block, device, charge, bytes, evicted_bytes, file_offset },
                    offset_bytes: range_offset_bytes,
                    length_bytes: range_bytes,
                })
            }
            reply => Err(ClientError::from_reply(&reply)),
        }
    }
}
