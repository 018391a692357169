//! Managed memory under work, on a machine of this process with a card of 16 MiB: what moves, and how long
//! the device is asked to wait for it.

use std::sync::{Arc, Mutex};

use super::*;
use crate::calibration::GRANULE_BYTES;
use crate::driver::device::add_device;
use crate::driver::host_memory::{HostMemory, host_mapping};
use crate::driver::local::Local;
use crate::driver::machine::{Block, DeviceInfo, Lane, Purpose};
use crate::driver::objects::advice::Advice;
use crate::driver::objects::launch::{Body, Launch};
use crate::driver::objects::managed::Managed;
use crate::driver::objects::task::{CopyShape, FillShape, Rows};
use crate::driver::space::{Kind, Range};
use crate::driver::transfer::{run_copy, run_fill};
use crate::partition::Partition;

const G: u64 = GRANULE_BYTES;
const CARD_BYTES: u64 = 8 * G;
const PLACE: Place = Place { context: 0, machine_context: 0, width: 132 };

/// A lane that notes the work the device is asked for.
#[derive(Default)]
struct Asked(Mutex<Vec<(Load, u64)>>);

impl Asked {
    fn take(&self) -> Vec<(Load, u64)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Lane for Asked {
    fn is_timed(&self) -> bool {
        true
    }

    fn submit(&self, _: Place, load: Load, amount: u64, _: u64) -> Answer<bool> {
        self.0.lock().unwrap().push((load, amount));
        Ok(true)
    }

    fn wait(&self) -> Answer<u64> {
        Ok(0)
    }
}

fn must<T>(answer: Answer<T>) -> T {
    answer.unwrap_or_else(|error| panic!("CUDA error {}", error.0))
}

struct Bench {
    driver: &'static DriverState,
    lane: Asked,
}

impl Bench {
    fn new() -> Self {
        let info = DeviceInfo {
            name: "test".to_owned(),
            uuid: [7; 16],
            total_bytes: CARD_BYTES,
            pci_bus: 0,
            pci_domain: 0,
            pci_device: 6,
            speed_percent: 100,
            partition: Partition::Whole,
        };
        let machine = Local::new(vec![info.clone()], true);
        let driver: &'static DriverState = Box::leak(Box::new(DriverState::of(Box::new(machine))));
        add_device(&mut driver.lock(), 0, 0, info);
        Self { driver, lane: Asked::default() }
    }

    fn managed(&self, bytes: u64) -> u64 {
        let mapping = must(host_mapping(bytes as usize));
        let span = mapping.span();
        let mut range = Range::new(span.address() as u64, bytes, Kind::Managed, 0, 0);
        let residence = must(self.driver.machine.managed(bytes));
        range.managed = Some(Arc::new(Managed::new(residence, span)));
        range.block = Some(Arc::new(HostMemory(mapping)));
        self.driver.lock().space.add(range)
    }

    fn used(&self) -> u64 {
        let (free, total) = must(self.driver.machine.memory(0));
        total - free
    }

    /// As the program would: a byte in each of so many pages.
    fn write(&self, at: u64, pages: u64) {
        for page in 0..pages {
            let pieces = must(self.driver.lock().space.pieces(at + page * 4096, 1));
            pieces[0].span.as_ref().unwrap().write(&[1]);
        }
    }

    fn advise(&self, at: u64, bytes: u64, change: impl Fn(&mut Advice)) {
        let parts = self.driver.lock().space.managed_parts(at, bytes);
        parts.iter().for_each(|part| part.managed.advised().change(part.from, part.to, &change));
    }

    fn run(&self, work: impl FnOnce(&mut Track<'_>) -> Answer) -> Vec<(Load, u64)> {
        must(work(&mut Track::new(&self.lane, 0, 0)));
        self.lane.take()
    }

    /// How long a kernel that fills memory stands still before it computes.
    fn kernel(&self, at: u64, bytes: u64) -> u64 {
        let arguments =
            vec![at.to_le_bytes().to_vec(), vec![9; 4], (bytes / 4).to_le_bytes().to_vec()];
        let body = Body::Fill;
        let (grid, block) = ([1; 3], [1; 3]);
        let launch = Launch { function: 0, body, arguments, grid, block, shared_bytes: 0 };
        let mut asked = self.run(|track| launch.run(self.driver, track, PLACE));
        assert_eq!(asked.pop().map(|(load, _)| load), Some(Load::Work));
        asked.iter().map(|(load, ns)| if *load == Load::Stall { *ns } else { u64::MAX }).sum()
    }

    fn prefetch(&self, at: u64, bytes: u64, to: Location) -> Vec<(Load, u64)> {
        let shape = PrefetchShape { at, bytes, to };
        self.run(|track| run_prefetch(self.driver, track, PLACE, &shape).map(|_| ()))
    }

    fn copy(&self, to: u64, from: u64, bytes: u64) -> Vec<(Load, u64)> {
        let rows = |at| Rows { at, pitch: bytes, slice: bytes };
        let shape = CopyShape { to: rows(to), from: rows(from), width: bytes, height: 1, depth: 1 };
        self.run(|track| run_copy(self.driver, track, PLACE, &shape))
    }
}

#[test]
fn a_kernel_waits_for_the_pages_that_have_content_and_for_no_others() {
    let bench = Bench::new();
    let at = bench.managed(4 * G);
    bench.write(at + G, 100);
    assert_eq!(bench.kernel(at, 2 * G), ns_at(100 * 4096, FAULT_BYTES_PER_S));
    assert_eq!(bench.used(), 2 * G, "what it touches, in whole granules");
    assert_eq!(bench.kernel(at, 2 * G), 0, "it is there");
    assert_eq!(bench.kernel(at + 2 * G, 4), 0, "nobody has touched that before");
    assert_eq!(bench.used(), 3 * G);
}

#[test]
fn a_fill_brings_what_it_fills() {
    let bench = Bench::new();
    let at = bench.managed(4 * G);
    let shape = FillShape { at, pitch: G, value: 1, element_bytes: 1, width: 4096, height: 3 };
    bench.write(at, 1);
    let asked = bench.run(|track| run_fill(bench.driver, track, PLACE, &shape));
    let stall_ns = ns_at(4096, FAULT_BYTES_PER_S);
    assert_eq!(asked, [(Load::Stall, stall_ns), (Load::Fill, 3 * 4096)]);
    assert_eq!(bench.used(), 3 * G);
}

#[test]
fn memory_goes_there_and_back_with_its_content() {
    let bench = Bench::new();
    let at = bench.managed(4 * G);
    assert_eq!(bench.prefetch(at, G, Location::Device(0)), [], "there is nothing to copy");
    bench.kernel(at, G);
    assert_eq!(bench.prefetch(at, 4 * G, Location::Host), [(Load::PrefetchOut, G)]);
    assert_eq!(bench.used(), 0);
    assert_eq!(bench.prefetch(at, 4 * G, Location::Host), []);
    assert_eq!(bench.prefetch(at, 4 * G, Location::Device(0)), [(Load::PrefetchIn, G)]);
    assert_eq!(bench.used(), 4 * G);
    // The end of memory is the end of what it has on the card.
    drop(bench.driver.lock().space.remove(at));
    assert_eq!(bench.used(), 0);
}

#[test]
fn a_kernel_over_more_than_the_card_evicts_its_own_oldest() {
    let bench = Bench::new();
    let at = bench.managed(12 * G);
    let evicted_ns = |granules: u64| ns_at(granules * G, EVICT_BYTES_PER_S);
    assert_eq!(bench.kernel(at, 12 * G), evicted_ns(4));
    assert_eq!(bench.used(), CARD_BYTES);
    // From the start again, each granule finds the next one gone.
    let faulted_ns = ns_at(12 * G, FAULT_BYTES_PER_S);
    assert_eq!(bench.kernel(at, 12 * G), faulted_ns + evicted_ns(12));
    // A prefetch evicts as well, on the link.
    let other = bench.managed(2 * G);
    assert_eq!(bench.prefetch(other, 2 * G, Location::Device(0)), [(Load::Evict, 2 * G)]);
}

#[test]
fn an_allocation_has_managed_memory_go_and_what_finds_no_room_stays() {
    let bench = Bench::new();
    let at = bench.managed(8 * G);
    bench.kernel(at, 8 * G);
    let take = |bytes| bench.driver.machine.allocate(0, bytes, Purpose::Data);
    assert!(take(9 * G).is_err());
    assert_eq!(bench.used(), CARD_BYTES);
    let all: Arc<dyn Block> = must(take(8 * G));
    assert_eq!(bench.kernel(at, 8 * G), 0, "nothing can make room for it");
    assert_eq!(bench.used(), CARD_BYTES);
    drop(all);
    assert_eq!(bench.used(), 0);
    assert_eq!(bench.kernel(at, G), ns_at(G, FAULT_BYTES_PER_S));
}

#[test]
fn advice_decides_what_a_kernels_touch_brings_but_not_what_a_prefetch_does() {
    let bench = Bench::new();
    let at = bench.managed(4 * G);
    bench.write(at, 4);
    bench.advise(at, G, |advice| advice.preferred = Some(Location::Host));
    assert_eq!(bench.kernel(at, 2 * G), 0);
    assert_eq!(bench.used(), G, "the second granule alone");
    assert_eq!(bench.prefetch(at, G, Location::Device(0)), [(Load::PrefetchIn, G)]);
    assert_eq!(bench.used(), 2 * G);
    bench.prefetch(at, 4 * G, Location::Host);
    bench.advise(at, 4 * G, |advice| {
        advice.preferred = None;
        advice.accessed_by.extend([0]);
    });
    assert_eq!(bench.kernel(at, 4 * G), 0);
    assert_eq!(bench.used(), 2 * G, "what has no page yet is no page that it could reach");
    bench.advise(at, 4 * G, |advice| advice.accessed_by.clear());
    assert_eq!(bench.kernel(at, 4 * G), ns_at(2 * G, FAULT_BYTES_PER_S));
}

#[test]
fn a_copy_runs_between_the_places_where_its_ends_are_and_moves_neither() {
    let bench = Bench::new();
    let at = bench.managed(4 * G);
    let (here, there) = (at, at + 2 * G);
    bench.kernel(there, G);
    assert_eq!(bench.copy(there, here, 64), [(Load::CopyIn, 64)]);
    assert_eq!(bench.copy(here, there, 64), [(Load::CopyOut, 64)]);
    assert_eq!(bench.copy(there + 64, there, 64), [(Load::DeviceCopy, 64)]);
    assert_eq!(bench.copy(here, here + 64, 64), [(Load::None, 64)]);
    assert_eq!(bench.used(), G);
}
