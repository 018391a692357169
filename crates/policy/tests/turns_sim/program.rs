//! What tenants do: endless programs of launches, synchronisations and pauses.

/// One thing a program does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Asks to submit a kernel.
    Launch(u64),
    /// The driver has it now: the gate was passed when the call began.
    Submit(u64),
    /// Waits for everything submitted.
    Sync,
    /// Computes on the host.
    Sleep(u64),
    /// A request arrives now; its latency runs.
    Arrive,
    /// The request has been answered.
    Answer,
}

/// An endless program.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// Launches, synchronises, pauses on the host.
    Sync { kernel_ns: u64, gap_ns: u64 },
    /// Launches without end.
    Queue { kernel_ns: u64 },
    /// `count` kernels, a synchronisation, a pause.
    Burst { kernel_ns: u64, count: u64, pause_ns: u64 },
    /// The same as requests at fixed times with some jitter.
    Serve { kernel_ns: u64, count: u64, period_ns: u64 },
    /// A synchronising program that works `on_ns` and sleeps `off_ns`.
    Phases { kernel_ns: u64, on_ns: u64, off_ns: u64 },
    /// Launches without end for `on_ns`, drains, and sleeps as long again.
    Half { kernel_ns: u64, on_ns: u64 },
    /// Steps of an eager training that never synchronises: kernels that take longer than the host takes to
    /// launch them, then `tail` that do not. Each: how many, a kernel, the host's time before it.
    Eager { body: (u64, u64, u64), tail: (u64, u64, u64) },
    /// Nothing ever.
    Idle,
}

impl Program {
    /// Length of its kernels.
    pub(crate) fn kernel_ns(&self) -> u64 {
        match *self {
            Self::Sync { kernel_ns, .. }
            | Self::Queue { kernel_ns }
            | Self::Burst { kernel_ns, .. }
            | Self::Serve { kernel_ns, .. }
            | Self::Half { kernel_ns, .. }
            | Self::Phases { kernel_ns, .. } => kernel_ns,
            Self::Eager { body: (_, kernel_ns, _), .. } => kernel_ns,
            Self::Idle => 0,
        }
    }
}

/// Where a program is.
pub(crate) struct Run {
    program: Program,
    step: u64,
    due_ns: u64,
}

impl Run {
    pub(crate) fn new(program: Program, start_ns: u64) -> Self {
        Self { program, step: 0, due_ns: start_ns }
    }

    /// The next thing it does, at `now_ns`; `noise` is uniform.
    pub(crate) fn next(&mut self, now_ns: u64, noise: u64) -> Op {
        let step = self.step;
        self.step += 1;
        match self.program {
            Program::Sync { kernel_ns, gap_ns } => match step % 3 {
                0 => Op::Launch(kernel_ns),
                1 => Op::Sync,
                _ => Op::Sleep(gap_ns),
            },
            Program::Queue { kernel_ns } => Op::Launch(kernel_ns),
            Program::Burst { kernel_ns, count, pause_ns } => match step % (count + 2) {
                n if n < count => Op::Launch(kernel_ns),
                n if n == count => Op::Sync,
                _ => Op::Sleep(pause_ns),
            },
            Program::Serve { kernel_ns, count, period_ns } => match step % (count + 4) {
                0 => {
                    self.due_ns += period_ns / 2 + noise % period_ns;
                    Op::Sleep(self.due_ns.saturating_sub(now_ns))
                }
                1 => Op::Arrive,
                n if n < count + 2 => Op::Launch(kernel_ns),
                n if n == count + 2 => Op::Sync,
                _ => Op::Answer,
            },
            Program::Phases { kernel_ns, on_ns, off_ns } => {
                if now_ns >= self.due_ns + on_ns && step.is_multiple_of(2) {
                    self.due_ns = now_ns + off_ns;
                    self.step -= 1;
                    return Op::Sleep(off_ns);
                }
                if step.is_multiple_of(2) { Op::Launch(kernel_ns) } else { Op::Sync }
            }
            Program::Half { kernel_ns, on_ns } => match step {
                0 => {
                    if now_ns < self.due_ns + on_ns {
                        self.step = 0;
                        return Op::Launch(kernel_ns);
                    }
                    Op::Sync
                }
                _ => {
                    self.step = 0;
                    self.due_ns = now_ns.max(self.due_ns + 2 * on_ns);
                    Op::Sleep(self.due_ns - now_ns)
                }
            },
            Program::Eager { body, tail } => {
                let nth = step / 2 % (body.0 + tail.0);
                let (_, kernel_ns, host_ns) = if nth < body.0 { body } else { tail };
                if step.is_multiple_of(2) { Op::Sleep(host_ns) } else { Op::Launch(kernel_ns) }
            }
            Program::Idle => Op::Sleep(1_000_000_000),
        }
    }
}
