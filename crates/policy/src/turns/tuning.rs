//! The constants that the scheduler goes by, in one place. "Notes" is `docs/notes/turns.md`, where what was tried
//! against each is written down; "searcher" is what the searcher's families hold with.
//!
//! Promises: no code, so that a reader can see all of them at once. An H200's where a card is not named.

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Part of a device's time for tenants of lower priority, all together, that others would keep from it for ever, in
/// millionths; 0 for none. The only one that an operator changes (`--floor`).
///
/// Two per cent keep 97.8 % for a decode server of high priority (searcher, `floor`).
pub const FLOOR_PPM: u64 = 20_000;

// The length of turns. Notes, "Turns that nobody waits for" and "Tried against what a turn costs".

/// Time between opening a gate and the first kernel of its tenant: not charged, and what the quantum is adapted to. 140
/// to 200 us were seen, 175 in the middle.
pub const TAKEOVER_NS: u64 = 180 * US;
/// The same between two decode servers, which took 30 to 100 us with the bubble before it
/// (`bench/results/h200-2026-11-30/steps.txt`).
pub(super) const STEP_TAKEOVER_NS: u64 = 100 * US;
/// Part of the device's time that takeovers may cost, in millionths: turns of 13 ms, four of which keep Jain's index of
/// a second at 0.999.
pub const TAKEOVER_COST_PPM: u64 = 13_500;
/// The same of hand-overs beside steppers: what the goal of 97 % in sum leaves, less what is not known of the bubble.
pub(super) const STEP_COST_PPM: u64 = 25_000;
/// Shortest mean turn, without a bubble and where a take-over is fast.
pub const MIN_QUANTUM_NS: u64 = 5 * MS;
/// Longest mean turn, and longest turn of any weight: a wait that a user notices.
pub const MAX_QUANTUM_NS: u64 = 50 * MS;
/// Longest turn of others while a tenant of the latency class waits. Its own are as long as any: a request of 2 ms that
/// took two turns was answered in 4.6 ms, and in 3.4 without the class.
pub const LATENCY_QUANTUM_NS: u64 = 2 * MS;
/// Shortest turn of any weight, and a piece of the floor; a tenant of small weight has fewer turns instead.
pub const MIN_TURN_NS: u64 = 2 * MS;
/// How long a turn lasts at least before a tenant that is far behind ends it, and what a long turn is: six switches of
/// 200 us in each 100 ms are what a program that idles half of the time needs.
pub(super) const MIN_HOLD_NS: u64 = 10 * MS;

// The end of work.

/// Drained and without a launch for so long: idle. Two hand-overs cost as much.
pub(super) const IDLE_NS: u64 = 200 * US;
/// How long a tenant whose gate has opened may take to launch before it counts as idle: a host that wakes late.
pub(super) const GRACE_NS: u64 = MS;
/// Longest wait for the work of the last holder: longer than any turn, so that a kernel which ends is waited for.
pub const DRAIN_TIMEOUT_NS: u64 = 50 * MS;
/// A launch that found its gate open is with the driver so long after; it takes 3 us.
pub(super) const LAUNCH_NS: u64 = 20 * US;
/// How long two tenants may use a device at once before turns begin.
pub(super) const OVERLAP_NS: u64 = MS;
/// A tenant that has not been active for so long does not hinder "everybody open".
pub(super) const CALM_NS: u64 = 100 * MS;
/// A tenant without work for so long has slept: it returns with at most a quantum of credit.
pub(super) const SLEEP_NS: u64 = 5 * MS;
/// How long a tenant that left its domain is remembered to be ahead of the others.
pub(super) const LAG_KEPT_NS: u64 = 60_000 * MS;

// Time in flight that a tenant may have.

/// A training that runs ahead of the device loses 4 % more with 1 ms; 8 ms bring 0.7 points and cost four queues their
/// 0.999 (notes, "An eager training in turns").
pub const HORIZON_NS: u64 = 4 * MS;
/// Beside a tenant of the latency class: a quarter of its wait.
pub(super) const LATENCY_HORIZON_NS: u64 = 500 * US;
/// Beside a tenant of higher priority, which this keeps from its step.
pub(super) const LOW_HORIZON_NS: u64 = 150 * US;

// How often a look is taken. Eight busy tenants cost 1.4 to 2.1 % of a processor (notes, "What the daemon costs").

/// At an idle tenant of higher priority.
pub(super) const PRIORITY_POLL_NS: u64 = 80 * US;
/// At an idle tenant of the latency class.
pub(super) const LATENCY_POLL_NS: u64 = 500 * US;
/// At work that should have drained.
pub(super) const OVERDUE_POLL_NS: u64 = 30 * US;
/// At a holder that is known to pause.
pub const GAPPY_POLL_NS: u64 = 200 * US;
/// At a holder that never pauses.
pub(super) const STEADY_POLL_NS: u64 = 3 * MS;
/// At the same where all others wait already, and no tenant ever pauses.
pub(super) const AWAITED_POLL_NS: u64 = 8 * MS;
/// At devices without contention.
pub(super) const CALM_POLL_NS: u64 = 10 * MS;
/// Longest time between two steps: half of a closed gate's lease, which is renewed by then.
pub const LEASE_POLL_NS: u64 = 50 * MS;

// "Everybody open". Notes, "Everybody open, by trial".

/// Below this use of the device under turns, in millionths, its tenants are taken not to fill it.
pub(super) const FILLS_PPM: u64 = 800_000;
/// Length of a trial.
pub(super) const TRIAL_NS: u64 = 100 * MS;
/// Time under turns a trial is compared with, at least.
pub(super) const BASELINE_NS: u64 = 100 * MS;
/// Time between two trials at first, and at most; it doubles.
pub(super) const RETRIAL_NS: u64 = 1_000 * MS;
pub(super) const MAX_RETRIAL_NS: u64 = 10_000 * MS;
/// Time after which "everybody open" is compared with turns again, even if no sign asks for it: to compare after each
/// trial's interval took two programs of 5 us kernels 2.4 %.
pub(super) const RENEW_NS: u64 = 60_000 * MS;
/// Turns of each tenant after which it is known how much they leave unused.
pub(super) const TRIAL_ROUNDS: u64 = 4;
/// Progress that a trial must bring in sum, in percent of that under turns; and turns inside a tenant, of that without.
pub(super) const GAIN_PERCENT: u64 = 105;
/// Progress that each must keep, in percent of that under turns; work in flight makes the measure this rough.
pub(super) const KEEPS_PERCENT: u64 = 92;
/// Progress on a device that several fill, sliced, in percent of one alone.
pub(super) const SLICED_PERCENT: u64 = 95;
/// Part of itself by which progress may differ from the trial's and count as the same.
pub(super) const SAME_PART: u64 = 8;
/// Device time is charged by the chunk of 0.4 ms, so what was used of late is known no better than this.
pub(super) const ROUGH_NS: u64 = 600 * US;

// A tenant's place in the queue.

/// A tenant that waits was at most half a round ahead of the one that was picked before it, whose turn lasts two rounds
/// at most.
pub(super) const ROUNDS_BEHIND: u64 = 3;
/// No more than this part of a turn counts as others', whatever those say that was let go beside it.
pub(super) const LET_GO_PART: u64 = 4;
/// A launch so long after its gate was closed was not on its way.
pub(super) const LET_GO_NS: u64 = 100 * US;
/// Time held over which it is seen how much of it is used.
pub(super) const IN_USE_WINDOW_NS: u64 = 50 * MS;
/// Least and most that is paid of the time held: most is above all of it, since work may run over. A loop of 100 us
/// leaves a tenth of its turns idle (notes, "What is used of turns").
pub(super) const LEAST_PAID_PPM: u64 = 875_000;
pub(super) const MOST_PAID_PPM: u64 = 1_125_000;
/// Least that is paid, of an even part, beside work that outlasts another's turn: without it a tenant that says it uses
/// nothing would have that time for nothing. With it one that waits for each kernel of 20 us has 46 % beside kernels of
/// 3 s (searcher, `overruns`), and had 2 (`bench/results/h200-2026-12-01`: 0.8).
pub(super) const LEAST_SLICED_PPM: u64 = 125_000;
/// A device without work for so long is not one that its tenant uses, if there are others.
pub(super) const USES_NS: u64 = 1_000 * MS;
/// Most that a tenant may be owed of the floor, in pieces.
pub(super) const MOST_PIECES: i64 = 2;

// Pauses and steps of a tenant.

/// Pauses after short turns until a tenant is not taken any more to work for long.
pub(super) const LONG_TURNS: u32 = 2;
/// Turns in a row without a pause after which a holder is taken to be steady.
pub(super) const STEADY_TURNS: u32 = 4;
/// Pauses through which a holder keeps its turn at least, if it has had less than one that waits: behind an open gate
/// its kernel would wait for another's slice of 2 ms and the switch (notes, "Pauses of a holder").
pub(super) const PAUSE_NS: u64 = 2_500 * US;
/// Longest pause that is counted: the longest that a turn is kept through.
pub(super) const MOST_PAUSE_NS: u64 = DRAIN_TIMEOUT_NS;
/// Longest step of a stepper: as long as a turn.
pub(super) const LONGEST_STEP_NS: u64 = 20 * MS;
/// Times that a tenant came to its gate behind all its work until it is a stepper; and most that are counted.
pub(super) const SURE_STEPS: u32 = 2;
pub(super) const MOST_SURE_STEPS: u32 = 4;
/// So much before the usual end of a step it is looked for: a sleeper may take as long to be awake.
pub(super) const STEP_EARLY_NS: u64 = 150 * US;
/// Looks in half a step for its end, which a look may miss by so small a part of it.
pub(super) const STEP_LOOKS: u64 = 8;
/// A waiter that knows when its gate opens is awake this long before and after, so it needs no wake-up.
pub(super) const NEAR_NS: u64 = 100 * US;
/// Of so many steps in a turn, those who wait for the next are looked at in one.
pub(super) const WAITING_EVERY: u32 = 4;

// Work in flight.

/// Longest time that a tenant's work can take behind its last launch, or its gate's closing.
pub(super) const LINGER_NS: u64 = 10_000 * MS;
/// A tenant that sleeps may have the longest kernel it ever had in flight and another behind it, with as much of
/// others' between.
pub(super) const LONGEST_IN_FLIGHT: u64 = 4;
/// Time behind a launch in which its work counts as under way, whatever is expected of it.
pub(super) const AT_WORK_NS: u64 = 200 * US;

// Leases of a gate, and wishes. Notes, "Leases" and "Writes to a gate".

/// How long a closed gate stays closed without a word of its daemon; a lease that ends sooner than the
/// second is renewed.
pub(super) const CLOSED_LEASE_NS: (u64, u64) = (100 * MS, 75 * MS);
/// The same of an open one; while it lasts, a tenant with a cap leaves turns to the daemon.
pub(super) const OPEN_LEASE_NS: (u64, u64) = (1_000 * MS, 500 * MS);
/// Age from which a wish counts no more.
pub const WANT_NS: u64 = 50 * MS;
/// Most that a wish may lie in the future: there is one clock, but the process read it after the daemon did.
pub(super) const SKEW_NS: u64 = 5 * MS;
/// Step of the quantum that a closed gate publishes. A waiting tenant's cap saves up by the quantum, so a closed gate
/// holds one too; the step keeps writes rare.
pub(super) const CLOSED_QUANTUM_NS: u64 = 10 * MS;
/// Time between two looks at all gates, changed or not: a lease is renewed when a quarter of it has
/// passed.
pub(super) const LEASES_NS: u64 = 12_500 * US;
/// Without a launch for so long, devices are looked at by [`REST_NS`] alone.
pub(super) const QUIET_DEVICES_NS: u64 = 500 * MS;
/// Time between two steps while no tenant works: no longer than between two looks for what has changed.
pub const REST_NS: u64 = 200 * MS;
/// How long nothing must need a gate before launches are freed from looking.
pub(super) const UNNEEDED_NS: u64 = 2_000 * MS;

// Turns among processes of a tenant without a cap. Notes, "Turns inside a tenant".

/// Processes that are looked at; of more, the first.
pub(super) const MOST_WORKERS: usize = 16;
/// Length of what is compared: work beside each other, and in turns.
pub(super) const WORKERS_WINDOW_NS: u64 = 200 * MS;
/// Time left out when turns begin: launches from before are still under way.
pub(super) const WORKERS_SETTLE_NS: u64 = 20 * MS;
/// Time between two looks at a trial.
pub(super) const TRIAL_LOOK_NS: u64 = 10 * MS;
/// Time between two looks at whether processes work beside each other.
pub(super) const WORKERS_LOOK_NS: u64 = 600 * MS;
/// Time between two trials, at first and at most; it doubles while they fail.
pub(super) const WORKERS_RETRIAL_NS: (u64, u64) = (2_000 * MS, 60_000 * MS);
/// Time after which turns that stay are compared anew.
pub(super) const WORKERS_RENEW_NS: u64 = 30_000 * MS;
/// Part of a window that must have been used for its processes to be in each other's way.
pub(super) const USED_PART: u64 = 32;
/// Below so much of what was done without them, turns end at once.
pub(super) const HOPELESS_PERCENT: u64 = 95;
/// Launches that take less on average are short ones, whatever came before them: turns cost workers with gaps between
/// such a tenth and more of what they have.
pub(super) const SHORT_WORK_NS: u64 = 150 * US;
/// For so long after another tenant had a turn they take theirs beside it.
pub(super) const CONTENDED_NS: u64 = 10_000 * MS;
