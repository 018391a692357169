//! The searcher for long: `cargo xtask soak share`.
//!
//! Of each seed twenty of tenants' memory, a lone tenant, two or three beside each other without caps and with them, and 150 short cases; of one in
//! sixteen also tenants whose kernels outlast a turn, which take ten times as long. What it saw is written as JSON to the
//! file that `DIVVY_RESULT` names, with the worst of each kind. Without that variable it does nothing: what CI searches is
//! in the other tests.

mod workers;

use std::time::{Duration, Instant};

use divvy_searcher::judge::{self, Verdict};
use divvy_searcher::memory;
use serde_json::{Value, json};

/// Short cases to each long one.
const SHORT: u64 = 150;
/// Cases of memory to each long one.
const MEMORY: u64 = 20;
/// Of so many seeds one has kernels that outlast a turn, by turns without caps and with them.
const OUTLASTING: u64 = 16;
/// Seeds between two looks at the clock: of each kind the last may run alone.
const AT_ONCE: u64 = 160;
/// How many of the worst are kept of each kind.
const WORST: usize = 20;

/// What was seen of one kind of case.
struct Kind {
    name: &'static str,
    run: u64,
    broken: u64,
    far: u64,
    worst: Vec<Verdict>,
}

impl Kind {
    fn new(name: &'static str) -> Self {
        Self { name, run: 0, broken: 0, far: 0, worst: Vec::new() }
    }

    fn add(&mut self, verdict: Verdict) {
        self.run += 1;
        self.broken += u64::from(verdict.off.is_infinite());
        self.far += u64::from(!verdict.holds());
        if verdict.off > 0.0 {
            self.worst.push(verdict);
            self.worst.sort_by(|a, b| b.off.total_cmp(&a.off));
            self.worst.truncate(WORST);
        }
    }

    fn json(&self) -> Value {
        let worst = self.worst.iter().map(|one| {
            json!({ "seed": one.seed, "tolerances": one.off, "points": one.points, "text": one.text })
        });
        json!({
            "kind": self.name, "cases": self.run, "broken": self.broken, "beyond_tolerance": self.far,
            "worst": worst.collect::<Vec<_>>(),
        })
    }
}

/// What was seen of one seed.
struct Seen {
    lone: Verdict,
    beside: Verdict,
    capped: Verdict,
    outlasting: Option<Verdict>,
    pausing: Verdict,
    short: Vec<Verdict>,
    memory: Vec<Verdict>,
}

fn all_of(seed: u64) -> Seen {
    Seen {
        lone: judge::alone(seed),
        beside: judge::together(seed, false),
        capped: judge::together(seed, true),
        outlasting: seed
            .is_multiple_of(OUTLASTING)
            .then(|| judge::outlasting(seed, seed.is_multiple_of(2 * OUTLASTING))),
        pausing: judge::pausing(seed, seed.is_multiple_of(2)),
        short: (seed * SHORT..(seed + 1) * SHORT).map(judge::short).collect(),
        memory: (seed * MEMORY..(seed + 1) * MEMORY).map(memory::drawn).collect(),
    }
}

#[test]
fn for_as_long_as_is_asked() {
    let Some(result) = std::env::var_os("DIVVY_RESULT") else { return };
    let seconds =
        std::env::var("DIVVY_SECONDS").ok().map(|text| text.parse::<f64>().expect("seconds"));
    let last = seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let seeds = workers::chosen(u64::MAX / 1_000);
    let names = ["lone", "beside", "beside, caps", "outlasting", "pausing", "short", "memory"];
    let mut kinds = names.map(Kind::new);
    let mut from = seeds.start;
    let begun = Instant::now();
    while from < seeds.end && last.is_none_or(|last| Instant::now() < last) {
        let to = seeds.end.min(from + AT_ONCE);
        let [lone, beside, capped, outlasting, pausing, short, memory] = &mut kinds;
        for seen in workers::of_seeds(from..to, all_of) {
            lone.add(seen.lone);
            beside.add(seen.beside);
            capped.add(seen.capped);
            seen.outlasting.into_iter().for_each(|verdict| outlasting.add(verdict));
            pausing.add(seen.pausing);
            seen.short.into_iter().for_each(|verdict| short.add(verdict));
            seen.memory.into_iter().for_each(|verdict| memory.add(verdict));
        }
        from = to;
        let seen = kinds.iter().map(|kind| format!("{} {} ({})", kind.name, kind.run, kind.far));
        let seen = seen.collect::<Vec<_>>().join(", ");
        let spent = begun.elapsed().as_secs_f64();
        let asked = seconds.map_or(0.0, |seconds| spent / seconds);
        let part = asked.max((to - seeds.start) as f64 / (seeds.end - seeds.start) as f64);
        let left = (spent / part - spent).max(0.0);
        eprintln!("{spent:5.0} s: {seen} beyond their tolerance; about {left:.0} s left");
        let kinds: Vec<_> = kinds.iter().map(Kind::json).collect();
        let all = json!({
            "benchmark": "soak share", "version": env!("CARGO_PKG_VERSION"),
            "from": seeds.start, "to": to, "seconds": begun.elapsed().as_secs(), "kinds": kinds,
        });
        let text = serde_json::to_string_pretty(&all).expect("plain data has a form");
        std::fs::write(&result, text).expect("the result can be written");
    }
    let broken: u64 = kinds.iter().map(|kind| kind.broken).sum();
    assert_eq!(broken, 0, "cases that hang or break a capture: see {}", result.display());
}

/// Tenants' memory alone, for as long: to the file that `DIVVY_MEMORY_RESULT` names.
#[test]
fn memory_for_as_long_as_is_asked() {
    let Some(result) = std::env::var_os("DIVVY_MEMORY_RESULT") else { return };
    let seconds =
        std::env::var("DIVVY_SECONDS").ok().map(|text| text.parse::<f64>().expect("seconds"));
    let seeds = workers::chosen(u64::MAX / 1_000);
    let (begun, mut from, mut kind) = (Instant::now(), seeds.start, Kind::new("memory"));
    while from < seeds.end && seconds.is_none_or(|most| begun.elapsed().as_secs_f64() < most) {
        let to = seeds.end.min(from + AT_ONCE);
        for seen in workers::of_seeds(from..to, memory::drawn) {
            if !seen.holds() {
                eprintln!("seed {} breaks: {}", seen.seed, seen.text);
            }
            kind.add(seen);
        }
        from = to;
        let spent = begun.elapsed().as_secs();
        eprintln!("{spent:5} s: {} cases of memory, {} broken", kind.run, kind.broken);
        let all = json!({
            "benchmark": "soak memory", "version": env!("CARGO_PKG_VERSION"),
            "from": seeds.start, "to": to, "seconds": spent, "kinds": [kind.json()],
        });
        let text = serde_json::to_string_pretty(&all).expect("plain data has a form");
        std::fs::write(&result, text).expect("the result can be written");
    }
    assert_eq!(kind.broken, 0, "cases that break: see {}", result.display());
}
