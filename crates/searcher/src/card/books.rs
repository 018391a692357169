//! Accounts of a device's time.

/// The whole device's time.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Books {
    /// Kernels of some context were resident.
    pub busy_ns: u64,
    /// Nothing but events was.
    pub events_ns: u64,
    /// The driver switched contexts.
    pub switch_ns: u64,
    /// None of these.
    pub idle_ns: u64,
    /// How often it switched.
    pub switches: u64,
    /// How often it took the device from a context that had more to run.
    pub preempted: u64,
}

impl Books {
    /// All time there was.
    pub fn wall_ns(self) -> u64 {
        self.busy_ns + self.events_ns + self.switch_ns + self.idle_ns
    }
}

/// One context's part of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Had {
    /// Time in which any of its kernels was resident and not switched out.
    pub busy_ns: u64,
    /// Time in which nothing but its events was.
    pub events_ns: u64,
    /// Lengths of the kernels that were completed: beside each other they count each.
    pub work_ns: u64,
    /// Kernels completed.
    pub kernels: u64,
}

impl Had {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            busy_ns: self.busy_ns + other.busy_ns,
            events_ns: self.events_ns + other.events_ns,
            work_ns: self.work_ns + other.work_ns,
            kernels: self.kernels + other.kernels,
        }
    }
}
