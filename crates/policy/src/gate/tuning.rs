//! The constants that the gate goes by, in one place. "Notes" is `docs/notes/charging-decisions.md`, where what was
//! tried against each is written down.
//!
//! Promises: no code, so that a reader can see all of them at once. An H200's where a card is not named; a length
//! that no note names is one that the searcher's families hold with.

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

// Credit, and work in flight. Notes, "The gate itself" and "What measuring costs".

/// Work in flight that is allowed where the owner says nothing.
pub const HORIZON_NS: u64 = 2 * MS;
/// Burst and idle credit of a cap, in device time, where the owner says nothing.
pub const QUANTUM_NS: u64 = 4 * MS;
/// Credit taken at a time.
pub(super) const CHUNK_NS: u64 = 400 * US;
/// Credit taken at a time while others share the device: a process that has lost it stops soon.
pub(super) const SHARED_CHUNK_NS: u64 = 150 * US;
/// Length from which each launch of a kernel on a drained device is measured.
pub(super) const LONG_NS: u64 = 400 * US;
/// Age below which others' work may lie within a measurement.
pub(super) const QUIET_NS: u64 = 10 * MS;
/// Charge of a launch whose key is unknown.
pub(super) const UNKNOWN_NS: u64 = 10 * US;
/// Longest time between two announcements of a waiting thread.
pub(super) const WANT_EVERY_NS: u64 = 20 * MS;
/// Upper bound of the device's switch to a turn's first work.
pub(super) const SWITCH_NS: u64 = 500 * US;
/// Time without work after which a context counts as having been away.
pub(super) const AWAY_NS: u64 = 5 * MS;
/// Part of its length by which long work may end later than expected.
pub(super) const LONG_LATE_PART: u64 = 32;
/// Time constant at which a long launch is forgotten, in launches on the slow path: one and a half half-lives.
pub(super) const LONG_LASTS: u64 = 64;
/// Least savings of a cap while its tenant has rivals, in device time.
pub(super) const BESIDE_SAVED_NS: u64 = 30 * MS;
/// Time for which a charge may turn out wrong: a cap's savings since then are kept.
pub(super) const SAVED_KEPT_NS: u64 = 50 * MS;
/// Slots that are searched for processes at work.
pub(super) const LOOKED_AT: usize = 64;
/// Time after its last launch from which a process's sleep is no sign of work: it may sleep for anything.
pub(super) const SLEEP_BELIEVED_NS: u64 = 5 * MS;
/// Upper bound of a launch's length: no longer one is believed, even if its process has had one.
pub(super) const LONGEST_LAUNCH_NS: u64 = 250 * MS;

// Waits of a launch. Notes, "Drains" and "Launches of unknown length".

/// Longest wait for work to drain beyond what it was expected to take.
pub(super) const DRAIN_PATIENCE_NS: u64 = 50 * MS;
/// Horizon below which the launch to come counts as in flight.
pub(super) const SHORT_HORIZON_NS: u64 = MS;
/// Time that a sleeper may take to be awake.
pub(super) const WAKE_NS: u64 = 150 * US;
/// Time after which work that should have ended is looked at.
pub(super) const SETTLE_NS: u64 = 20 * US;
/// Margin by which all work in flight may end sooner than expected.
pub(super) const UNSURE_NS: u64 = 200 * US;
/// Time beyond its planned end after which a turn goes on, its owner not having ended it.
pub(super) const OVERTIME_NS: u64 = 500 * US;
/// Time granted at once to work that should have ended.
pub(super) const OVERDUE_NS: u64 = 300 * US;
/// Time to the end of work in flight below which that is looked at often.
pub(super) const OFTEN_NS: u64 = MS;
/// Time that a kernel of unknown length may take beside another tenant's; beyond it the kernel may wait for another
/// process's.
pub(super) const UNKNOWN_STUCK_NS: u64 = 500 * MS;
/// Launches of unknown length that may be in flight.
pub(super) const UNKNOWN_AT_ONCE: u32 = 2;
/// Time for which a waiter spins before its gate is expected to open.
pub(super) const SPIN_NS: u64 = 150 * US;
/// Time that a thread is given that has waited longer: a sleeper may take as long to be awake.
pub(super) const YIELD_NS: u64 = 100 * US;
pub(super) const YIELDS: u32 = 3;

// Draws. Notes, "Draws".

/// Variance that sampling may add to a second, in squares of nanoseconds a nanosecond: (15 ms)². Doubt has the same.
pub(super) const VARIANCE_NS: u64 = 225_000;
/// Time between draws, in charges: the most, and the first.
pub(super) const DRAWS_APART_NS: u64 = 10 * MS;
pub(super) const DRAWS_APART_AT_FIRST_NS: u64 = MS;
/// Charged time after which observed deviations are forgotten.
pub(super) const SPREAD_FADES_NS: u64 = 1_000 * MS;
/// Upper bound of a deviation, as a multiple of the expected length.
pub(super) const MOST_OFF: u64 = 1 << 10;
/// Upper bound of one charge for launches that were not measured.
pub(super) const DRAW_MOST_NS: u64 = 100 * MS;
/// Length below which an estimate may grow at once; above it by half.
pub(super) const GROWTH_FROM_NS: u64 = 4 * US;

// Doubt, and a program's own waits. Notes, "Doubt, and streams" and "Synchronisations".

/// Time over which doubt fades.
pub(super) const DOUBT_FADES_US: u64 = 1_000_000;
/// Sum of squares, in microseconds, from which each launch is measured: the variance that draws may add to a second.
pub(super) const DOUBT_HIGH: u64 = VARIANCE_NS * (DOUBT_FADES_US / 1_000);
/// Upper bound of the sum: such a doubt has faded below [`DOUBT_HIGH`] after some ten seconds.
pub(super) const DOUBT_MOST: u64 = 1 << 43;
/// Time that no number of looks makes a high doubt of: there are no more than 20,000 of such lengths in a second.
pub(super) const DOUBT_LITTLE_NS: u64 = 100 * US;
/// Length from which a synchronisation, or its excess over the charges, may show work that was charged too little.
pub(super) const WAIT_LATE_NS: u64 = 100 * US;
/// Time that a thread may take to return from a synchronisation whose work has ended.
pub(super) const WAKE_LATE_NS: u64 = 10 * US;
/// Least excess that starts a hunt: a host that is held up adds less to a wait, most times.
pub(super) const HUNT_FROM_NS: u64 = 500 * US;
/// Launches that are measured one by one once work was charged too little.
pub(super) const HUNT: u32 = 512;
/// Upper bound of a wait's charge beyond the expected time: a longer wait may be a process that was stopped. Kernels
/// of such lengths are measured from then on.
pub(super) const WAIT_MOST_NS: u64 = 200 * MS;

// Windows of several streams and threads. Notes, "Windows" and "Threads on one stream".

/// Marks of a window, and the teaching ones among them.
pub(super) const WINDOW_MARKS: u32 = 32;
pub(super) const TEACHING_MARKS: u32 = 8;
/// Charge that each mark needs: 64 times the device time of a mark.
pub(super) const MARKED_NS: u64 = 64 * 3 * US;
/// Most that is charged from one window to the next.
pub(super) const WINDOWS_APART_NS: u64 = 20 * MS;
/// Part for which a mark counts in the moving sums of late.
pub(super) const WINDOW_LATE_PART: u64 = 16;
/// Factor and excess over the charge from which work is late, and took almost all of a span that several launches have.
pub(super) const LONGER: u64 = 4;
pub(super) const WORK_LATE_NS: u64 = 500 * US;
/// Number of launches of unknown length begun beside others of which one is taken at its word; the rest show nothing.
/// Some kernels are never seen by themselves.
pub(super) const HIDDEN: u64 = 8;
/// Shortest length of a launch.
pub(super) const LEAST_LAUNCH_NS: u64 = 500;
/// Part of a deep queue that a mark stands for.
pub(super) const QUEUE_PART: u64 = 8;
/// Time in flight below which the device may be drained before a kernel, or a graph, reaches it.
pub(super) const NEAR_NS: u64 = 50 * US;
pub(super) const NEAR_GRAPH_NS: u64 = 200 * US;
/// Upper bound of the time from a launch's call to the beginning of its kernel on a drained device, as a mark behind
/// the kernel shows it.
pub(super) const BEGINS_NS: u64 = 2 * US;
/// Time beyond the charge after which a launch's mark, or the next launch, counts as apart from it.
pub(super) const BEGUN_APART_NS: u64 = 50 * US;
/// Time for which threads that launched at once may do so again: that over which doubt fades.
pub(super) const THREADS_FOR_NS: u64 = 1_000 * MS;

// Events, and the time between two. Notes, "When a kernel on a drained device begins" and "Marks that take long to record".

/// Device time on a drained stream between two events beside the launch and the host's gap: 377 to 765 ns on an H200.
pub(super) const DRAINED_BIAS_NS: u64 = 800;
/// Device time that an event of a stream adds to a queue that never drains, 1.92 to 2.00 us, and one of a context,
/// 0.83 to 0.99: the time between two of them holds one. Measured on an H200 (h200-2026-11-25/events-in-a-queue.txt
/// under bench/results).
pub(super) const BUSY_BIAS_NS: u64 = 2 * US;
pub(super) const CONTEXT_BIAS_NS: u64 = 900;
/// Length from which a launch call counts as held up.
pub(super) const USUAL_GAP_NS: u64 = 20 * US;
/// A drained device begins a graph as its call ends, if that takes no more than the first time, or makes the graph
/// ready first; else after the second: 26 to 75 us of a training's 406 on an H200.
pub(super) const GRAPH_AT_ONCE_NS: u64 = 100 * US;
pub(super) const GRAPH_BEGINS_NS: u64 = 50 * US;
/// Time after which a mark whose event's time does not come measures nothing: ten times the longest that was seen.
pub(super) const GIVEN_UP_NS: u64 = 5 * MS;
/// Extent to which two events with nothing between them may be the wrong way around.
pub(super) const TIE_NS: i64 = 10_000;
/// Bound of the clocks' drift: the device's may run faster than the host's by one part in so many.
pub(super) const CLOCKS_PART: i64 = 1_000;
/// Duration from which an action was done by a thread that was stopped, or kept from its processors, meanwhile.
pub(super) const STOPPED_NS: u64 = 5 * MS;
/// Longest wait for the claim of a launch that is to be measured: a call of the driver's takes a few microseconds.
pub(super) const CLAIM_SOON_NS: u64 = 20 * US;

// Others beside. Notes, "Spans with others' slices", "Strangers" and "Taken for short".

/// A slice of others and the switches around it: time that a stretched kernel takes beyond that is its own.
pub(super) const SLICE_NS: u64 = 5 * MS;
/// Delay that an event may have behind the work before it.
pub(super) const EVENT_LATE_NS: u64 = 500 * US;
/// Upper bound of contexts that work on a device at once: a launch has had no less than its part of a span.
pub(super) const MOST_AT_ONCE: u64 = 8;
/// Upper bound of the excess of charges over our parts that is remembered.
pub(super) const MOST_OVER_NS: i64 = 10_000_000;
/// Time for which the owner of a context that was away may not have seen its return; and time for which rivals that
/// were seen may come back.
pub(super) const UNSEEN_NS: u64 = 10 * MS;
pub(super) const RIVALS_NS: u64 = 1_000 * MS;

// Turns inside a tenant. ADR 15, and `docs/notes/turns.md`, "Turns inside a tenant".

/// Device time of a turn while others of the tenant wait; less where many do, so that all are served within 40 ms.
pub const TURN_NS: u64 = 10 * MS;
/// Device time in which all waiting processes are served.
pub(super) const ROUND_NS: u64 = 40 * MS;
/// The shortest turn: a switch of contexts takes some 0.2 ms.
pub(super) const LEAST_TURN_NS: u64 = 2500 * US;
/// Time that a process keeps the turn without work in flight.
pub(super) const IDLE_NS: u64 = MS;
/// Delay after which each process that was served more may take a turn that none before it has taken.
pub(super) const STEP_NS: u64 = MS;
/// Time that a place in the queue lasts; each look renews it.
pub(super) const PLACE_NS: u64 = 60 * MS;
/// Delay behind all others of the process that handed the turn on, before it may take it back.
pub(super) const AGAIN_NS: u64 = 4 * MS;
/// Longest time between two looks of a process that waits, and of the next one once the turn is handed on: its
/// holder's last synchronisation may return sooner than could be told.
pub(super) const PLACE_LOOK_NS: u64 = 20 * MS;
pub(super) const NEXT_LOOK_NS: u64 = 500 * US;
/// Furthest time ahead that is believed of a process's place, and of its work; a later one is ignored.
pub(super) const BELIEVED_NS: u64 = 1_000 * MS;
pub(super) const WORK_BELIEVED_NS: u64 = 10_000 * MS;
/// Longest wait for work in flight at a hand-over, beyond its first announced end.
pub(super) const PATIENCE_NS: u64 = 250 * MS;
/// Upper bound of a turn in wall time, as a multiple of its device time.
pub(super) const WALL_PARTS: u64 = 2;
/// Wall time after which a turn is judged by its use.
pub(super) const JUDGED_NS: u64 = 5 * MS;
/// Time for which others may go beside a turn's holder before it is judged anew.
pub(super) const LOOSE_NS: u64 = 100 * MS;
/// Time for which a tenant takes no turns once work has waited for another process's, which is when that seems so
/// twice within the second time.
pub(super) const TOGETHER_NS: u64 = 60_000 * MS;
pub(super) const SUSPECTED_NS: u64 = 2_000 * MS;
/// Time behind its end for which work may not be settled yet.
pub(super) const UNSETTLED_NS: u64 = 5 * MS;

// Tenants that meet without an owner. Notes, "In turns".

/// Time that a process keeps the device beyond what it has submitted.
pub(super) const HOLD_NS: u64 = 2500 * US;
/// Time without others after which a process counts as alone. A cap closes its process for less, so one that is only
/// closed is not taken to be gone.
pub(super) const ALONE_AFTER_NS: u64 = 1_000 * MS;
/// Use of the device, from its beginning, after which a process gives it up at its next look if another waits.
pub(super) const MEET_TURN_NS: u64 = 10 * MS;
/// Device time of a turn of tenants that meet: switches cost time.
pub(super) const MEET_QUANTUM_NS: u64 = 20 * MS;
/// Time between two looks at the board of a process that waits.
pub(super) const BOARD_LOOK_NS: u64 = 150 * US;
/// Time before the end of the last work of a process that has given the device up, from which another may launch: a
/// launch takes that long to reach the device.
pub(super) const EARLY_NS: u64 = 100 * US;
/// Time for which others believe a process to be waiting after its last request.
pub(super) const WANTS_FOR_NS: u64 = 1500 * US;
/// Time after its last request for which a process keeps the beginning of its wait; a later request begins a new one.
/// It is longer than [`WANTS_FOR_NS`], since a thread may be late by some milliseconds without having given up.
pub(super) const FORGETS_AFTER_NS: u64 = 10 * MS;
/// Longest wait for the device.
pub(super) const MEET_PATIENCE_NS: u64 = 60 * MS;
/// Time after which a board that could not be used is tried again.
pub(super) const WITHOUT_NS: u64 = 1_000 * MS;
/// Furthest time ahead that is believed of a process; a later one is ignored.
pub(super) const BOARD_BELIEVED_NS: u64 = 1_000 * MS;
/// Age at which a place is free to any process, counted from [`BOARD_BELIEVED_NS`] ahead of now, so that one
/// subtraction tests both: a place is free when its last sign of use is 5 s old, or lies further ahead than is
/// believed.
pub(super) const STALE_NS: u64 = 6_000 * MS;

// Linked devices. ADR 16.

/// Device time that may be let go through a closed gate and not be paid back, some steps of a job, since each
/// device may be as far ahead as its program lets it. A cap's debt may be as large then.
pub(super) const AHEAD_NS: u64 = 20 * MS;
/// Time after its expected end from which work counts as waiting for something.
pub(super) const LINKED_STUCK_NS: u64 = 200 * US;
/// The same for work not yet shown to wait for another device's, and where rivals may use the device, the gate having
/// closed [`CLOSED_SOON_NS`] ago: their slices make everything take longer.
pub(super) const UNSHOWN_NS: u64 = 2 * MS;
pub(super) const CLOSED_SOON_NS: u64 = 5 * MS;
/// Least device time that a launch that is let go counts for.
pub(super) const LET_GO_LEAST_NS: u64 = 100 * US;
/// Margin around the end of a launch that was let go: a device that gets on within it, and not before, has waited for
/// that launch.
pub(super) const SHOWS_NS: u64 = 500 * US;
/// Multiple of its length in which device time that was let go is paid back, in wall time.
pub(super) const PAID_IN: u64 = 5;
/// Longest time between two looks of a thread that waits for such work and says so; and age up to which that counts.
pub(super) const LATE_LOOK_NS: u64 = 200 * US;
pub(super) const LATE_SAID_NS: u64 = MS;
/// Time for which devices count as linked after their work has shown it.
pub(super) const LINKED_NS: u64 = 30_000 * MS;
/// Savings of linked devices' caps, in device time: a closed one costs the others' wait for it.
pub(super) const LINKED_QUANTUM_NS: u64 = 40 * MS;
/// Time between two looks at other devices: while they are linked and work, while they work, while they wait, and
/// else.
pub(super) const LINKED_LOOK_NS: u64 = 100 * US;
pub(super) const BUSY_LOOK_NS: u64 = 500 * US;
pub(super) const IDLE_LOOK_NS: u64 = 2 * MS;
pub(super) const AWAY_LOOK_NS: u64 = 20 * MS;
/// Longest time between two announcements of a thread that waits at the gate.
pub(super) const ATTENDED_NS: u64 = 10 * MS;
/// Time after its last launch from which a process's sleep is not for that launch, or the process is no more.
pub(super) const ASLEEP_NS: u64 = 1_000 * MS;

// Contexts that go, and captures. ADR 6.

/// Longest wait for a thread that is at the events of a context that is about to go. The thread is in the driver for
/// microseconds; one that is stuck there fares as it would have fared without us.
pub(super) const RETIRE_PATIENCE_NS: u64 = 100 * MS;
pub(super) const RETIRE_LOOK_NS: u64 = 20 * US;
/// Longest wait of a capture for calls of ours that it must not meet: they take microseconds, but a thread may lose
/// its processor in them, and an event is not recorded before there is room for it behind work that runs.
pub(super) const CAPTURE_PATIENCE_NS: u64 = 10_000 * MS;
pub(super) const CAPTURE_LOOK_NS: u64 = 5 * US;
