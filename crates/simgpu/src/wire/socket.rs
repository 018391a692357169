//! Packets, with descriptors attached, over a SOCK_SEQPACKET unix socket.
//!
//! Every descriptor made or received here is close-on-exec. A packet is whole or not there. Sending
//! never raises SIGPIPE.

use super::PACKET_BYTES;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;

/// A packet as received.
#[derive(Debug)]
pub struct Packet {
    /// Its bytes; empty at the end of the connection.
    pub bytes: Vec<u8>,
    /// The first descriptor that came with it.
    pub attached: Option<OwnedFd>,
}

/// Connects to the machine's socket.
pub fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    at_address(path, |address| rustix::io::retry_on_intr(|| net::connect(&socket, address)))?;
    Ok(socket)
}

/// Calls `body` with the address of `path`, by way of an open directory if the path is longer than an
/// address can be.
fn at_address(
    path: &Path,
    body: impl FnOnce(&SocketAddrUnix) -> Result<(), Errno>,
) -> Result<(), Errno> {
    match SocketAddrUnix::new(path) {
        Err(Errno::NAMETOOLONG) => {}
        address => return body(&address?),
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::NAMETOOLONG);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    body(&SocketAddrUnix::new(short.as_path())?)
}

/// Opens the machine's socket for others to connect to; it never blocks its owner.
pub fn listen(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    at_address(path, |address| net::bind(&socket, address))?;
    net::listen(&socket, 4096)?;
    Ok(socket)
}

/// Takes the next connection; it never blocks its owner.
pub fn accept(listener: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::retry_on_intr(|| {
        net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    })
}

/// Sends one packet.
pub fn send(
    socket: impl AsFd,
    bytes: &[u8],
    attached: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = attached.map(|fd| [fd]);
    if let Some(descriptors) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let vectors = [IoSlice::new(bytes)];
    loop {
        match net::sendmsg(&socket, &vectors, &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) => return Ok(()),
        }
    }
}

/// Room for any packet of a lane.
pub const SMALL_PACKET_BYTES: usize = 128;

/// Receives one packet without descriptors into `space`, waiting for it if the socket waits. A longer
/// packet comes cut, and decodes to nothing.
pub fn receive_small(socket: impl AsFd, space: &mut [u8]) -> Result<&[u8], Errno> {
    let length = rustix::io::retry_on_intr(|| {
        net::recv(&socket, &mut *space, RecvFlags::empty()).map(|(length, _)| length)
    })?;
    Ok(space.get(..length).unwrap_or_default())
}

/// Receives one packet, waiting for it if the socket waits.
pub fn receive(socket: impl AsFd) -> Result<Packet, Errno> {
    // Not on the stack: the thread may be one of the program's with hardly any.
    let mut buffer = vec![0; PACKET_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let (length, attached) = loop {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut vectors = [IoSliceMut::new(&mut buffer)];
        match net::recvmsg(&socket, &mut vectors, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
            Ok(message) => {
                let attached = ancillary
                    .drain()
                    .filter_map(|message| match message {
                        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                        _ => None,
                    })
                    .flatten()
                    .next();
                break (message.bytes, attached);
            }
        }
    };
    buffer.truncate(length);
    Ok(Packet { bytes: buffer, attached })
}
