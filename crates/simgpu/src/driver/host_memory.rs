//! Host memory that the device reaches.
//!
//! Promises: its bytes are in this process from the start; it cannot be exported.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::error::*;
use super::machine::Block;
use crate::sys::descriptor::memory_file;
use crate::sys::driver::Answer;
use crate::sys::mapping::{Mapping, Span};

/// Pinned host memory.
pub(super) struct HostMemory(pub(super) Mapping);

impl Block for HostMemory {
    fn bytes(&self) -> u64 {
        self.0.span().bytes() as u64
    }
    fn device(&self) -> usize {
        usize::MAX
    }
    fn span(&self) -> Answer<Option<Span>> {
        Ok(Some(self.0.span()))
    }
    fn export(&self) -> Answer<OwnedFd> {
        Err(NOT_SUPPORTED)
    }
    fn publish(&self, _: u64, _: u64) -> Answer<[u8; 64]> {
        Err(NOT_SUPPORTED)
    }
}

/// Host memory that the device reaches, for pools of it.
pub(crate) fn host_block(bytes: u64) -> Answer<Arc<dyn Block>> {
    let bytes = usize::try_from(bytes).map_err(|_| OUT_OF_MEMORY)?;
    Ok(Arc::new(HostMemory(host_mapping(bytes)?)))
}

/// Host memory that a program gets the address of.
pub(super) fn host_mapping(bytes: usize) -> Answer<Mapping> {
    let file = memory_file(bytes as u64).map_err(|_| OUT_OF_MEMORY)?;
    Mapping::new(file, 0, bytes).map_err(|_| OUT_OF_MEMORY)
}
