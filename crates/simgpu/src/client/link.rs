//! The control connection: one socket, one descriptor of the memory file, and the ticket to come back
//! by when the program closes either.

use super::error::ClientError;
use super::start;
use crate::machine::description::{self, Description, Device, Lookup, Mode};
use crate::wire::{PROTOCOL, Reply, Request, WireDevice, socket};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::fstat;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Descriptors are kept above this number where the limit allows, out of the way of programs that
/// close or reuse low ones.
const HIGH_DESCRIPTOR: i32 = 900;

/// A descriptor that knows what it should be open on.
#[derive(Debug)]
pub(super) struct Guarded {
    descriptor: Option<Arc<OwnedFd>>,
    identity: (u64, u64),
}

impl Guarded {
    /// Moves a descriptor out of the way and remembers what it is.
    pub(super) fn new(descriptor: OwnedFd) -> Result<Self, Errno> {
        let stat = fstat(&descriptor)?;
        let high = rustix::io::fcntl_dupfd_cloexec(&descriptor, HIGH_DESCRIPTOR);
        let identity = (stat.st_dev, stat.st_ino);
        Ok(Self { descriptor: Some(Arc::new(high.unwrap_or(descriptor))), identity })
    }

    /// The descriptor, if it still is what it was.
    pub(super) fn get(&mut self) -> Option<BorrowedFd<'_>> {
        let same = fstat(self.descriptor.as_ref()?)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.identity);
        if !same {
            // The number is closed or the program's by now; closing it is not ours to do.
            std::mem::forget(self.descriptor.take());
        }
        self.descriptor.as_deref().map(AsFd::as_fd)
    }

    /// The same, to be used while others look.
    pub(super) fn share(&mut self) -> Option<Arc<OwnedFd>> {
        self.get()?;
        self.descriptor.clone()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // `get` gives a descriptor that is no longer ours away instead of closing it.
        let _ = self.get();
    }
}

/// The control connection.
#[derive(Debug)]
pub(super) struct Link {
    directory: PathBuf,
    ticket: [u8; 16],
    socket: Guarded,
    memory: Guarded,
}

impl Link {
    /// Connects to the machine the settings name, starting it if need be.
    pub(super) fn open(lookup: Lookup<'_>) -> Result<(Self, Description), ClientError> {
        let directory = description::directory(lookup);
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        start::connect(&directory, lookup, |socket| Self::hello(&directory, socket, [0; 16]))
    }

    /// Says hello on a fresh socket; `Gone` means that the daemon was just ending.
    fn hello(
        directory: &Path,
        socket: OwnedFd,
        ticket: [u8; 16],
    ) -> Result<(Self, Description), ClientError> {
        let request = Request::Hello { protocol: PROTOCOL, ticket, pid: std::process::id() };
        let (reply, attached) = exchange(socket.as_fd(), &request, None)?;
        match (reply, attached) {
            (
                Reply::Welcome { ticket, calibrated, time_scale, nvswitch, devices, .. },
                Some(memory),
            ) => {
                let mode = if calibrated == 1 { Mode::Calibrated } else { Mode::Fast };
                let devices = devices.into_iter().map(device).collect();
                let link = Self {
                    directory: directory.to_path_buf(),
                    ticket,
                    socket: Guarded::new(socket).map_err(ClientError::System)?,
                    memory: Guarded::new(memory).map_err(ClientError::System)?,
                };
                let has_nvswitch = nvswitch == 1;
                // Neighbours are the daemon's business.
                let neighbours = Vec::new();
                Ok((link, Description { devices, mode, time_scale, has_nvswitch, neighbours }))
            }
            (reply, _) => Err(ClientError::from_reply(&reply)),
        }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn ticket(&self) -> [u8; 16] {
        self.ticket
    }

    /// Asks and waits for the answer.
    pub(super) fn call(
        &mut self,
        request: &Request,
        attach: Option<BorrowedFd<'_>>,
    ) -> Result<(Reply, Option<OwnedFd>), ClientError> {
        if self.socket.get().is_none() {
            self.resume()?;
        }
        let socket = self.socket.get().ok_or(ClientError::Gone)?;
        exchange(socket, request, attach)
    }

    /// The memory file.
    pub(super) fn memory(&mut self) -> Result<BorrowedFd<'_>, ClientError> {
        if self.memory.get().is_none() {
            match self.call(&Request::Memory {}, None)? {
                (Reply::Done {}, Some(memory)) => {
                    self.memory = Guarded::new(memory).map_err(ClientError::System)?;
                }
                (reply, _) => return Err(ClientError::from_reply(&reply)),
            }
        }
        self.memory.get().ok_or(ClientError::Gone)
    }

    pub(super) fn daemon_pid(&mut self) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(self.socket.get()?).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    /// Says that the client is done, and waits until the daemon has let go of all it held.
    pub(super) fn bye(&mut self) {
        if let Some(socket) = self.socket.get() {
            // The answer is the end of the connection.
            let _ = exchange(socket, &Request::Bye {}, None);
        }
    }

    /// The program closed our socket: come back as the same client.
    fn resume(&mut self) -> Result<(), ClientError> {
        let socket =
            socket::connect(&start::socket_path(&self.directory)).map_err(|_| ClientError::Gone)?;
        let (link, _) = Self::hello(&self.directory, socket, self.ticket)?;
        *self = link;
        Ok(())
    }
}

fn device(wire: WireDevice) -> Device {
    Device {
        name: wire.name,
        uuid: wire.uuid,
        nvml_total_bytes: wire.nvml_total_bytes,
        total_bytes: wire.total_bytes,
        speed_percent: wire.speed_percent,
        partition: wire.partition,
    }
}

/// One request and its reply.
pub(super) fn exchange(
    socket: BorrowedFd<'_>,
    request: &Request,
    attach: Option<BorrowedFd<'_>>,
) -> Result<(Reply, Option<OwnedFd>), ClientError> {
    socket::send(socket, &request.encode(), attach).map_err(lost)?;
    let packet = socket::receive(socket).map_err(lost)?;
    if packet.bytes.is_empty() {
        return Err(ClientError::Gone);
    }
    let reply = Reply::decode(&packet.bytes).ok_or(ClientError::Protocol)?;
    Ok((reply, packet.attached))
}

/// Meaning of a failed send or receive.
pub(super) fn lost(errno: Errno) -> ClientError {
    match errno {
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::BADF | Errno::NOTSOCK => {
            ClientError::Gone
        }
        errno => ClientError::System(errno),
    }
}
