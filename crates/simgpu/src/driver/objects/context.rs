//! Contexts: primary, created and green, and the resources green ones are made of.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread::ThreadId;

use divvy_driver_api::types::*;

use crate::driver::machine::Block;

/// How a context came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Primary,
    Created,
    /// Made from a green context, in the memory of the primary one.
    Green,
}

/// A context.
pub(crate) struct Context {
    pub(crate) device: i32,
    pub(crate) origin: Origin,
    pub(crate) alive: bool,
    pub(crate) flags: u32,
    /// Threads that wait for its work.
    pub(crate) asleep: u32,
    pub(crate) version: u32,
    pub(crate) id: u64,
    pub(crate) sticky: Option<CUresult>,
    pub(crate) charge: Option<Arc<dyn Block>>,
    pub(crate) legacy: u64,
    /// The stream of its own marks, behind which no work is; 0 before the first.
    pub(crate) marks: u64,
    pub(crate) per_thread: HashMap<ThreadId, u64>,
    pub(crate) limits: [usize; 11],
    /// Local memory taken at launches, and the per-thread size it is for.
    pub(crate) local: Option<Arc<dyn Block>>,
    pub(crate) attached: u32,
    pub(crate) peers: HashSet<u64>,
    /// Charges that green contexts keep until the primary ends.
    pub(crate) green_charges: Vec<Arc<dyn Block>>,
    pub(crate) cache_config: CUfunc_cache,
    pub(crate) shared_config: CUsharedconfig,
}

/// Defaults of the limits, in the order of their numbers; `usize::MAX`: not supported.
const LIMITS: [usize; 11] = [
    1024,
    8_650_752,
    8_388_608,
    usize::MAX,
    2048,
    64,
    11_796_480,
    232_448,
    0,
    usize::MAX,
    usize::MAX,
];

impl Context {
    pub(crate) fn new(device: i32, origin: Origin) -> Self {
        Self {
            device,
            asleep: 0,
            origin,
            alive: false,
            flags: 0,
            version: 3020,
            id: 0,
            sticky: None,
            charge: None,
            legacy: 0,
            marks: 0,
            per_thread: HashMap::new(),
            limits: LIMITS,
            local: None,
            attached: 0,
            peers: HashSet::new(),
            green_charges: Vec::new(),
            cache_config: CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE,
            shared_config: CUsharedconfig::CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE,
        }
    }
}

/// A green context.
pub(crate) struct Green {
    pub(crate) device: i32,
    pub(crate) multiprocessors: u32,
    /// The context `cuCtxFromGreenCtx` gives.
    pub(crate) context: u64,
    pub(crate) id: u64,
}

/// Resources of a descriptor.
pub(crate) struct Resources {
    pub(crate) multiprocessors: u32,
}
