//! Promise of host memory: a tenant is admitted only if its bytes can be away while others run.
//!
//! Promises: as long as every admission passed here, evictions never need more host memory than there is, since no more
//! than the sum of all limits less the capacity is ever away. Does not see what a limit is used for.

/// Bytes that an admission goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// Bytes that the pinned pool can hold.
    pub host_bytes: u64,
    /// Bytes of the device for memory that can move.
    pub capacity_bytes: u64,
    /// Sum of the limits of the tenants admitted so far.
    pub admitted_bytes: u64,
    /// Bytes that are on both sides while they move, and those that rounding to chunks takes.
    pub slack_bytes: u64,
}

/// Reason for a refusal: the host cannot hold what might have to leave the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostShortage {
    /// Host bytes that the promise to all tenants would take, the newcomer included.
    pub needed_bytes: u64,
    /// The part of them that the host does not have.
    pub missing_bytes: u64,
}

impl HostMemory {
    /// Whether a tenant with a limit of `limit_bytes` may be admitted. It may without any host memory as long as all
    /// limits together fit the device.
    ///
    /// # Errors
    /// [`HostShortage`] with the bytes by which the host is short.
    pub fn admits(&self, limit_bytes: u64) -> Result<(), HostShortage> {
        let limits_bytes = u128::from(self.admitted_bytes) + u128::from(limit_bytes);
        let away_bytes = limits_bytes.saturating_sub(u128::from(self.capacity_bytes));
        if away_bytes == 0 {
            return Ok(());
        }
        let needed_bytes = away_bytes + u128::from(self.slack_bytes);
        let clamped = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        match needed_bytes.saturating_sub(u128::from(self.host_bytes)) {
            0 => Ok(()),
            missing_bytes => Err(HostShortage {
                needed_bytes: clamped(needed_bytes),
                missing_bytes: clamped(missing_bytes),
            }),
        }
    }
}
