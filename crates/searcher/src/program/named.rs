//! Programs with names: those that showed where charging fails, and the plain ones beside them.
//!
//! Each is what `divvy bench share` or a program on the card does natively, so that figures of both can
//! be compared. All are without end.

use super::{Length, Op, Ops};
use crate::card::{Direction, FULL_PPM};
use crate::{MS, SECOND, US};

/// A kernel that fills the device, on the first stream.
pub fn launch(key: u64, ns: u64) -> Op {
    launch_on(key, Length::Fixed(ns), 0)
}

/// The same of any length, on any stream.
pub fn launch_on(key: u64, length: Length, stream: u32) -> Op {
    Op::Launch { key, length, stream, width_ppm: FULL_PPM }
}

/// Without end.
pub fn forever(ops: Ops) -> Ops {
    vec![Op::Repeat { times: 0, ops }]
}

/// So many times.
pub fn repeat(times: u32, op: Op) -> Op {
    Op::Repeat { times, ops: vec![op] }
}

/// Launch, synchronise, repeat.
pub fn sync(ns: u64) -> Ops {
    forever(vec![launch(1, ns), Op::Sync])
}

/// The same so often, and then something else.
pub fn syncs(times: u32, ns: u64, then: Ops) -> Ops {
    [vec![Op::Repeat { times, ops: vec![launch(1, ns), Op::Sync] }], then].concat()
}

/// `count` launches, then a synchronisation.
pub fn queue(count: u32, ns: u64) -> Ops {
    forever(vec![repeat(count, launch(1, ns)), Op::Sync])
}

/// One kernel of these lengths by turns, each once, then a synchronisation.
pub fn queue_of(lengths: Vec<u64>) -> Ops {
    let times = u32::try_from(lengths.len()).unwrap_or(u32::MAX);
    forever(vec![repeat(times, launch_on(1, Length::List(lengths), 0)), Op::Sync])
}

/// Keeps about 10 ms of kernels in the queue without a synchronisation of all, as bench/clients/busy.c
/// does: each of four batches, or of two single kernels, waits for the one four before.
pub fn flood(ns: u64) -> Ops {
    forever(flooding(ns, 10 * MS))
}

fn flooding(ns: u64, ahead_ns: u64) -> Ops {
    let depth = u32::try_from(ahead_ns / ns.max(1)).unwrap_or(1);
    let ring = if depth >= 8 { 4 } else { 2 };
    let batch = |event| {
        let kernels = repeat((depth / ring).max(1), launch(1, ns));
        vec![Op::EventSync { event }, kernels, Op::Record { event, stream: 0 }]
    };
    (0..ring).flat_map(batch).collect()
}

/// Kernels of 50 us and 2 ms by turns, one function and grid, each synchronised.
pub fn mix2() -> Ops {
    forever(vec![launch_on(1, Length::List(vec![50 * US, 2 * MS]), 0), Op::Sync])
}

/// 200 kernels of 5 us, then 4 of 40 ms, one function and grid, one synchronisation.
pub fn liar() -> Ops {
    let ops = vec![repeat(200, launch(1, 5 * US)), repeat(4, launch(1, 40 * MS)), Op::Sync];
    forever(ops)
}

/// 19 of 50 us and one of 20 ms queued, then a synchronisation.
pub fn mixq() -> Ops {
    forever(vec![repeat(19, launch(1, 50 * US)), launch(1, 20 * MS), Op::Sync])
}

/// One graph whose parameters are changed between launches: 5 us, 20 ms.
pub fn graphupd() -> Ops {
    let length = Length::List(vec![5 * US, 20 * MS]);
    forever(vec![Op::Graph { key: 1, length, stream: 0, call_ns: None }, Op::Sync])
}

/// A graph of one length, queued.
pub fn graph(count: u32, ns: u64) -> Ops {
    let graph = Op::Graph { key: 1, length: Length::Fixed(ns), stream: 0, call_ns: None };
    forever(vec![repeat(count, graph), Op::Sync])
}

/// A process for each two kernels of 300 ms.
pub fn newproc() -> Ops {
    let ops = vec![repeat(2, launch(1, 300 * MS)), Op::Sync, Op::Exit];
    forever(vec![Op::Process { ops, is_waited: true }])
}

/// A kernel that grows from 20 us to 2 ms in so long.
pub fn grow(over_ns: u64) -> Ops {
    let length = Length::Grow(20 * US, 2 * MS, over_ns);
    forever(vec![launch_on(1, length, 0), Op::Sync])
}

/// Threads with a stream each, that launch and wait for it.
pub fn threads(count: u32, ns: u64) -> Ops {
    threads_on(1..=count, &Length::Fixed(ns))
}

/// The same of one stream.
pub fn threads_of_one(count: u32, length: &Length) -> Ops {
    threads_on((0..count).map(|_| 1), length)
}

fn threads_on(streams: impl Iterator<Item = u32>, length: &Length) -> Ops {
    let of =
        |stream| forever(vec![launch_on(1, length.clone(), stream), Op::StreamSync { stream }]);
    let mut streams = streams.map(of);
    let first = streams.next().unwrap_or_default();
    streams.map(|ops| Op::Thread { ops }).chain(first).collect()
}

/// One kernel that does not end while anybody looks.
pub fn persistent() -> Ops {
    vec![launch(1, 1_000 * SECOND), Op::Sync]
}

/// A kernel each period, whatever the device does.
pub fn paced(ns: u64, period_ns: u64) -> Ops {
    forever(vec![launch(1, ns), Op::Pace { ns: period_ns }])
}

/// A kernel that is waited for, then a sleep.
pub fn pausing(ns: u64, pause_ns: u64) -> Ops {
    forever(vec![launch(1, ns), Op::Sync, Op::Pause { ns: pause_ns }])
}

/// A copy to the device, a kernel, a synchronisation.
pub fn copying(bytes: u64, ns: u64) -> Ops {
    let copy = Op::Copy { bytes, direction: Direction::In, stream: 0, is_blocking: false };
    forever(vec![copy, launch(1, ns), Op::Sync])
}

/// A flood for half of each period, then nothing.
pub fn half(ns: u64, period_ns: u64) -> Ops {
    let busy = Op::For { ns: period_ns / 2, ops: flooding(ns, 10 * MS) };
    forever(vec![busy, Op::Sync, Op::PauseUntil { period_ns }])
}

/// A request of `count` kernels at each period, synchronised.
pub fn requests(count: u32, ns: u64, period_ns: u64) -> Ops {
    forever(vec![Op::PauseUntil { period_ns }, repeat(count, launch(1, ns)), Op::Sync])
}

/// By name, as a command takes them: `mix2`, `sync:20` (us), `queue:20:100` (count, us), `threads:4:200`.
pub fn by_name(name: &str) -> Option<Ops> {
    let mut parts = name.split(':');
    let kind = parts.next()?;
    let numbers: Vec<u64> = parts.map(str::parse).collect::<Result<_, _>>().ok()?;
    let us = |at: usize| numbers.get(at)?.checked_mul(US);
    let count = |at: usize| u32::try_from(*numbers.get(at)?).ok();
    Some(match kind {
        "mix2" => mix2(),
        "liar" => liar(),
        "mixq" => mixq(),
        "graphupd" => graphupd(),
        "newproc" => newproc(),
        "grow" => grow(us(0).unwrap_or(20 * SECOND)),
        "persistent" => persistent(),
        "sync" => sync(us(0)?),
        "queue" => queue(count(0)?, us(1)?),
        "flood" => flood(us(0)?),
        "graph" => graph(count(0)?, us(1)?),
        "threads" => threads(count(0)?, us(1)?),
        "paced" => paced(us(0)?, us(1)?),
        "pausing" => pausing(us(0)?, us(1)?),
        "half" => half(us(0)?, us(1)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_programs_that_get_on() {
        let names = [
            "mix2",
            "liar",
            "mixq",
            "graphupd",
            "newproc",
            "grow",
            "persistent",
            "sync:20",
            "queue:20:100",
            "flood:100",
            "graph:1:100",
            "threads:4:200",
            "paced:5:20",
            "pausing:1000:2000",
            "half:100:100000",
        ];
        for name in names {
            let ops = by_name(name).unwrap_or_else(|| panic!("{name}"));
            assert!(ops.iter().any(Op::takes_time), "{name}");
        }
        for name in ["", "sync", "sync:x", "queue:1", "nothing:1"] {
            assert_eq!(by_name(name), None, "{name}");
        }
    }
}
