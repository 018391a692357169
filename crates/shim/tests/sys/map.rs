//! The pointer map against a model, under threads, across a fork, and its price.
//!
//! The file under test is compiled into this test as it stands; the library it belongs to has no
//! standard library to test with.

#![allow(dead_code, reason = "the shim's files are taken whole")]
#![allow(unsafe_code, reason = "the shim's files, and one fork")]

#[path = "../../src/sys"]
mod sys {
    pub(crate) mod fork;
    pub(crate) mod kernel;
    pub(crate) mod map;
    pub(crate) mod once;
}

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sys::map::Map;
use sys::once::Once;

/// A small generator of repeatable numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn behaves_as_a_hash_map_does() {
    static MAP: Map = Map::new(0);
    let mut model = HashMap::new();
    let mut numbers = Numbers(0x5eed);
    for step in 0..400_000_u64 {
        let random = numbers.next();
        // Few keys in steps of 512 bytes: every path of insertion and removal is met often.
        let key = (random >> 8) % 3000 * 512;
        match random % 5 {
            0 | 1 => assert_eq!(MAP.insert(key, [step, key]), Ok(model.insert(key, [step, key]))),
            2 => assert_eq!(MAP.take(key), model.remove(&key)),
            3 => assert_eq!(MAP.get(key), model.get(&key).copied()),
            _ => {
                let add = |old: Option<[u64; 2]>| match old {
                    Some([_, 7]) => None,
                    Some([count, rest]) => Some([count + 1, rest]),
                    None => Some([1, 7]),
                };
                assert_eq!(MAP.update(key, add), Ok(()));
                match add(model.get(&key).copied()) {
                    Some(value) => model.insert(key, value),
                    None => model.remove(&key),
                };
            }
        }
    }
    let mut seen = HashMap::new();
    MAP.for_each(|key, value| {
        seen.insert(key, value);
    });
    assert_eq!(seen, model);
}

#[test]
fn keys_at_the_edges_are_keys() {
    static MAP: Map = Map::new(1);
    for key in [0, 1, u64::MAX - 1, 1 << 63] {
        assert_eq!(MAP.insert(key, [key, 1]), Ok(None));
        assert_eq!(MAP.get(key), Some([key, 1]));
        assert_eq!(MAP.take(key), Some([key, 1]));
        assert_eq!(MAP.get(key), None);
    }
}

#[test]
fn what_matches_is_taken_and_the_rest_stays() {
    static MAP: Map = Map::new(2);
    for key in 0..20_000_u64 {
        MAP.insert(key * 4096, [key % 3, key]).expect("memory");
    }
    let taken = MAP.take_if(|_, [context, _]| context == 1);
    assert_eq!(taken, (0..20_000).filter(|key| key % 3 == 1).count());
    for key in 0..20_000_u64 {
        assert_eq!(MAP.get(key * 4096).is_some(), key % 3 != 1, "{key}");
    }
}

#[test]
fn threads_lose_nothing() {
    static MAP: Map = Map::new(3);
    const EACH: u64 = 30_000;
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            scope.spawn(move || {
                for number in 0..EACH {
                    let key = (number * 8 + thread) << 9;
                    assert_eq!(MAP.insert(key, [thread, number]), Ok(None));
                    MAP.update(u64::MAX - 2, |old| {
                        Some([old.map_or(1, |[count, _]| count + 1), 0])
                    })
                    .expect("memory");
                }
                for number in (0..EACH).filter(|number| number % 2 == 0) {
                    let key = (number * 8 + thread) << 9;
                    assert_eq!(MAP.take(key), Some([thread, number]));
                }
            });
        }
    });
    assert_eq!(MAP.take(u64::MAX - 2), Some([8 * EACH, 0]));
    let mut count = 0;
    MAP.for_each(|_, _| count += 1);
    assert_eq!(count, 8 * EACH / 2);
}

#[test]
fn a_child_forked_amid_changes_does_not_hang() {
    static MAP: Map = Map::new(4);
    static STOP: AtomicUsize = AtomicUsize::new(0);
    let parent = sys::fork::generation();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            scope.spawn(move || {
                let mut key = thread;
                while STOP.load(SeqCst) == 0 {
                    key += 3;
                    let _ = MAP.insert(key << 9, [1, 1]);
                    MAP.take((key / 2) << 9);
                }
            });
        }
        for _ in 0..200 {
            // SAFETY: the child makes system calls and touches the map only, then ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let other = sys::fork::generation() != parent;
                for key in 0..2000_u64 {
                    MAP.take(key << 9);
                    let _ = MAP.insert(key << 9 | 1, [2, 2]);
                }
                // SAFETY: ends the child without its parent's handlers.
                unsafe { libc::_exit(if other { 0 } else { 1 }) };
            }
            let deadline = Instant::now() + Duration::from_secs(20);
            let mut status = 0;
            // SAFETY: waits for a child of ours.
            while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
                assert!(Instant::now() < deadline, "the child hangs");
                std::thread::sleep(Duration::from_micros(200));
            }
            assert_eq!(status, 0);
        }
        STOP.store(1, SeqCst);
    });
    assert_eq!(sys::fork::generation(), parent);
}

#[test]
fn a_cell_is_filled_once_and_never_hangs() {
    static CELL: Once<u64> = Once::new();
    static MADE: AtomicUsize = AtomicUsize::new(0);
    assert_eq!(CELL.get_or_try_init(|| None), None);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let value = CELL.get_or_try_init(|| {
                    // A nested attempt fails at once.
                    assert_eq!(CELL.get_or_try_init(|| Some(1)), None);
                    std::thread::sleep(Duration::from_millis(20));
                    MADE.fetch_add(1, SeqCst);
                    Some(42)
                });
                assert_eq!(value, Some(&42));
            });
        }
    });
    assert_eq!((MADE.load(SeqCst), CELL.get()), (1, Some(&42)));
}

#[test]
fn costs_the_same_with_many_entries() {
    static FEW: Map = Map::new(5);
    static MANY: Map = Map::new(6);
    let price = |map: &Map, live: u64| {
        for key in 0..live {
            map.insert(key << 9, [key, 0]).expect("memory");
        }
        let mut numbers = Numbers(99);
        let rounds = 2_000_u32;
        let mut batch = |_| {
            let start = Instant::now();
            for _ in 0..rounds {
                let key = numbers.next() | 1;
                map.insert(key, [1, 1]).expect("memory");
                assert!(map.take(key).is_some());
            }
            start.elapsed() / rounds
        };
        // What the host does beside it is in the others.
        (0..100).map(&mut batch).min().unwrap_or_default()
    };
    let (few, many) = (price(&FEW, 100), price(&MANY, 200_000));
    println!("insert and take: {few:?} with 100 entries, {many:?} with 200,000");
    // Caches are colder with many; a search that grew with them would take a thousand times as long.
    assert!(many < few * 30 + Duration::from_micros(3), "{few:?} {many:?}");
}
