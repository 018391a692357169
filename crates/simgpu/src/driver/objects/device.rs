//! A visible device: its primary context, its pools, its memory for graphs.

use super::arena::GraphMemory;
use crate::driver::machine::DeviceInfo;

/// A visible device.
pub(crate) struct Device {
    pub(crate) info: DeviceInfo,
    /// Its index in the machine.
    pub(crate) machine_index: usize,
    /// The key its primary context always has.
    pub(crate) primary: u64,
    pub(crate) primary_flags: u32,
    pub(crate) retained: u32,
    pub(crate) default_pool: u64,
    pub(crate) pool: u64,
    /// Memory behind graphs' allocation nodes, a pool of its own.
    pub(crate) graphs: GraphMemory,
}
