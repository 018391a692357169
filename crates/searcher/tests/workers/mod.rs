//! Seeds shared out among threads.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::available_parallelism;

/// Seeds from `FROM` on, as many as `SEEDS` says, or as are usual.
pub(crate) fn chosen(usual: u64) -> Range<u64> {
    let number = |name: &str, usual: u64| {
        std::env::var(name).ok().map_or(usual, |text| text.parse().expect("a number"))
    };
    let from = number("FROM", 0);
    from..from + number("SEEDS", usual)
}

/// What `of` makes of each, in no order.
pub(crate) fn of_seeds<T: Send>(seeds: Range<u64>, of: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = available_parallelism().map_or(2, usize::from);
    let next = AtomicU64::new(seeds.start);
    let mine = || {
        let seed = next.fetch_add(1, Relaxed);
        (seed < seeds.end).then(|| of(seed))
    };
    std::thread::scope(|scope| {
        let work = |_| scope.spawn(|| std::iter::from_fn(mine).collect::<Vec<_>>());
        let workers: Vec<_> = (0..threads).map(work).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    })
}
