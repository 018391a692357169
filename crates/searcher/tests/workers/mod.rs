//! Seeds shared out among threads.

use std::ops::Range;

const WORKERS: u64 = 2;

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
    let of = &of;
    std::thread::scope(|scope| {
        let work = |worker| {
            let mine = (seeds.start + worker..seeds.end).step_by(WORKERS as usize);
            scope.spawn(move || mine.map(of).collect::<Vec<_>>())
        };
        let workers: Vec<_> = (0..WORKERS).map(work).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    })
}
