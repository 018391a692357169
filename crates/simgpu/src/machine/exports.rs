//! Descriptors that keep a block, and the handles of legacy IPC.
//!
//! An exported descriptor is the writing end of a pipe of which the daemon keeps the reading end: it
//! is known by the pipe's inode when it comes back, and when the last copy of it is closed, in whatever
//! process or in flight, the reading end hangs up. Nobody writes into it.
//!
//! A legacy handle is a random number with the range it was made for; it is good while the block lives.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
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

#[derive(Debug)]
struct Export {
    block: u64,
    reading_end: OwnedFd,
}

/// All exported descriptors and legacy handles.
#[derive(Debug, Default)]
pub struct Exports {
    by_inode: BTreeMap<u64, Export>,
    handles: BTreeMap<[u8; 16], HandleRange>,
}

/// First bytes of a legacy handle: tells it from random ones in a dump.
const MAGIC: [u8; 8] = *b"simgpu\x01\0";

impl Exports {
    /// Makes a descriptor for a block; answers it and the inode the daemon is to watch it by.
    pub fn export(&mut self, block: u64) -> Result<(OwnedFd, u64), Errno> {
        let (reading_end, writing_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let inode = fstat(&reading_end)?.st_ino;
        self.by_inode.insert(inode, Export { block, reading_end });
        Ok((writing_end, inode))
    }

    /// What to watch for the hang-up of this export.
    pub fn reading_end(&self, inode: u64) -> Option<BorrowedFd<'_>> {
        self.by_inode.get(&inode).map(|export| export.reading_end.as_fd())
    }

    /// The block a descriptor was made for.
    pub fn block_of(&self, descriptor: BorrowedFd<'_>) -> Option<u64> {
        let inode = fstat(descriptor).ok()?.st_ino;
        let export = self.by_inode.get(&inode)?;
        // Inodes are unique within a file system only: the device number must be the pipe's too.
        let same = fstat(&export.reading_end).ok()?.st_dev == fstat(descriptor).ok()?.st_dev;
        same.then_some(export.block)
    }

    /// The last copy of an exported descriptor is closed; answers its block.
    pub fn closed(&mut self, inode: u64) -> Option<u64> {
        self.by_inode.remove(&inode).map(|export| export.block)
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
