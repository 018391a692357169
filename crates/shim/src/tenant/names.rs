//! How rules of limits name a device: by UUID, by its card's, or by the card's index on the machine.
//!
//! Promises: an index is NVML's, whatever the process sees of the machine and however CUDA numbers it. A rule whose
//! writer knew the device is believed; else NVML is asked. An index that cannot be learnt is an error, never another
//! device's. Does not decide which rule is the closest.

use divvy_abi::Uuid;
use divvy_abi::config::{Config, Rule, selector};
use divvy_driver_api::types::CUdevice;
use divvy_policy::limit;

use super::reason::{self, Reason};
use crate::sys::{driver, env};

/// Names by which rules may speak of a device.
pub(crate) struct DeviceNames {
    /// Its UUID.
    pub(crate) uuid: Uuid,
    /// The UUID of its card: the same, but for an instance of a partitioned one.
    pub(crate) card: Uuid,
    /// The driver's number for it, where CUDA tells of it.
    pub(crate) ordinal: Option<CUdevice>,
}

/// A rule is by index, and which device has the index cannot be learnt; said.
pub(super) struct UnknownIndex;

impl DeviceNames {
    /// The UUID by which `rules` know it.
    pub(super) fn in_rules(&self, rules: &[Rule]) -> &Uuid {
        let is_own = |rule: &Rule| rule.selector == selector::UUID && rule.uuid == self.uuid;
        if rules.iter().any(is_own) { &self.uuid } else { &self.card }
    }

    /// Its index on the machine, where a rule knows it or has need to.
    pub(super) fn index(&self, config: &Config) -> Result<Option<u32>, UnknownIndex> {
        let mut is_needed = false;
        for rule in config.rules().iter().chain(config.compute_rules()) {
            if rule.selector == selector::INDEX && rule.uuid == self.card {
                return Ok(Some(rule.index));
            }
            is_needed |= limit::is_bare(rule);
        }
        if !is_needed {
            return Ok(None);
        }
        // Without NVML the bus tells, where no device can be hidden from CUDA.
        let is_all = self.uuid == self.card && !env::is_set("CUDA_VISIBLE_DEVICES");
        let by_bus = || driver::place_on_bus(self.ordinal.filter(|_| is_all)?);
        driver::machine_index(&self.card).or_else(by_bus).map(Some).ok_or_else(|| {
            let uuid = limit::UuidText(&self.card);
            let text = "its index cannot be learnt, since NVML (libnvidia-ml.so.1) does not say: name devices in limits by UUID";
            reason::tell(Reason::BadLimit, format_args!("{uuid}: {text}"));
            UnknownIndex
        })
    }
}
