//! The one fake that the tests of the gates stand on: a process's driver, its device and its words, over a machine that
//! each test makes.
//!
//! The gates above it are the shipped ones. The words are those of a tenant in memory (`lines`); the clock, the card and
//! the owner are the machine's.

#[path = "../lines/mod.rs"]
pub(crate) mod lines;

use std::fmt::Debug;
use std::sync::Mutex;

use divvy_abi::meet::{self, BoardPlace};
use divvy_policy::gate::{self, LaunchStream, Meeting, Terms, Waited};
use lines::{One, Owner};

/// A clock for each process of a tenant, and the card that their launches and events are on. A process is named by its
/// slot.
pub(crate) trait Machine: Owner + Debug + Sized + 'static {
    fn now_ns(&self, slot: usize) -> u64;
    fn sleep_until(&self, slot: usize, deadline_ns: u64);
    fn spin(&self, slot: usize);
    /// The number of the calling thread's context, from 1.
    fn context(&self, slot: usize) -> u64;
    /// Whether a context was not destroyed.
    fn lives(&self, slot: usize, context: u64) -> bool;
    /// The number of the calling thread, from 0.
    fn thread(&self, slot: usize) -> usize;
    /// Makes an event, and gives its number, which is not 0.
    fn create_event(&self, slot: usize) -> u64;
    /// Records an event on a stream, or behind all of the context's work.
    fn record(&self, slot: usize, event: u64, stream: Option<u64>) -> bool;
    fn is_done(&self, slot: usize, event: u64) -> bool;
    fn elapsed_ns(&self, slot: usize, from: u64, to: u64) -> i64;
    fn terms(&self, slot: usize) -> Terms;
    fn meeting(&self, slot: usize) -> &Meeting;
    /// The board where tenants meet, opened; none where they do not.
    fn board(&self, slot: usize) -> Option<&'static Mutex<meet::Board>>;
}

/// The gates of a process on the machine.
pub(crate) type Gates<M> = gate::Gates<One<M>>;

/// The handle below that of the first context.
const BELOW_HANDLES: u64 = 0x1000;

/// A stream of the program's own.
pub(crate) fn stream(number: u64) -> LaunchStream {
    LaunchStream { handle: 0x100 + number, per_thread: false }
}

/// Synchronises with the context: `wait` is the driver's part.
pub(crate) fn synchronise<M: Machine>(gates: &Gates<M>, wait: impl FnOnce()) {
    let waiting = gates.begin_wait(&Waited::Current);
    wait();
    if let Some(waiting) = waiting {
        gates.end_wait(&waiting, &Waited::Current);
    }
}

impl<M: Machine> gate::Driver for One<M> {
    type Device = Self;
    type Home = Home<M>;

    fn now_ns(&self) -> u64 {
        self.0.beside.now_ns(self.1)
    }
    fn sleep_until(&self, deadline_ns: u64) {
        self.0.beside.sleep_until(self.1, deadline_ns);
    }
    fn spin(&self) {
        self.0.beside.spin(self.1);
    }
    fn context(&self) -> u64 {
        BELOW_HANDLES + self.0.beside.context(self.1)
    }
    fn context_id(&self) -> u64 {
        self.0.beside.context(self.1)
    }
    fn device(&self) -> Option<Self> {
        self.0.beside.lives(self.1, gate::Driver::context_id(self)).then_some(*self)
    }
    fn thread(&self) -> u32 {
        u32::try_from(self.0.beside.thread(self.1)).expect("few threads")
    }
    fn stripe(&self) -> usize {
        // More threads than stripes.
        self.0.beside.thread(self.1) / 2
    }
    fn create_event(&self) -> u64 {
        self.0.beside.create_event(self.1)
    }
    fn record(&self, event: u64, stream: LaunchStream) -> bool {
        self.0.beside.record(self.1, event, Some(stream.handle))
    }
    fn record_context(&self, context: u64, event: u64) -> bool {
        assert_eq!(context, gate::Driver::context(self));
        self.0.beside.record(self.1, event, None)
    }
    fn is_done(&self, event: u64) -> bool {
        self.0.beside.is_done(self.1, event)
    }
    fn elapsed_ns(&self, from: u64, to: u64) -> Option<i64> {
        Some(self.0.beside.elapsed_ns(self.1, from, to))
    }
    fn is_captured(&self, _: LaunchStream) -> bool {
        // What captures is no stream that is launched on.
        false
    }
    fn relaxed<T>(&self, act: impl FnOnce() -> T) -> T {
        act()
    }
}

impl<M: Machine> gate::Device for One<M> {
    type Words = Self;
    type Board = Meets<M>;

    fn terms(&self) -> Terms {
        self.0.beside.terms(self.1)
    }
    fn state(&self) -> u32 {
        self.0.beside.gate_line(self.1).gate
    }
    fn meeting(&self) -> &Meeting {
        self.0.beside.meeting(self.1)
    }
    fn words(&self) -> Option<Self> {
        Some(*self)
    }
    fn board(&self) -> Option<Meets<M>> {
        Some(Meets(*self, self.0.beside.board(self.1)?))
    }
    fn is(&self, _: Self) -> bool {
        true
    }
}

/// A context's place for its device.
#[derive(Debug)]
pub(crate) struct Home<M: Machine>(Mutex<Option<One<M>>>);

impl<M: Machine> gate::Home for Home<M> {
    type Device = One<M>;
    const NONE: Self = Self(Mutex::new(None));

    fn get(&self) -> Option<One<M>> {
        *self.0.lock().expect("no panic")
    }
    fn set(&self, device: One<M>) {
        *self.0.lock().expect("no panic") = Some(device);
    }
}

/// A process at the board.
#[derive(Debug)]
pub(crate) struct Meets<M: Machine>(One<M>, &'static Mutex<meet::Board>);

impl<M: Machine> gate::Board for Meets<M> {
    fn process(&self) -> u32 {
        u32::try_from(self.0.1).expect("few processes")
    }
    fn tenant(&self) -> u64 {
        std::ptr::from_ref(self.0.0).addr() as u64
    }
    fn read(&self, into: &mut meet::Board) -> bool {
        *into = *self.1.lock().expect("no panic");
        true
    }
    fn write(&self, at: usize, place: &BoardPlace) -> bool {
        self.1.lock().expect("no panic")[at] = *place;
        true
    }
}
