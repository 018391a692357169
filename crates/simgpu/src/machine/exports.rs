//! Descriptors that keep a block, and the handles of legacy IPC.
//!
//! An exported descriptor is a description of its own of the machine's one memory file, as the driver's
//! are of one device file that every client has open too. Where it stands in the file says which export
//! it is; a lock on that byte says that a copy of it is open, in whatever process or in flight. Nobody
//! reads or writes through it.
//!
//! A buffer for other devices is a file of its own: a pipe, of which the machine has the writing end and
//! sees when nobody has the other one any more.
//!
//! A legacy handle is a random number with the range it was made for; it is good while the block lives.

use crate::sys::descriptor::{is_locked, lock, reopen};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// The range of a block a legacy handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleRange {
    /// The block.
    pub block: u64,
    /// Where the range begins in it.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
}

/// All exported descriptors and legacy handles.
#[derive(Debug, Default)]
pub struct Exports {
    /// Blocks by number of the export, which begin at 1.
    blocks: BTreeMap<u64, u64>,
    last: u64,
    /// The writing ends of the buffers' pipes, and the blocks that they keep.
    buffers: Vec<(OwnedFd, u64)>,
    handles: BTreeMap<[u8; 16], HandleRange>,
}

/// First bytes of a legacy handle: tells it from random ones in a dump.
const MAGIC: [u8; 8] = *b"simgpu\x01\0";

impl Exports {
    /// Makes a descriptor of `file` for a block.
    pub fn export(&mut self, file: BorrowedFd<'_>, block: u64) -> Result<OwnedFd, Errno> {
        let number = self.last + 1;
        let descriptor = reopen(file)?;
        seek(&descriptor, SeekFrom::Start(number))?;
        lock(&descriptor, number)?;
        self.last = number;
        self.blocks.insert(number, block);
        Ok(descriptor)
    }

    /// Keeps a block while somebody has the other end of `pipe`.
    pub fn keep(&mut self, pipe: OwnedFd, block: u64) {
        self.buffers.push((pipe, block));
    }

    /// The block a descriptor was made for.
    pub fn block_of(&self, file: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) -> Option<u64> {
        let identity = |of| fstat(of).ok().map(|stat| (stat.st_dev, stat.st_ino));
        if identity(descriptor)? != identity(file)? {
            return None;
        }
        self.blocks.get(&seek(descriptor, SeekFrom::Current(0)).ok()?).copied()
    }

    /// Takes out the exports and buffers whose last copy is closed; answers their blocks.
    pub fn closed(&mut self, file: BorrowedFd<'_>) -> Vec<u64> {
        let mut closed = Vec::new();
        self.blocks.retain(|number, block| {
            let is_open = is_locked(file, *number).unwrap_or(true);
            if !is_open {
                closed.push(*block);
            }
            is_open
        });
        self.buffers.retain(|(pipe, block)| {
            let mut asked = [PollFd::new(pipe, PollFlags::empty())];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let is_polled = poll(&mut asked, Some(&at_once)).is_ok();
            let is_open = !is_polled || !asked[0].revents().contains(PollFlags::ERR);
            if !is_open {
                closed.push(*block);
            }
            is_open
        });
        closed
    }

    /// A legacy handle for a range. The same range has one handle.
    pub fn handle(&mut self, range: HandleRange) -> Result<[u8; 64], Errno> {
        let known = self.handles.iter().find(|(_, known)| **known == range).map(|(key, _)| *key);
        let nonce = match known {
            Some(nonce) => nonce,
            None => random()?,
        };
        self.handles.insert(nonce, range);
        let mut handle = [0; 64];
        handle[..8].copy_from_slice(&MAGIC);
        handle[8..24].copy_from_slice(&nonce);
        Ok(handle)
    }

    /// The range a legacy handle names.
    pub fn open(&self, handle: &[u8; 64]) -> Option<HandleRange> {
        if handle[..8] != MAGIC || handle[24..].iter().any(|byte| *byte != 0) {
            return None;
        }
        self.handles.get(&handle[8..24]).copied()
    }

    /// Forgets the handles of blocks that are gone.
    pub fn retain_handles(&mut self, lives: impl Fn(u64) -> bool) {
        self.handles.retain(|_, range| lives(range.block));
    }
}

/// Sixteen random bytes.
pub fn random() -> Result<[u8; 16], Errno> {
    let mut bytes = [0; 16];
    let filled = rustix::io::retry_on_intr(|| {
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
    })?;
    if filled == bytes.len() { Ok(bytes) } else { Err(Errno::AGAIN) }
}
