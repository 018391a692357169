//! One row of the table.

use crate::Effects;

/// An exported symbol of the driver or of NVML.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The symbol, version and default-stream suffix included: `cuMemAllocAsync_ptsz`.
    pub name: &'static str,
    /// The symbol without `_ptds` or `_ptsz`.
    pub base: &'static str,
    /// The CUDA version that introduced it, which tells the versions of a name apart: the one in the
    /// name of its type in the headers of typedefs, a per-thread form's its base's. NVML has no such
    /// types; there it is `since`.
    pub introduced: u32,
    /// The oldest header read that declares it, as cuda.h spells versions (11080 is 11.8).
    pub since: u32,
    /// The newest header read that declares it.
    pub until: u32,
    /// Divvy's effects on it.
    pub effects: Effects,
    /// Whether driver 580 exports it (always true for NVML, whose export list is not recorded).
    pub in_driver_580: bool,
}

impl Entry {
    pub(crate) const fn new(
        name: &'static str,
        base: &'static str,
        introduced: u32,
        since: u32,
        until: u32,
        effects: u8,
        in_driver_580: bool,
    ) -> Self {
        Self {
            name,
            base,
            introduced,
            since,
            until,
            effects: Effects::from_bits(effects),
            in_driver_580,
        }
    }
}
