//! The figures of the card and of its driver's calls, each with where it was measured.
//!
//! All of one NVIDIA H200 but where an H100 is named, driver 580.159.04, CUDA 13.0. "A" to "J" are the sections of
//! `bench/results/h200-2026-11-21/gate-facts.txt`; other files lie under `bench/results` too.
//!
//! A promise that holds with one of these figures alone is none: [`CardModel::drawn`] varies them, over
//! more than any card was seen to do.

use serde::{Deserialize, Serialize};

use crate::choice::Choices;

/// Times of a card and of its driver's calls.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CardModel {
    /// How long a context keeps the device while others have work.
    pub slice_ns: u64,
    /// Idle time of the device when a context has run dry and another has work.
    pub switch_dry_ns: u64,
    /// The same when a slice ends and its context has more.
    pub switch_preempted_ns: u64,
    /// From the end of a launch call to when the device may begin it.
    pub start_ns: u64,
    /// The same of an event.
    pub event_start_ns: u64,
    /// Part of a kernel that fills the device, at its end, in which another stream's runs beside it, in
    /// millionths of its length.
    pub tail_ppm: u64,
    /// Device time of a timing event.
    pub timing_event_ns: u64,
    /// Device time of one behind all of a context, which delays no kernel.
    pub context_event_ns: u64,
    /// How much later than the end of the work that it waited for its own time is.
    pub context_event_late_ns: u64,
    /// Device time of an event that does not time.
    pub plain_event_ns: u64,
    /// Steps of an event's time.
    pub event_tick_ns: u64,
    /// How long after its completion a query says so, of an event behind no kernel.
    pub visible_ns: u64,
    /// The same behind a kernel.
    pub visible_behind_ns: u64,
    /// From the end of the last work to the return of a synchronisation that spins.
    pub return_ns: u64,
    /// By how much the return may be later.
    pub return_spread_ns: u64,
    /// By how much a thread that sleeps for the device, not spins, returns later, at least and beyond.
    pub blocking_return_ns: [u64; 2],
    /// Bytes a microsecond between host and device, in either direction.
    pub copy_bytes_per_us: u64,
    /// From when a copy may begin to its first byte.
    pub copy_start_ns: u64,
    /// From when a stream reaches a host function to its beginning.
    pub host_function_ns: u64,
    /// Launches that a stream holds before the next one waits.
    pub queue: u64,
    /// A launch call behind others, from and to.
    pub launch_call_ns: [u64; 2],
    /// The same on a drained stream.
    pub launch_drained_call_ns: [u64; 2],
    /// A graph's launch call on a drained stream.
    pub graph_drained_call_ns: u64,
    /// The same on a busy one.
    pub graph_busy_call_ns: u64,
    /// When the device begins a graph whose call is longer, after the beginning of the call.
    pub graph_begins_ns: u64,
    /// A launch call of a thread that was idle for 1, 10 and 100 ms takes so much longer.
    pub idle_call_ns: [u64; 3],
    /// Recording a timing event.
    pub record_call_ns: u64,
    /// Recording an event that does not time.
    pub record_plain_call_ns: u64,
    /// Recording a timing event behind all of a context.
    pub record_context_call_ns: u64,
    /// Longer by so much for each other thread of the context that has launched of late: the driver has their launches
    /// first.
    pub record_context_beside_ns: u64,
    /// Such events, where threads sleep in the driver, whose time cannot be read as soon as they are complete, in a million.
    pub unread_ppm: u64,
    /// The longest until it can, for each other thread.
    pub unread_beside_ns: u64,
    /// Asking an event or a stream.
    pub query_call_ns: u64,
    /// The time between two events.
    pub elapsed_call_ns: u64,
    /// Making an event.
    pub create_event_call_ns: u64,
    /// Asking whether a stream is being captured.
    pub captured_call_ns: u64,
    /// Changing the thread's mode of captures and changing it back.
    pub relaxed_call_ns: u64,
    /// Asking for the current context.
    pub context_call_ns: u64,
    /// A synchronisation of what is idle.
    pub synchronise_call_ns: u64,
    /// Launching a host function.
    pub host_function_call_ns: u64,
    /// Making a context.
    pub create_context_ns: u64,
    /// From the making of a process to its first call, a context made.
    pub process_start_ns: u64,
    /// Reading the clock.
    pub clock_call_ns: u64,
    /// How late a sleeper is that waits for a time, from and to.
    pub sleep_late_ns: [u64; 2],
    /// How late one is that is woken, from and to.
    pub wake_late_ns: [u64; 2],
    /// Any system call.
    pub system_call_ns: u64,
    /// A look at a word that other threads change.
    pub atomic_ns: u64,
    /// The shortest turn of a loop that spins.
    pub spin_ns: u64,
}

impl Default for CardModel {
    fn default() -> Self {
        Self {
            // Three stored figures agree on it, and none fits the 1,024 us of the simulated driver: a
            // request of 10 ms beside a flood takes 20.65 to 21.4 ms in the middle and 22.3 to 22.4 at
            // the 99th percentile (latency-*.json, "request beside a flood of 2 ms"; H: 20.3 and 22.3),
            // so it is interrupted four times, 2.27 ms from a slice's beginning to the next one's; a loop
            // of 100 us beside three floods gets 6.07 % of a quarter (fairness-*.json), one kernel in
            // 7.05 ms, which is three times 2.27, a kernel and a dry switch; two floods get 90.3 % (G).
            slice_ns: 2_048_000,
            // G, two loops side by side: 20 us 12.8 %, 100 us 42.3, 1 ms 87.9: 136, 136 and 138 us.
            switch_dry_ns: 136_000,
            // G, "2x 100us queue ungated 90.3": 2,048 of 2,268 us.
            switch_preempted_ns: 220_000,
            // B, 5 us native: 11.45 us a turn of the loop, of which the kernel takes 5, the call 2.35 and
            // the return 2.6.
            start_ns: 1_500,
            // C, "drained" with one kernel: 3.0 to 3.2 us beyond its length in the middle, of which the
            // call is 2.35: so much later than an event a kernel begins.
            event_start_ns: 800,
            // E, four streams: 0.9088 of the sum of the lengths.
            tail_ppm: 91_200,
            // events-in-a-queue.txt of h200-2026-11-25: each adds 1.92 to 2.00 us to a queue. (C, "held": two show 1.38 to
            // 1.48 us beyond one kernel's length, 1.23 beyond none.)
            timing_event_ns: 1_980,
            // The same: 0.83 to 0.99 us.
            context_event_ns: 900,
            // threads-that-sleep.txt of h100-2026-11-26: behind one kernel on a drained device 1.4 to 2.7 us beyond its length in a
            // queue, from the end of its call; an event of its stream's shows 0.4 to 0.8.
            context_event_late_ns: 1_500,
            // B, "+record": within 80 ns of nothing, on average 0.
            plain_event_ns: 1,
            // C: percentiles are multiples of 32 ns.
            event_tick_ns: 32,
            // Bounded by what the gate was charged for 5 us kernels on an H200 (share-5us-*.json, within a point): 3.1 us
            // after a first event on a drained stream a query says that it is done. Of these `event_start_ns` and
            // `timing_event_ns` are 2.8. On an H100 it is 4.7 to 5.1 us (calls.txt of h100-2026-11-26), which is not
            // modelled.
            visible_ns: 20,
            // A: launch + record + spinning on the query takes 7,686 ns in the middle, launch and
            // synchronisation 7,676: as late as a synchronisation returns.
            visible_behind_ns: 2_250,
            // See `start_ns`; A, "launch+cuStreamSynchronize": 7.68 us with an empty kernel.
            return_ns: 2_350,
            // turn-timelines.txt of h200-2026-11-21, "native sync20", launch..synced: 24.0 at the 5th
            // percentile, 24.2 in the middle, 24.5 at the 95th.
            return_spread_ns: 500,
            // calls.txt of h100-2026-11-26: a launch and a synchronisation take 37 to 46 us beyond the kernel, 33 to 41 more
            // than where the thread spins. What G calls "wake" (3 to 165 us on average, by how the waiter waits) is the
            // same wake-up by another call.
            blocking_return_ns: [15_000, 60_000],
            // share-nvidia-580-159-04-2026-11-22.json, "200 us copy": 70.06 %, 285.5 us a turn of the loop
            // of a 200 us kernel and 4 MiB, so 79 us for call, start and bytes. calls.txt of h100-2026-11-26: 256 MiB of
            // pinned memory in 4.87 ms, 55.1 GB/s; 4 KiB in 3.6 to 3.8 us by events, of which an event is 2.
            copy_bytes_per_us: 55_500,
            copy_start_ns: 1_500,
            // calls.txt of h100-2026-11-26: a synchronisation behind one returns 16.3 to 23.1 us after its call, 4.8 to 5.3 of
            // them the synchronisation's own.
            host_function_ns: 10_000,
            // calls.txt of h100-2026-11-26: the 1,022nd launch behind a long kernel waits.
            queue: 1_022,
            // A, back to back: 2,803 ±84, 2,804 in the middle and 3,124 at the 99th percentile.
            launch_call_ns: [2_500, 3_100],
            // J, the call alone without idleness: 2.35 us in the middle.
            launch_drained_call_ns: [2_150, 2_550],
            // graphs.txt, graphs of 1 to 3,000 kernels: 43 to 91 us on a drained stream.
            graph_drained_call_ns: 53_000,
            // graphs.txt: 7 to 15 us on a busy one. (I: 1.06 us for one of twenty kernels in a row.)
            graph_busy_call_ns: 8_000,
            // graphs.txt, "GPT step": starts after 47 us, the call takes 406.
            graph_begins_ns: 47_000,
            // J, "the launch call alone p50": 2.35, 3.09, 18.20 and 33.89 us.
            idle_call_ns: [740, 15_850, 31_540],
            // A, timing: 754 idle, 777 busy.
            record_call_ns: 765,
            // A, no timing: 114 and 116.
            record_plain_call_ns: 115,
            // A, timing: 997 and 982.
            record_context_call_ns: 990,
            // h100-2026-11-25/marks-of-16-threads.txt: in bursts of 16 threads, 60 to 130 us from an event before the first
            // launch to the mark behind it.
            record_context_beside_ns: 5_000,
            // h100-2026-11-26/context-events-before-their-time.txt: with 16 threads 69 to 99 %, most within 500 us, with four 34 to
            // 72, all within 50 us; with two 1 in 2,000.
            unread_ppm: 500_000,
            unread_beside_ns: 30_000,
            // A: 99 to 116, stream 116 to 118.
            query_call_ns: 112,
            // A: 207.
            elapsed_call_ns: 207,
            // A, created and destroyed without timing: 121.
            create_event_call_ns: 121,
            // A: 13, the NULL stream 18.
            captured_call_ns: 13,
            // A, twice: 12.
            relaxed_call_ns: 12,
            // A: 6.
            context_call_ns: 6,
            // A: 1,292.
            synchronise_call_ns: 1_292,
            // 1,240 ns was measured on an H200, and the file was not kept; 2,536 to 3,316 on an H100 (calls.txt of
            // h100-2026-11-26).
            host_function_call_ns: 1_240,
            // facts.txt, "retain 0 0.1039" and "0.1021": seconds.
            create_context_ns: 103_000_000,
            // calls.txt of h100-2026-11-26: 313 to 328 ms from a process's start to the end of its one kernel. A program that is
            // started for each two kernels of 300 ms gets 66 % natively.
            process_start_ns: 309_000_000,
            // A: 25.
            clock_call_ns: 25,
            // fairness-*.json, "1 ms kernels and 2 ms pauses": 32.05 to 32.21 %, 3,105 to 3,120 us a
            // turn of the loop, so a sleep of 2 ms is 85 to 105 us late; G, "wake": 47 to 165 on average.
            sleep_late_ns: [50_000, 130_000],
            // G, "wake us", futex: 47 to 165 on average.
            wake_late_ns: [30_000, 150_000],
            // calls.txt of h100-2026-11-26: 145 to 157.
            system_call_ns: 200,
            // calls.txt of h100-2026-11-26: 8 for a word of one's own, 43 for one that another thread adds to;
            // launches-by-threads.txt holds only sums.
            atomic_ns: 10,
            // F, "poll without pause": 5.1 to 5.2 million a second.
            spin_ns: 195,
        }
    }
}

impl CardModel {
    /// One whose figures are drawn from further apart than any card's were seen to be.
    pub fn drawn(choices: Choices) -> Self {
        let of = |name: &str| choices.named(name);
        let usual = Self::default();
        let half_to_double = |name: &str, ns: u64| of(name).spread(ns / 2, 2 * ns);
        Self {
            slice_ns: of("slice").spread(500_000, 2_100_000),
            switch_dry_ns: of("dry").between(50_000, 300_000),
            switch_preempted_ns: of("preempted").between(50_000, 300_000),
            start_ns: of("start").between(200, 3_000),
            event_start_ns: of("event start").between(200, 3_000),
            tail_ppm: if of("tail").is(500_000) { 0 } else { of("tail to").below(150_000) },
            timing_event_ns: of("event").between(300, 4_000),
            context_event_ns: of("event of a context").between(300, 2_000),
            context_event_late_ns: of("event of a context, late").below(3_000),
            visible_ns: of("visible").spread(100, 50_000),
            visible_behind_ns: of("visible behind").spread(100, 50_000),
            return_ns: half_to_double("return", usual.return_ns),
            return_spread_ns: of("spread").spread(100, 20_000),
            copy_bytes_per_us: of("copy").spread(5_000, 60_000),
            queue: of("queue").spread(16, 1_024),
            launch_call_ns: {
                let least = of("call").between(1_500, 6_000);
                [least, least + of("call to").spread(100, 30_000)]
            },
            launch_drained_call_ns: {
                let least = of("drained call").between(1_500, 6_000);
                [least, least + of("drained call to").spread(100, 30_000)]
            },
            graph_drained_call_ns: half_to_double("graph", usual.graph_drained_call_ns),
            record_call_ns: half_to_double("record", usual.record_call_ns),
            record_context_call_ns: half_to_double("record context", usual.record_context_call_ns),
            record_context_beside_ns: of("record beside").below(2 * usual.record_context_beside_ns),
            unread_ppm: of("unread").below(1_000_000),
            unread_beside_ns: of("unread for").below(2 * usual.unread_beside_ns),
            create_context_ns: of("context").spread(MS_1, 100 * MS_1),
            process_start_ns: of("process").spread(MS_1, 300 * MS_1),
            sleep_late_ns: [of("late").below(60_000), of("late to").spread(60_000, 5 * MS_1)],
            wake_late_ns: [of("wake").below(40_000), of("wake to").spread(40_000, 5 * MS_1)],
            ..usual
        }
    }

    /// How much longer a launch call takes after so long without a call.
    pub fn idle_call_ns(&self, idle_ns: u64) -> u64 {
        let [short, middle, long] = self.idle_call_ns;
        match idle_ns {
            0..1_000_000 => 0,
            1_000_000..10_000_000 => short,
            10_000_000..100_000_000 => middle,
            _ => long,
        }
    }

    /// Device time of a copy.
    pub fn copy_ns(&self, bytes: u64) -> u64 {
        let moved_ns = u128::from(bytes) * 1_000 / u128::from(self.copy_bytes_per_us.max(1));
        self.copy_start_ns + u64::try_from(moved_ns).unwrap_or(u64::MAX >> 8)
    }
}

const MS_1: u64 = 1_000_000;
