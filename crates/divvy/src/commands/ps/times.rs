//! The table of device time in `divvy ps`: caps, weights, what was used and waited for, gates.
//!
//! Pure. Does not show a tenant that has no share, no weight and no priority and was never timed.

use super::cells::{before_use, gpu};
use crate::output::table::TextTable;
use crate::tenants::ledger::LedgerTenant;
use crate::tenants::limits;

/// The compute share, of tenants that have one or have been timed.
pub(super) fn table(tenants: &[LedgerTenant]) -> TextTable {
    let mut table = TextTable::new(&[
        "TENANT",
        "GPU",
        ">SHARE",
        ">WEIGHT",
        "PRIORITY",
        ">USED",
        ">THROTTLED",
        ">WAITED",
        "GATE",
        "MODE",
    ]);
    for tenant in tenants {
        let is_plain = tenant.weight == 0 && tenant.priority == "normal" && !tenant.paused;
        let weight = match tenant.weight {
            0 => "-".to_owned(),
            weight => weight.to_string(),
        };
        let class = if tenant.class == "latency" { ", latency" } else { "" };
        let priority = format!("{}{class}", tenant.priority);
        for (gpu, share) in before_use(tenant, &tenant.compute_rules) {
            if !is_plain || !tenant.compute_rules.is_empty() {
                table.row([tenant.name.clone(), gpu, share, weight.clone(), priority.clone()]);
            }
        }
        for device in &tenant.devices {
            let is_free = device.share_ppm.is_none() && device.gate == "free";
            if is_plain && is_free && device.used_ns == 0 {
                continue;
            }
            let share = device.share_ppm.map(|ppm| limits::percent(u64::from(ppm)));
            let active = match device.active {
                0 | 1 => String::new(),
                active => format!(", {active} at once"),
            };
            table.row([
                tenant.name.clone(),
                gpu(device.index, &device.uuid),
                share.unwrap_or_else(|| "-".to_owned()),
                weight.clone(),
                priority.clone(),
                seconds(device.used_ns),
                seconds(device.throttled_ns),
                seconds(device.waited_ns),
                format!("{}{active}", device.gate),
                device.mode.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
    }
    table
}

fn seconds(ns: u64) -> String {
    format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}
