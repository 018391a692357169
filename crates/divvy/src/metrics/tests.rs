//! The page against OpenMetrics' rules, its document and its dashboard.

use std::collections::BTreeSet;

use super::*;
use crate::golden;
use crate::tenants::ledger::ResidenceUse;
use crate::wire::{DeviceView, MemoryView, TenantMemoryView};

fn device(uuid: &str) -> DeviceUse {
    DeviceUse {
        uuid: uuid.to_owned(),
        limit_bytes: Some(8 << 30),
        held_bytes: 3,
        peak_bytes: 4,
        refusals: 5,
        share_ppm: Some(125_000),
        used_ns: 61_234_567_890,
        throttled_ns: 1,
        gate: "closed",
        by_kind: [("blocks", 1), ("other", 2)].into(),
        residence: Some(ResidenceUse {
            resident_bytes: 4 << 20,
            moving: true,
            waiting_ns: 1_500_000_000,
            out_bytes: 70,
            in_bytes: 50,
            in_ns: 2,
            ..ResidenceUse::default()
        }),
        ..DeviceUse::default()
    }
}

fn tenant(name: &str, directory: &str) -> LedgerTenant {
    LedgerTenant {
        name: name.to_owned(),
        directory: directory.to_owned(),
        weight: 7,
        devices: vec![device("GPU-a"), device("GPU-b")],
        ..LedgerTenant::default()
    }
}

fn view() -> View {
    let memory = MemoryView {
        capacity_bytes: 100,
        hand_overs: 7,
        longest_wait_ns: 31_300_000_000,
        out_bytes: 40,
        in_bytes: 2,
        ..MemoryView::default()
    };
    let memory = Some(memory);
    let device = DeviceView { uuid: "GPU-a".to_owned(), turns: 9, memory, ..DeviceView::default() };
    let plain = DeviceView { uuid: "GPU-b".to_owned(), ..DeviceView::default() };
    let waits = |gpu: &str| TenantMemoryView {
        gpu: gpu.to_owned(),
        status: "waits".to_owned(),
        waited_ns: 3,
    };
    let seen = TenantView {
        directory: "/d/1".to_owned(),
        held_ns: 5,
        memories: vec![waits("GPU-a")],
        ..TenantView::default()
    };
    View { devices: vec![device, plain], tenants: vec![seen], wakes: 3, ..View::default() }
}

fn page() -> String {
    let tenants = [tenant("train", "/d/1"), tenant("train", "/d/2"), tenant("a\"b\\c\nd", "/d/3")];
    text(&Sources { tenants: &tenants, unreadable: 1, view: Some(&view()) })
}

#[test]
fn a_page_says_what_was_measured() {
    let page = page();
    for line in [
        "divvy_tenant_used_seconds_total{tenant=\"train\",directory=\"/d/1\",gpu=\"GPU-a\"} 61.234567890",
        "divvy_tenant_share_limit_ratio{tenant=\"train\",directory=\"/d/1\",gpu=\"GPU-b\"} 0.125000",
        "divvy_tenant_memory_kind_bytes{tenant=\"train\",directory=\"/d/2\",gpu=\"GPU-a\",kind=\"blocks\"} 1",
        "divvy_tenant_audit_drift_bytes{tenant=\"train\",directory=\"/d/1\",gpu=\"GPU-a\"} 2",
        "divvy_tenant_held_seconds_total{tenant=\"train\",directory=\"/d/1\"} 0.000000005",
        "divvy_tenant_weight{tenant=\"a\\\"b\\\\c\\nd\",directory=\"/d/3\"} 7",
        "divvy_device_turns_total{gpu=\"GPU-a\"} 9",
        "divvy_tenant_memory_moving{tenant=\"train\",directory=\"/d/1\",gpu=\"GPU-a\"} 1",
        "divvy_tenant_memory_moved_bytes_total{tenant=\"train\",directory=\"/d/1\",gpu=\"GPU-a\",direction=\"out\"} 70",
        "divvy_tenant_memory_moved_bytes_total{tenant=\"train\",directory=\"/d/1\",gpu=\"GPU-a\",direction=\"in\"} 50",
        "divvy_tenant_memory_moving_seconds_total{tenant=\"train\",directory=\"/d/2\",gpu=\"GPU-b\",direction=\"in\"} 0.000000002",
        "divvy_tenant_memory_current_wait_seconds{tenant=\"train\",directory=\"/d/1\",gpu=\"GPU-a\"} 1.500000000",
        "divvy_tenant_memory_waiting_seconds_total{tenant=\"train\",directory=\"/d/1\",gpu=\"GPU-a\"} 0.000000003",
        "divvy_device_memory_capacity_bytes{gpu=\"GPU-a\"} 100",
        "divvy_device_memory_handovers_total{gpu=\"GPU-a\"} 7",
        "divvy_device_memory_longest_wait_seconds{gpu=\"GPU-a\"} 31.300000000",
        "divvy_device_handover_bytes_total{gpu=\"GPU-a\"} 42",
        "divvy_tenants_unreadable 1",
        "# UNIT divvy_tenant_used_seconds seconds",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
    assert!(!page.contains("divvy_tenant_held_seconds_total{tenant=\"train\",directory=\"/d/2\""));
    for absent in [
        "divvy_tenant_memory_waiting_seconds_total{tenant=\"train\",directory=\"/d/2\"",
        "divvy_device_memory_capacity_bytes{gpu=\"GPU-b\"}",
        "divvy_device_handover_bytes_total{gpu=\"GPU-b\"}",
    ] {
        assert!(!page.contains(absent), "{absent}\n{page}");
    }
}

#[test]
fn a_page_keeps_the_formats_rules() {
    let page = page();
    assert!(page.ends_with("# EOF\n") && !page.contains("\n\n"));
    let mut families = BTreeSet::new();
    let mut series = BTreeSet::new();
    let mut current: Option<(String, String)> = None;
    for line in page.trim_end_matches("# EOF\n").lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(families.insert(name.to_owned()), "{name} stands twice");
            current = Some((name.to_owned(), kind.to_owned()));
            continue;
        }
        let (name, kind) = current.as_ref().unwrap();
        if let Some(rest) = line.strip_prefix("# UNIT ") {
            let unit = rest.strip_prefix(&format!("{name} ")).unwrap();
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
        } else if !line.starts_with(&format!("# HELP {name} ")) {
            let (labelled, value) = line.rsplit_once(' ').unwrap();
            let sample = labelled.split('{').next().unwrap();
            let suffix = if kind == "counter" { "_total" } else { "" };
            assert_eq!(sample, format!("{name}{suffix}"));
            assert!(value.parse::<f64>().is_ok_and(|v| v >= 0.0), "{line}");
            assert!(series.insert(labelled.to_owned()), "{labelled} stands twice");
        }
    }
    assert_eq!(families.len(), all().count(), "each has a sample here");
}

#[test]
fn names_follow_the_conventions() {
    let units = ["", "bytes", "seconds", "ratio"];
    for metric in all() {
        let name = metric.name;
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert!(!name.ends_with("_total") && name.starts_with("divvy_"), "{name}");
        assert!(units.contains(&metric.unit), "{name}");
        assert!(metric.unit.is_empty() || name.ends_with(&format!("_{}", metric.unit)), "{name}");
        assert!(metric.help.ends_with('.'), "{name}");
    }
}

#[test]
fn a_page_without_tenants_is_a_page() {
    let empty = text(&Sources { tenants: &[], unreadable: 0, view: None });
    assert!(empty.ends_with("divvy_tenants_unreadable 0\n# EOF\n"), "{empty}");
}

#[test]
fn no_tenants_name_spoils_the_page() {
    let tenants = [
        tenant("one", "/d/one"),
        tenant("esc", "/d/\x1b]0;x\x07"),
        tenant("line", "/d/x\ny"),
        // Two names that are no UTF-8.
        tenant("lossy", "/d/\u{fffd}"),
        tenant("lossy", "/d/\u{fffd}"),
        tenant("quoted", "/d/\"\\"),
    ];
    let page = text(&Sources { tenants: &tenants, unreadable: 2, view: None });
    let processes: Vec<&str> =
        page.lines().filter(|line| line.starts_with("divvy_tenant_processes{")).collect();
    assert_eq!(processes.len(), 3, "{processes:?}");
    assert!(page.contains(r#"directory="/d/\"\\""#) && !page.contains('\x1b'), "{page}");
    assert!(page.contains("divvy_tenants_unreadable 5\n"), "{page}");
}

#[test]
fn a_corrected_estimate_takes_nothing_back_and_a_new_tenant_begins_anew() {
    let mut steady = Steady::default();
    let mut settled = |used_ns: u64| {
        let mut tenants = [tenant("train", "/d/1")];
        tenants[0].devices[0].used_ns = used_ns;
        steady.settle(&mut tenants);
        tenants[0].devices[0].used_ns
    };
    assert_eq!([settled(100), settled(90), settled(101), settled(3)], [100, 100, 101, 3]);
}

/// The table of docs/metrics.md. `DIVVY_GOLDEN=write` writes it anew.
#[test]
fn every_name_is_documented() {
    let mut table = String::from("| name | type | labels | meaning |\n|---|---|---|---|\n");
    for metric in all() {
        let kind = if metric.is_counter() { "counter" } else { "gauge" };
        let labels = metric.labels().join(", ");
        let name = metric.sample_name();
        table.push_str(&format!("| `{name}` | {kind} | {labels} | {} |\n", metric.help));
    }
    golden::table("docs/metrics.md", &table);
}

/// Every expression of the dashboard is about metrics that exist, and every label about theirs.
#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let path = golden::repository().join("deploy/grafana-dashboard.json");
    let text = std::fs::read_to_string(path).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    assert!(found.len() > 10, "{found:?}");
    let known: BTreeSet<String> = all().map(Metric::sample_name).collect();
    for expression in &found {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = expression.split(|c: char| !is_word(c));
        let names: Vec<&str> = words.filter(|word| word.starts_with("divvy_")).collect();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            assert!(known.contains(name), "{name} in {expression} is no metric");
            let counter = name.ends_with("_total");
            let rated = ["rate(", "increase("].iter().any(|f| expression.contains(f));
            assert_eq!(counter, rated, "{expression}: counters are rated, gauges are not");
        }
    }
}

fn expressions(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().filter(|_| key == "expr" || key == "definition") {
                    Some(expression) => found.push(expression.to_owned()),
                    None => expressions(value, found),
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|v| expressions(v, found)),
        _ => {}
    }
}
