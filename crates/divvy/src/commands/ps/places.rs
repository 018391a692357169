//! The table of memory that may leave a card in `divvy ps`: where it is, what has moved, and who waits for it.
//!
//! Pure. Does not show a tenant that does not oversubscribe.

use super::cells::gpu;
use crate::output::sizes;
use crate::output::table::TextTable;
use crate::tenants::ledger::{DeviceUse, LedgerTenant, ResidenceUse};

/// The places of the memory, of tenants that have such.
pub(super) fn table(tenants: &[LedgerTenant]) -> TextTable {
    let mut table = TextTable::new(&[
        "TENANT",
        "GPU",
        ">ON CARD",
        ">STAYS",
        ">AWAY",
        ">MOVED OUT",
        ">AND IN",
        "NOW",
    ]);
    let devices = tenants.iter().flat_map(|t| t.devices.iter().map(move |device| (t, device)));
    for (tenant, device) in devices {
        let Some(memory) = &device.residence else { continue };
        table.row([
            tenant.name.clone(),
            gpu(device.index, &device.uuid),
            sizes::text(memory.resident_bytes),
            sizes::text(memory.pinned_bytes),
            sizes::text(memory.away_bytes),
            moved(memory.out_bytes, memory.out_ns),
            moved(memory.in_bytes, memory.in_ns),
            now(device, memory),
        ]);
    }
    table
}

/// Bytes that have moved, and how fast.
fn moved(bytes: u64, ns: u64) -> String {
    match ns {
        0 => sizes::text(bytes),
        // Bytes a nanosecond are GB a second.
        ns => format!("{}, {:.1} GB/s", sizes::text(bytes), bytes as f64 / ns as f64),
    }
}

/// The daemon's word about the tenant, whether memory moves, and how long a call has waited for it.
fn now(device: &DeviceUse, memory: &ResidenceUse) -> String {
    let waits = match memory.waiting_ns {
        0 => None,
        ns => Some(format!("a call waits for {}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10)),
    };
    let moves = memory.moving.then(|| "moves".to_owned());
    // The cause of a waiting call comes first, then that of memory which stays though it was to leave.
    let cause = device.memory_cause.or(memory.stays).map(|cause| cause.text().to_owned());
    let parts = [device.memory_status.clone(), moves, waits, cause];
    match parts.into_iter().flatten().collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "-".to_owned(),
        words => words,
    }
}
