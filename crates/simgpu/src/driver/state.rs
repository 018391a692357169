//! The driver's state in one process: one lock, one condition, and the thread's current context.
//!
//! Promises: the lock is never held while work runs, while the program's functions are called, or
//! across a wait, so a call from any thread makes progress. Hot calls of the null machine do not
//! take it.

use core::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

use divvy_driver_api::types::*;

use super::error::*;
use super::machine::{Block, Machine, Purpose};
use super::objects::code::{Function, Kernel, Library, Link, Module};
use super::objects::condition::Conditions;
use super::objects::context::{Context, Green, Resources};
use super::objects::device::Device;
use super::objects::graph::{Exec, Graph, Node, UserObject};
use super::objects::memory::{Array, External, Mipmap, Multicast, PhysicalHandle};
use super::objects::pool::Pool;
use super::objects::stream::{Capture, Event, Stream};
use super::space::Space;
use super::table::Table;
use crate::sys::driver::Answer;

/// Everything the driver knows.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Table<CUcontext, Context>,
    pub(crate) streams: Table<CUstream, Stream>,
    pub(crate) events: Table<CUevent, Event>,
    /// Events and streams that ended with their contexts, and pools that were destroyed.
    pub(crate) ended: std::collections::HashSet<u64>,
    pub(crate) space: Space,
    pub(crate) reservations: std::collections::BTreeMap<u64, u64>,
    pub(crate) physical: HashMap<u64, PhysicalHandle>,
    pub(crate) multicasts: HashMap<u64, Multicast>,
    pub(crate) pools: Table<CUmemoryPool, Pool>,
    pub(crate) arrays: Table<CUarray, Array>,
    pub(crate) mipmaps: Table<CUmipmappedArray, Mipmap>,
    pub(crate) modules: Table<CUmodule, Module>,
    pub(crate) functions: Table<CUfunction, Function>,
    pub(crate) libraries: Table<CUlibrary, Library>,
    pub(crate) kernels: Table<CUkernel, Kernel>,
    pub(crate) graphs: Table<CUgraph, Graph>,
    pub(crate) nodes: Table<CUgraphNode, Node>,
    pub(crate) execs: Table<CUgraphExec, Exec>,
    pub(crate) conditions: Conditions,
    pub(crate) user_objects: Table<CUuserObject, UserObject>,
    pub(crate) greens: Table<CUgreenCtx, Green>,
    pub(crate) resources: Table<CUdevResourceDesc, Resources>,
    pub(crate) externals: Table<CUexternalMemory, External>,
    pub(crate) links: Table<CUlinkState, Link>,
    pub(crate) captures: HashMap<u64, Capture>,
    /// Legacy handles this process made.
    pub(crate) ipc_published: std::collections::HashSet<[u8; 64]>,
    pub(crate) next_id: u64,
    /// The sticky error of any context: no new context can be made in this process.
    pub(crate) broken: Option<CUresult>,
    /// Addresses of allocation nodes, and their sizes.
    pub(crate) graph_memory: std::collections::BTreeMap<u64, u64>,
    /// Host functions that were ready when they were queued, in that order.
    pub(crate) host_function_runs: bool,
    pub(crate) host_tickets: std::collections::BTreeSet<u64>,
    /// Memory opened by legacy handles: its address, and the number of times.
    pub(crate) ipc_opened: HashMap<[u8; 64], (u64, u32)>,
}

impl State {
    /// A number no object of this process had before.
    pub(crate) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The live context of a key, its sticky error first.
    pub(crate) fn context(&self, key: u64) -> Answer<&Context> {
        let context = self.contexts.get(key).map_err(|_| INVALID_CONTEXT)?;
        if !context.alive {
            return Err(CONTEXT_IS_DESTROYED);
        }
        match context.sticky {
            Some(error) => Err(error),
            None => Ok(context),
        }
    }

    /// The same for what is current to a thread, which has been a context whatever the tables say.
    pub(crate) fn current_context(&self, key: u64) -> Answer<&Context> {
        self.context(key).map_err(|error| match error {
            INVALID_CONTEXT => CONTEXT_IS_DESTROYED,
            other => other,
        })
    }

    pub(crate) fn context_mut(&mut self, key: u64) -> Answer<&mut Context> {
        self.context(key)?;
        self.contexts.get_mut(key)
    }

    /// Whether an address is memory, or will be when a graph runs.
    pub(crate) fn is_graph_memory(&self, at: u64) -> bool {
        let before = self.graph_memory.range(..=at).next_back();
        before.is_some_and(|(base, bytes)| at < base + bytes)
    }

    pub(crate) fn device(&self, device: CUdevice) -> Answer<&Device> {
        let index = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
        self.devices.get(index).ok_or(INVALID_DEVICE)
    }

    pub(crate) fn device_mut(&mut self, device: CUdevice) -> Answer<&mut Device> {
        let index = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
        self.devices.get_mut(index).ok_or(INVALID_DEVICE)
    }
}

/// The driver of this process.
pub(crate) struct DriverState {
    pub(crate) machine: Box<dyn Machine>,
    state: Mutex<State>,
    /// Something completed.
    progress: Condvar,
    /// A stream has something to look at.
    work: Condvar,
    /// Held by a call that lets memory go while it waits for work: copies wait for that.
    letting_go: RwLock<()>,
}

static DRIVER: OnceLock<DriverState> = OnceLock::new();
static NULL: AtomicBool = AtomicBool::new(false);

impl DriverState {
    /// A driver over a machine, with nothing in it.
    pub(crate) fn of(machine: Box<dyn Machine>) -> Self {
        Self {
            machine,
            state: Mutex::default(),
            progress: Condvar::new(),
            work: Condvar::new(),
            letting_go: RwLock::new(()),
        }
    }

    /// Keeps copies out, until dropped.
    pub(crate) fn let_go(&self) -> RwLockWriteGuard<'_, ()> {
        self.letting_go.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no call lets memory go.
    pub(crate) fn await_letting_go(&self) {
        drop(self.letting_go.read());
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the lock up until something completed.
    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.progress.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the lock up until a stream may have work; for engine threads.
    pub(crate) fn wait_for_work<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.work.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells every waiter to look again.
    pub(crate) fn progressed(&self) {
        self.progress.notify_all();
        self.work.notify_all();
    }

    /// Tells engine threads of new work.
    pub(crate) fn submitted(&self) {
        self.work.notify_all();
    }

    /// Tells of an operation's end: engine threads too, if any has something left.
    pub(crate) fn completed(&self, state: &State) {
        self.progress.notify_all();
        if state.streams.iter().any(|(_, stream)| stream.is_waited_for()) {
            self.work.notify_all();
        }
    }

    /// Takes physical memory of a visible device.
    pub(crate) fn allocate(
        &self,
        state: &State,
        device: i32,
        bytes: u64,
        purpose: Purpose,
    ) -> Answer<Arc<dyn Block>> {
        self.machine.allocate(state.device(device)?.machine_index, bytes, purpose)
    }
}

/// The driver, once `cuInit` made it.
pub(crate) fn driver() -> Answer<&'static DriverState> {
    DRIVER.get().ok_or(NOT_INITIALIZED)
}

/// Makes the driver; later calls keep the first.
pub(crate) fn start(make: impl FnOnce() -> (Box<dyn Machine>, State)) -> &'static DriverState {
    DRIVER.get_or_init(|| {
        let (machine, state) = make();
        NULL.store(machine.is_null(), Ordering::Relaxed);
        let driver = DriverState::of(machine);
        *driver.lock() = state;
        driver
    })
}

/// Whether this process runs on the null machine.
#[inline]
pub(crate) fn is_null() -> bool {
    NULL.load(Ordering::Relaxed)
}

thread_local! {
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Reads or changes the calling thread's context stack.
pub(crate) fn with_stack<R>(work: impl FnOnce(&mut Vec<u64>) -> R) -> Answer<R> {
    STACK.try_with(|stack| work(&mut stack.borrow_mut())).map_err(|_| DEINITIALIZED)
}

/// The calling thread's current context key.
#[inline]
pub(crate) fn current() -> Answer<u64> {
    with_stack(|stack| stack.last().copied())?.filter(|key| *key != 0).ok_or(INVALID_CONTEXT)
}

/// The driver, its locked state and the healthy current context.
pub(crate) type Begun = (&'static DriverState, MutexGuard<'static, State>, u64);

/// How most calls begin.
pub(crate) fn begin() -> Answer<Begun> {
    let driver = driver()?;
    let key = current()?;
    let state = driver.lock();
    state.current_context(key)?;
    Ok((driver, state, key))
}

/// As [`begin`], for a call whose pointers have 32 bits: a context that was made by today's calls
/// refuses it.
pub(crate) fn begin_old() -> Answer<Begun> {
    let begun = begin()?;
    let version = begun.1.context(begun.2)?.version;
    if version < 3020 { Ok(begun) } else { Err(INVALID_CONTEXT) }
}

/// The driver and its locked state, where no context is needed.
pub(crate) fn begin_free() -> Answer<(&'static DriverState, MutexGuard<'static, State>)> {
    let driver = driver()?;
    Ok((driver, driver.lock()))
}
