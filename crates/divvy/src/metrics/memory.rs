//! Metrics of memory that may leave a card: where it is, what has moved, and who has waited for it.
//!
//! A part of the table of names, beside [`super::METRICS`]. Of tenants that do not oversubscribe, and of devices without
//! such a tenant, all of them are absent.

use super::kind::{Metric, Read, Value, metric};

/// The metrics of memory that may leave a card.
pub(super) const MEMORY: &[Metric] = &[
    metric(
        "divvy_tenant_memory_resident_bytes",
        "bytes",
        Read::TenantDevice(|_, device| {
            device.residence.map(|memory| Value::Count(memory.resident_bytes))
        }),
        "Memory on the card that may leave it; absent in a tenant that does not oversubscribe.",
    ),
    metric(
        "divvy_tenant_memory_pinned_bytes",
        "bytes",
        Read::TenantDevice(|_, device| {
            device.residence.map(|memory| Value::Count(memory.pinned_bytes))
        }),
        "Of these, bytes that stay, since something else than addresses refers to them.",
    ),
    metric(
        "divvy_tenant_memory_away_bytes",
        "bytes",
        Read::TenantDevice(|_, device| {
            device.residence.map(|memory| Value::Count(memory.away_bytes))
        }),
        "Memory that has left the card and is on the host.",
    ),
    metric(
        "divvy_tenant_memory_moving",
        "",
        Read::TenantDevice(|_, device| {
            device.residence.map(|memory| Value::Count(u64::from(memory.moving)))
        }),
        "1 while any of it leaves or comes back, else 0.",
    ),
    metric(
        "divvy_tenant_memory_moved_bytes",
        "bytes",
        Read::Directions(|memory| [memory.out_bytes, memory.in_bytes].map(Value::Count)),
        "Memory that has left the card (out) or come back to it (in).",
    ),
    metric(
        "divvy_tenant_memory_moving_seconds",
        "seconds",
        Read::Directions(|memory| [memory.out_ns, memory.in_ns].map(Value::Nanoseconds)),
        "Time in which it did, summed over processes.",
    ),
    metric(
        "divvy_tenant_memory_current_wait_seconds",
        "seconds",
        Read::TenantDevice(|_, device| {
            device.residence.map(|memory| Value::Nanoseconds(memory.waiting_ns))
        }),
        "Time for which a call has been waiting for memory or its turn with it; 0 while none does.",
    ),
    metric(
        "divvy_tenant_memory_waiting_seconds",
        "seconds",
        Read::MemoryCounter(|memory| Value::Nanoseconds(memory.waited_ns)),
        "Time in which calls waited for memory that was away, for room, or for their turn; from a \
         daemon only.",
    ),
    metric(
        "divvy_device_memory_capacity_bytes",
        "bytes",
        Read::DeviceMemory(|memory| Value::Count(memory.capacity_bytes)),
        "Bytes of the device for memory that may leave it; absent where no tenant oversubscribes.",
    ),
    metric(
        "divvy_device_memory_handovers",
        "",
        Read::DeviceMemoryCounter(|memory| Value::Count(memory.hand_overs)),
        "Turns with memory on the device for which another tenant's ended.",
    ),
    metric(
        "divvy_device_memory_longest_wait_seconds",
        "seconds",
        Read::DeviceMemory(|memory| Value::Nanoseconds(memory.longest_wait_ns)),
        "The longest that a tenant has waited for its turn with memory.",
    ),
    metric(
        "divvy_device_handover_bytes",
        "bytes",
        Read::DeviceMemoryCounter(|memory| {
            Value::Count(memory.out_bytes.saturating_add(memory.in_bytes))
        }),
        "Memory ordered off the device, and back onto it, for turns; absent where no tenant \
         oversubscribes.",
    ),
];
