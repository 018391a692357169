//! Metrics of HAMi's that rules, monitors and dashboards name, each with what replaces it: the one
//! list of them.
//!
//! Promises: a name is found as a whole word within any text. The table on the page is made from
//! here.
//!
//! Does not rewrite queries: labels differ, so that a join is needed which only their author can
//! choose.

use crate::kinds;
use crate::note::{Code, Notes};
use crate::yaml::Node;

const NONE: &str = "nothing: DCGM's exporter has it";

/// Metrics of HAMi's monitor, scheduler and plugin, and what to ask for instead.
pub(crate) const METRICS: &[(&str, &str)] = &[
    ("hami_vgpu_memory_used_bytes", "divvy_tenant_memory_held_bytes"),
    ("hami_vgpu_memory_limit_bytes", "divvy_tenant_memory_limit_bytes"),
    ("hami_container_device_utilization_ratio", "rate(divvy_tenant_used_seconds_total[1m])"),
    ("vGPU_device_memory_usage_in_bytes", "divvy_tenant_memory_held_bytes"),
    ("vGPU_device_memory_limit_in_bytes", "divvy_tenant_memory_limit_bytes"),
    ("vGPU_device_memory_usage_real_in_MB", "divvy_tenant_memory_held_bytes, in bytes"),
    ("Device_utilization_desc_of_container", "rate(divvy_tenant_used_seconds_total[1m])"),
    ("Device_memory_desc_of_container", "divvy_tenant_memory_kind_bytes"),
    ("Device_last_kernel_of_container", "nothing: changes of divvy_tenant_launches_total"),
    ("HostGPUMemoryUsage", "sum by (device_uuid) (divvy_tenant_memory_held_bytes)"),
    ("HostCoreUtilization", NONE),
    ("GPUDeviceMemoryLimit", "divvy_device_memory_size_bytes"),
    ("GPUDeviceCoreLimit", "nothing: it is 100"),
    ("GPUDeviceMemoryAllocated", "sum by (device_uuid) (divvy_tenant_memory_limit_bytes)"),
    ("GPUDeviceCoreAllocated", "sum by (device_uuid) (divvy_tenant_share_limit_ratio)"),
    ("GPUDeviceSharedNum", "count by (device_uuid) (divvy_tenant_memory_held_bytes)"),
    ("nodeGPUOverview", "divvy_device_info"),
    (
        "nodeGPUMemoryPercentage",
        "sum by (device_uuid) (divvy_tenant_memory_limit_bytes) / on (device_uuid) divvy_device_memory_size_bytes",
    ),
    ("vGPUPodsDeviceAllocated", "divvy_tenant_memory_limit_bytes, joined with divvy_claim_info"),
    (
        "vGPUMemoryPercentage",
        "divvy_tenant_memory_limit_bytes / on (device_uuid) group_left () divvy_device_memory_size_bytes",
    ),
    ("vGPUCorePercentage", "divvy_tenant_share_limit_ratio"),
    (
        "vGPU_memory_percentage",
        "divvy_tenant_memory_limit_bytes / on (device_uuid) group_left () divvy_device_memory_size_bytes",
    ),
    ("vGPU_core_percentage", "divvy_tenant_share_limit_ratio"),
];

/// Tells of each metric of HAMi's within a text, once.
pub(crate) fn look(text: &str, line: usize, notes: &mut Notes) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut told: Vec<&str> = Vec::new();
    for word in text.split(|c| !is_part(c)).filter(|word| word.len() > 8) {
        if told.contains(&word) {
            continue;
        }
        let known = METRICS.iter().find(|(name, _)| *name == word);
        let instead = known.map(|(_, instead)| *instead);
        if let Some(instead) =
            instead.or_else(|| is_own(word).then_some("one of those of docs/metrics.md"))
        {
            told.push(word);
            let words = format!(
                "{word} is a metric of HAMi's, which nothing serves any more; use {instead}, whose labels differ (docs/metrics.md)"
            );
            notes.add(Code::HamiMetric, line, word, words);
        }
    }
}

/// Tells of a monitor that collects from HAMi, by what it selects.
pub(crate) fn monitor(object: &Node, notes: &mut Notes) {
    if kinds::group(object) != "monitoring.coreos.com" || !kinds::kind(object).ends_with("Monitor")
    {
        return;
    }
    let selected = object.at(&["spec", "selector", "matchLabels"]).map(Node::entries);
    for label in selected.unwrap_or_default() {
        let value = label.value.text().unwrap_or_default();
        if value.starts_with("hami") {
            let name = &*label.key.text;
            let words = format!(
                "{name}: {value} collects from HAMi, which goes; collect from Divvy's agent and daemon instead (deploy/kubernetes-metrics, docs/metrics.md)"
            );
            notes.add(Code::HamiMetric, label.line, name, words);
        }
    }
}

/// Whether it is a metric by the names that HAMi has from 2.10 on.
fn is_own(word: &str) -> bool {
    const ENDS: [&str; 6] = ["_bytes", "_ratio", "_total", "_seconds", "_info", "_count"];
    word.starts_with("hami_") && ENDS.iter().any(|end| word.ends_with(end))
}
