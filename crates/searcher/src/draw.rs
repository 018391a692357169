//! Cases by seed.
//!
//! Each run has a random part of the features switched off and the rest weighed anew (a swarm): features
//! hide each other, and what is always on is never seen alone. Choices are by key, so that a new feature
//! leaves old seeds' other choices as they were.
//!
//! Promises: what is drawn is a case like any other, kept and replayed as data; programs get on, and
//! launch. Deviations are drawn by a second step, from how often each thread came to each site in the
//! case's plain run.
//!
//! Does not run.

use crate::card::{CardModel, Direction, FULL_PPM};
use crate::case::{Case, Dev, Fault, Knobs, ProcessPlan, Site, TenantPlan};
use crate::choice::Choices;
use crate::program::{Length, Op, Ops, named};
use crate::sched::Visits;
use crate::{MS, SECOND, US};

/// How large a case is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// One process of two threads, some fifty launches.
    Micro,
    /// Up to four tenants for a second.
    Meso,
    /// The same for twenty seconds.
    Long,
}

/// The features of one run, by name: each is on in a part of the runs.
#[derive(Clone, Copy, Debug)]
struct Swarm(Choices);

impl Swarm {
    fn has(self, feature: &str) -> bool {
        self.0.named(feature).is(500_000)
    }

    /// Weight of a feature that is on: one to sixteen, each doubling as probable as the next.
    fn weight(self, feature: &str) -> u64 {
        if self.has(feature) { self.0.named(feature).of(1).spread(1, 16) } else { 0 }
    }

    /// One of the features, by weight; the first where all are off.
    fn pick<'a>(self, choices: Choices, features: &[&'a str]) -> &'a str {
        let sum = features.iter().map(|feature| self.weight(feature)).sum();
        let mut left = choices.below(sum);
        for feature in features {
            let weight = self.weight(feature);
            if left < weight {
                return feature;
            }
            left -= weight;
        }
        features.first().copied().unwrap_or_default()
    }
}

/// The case of a seed, without deviations.
pub fn case(seed: u64, size: Size) -> Case {
    let choices = Choices::new(seed);
    let swarm = Swarm(choices.named("swarm"));
    let run_ns = match size {
        Size::Micro => 20 * MS,
        Size::Meso => SECOND,
        Size::Long => 20 * SECOND,
    };
    let card = match swarm.has("card") {
        true => CardModel::drawn(choices.named("card")),
        false => CardModel::default(),
    };
    let usual = card;
    let card = CardModel {
        // A short run is not spent on them.
        create_context_ns: usual.create_context_ns.min(run_ns / 100),
        process_start_ns: usual.process_start_ns.min(run_ns / 30),
        ..usual
    };
    let knobs = Knobs {
        seed: choices.named("environment").word(),
        run_ns,
        heal_ns: run_ns / 4 * 3,
        devices: if swarm.has("devices") { 2 } else { 1 },
        card,
        has_daemon: swarm.has("daemon"),
        has_board: swarm.has("board"),
        ..Knobs::default()
    };
    let tenants = match size {
        Size::Micro => 1,
        Size::Meso | Size::Long => choices.named("tenants").between(1, 4),
    };
    let draw = Draw { swarm, size };
    let tenants = (0..tenants).map(|at| draw.tenant(choices.named("tenant").of(at))).collect();
    Case { knobs, tenants, devs: Vec::new() }
}

#[derive(Clone, Copy)]
struct Draw {
    swarm: Swarm,
    size: Size,
}

impl Draw {
    fn tenant(self, choices: Choices) -> TenantPlan {
        let of = |name: &str| choices.named(name);
        let is_micro = self.size == Size::Micro;
        let processes = if self.swarm.has("processes") && !is_micro { 3 } else { 1 };
        let processes = of("processes").between(1, processes);
        let is = |feature: &str| self.swarm.has(feature) && of(feature).is(500_000);
        TenantPlan {
            share_ppm: if is("cap") { of("share").between(10, 950) * 1_000 } else { 0 },
            weight: if is("weights") { of("weight").spread(10, 400) as u32 } else { 0 },
            priority: if is("priority") { of("class").below(3) as i32 - 1 } else { 0 },
            is_latency: is("latency"),
            is_stranger: is("stranger") && of("rare").is(300_000),
            processes: (0..processes).map(|at| self.process(of("process").of(at))).collect(),
        }
    }

    fn process(self, choices: Choices) -> ProcessPlan {
        let of = |name: &str| choices.named(name);
        let late = self.swarm.has("late start") && self.size != Size::Micro;
        let mut ops = self.body(of("body"), 2);
        if self.swarm.has("threads") || self.size == Size::Micro {
            let threads = if self.size == Size::Micro { 1 } else { of("threads").below(4) };
            let thread = |at| Op::Thread { ops: self.endless(of("thread").of(at)) };
            ops.splice(0..0, (0..threads).map(thread));
        }
        ops.extend(self.endless(of("rest")));
        ProcessPlan {
            start_ns: if late { of("start").below(300 * MS) } else { of("start").below(100 * US) },
            device: of("device").below(2) as u32,
            is_blocking: self.swarm.has("blocking") && of("blocking").is(300_000),
            ops,
        }
    }

    fn endless(self, choices: Choices) -> Ops {
        let name = self.swarm.pick(choices.named("which"), &["drawn", "named"]);
        if name == "named" && self.size != Size::Micro {
            let us = choices.named("us").spread(5, 5_000) * US;
            let all = [
                named::mix2(),
                named::liar(),
                named::mixq(),
                named::graphupd(),
                named::sync(us),
                named::flood(us),
                named::half(us, 50 * MS),
                named::paced(us, 3 * us),
                named::grow(SECOND),
                named::threads(4, us),
            ];
            return choices.named("name").one_of(&all).cloned().unwrap_or_default();
        }
        named::forever(self.body(choices, 2))
    }

    /// Some operations, of which one launches and one takes its time.
    fn body(self, choices: Choices, depth: u64) -> Ops {
        let count = choices.named("count").spread(1, 6);
        let mut ops: Ops = (0..count).map(|at| self.op(choices.of(at), depth)).collect();
        ops.push(self.launch(choices.named("launch")));
        if choices.named("waits").is(700_000) {
            ops.push(self.wait(choices.named("wait")));
        }
        ops
    }

    fn stream(self, choices: Choices) -> u32 {
        if self.swarm.has("streams") { choices.below(4) as u32 } else { 0 }
    }

    fn length(self, choices: Choices) -> Length {
        let of = |key| choices.of(key).spread(2 * US, self.longest_ns());
        let kinds = ["fixed", "list", "uniform", "spread", "rare", "growing"];
        match self.swarm.pick(choices.named("length"), &kinds) {
            "list" => Length::List((0..choices.of(9).between(2, 5)).map(of).collect()),
            "uniform" => Length::Uniform(of(1).min(of(2)), of(1).max(of(2))),
            "spread" => Length::Spread(of(1).min(of(2)), of(1).max(of(2))),
            "rare" => Length::Rare(of(1), of(2), choices.of(3).spread(100, 300_000)),
            "growing" => Length::Grow(of(1).min(of(2)), of(1).max(of(2)), SECOND),
            _ => Length::Fixed(of(1)),
        }
    }

    fn longest_ns(self) -> u64 {
        match self.size {
            Size::Micro => MS,
            Size::Meso | Size::Long if self.swarm.has("long kernels") => 100 * MS,
            Size::Meso | Size::Long => 5 * MS,
        }
    }

    fn launch(self, choices: Choices) -> Op {
        let key = choices.named("key").below(4);
        let (length, stream) = (self.length(choices), self.stream(choices.named("stream")));
        if self.swarm.has("graphs") && choices.named("graph").is(300_000) {
            let call_ns = self.swarm.has("long calls").then_some(400 * US);
            return Op::Graph { key, length, stream, call_ns };
        }
        let is_small = self.swarm.has("small kernels") && choices.named("small").is(500_000);
        let width_ppm =
            if is_small { choices.named("width").between(5_000, 999_999) as u32 } else { FULL_PPM };
        Op::Launch { key, length, stream, width_ppm }
    }

    fn wait(self, choices: Choices) -> Op {
        let stream = self.stream(choices.named("stream"));
        match self.swarm.pick(choices, &["synchronise", "by stream", "poll"]) {
            "by stream" => Op::StreamSync { stream },
            "poll" => Op::Poll { stream },
            _ => Op::Sync,
        }
    }

    fn op(self, choices: Choices, depth: u64) -> Op {
        let of = |name: &str| choices.named(name);
        let (stream, event) = (self.stream(of("stream")), of("event").below(3) as u32);
        let kinds = [
            "launches",
            "waiting",
            "loops",
            "copies",
            "functions",
            "pauses",
            "computing",
            "events",
            "stream waits",
            "captures",
            "contexts",
            "children",
            "pacing",
        ];
        match self.swarm.pick(of("kind"), &kinds) {
            "waiting" => self.wait(of("wait")),
            "loops" if depth != 0 => {
                let times = of("times").spread(2, if self.size == Size::Micro { 8 } else { 64 });
                Op::Repeat { times: times as u32, ops: self.body(of("inner"), depth - 1) }
            }
            "copies" => Op::Copy {
                bytes: of("bytes").spread(4, 64 << 20),
                direction: if of("way").is(500_000) { Direction::In } else { Direction::Out },
                stream,
                is_blocking: of("blocks").is(500_000),
            },
            "functions" => Op::HostFunction { length_ns: of("ns").spread(US, MS), stream },
            "pauses" => Op::Pause { ns: of("ns").spread(US, 20 * MS) },
            "computing" => Op::Compute { ns: of("ns").spread(100, 2 * MS) },
            "pacing" => Op::Pace { ns: of("ns").spread(20 * US, 20 * MS) },
            "events" if of("which").is(500_000) => Op::Record { event, stream },
            "events" => Op::EventSync { event },
            "stream waits" => Op::StreamWait { stream, event },
            "captures" => Op::Capture {
                stream: 3,
                launches: of("count").below(20) as u32,
                is_global: self.swarm.has("global captures"),
            },
            "contexts" if of("which").is(500_000) => Op::NewContext,
            "contexts" => Op::DestroyContext,
            "children" if depth == 2 && self.size != Size::Micro => {
                let ops = [self.body(of("child"), 0), vec![Op::Sync, Op::Exit]].concat();
                Op::Process { ops, is_waited: true }
            }
            _ => self.launch(of("launch")),
        }
    }
}

/// Deviations of a case, drawn from the visits of its plain run: none to three in most cases, 64 in some.
pub fn devs(case: &Case, visits: &Visits, seed: u64) -> Vec<Dev> {
    let choices = Choices::new(seed).named("deviations");
    let swarm = Swarm(choices.named("swarm"));
    let kinds = ["delays", "stops", "kills", "refusals", "busy", "garbage", "longer"];
    let count = if choices.named("many").is(50_000) { 64 } else { choices.named("count").below(4) };
    let all: Vec<_> =
        visits.iter().filter(|((_, site), _)| swarm.has(&format!("at {}", site.index()))).collect();
    let mut devs: Vec<Dev> = Vec::new();
    for at in 0..count {
        let choices = choices.of(at);
        let Some(((who, site), visits)) = choices.named("where").one_of(&all).copied() else {
            break;
        };
        // Early visits as often as late ones: what begins is where protocols break.
        let nth = choices.named("nth").spread(1, u64::from(*visits)) - 1;
        let ns = choices.named("ns").spread(100, 100 * MS);
        let what = match swarm.pick(choices.named("what"), &kinds) {
            "stops" => Fault::Stop(ns),
            "kills" => Fault::Kill,
            "refusals" if is_refusable(*site) => Fault::Refuse,
            "busy" if matches!(site, Site::IsDone | Site::Query) => Fault::Busy,
            "garbage" if matches!(site, Site::Word | Site::Line) => {
                Fault::Garbage(choices.named("word").word() >> choices.named("bits").below(64))
            }
            "longer" if matches!(site, Site::Launch | Site::Graph) => {
                Fault::Longer(choices.named("longer").spread(1_100_000, 1_000_000_000))
            }
            _ => Fault::Delay(ns),
        };
        let dev = Dev { who: *who, site: *site, nth: u32::try_from(nth).unwrap_or(0), what };
        if !devs.iter().any(|one| (one.who, one.site, one.nth) == (dev.who, dev.site, dev.nth)) {
            devs.push(dev);
        }
    }
    debug_assert!(case.knobs.run_ns != 0, "a case that never ran has no visits");
    devs
}

/// True of the sites at which a driver may say no.
fn is_refusable(site: Site) -> bool {
    matches!(
        site,
        Site::CreateEvent
            | Site::Record
            | Site::RecordContext
            | Site::Elapsed
            | Site::Launch
            | Site::Graph
            | Site::Slot
            | Site::BoardRead
            | Site::BoardWrite
    )
}
