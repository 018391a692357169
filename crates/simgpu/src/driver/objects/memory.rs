//! Memory that programs hold by other handles than addresses: arrays, physical memory, multicast
//! objects, and what other drivers exported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use divvy_driver_api::types::*;

use crate::driver::machine::Block;

/// An array.
pub(crate) struct Array {
    pub(crate) context: u64,
    pub(crate) descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    /// Where its bytes lie, rows packed.
    pub(crate) at: u64,
    /// Bytes of a row.
    pub(crate) pitch: u64,
    pub(crate) is_level: bool,
    /// A sparse array's memory, by where in the array it is.
    pub(crate) tiles: Option<BTreeMap<[u32; 5], Arc<dyn Block>>>,
}

/// A mipmapped array.
pub(crate) struct Mipmap {
    pub(crate) context: u64,
    pub(crate) at: u64,
    pub(crate) levels: Vec<u64>,
}

/// A physical allocation's handle.
pub(crate) struct PhysicalHandle {
    pub(crate) block: Arc<dyn Block>,
    pub(crate) device: i32,
    pub(crate) handle_types: u32,
    pub(crate) is_imported: bool,
    /// Times the program must release it.
    pub(crate) held: u32,
    /// Mappings of it.
    pub(crate) mapped: u32,
}

/// A multicast object.
pub(crate) struct Multicast {
    pub(crate) bytes: u64,
    /// How many devices it is for.
    pub(crate) devices: usize,
    pub(crate) members: BTreeSet<i32>,
    /// Bound blocks, by device and offset.
    pub(crate) bound: BTreeMap<(i32, u64), Arc<dyn Block>>,
}

/// An imported object.
pub(crate) struct External {
    pub(crate) block: Arc<dyn Block>,
    pub(crate) bytes: u64,
    pub(crate) context: u64,
}
