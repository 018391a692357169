//! One tenant alone on a device under a cap, by seed: what its kernels' lengths do is what is tried.
//!
//! One process, of several threads in one case of four. Some keys of launches, each with lengths of its own, launched
//! one by one, in queues, as graphs, on one stream or several; waited for by a synchronisation or by a stream, or asked
//! for; with pauses, host's work and copies between, or none; and in some before each launch a copy, a host function or a
//! wait for another stream, which the device may be idle for.
//!
//! Promises: a case is long enough for its cap to mean something: 20 s, 400 of the longest launches there are.

use crate::card::{Direction, FULL_PPM};
use crate::case::{Case, Knobs, ProcessPlan, TenantPlan};
use crate::choice::Choices;
use crate::program::{Length, Op, Ops, named};
use crate::{MS, SECOND, US};

/// The case of a seed.
pub fn case(seed: u64) -> Case {
    let choices = Choices::new(seed).named("lone");
    let of = |name: &str| choices.named(name);
    let longest_ns = of("longest").spread(50 * US, 50 * MS);
    let keys = of("keys").between(1, 3);
    let lengths: Vec<_> = (0..keys).map(|key| length(of("length").of(key), longest_ns)).collect();
    let body = |choices| named::forever(Body { choices, lengths: &lengths }.list());
    let threads = if of("threads").is(250_000) { of("threads").of(1).between(1, 5) } else { 0 };
    // The same as the first does, or something else with the same kernels.
    let alike = of("alike").is(500_000);
    let thread = |at| if alike { choices } else { of("thread").of(at) };
    let others = (0..threads).map(|at| Op::Thread { ops: body(thread(at)) });
    let ops = others.chain(body(choices)).collect();
    let share_ppm = *of("cap").one_of(&[100_000, 300_000, 500_000, 700_000]).unwrap_or(&300_000);
    let run_ns = 20 * SECOND;
    let plan =
        ProcessPlan { ops, is_blocking: of("blocking").is(250_000), ..ProcessPlan::default() };
    let tenant = TenantPlan { share_ppm, processes: vec![plan], ..TenantPlan::default() };
    let knobs =
        Knobs { seed: of("environment").word(), run_ns, heal_ns: run_ns, ..Knobs::default() };
    Case { knobs, tenants: vec![tenant], devs: Vec::new() }
}

/// Lengths of one key, none longer than that.
fn length(choices: Choices, longest_ns: u64) -> Length {
    let of = |key| choices.of(key).spread(5 * US, longest_ns);
    let (less, more) = (of(1).min(of(2)), of(1).max(of(2)));
    match choices.named("kind").below(8) {
        0 => Length::Fixed(of(1)),
        1 | 2 => Length::List((0..choices.of(9).between(2, 5)).map(of).collect()),
        3 => {
            // Long runs of the one and of the other.
            let runs = [(less, choices.of(5)), (more, choices.of(6))];
            let of = |(ns, times): (u64, Choices)| vec![ns; times.spread(1, 400) as usize];
            Length::List(runs.into_iter().flat_map(of).collect())
        }
        4 => Length::Uniform(less, more),
        5 => Length::Spread(less, more),
        6 => Length::Rare(less, more, choices.of(3).spread(100, 300_000)),
        _ => Length::Grow(less, more, choices.of(3).spread(SECOND, 20 * SECOND)),
    }
}

struct Body<'a> {
    choices: Choices,
    lengths: &'a [Length],
}

impl Body<'_> {
    fn stream(&self, choices: Choices) -> u32 {
        let streams = if self.choices.named("streams").is(200_000) { 3 } else { 1 };
        choices.named("stream").below(streams) as u32
    }

    fn launch(&self, choices: Choices, stream: u32) -> Op {
        let at = choices.named("key").below(self.lengths.len() as u64);
        let length = self.lengths.get(at as usize).cloned().unwrap_or(Length::Fixed(US));
        match self.choices.named("graphs").is(150_000) {
            true => Op::Graph { key: at, length, stream, call_ns: None },
            false => Op::Launch { key: at, length, stream, width_ppm: FULL_PPM },
        }
    }

    /// A launch, in some cases with what ends the span that is measured before each.
    fn step(&self, choices: Choices) -> Ops {
        let stream = self.stream(choices);
        let launch = |stream| self.launch(choices, stream);
        let ns = choices.named("step").named("ns").spread(US, 20 * US);
        let copy = Op::Copy { bytes: ns, direction: Direction::In, stream, is_blocking: false };
        match self.choices.named("breaks").below(12) {
            0 => vec![copy, launch(stream)],
            1 => vec![Op::HostFunction { length_ns: ns, stream }, launch(stream)],
            2 => {
                // Streams hand on to one another.
                let next = (stream + 1) % 3;
                let hop = |from, to| {
                    let record = Op::Record { event: from, stream: from };
                    vec![launch(from), record, Op::StreamWait { event: from, stream: to }]
                };
                [hop(stream, next), hop(next, stream)].concat()
            }
            _ => vec![launch(stream)],
        }
    }

    fn wait(&self, choices: Choices) -> Op {
        let stream = 0;
        match self.choices.named("waits").below(6) {
            0 => Op::StreamSync { stream },
            1 => Op::Poll { stream },
            _ if choices.named("stream").is(50_000) => Op::StreamSync { stream },
            _ => Op::Sync,
        }
    }

    fn list(&self) -> Ops {
        let of = |name: &str| self.choices.named(name);
        let mut ops = Vec::new();
        for at in 0..of("parts").between(1, 4) {
            let choices = of("part").of(at);
            let times = match choices.named("times").below(3) {
                0 => 1,
                _ => choices.named("times").of(1).spread(2, 200),
            };
            ops.push(Op::Repeat { times: times as u32, ops: self.step(choices) });
            if of("often").is(500_000) {
                ops.push(self.wait(choices.named("wait")));
            }
            match self.choices.named("between").below(12) {
                0 => ops.push(Op::Pause { ns: choices.named("ns").spread(10 * US, 5 * MS) }),
                1 => ops.push(Op::Compute { ns: choices.named("ns").spread(US, MS) }),
                2 => ops.push(Op::Copy {
                    bytes: choices.named("bytes").spread(4, 1 << 20),
                    direction: Direction::In,
                    stream: 0,
                    is_blocking: choices.named("blocks").is(500_000),
                }),
                _ => {}
            }
        }
        if of("last").is(900_000) {
            ops.push(self.wait(of("last wait")));
        }
        ops
    }
}
