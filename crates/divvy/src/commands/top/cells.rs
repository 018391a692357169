//! Cells that the screen and the printed frame have in common: numbers and limits in words.
//!
//! Pure.

use super::model::{Gpu, Picture, TenantRow};
use crate::output::{plain, sizes};
use crate::tenants::limits;
use crate::wire::MemoryView;

/// The cap, or the weight where there is none.
pub(super) fn asked(row: &TenantRow) -> String {
    match (row.share_ppm, row.weight) {
        (Some(ppm), 0) => limits::percent(u64::from(ppm)),
        (Some(ppm), weight) => format!("{} w{weight}", limits::percent(u64::from(ppm))),
        (None, 0) => "-".to_owned(),
        (None, weight) => format!("w{weight}"),
    }
}

pub(super) fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}%", ratio * 100.0))
}

/// Work in flight, in milliseconds.
pub(super) fn queue(ns: u64) -> String {
    if ns == 0 { "-".to_owned() } else { format!("{:.1} ms", ns as f64 / 1e6) }
}

pub(super) fn launches(row: &TenantRow) -> String {
    let rate = row.launches_per_second.filter(|_| row.reached_ratio.is_some());
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"))
}

pub(super) fn priority(row: &TenantRow) -> String {
    let class = if row.class == "latency" { ", latency" } else { "" };
    format!("{}{class}", row.priority)
}

pub(super) fn turns(gpu: &Gpu) -> String {
    gpu.turns_per_second.map_or_else(|| "-".to_owned(), |turns| format!("{turns:.0}"))
}

pub(super) fn mode(gpu: &Gpu) -> String {
    gpu.mode.clone().unwrap_or_else(|| "-".to_owned())
}

pub(super) fn gpu_name(index: Option<u32>, uuid: &str) -> String {
    index.map_or_else(|| uuid.chars().take(12).collect(), |index| index.to_string())
}

/// Number of tenants, and of what they are on.
pub(super) fn counts(picture: &Picture) -> String {
    let mut tenants: Vec<&str> = picture.rows.iter().map(|row| row.directory.as_str()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let many = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    format!("{} on {}", many(tenants.len(), "tenant"), many(picture.gpus.len(), "GPU"))
}

/// Where the memory of tenants that oversubscribe a device is, and why a device is not divided by turns.
pub(super) fn notes(picture: &Picture) -> Vec<String> {
    let note = |gpu: &Gpu| {
        let name = gpu_name(gpu.index, &gpu.uuid);
        let words = [gpu.memory.as_ref().map(memory_words), gpu.reason.clone()];
        let lines = words.into_iter().flatten().map(move |words| format!("GPU {name}: {words}"));
        lines.map(|line| plain::line(&line).into_owned()).collect::<Vec<_>>()
    };
    picture.gpus.iter().flat_map(note).collect()
}

fn memory_words(memory: &MemoryView) -> String {
    format!(
        "{} on the card where {} may be, {} away; {} hand-overs, longest wait {:.1} s",
        sizes::text(memory.resident_bytes),
        sizes::text(memory.capacity_bytes),
        sizes::text(memory.away_bytes),
        memory.hand_overs,
        memory.longest_wait_ns as f64 / 1e9
    )
}
