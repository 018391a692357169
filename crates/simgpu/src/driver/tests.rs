//! The driver's bookkeeping against figures measured on the H200, on a machine of this process.

use super::device::add_device;
use super::local::Local;
use super::machine::{DeviceInfo, Instant, Place, Purpose};
use super::objects::launch::{Body, Launch};
use super::objects::stream::Stream;
use super::pool;
use super::space::{Kind, Range};
use super::state::{DriverState, State};
use super::track::Track;
use crate::partition::Partition;
use crate::sys::driver::Answer;

const MIB: u64 = 1 << 20;

/// Unwraps an answer, naming its code.
trait Must<T> {
    fn must(self, what: &str) -> T;
}

impl<T> Must<T> for Answer<T> {
    #[track_caller]
    fn must(self, what: &str) -> T {
        self.unwrap_or_else(|error| panic!("{what}: CUDA error {}", error.0))
    }
}

fn driver() -> (DriverState, State) {
    let info = DeviceInfo {
        name: "test".to_owned(),
        uuid: [7; 16],
        total_bytes: 8 << 30,
        pci_bus: 0,
        pci_domain: 0,
        pci_device: 6,
        speed_percent: 100,
        partition: Partition::Whole,
    };
    let machine = Local::new(vec![info.clone()], true);
    let mut state = State::default();
    add_device(&mut state, 0, 0, info);
    (DriverState::of(Box::new(machine)), state)
}

fn used(driver: &DriverState) -> u64 {
    let (free, total) = driver.machine.memory(0).must("device 0");
    total - free
}

fn place(driver: &DriverState, state: &mut State, size: u64) -> u64 {
    let range = Range::new(0, size, Kind::Device, 32, 0);
    let take = |bytes| driver.machine.allocate(0, bytes, Purpose::Data);
    state.space.place(range, take).must("room")
}

#[test]
fn small_blocks_share_granules_as_measured() {
    for (size, count, taken) in [
        (256, 64, 2 * MIB),
        (MIB, 64, 64 * MIB),
        (700 << 10, 64, 64 * MIB),
        (MIB + 1, 1, 2 * MIB),
        (2 * MIB, 1, 2 * MIB),
        (2 * MIB + 1, 1, 4 * MIB),
        (100 * MIB + 5, 1, 102 * MIB),
    ] {
        let (driver, mut state) = driver();
        let blocks: Vec<u64> = (0..count).map(|_| place(&driver, &mut state, size)).collect();
        assert_eq!(used(&driver), taken, "{count} of {size}");
        assert!(blocks.iter().all(|at| at.is_multiple_of(512)));
        // One block left keeps its granule; the last one gives it back.
        for at in &blocks[1..] {
            state.space.remove(*at).must("a block");
        }
        assert!(used(&driver) >= 2 * MIB);
        state.space.remove(blocks[0]).must("a block");
        assert_eq!(used(&driver), 0);
    }
}

#[test]
fn a_hole_in_a_granule_is_used_again() {
    let (driver, mut state) = driver();
    let blocks: Vec<u64> = (0..8).map(|_| place(&driver, &mut state, 4096)).collect();
    state.space.remove(blocks[3]).must("a block");
    assert_eq!(place(&driver, &mut state, 4096), blocks[3]);
    assert_eq!(used(&driver), 2 * MIB);
}

#[test]
fn pools_reserve_in_steps_of_what_is_used() {
    let (driver, mut state) = driver();
    let key = state.devices[0].default_pool;
    let mut held = Vec::new();
    for reserved in [64, 96, 128, 160, 224, 256] {
        held.push(pool::allocate(&driver, &mut state, key, 0, 40 * MIB).must("room"));
        assert_eq!(state.pools.get(key).must("the pool").reserved(), reserved * MIB);
        assert_eq!(used(&driver), reserved * MIB);
    }
    let first = held[0];
    for at in held {
        pool::free_at(&mut state, at, None).must("pool memory");
    }
    let again = pool::allocate(&driver, &mut state, key, 0, 40 * MIB).must("room");
    assert_eq!(again, first, "freed memory is used again");
    pool::free_at(&mut state, again, None).must("pool memory");
    state.pools.get_mut(key).must("the pool").shrink(50 * MIB);
    assert_eq!(used(&driver), 64 * MIB);
    pool::release_unused(&mut state);
    assert_eq!(used(&driver), 0);
}

#[test]
fn freed_pool_memory_waits_for_the_work_before_it() {
    let (driver, mut state) = driver();
    let key = state.devices[0].default_pool;
    let stream = state.streams.insert(Stream::created(0, 0, 1, 0, 3));
    let at = pool::allocate(&driver, &mut state, key, stream, 4096).must("room");
    pool::free_at(&mut state, at, Some((stream, 1))).must("pool memory");
    let other = pool::allocate(&driver, &mut state, key, 0, 4096).must("room");
    assert_ne!(other, at, "work on another stream may not touch it yet");
    assert!(state.space.pieces(at, 4096).is_ok(), "work before the free still reaches it");
    let own = pool::allocate(&driver, &mut state, key, stream, 4096).must("room");
    assert_eq!(own, at, "the stream that freed it is ordered after the free");
}

#[test]
fn a_full_card_refuses_and_loses_nothing() {
    let (driver, mut state) = driver();
    let key = state.devices[0].default_pool;
    let all = pool::allocate(&driver, &mut state, key, 0, (8 << 30) - 64 * MIB).must("room");
    assert!(pool::allocate(&driver, &mut state, key, 0, 128 * MIB).is_err());
    pool::free_at(&mut state, all, None).must("pool memory");
    pool::release_unused(&mut state);
    assert_eq!(used(&driver), 0);
}

#[test]
fn what_is_handed_over_ends_with_its_new_context() {
    let (driver, mut state) = driver();
    let blocks = [4096, 100 * MIB].map(|size| place(&driver, &mut state, size));
    state.space.hand_over(32, 64);
    assert!(state.space.remove_where(|range| range.context == 32).is_empty());
    assert_eq!(used(&driver), 102 * MIB);
    let range = Range::new(0, 4096, Kind::Device, 64, 0);
    let take = |bytes| driver.machine.allocate(0, bytes, Purpose::Data);
    let beside = state.space.place(range, take).must("room");
    assert_eq!(
        beside & !(2 * MIB - 1),
        blocks[0] & !(2 * MIB - 1),
        "its granule has room for that"
    );
    assert_eq!(state.space.remove_where(|range| range.context == 64).len(), 3);
    assert_eq!(used(&driver), 0);
}

#[test]
fn a_context_that_is_gone_and_current_is_destroyed_and_named_is_none() {
    let (_, state) = driver();
    let gone = 0x5510_0000_0040;
    let code = |answer: Answer<&_>| answer.err().map(|error| error.0);
    assert_eq!(code(state.current_context(gone)), Some(super::error::CONTEXT_IS_DESTROYED.0));
    assert_eq!(code(state.context(gone)), Some(super::error::INVALID_CONTEXT.0));
}

fn run(driver: &DriverState, body: Body, arguments: Vec<Vec<u8>>) {
    let launch =
        Launch { function: 0, body, arguments, grid: [1; 3], block: [1; 3], shared_bytes: 0 };
    let place = Place { context: 0, machine_context: 0, width: 132 };
    launch.run(driver, &mut Track::new(&Instant, 0, 0), place).must("mapped memory");
}

fn contents(driver: &DriverState, at: u64, length: u64) -> Vec<u8> {
    let pieces = driver.lock().space.pieces(at, length).must("mapped");
    pieces[0].span.as_ref().expect("bytes").read()
}

#[test]
fn kernels_compute_what_their_names_say() {
    let (driver, mut state) = driver();
    let at = place(&driver, &mut state, 4096);
    std::mem::swap(&mut *driver.lock(), &mut state);
    let (a, b, c) = (at, at + 1024, at + 2048);
    let number = |n: u64| n.to_le_bytes().to_vec();
    let count = |n: u32| n.to_le_bytes().to_vec();
    let float = |x: f32| x.to_le_bytes().to_vec();
    run(&driver, Body::Fill, vec![number(a), float(1.5), number(4)]);
    run(&driver, Body::Fill, vec![number(b), float(2.0), number(4)]);
    run(&driver, Body::VectorAdd, vec![number(c), number(a), number(b), count(4)]);
    assert_eq!(contents(&driver, c, 16), float(3.5).repeat(4));
    run(&driver, Body::MatrixProduct, vec![number(c), number(a), number(b), count(2)]);
    assert_eq!(contents(&driver, c, 16), float(6.0).repeat(4));
    run(&driver, Body::Fill, vec![number(a), count(7), number(100)]);
    run(&driver, Body::Checksum, vec![number(a), number(100), number(c)]);
    assert_eq!(contents(&driver, c, 8), number(700));
    run(&driver, Body::FixedWork, vec![number(300), number(c)]);
    assert_eq!(contents(&driver, c, 8), number(1000));
    run(&driver, Body::ShareWork, vec![number(c), number(300)]);
    assert_eq!(contents(&driver, c, 8), number(1001));
}

#[test]
fn a_kernel_cannot_reach_what_is_not_mapped() {
    let (driver, _) = driver();
    let arguments = vec![0x10_u64.to_le_bytes().to_vec(), vec![0; 4], 4_u64.to_le_bytes().to_vec()];
    let launch = Launch {
        function: 0,
        body: Body::Fill,
        arguments,
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
    };
    let place = Place { context: 0, machine_context: 0, width: 132 };
    let result = launch.run(&driver, &mut Track::new(&Instant, 0, 0), place);
    assert!(result.is_err_and(|error| error == super::error::ILLEGAL_ADDRESS));
}

#[test]
fn what_is_refused_is_listed_and_nothing_else() {
    let listed = super::NOT_SIMULATED;
    assert!(listed.windows(2).all(|pair| pair[0] < pair[1]), "sorted");
    for name in listed {
        assert!(divvy_driver_api::find(name).is_some(), "{name}");
    }
    for name in ["cuMemAlloc_v2", "cuLaunchKernel", "cuMemCreate", "cuGraphLaunch_ptsz"] {
        assert!(!listed.contains(&name));
    }
}
