//! The page against OpenMetrics' rules, and its document.

use std::collections::BTreeSet;

use super::*;
use crate::golden;
use crate::tenants::ledger::ResidenceUse;
use crate::wire::{DeviceView, MemoryView, TenantMemoryView};

fn device(uuid: &str) -> DeviceUse {
    DeviceUse {
        uuid: uuid.to_owned(),
        index: (uuid == "GPU-a").then_some(4),
        name: "H200 \"x\"".to_owned(),
        card_bytes: 141 << 30,
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
        ..TenantMemoryView::default()
    };
    let seen = TenantView {
        directory: "/d/1".to_owned(),
        held_ns: 5,
        memories: vec![waits("GPU-a")],
        ..TenantView::default()
    };
    let refusals = [("DV201".to_owned(), 4), ("DV213".to_owned(), 1)].into();
    View {
        devices: vec![device, plain],
        tenants: vec![seen],
        wakes: 3,
        refusals,
        limit_changes: 2,
        ..View::default()
    }
}

fn page() -> String {
    let tenants = [tenant("train", "/d/1"), tenant("train", "/d/2"), tenant("a\"b\\c\nd", "/d/3")];
    text(&Sources { tenants: &tenants, unreadable: 1, view: Some(&view()) })
}

#[test]
fn a_page_says_what_was_measured() {
    let page = page();
    for line in [
        "divvy_tenant_used_seconds_total{tenant=\"train\",directory=\"/d/1\",device_uuid=\"GPU-a\"} 61.234567890",
        "divvy_tenant_share_limit_ratio{tenant=\"train\",directory=\"/d/1\",device_uuid=\"GPU-b\"} 0.125000",
        "divvy_tenant_memory_kind_bytes{tenant=\"train\",directory=\"/d/2\",device_uuid=\"GPU-a\",kind=\"blocks\"} 1",
        "divvy_tenant_audit_drift_bytes{tenant=\"train\",directory=\"/d/1\",device_uuid=\"GPU-a\"} 2",
        "divvy_tenant_held_seconds_total{tenant=\"train\",directory=\"/d/1\"} 0.000000005",
        "divvy_tenant_weight{tenant=\"a\\\"b\\\\c\\nd\",directory=\"/d/3\"} 7",
        "divvy_device_turns_total{device_uuid=\"GPU-a\"} 9",
        "divvy_tenant_memory_moving{tenant=\"train\",directory=\"/d/1\",device_uuid=\"GPU-a\"} 1",
        "divvy_tenant_memory_moved_bytes_total{tenant=\"train\",directory=\"/d/1\",device_uuid=\"GPU-a\",direction=\"out\"} 70",
        "divvy_tenant_memory_moved_bytes_total{tenant=\"train\",directory=\"/d/1\",device_uuid=\"GPU-a\",direction=\"in\"} 50",
        "divvy_tenant_memory_moving_seconds_total{tenant=\"train\",directory=\"/d/2\",device_uuid=\"GPU-b\",direction=\"in\"} 0.000000002",
        "divvy_tenant_memory_current_wait_seconds{tenant=\"train\",directory=\"/d/1\",device_uuid=\"GPU-a\"} 1.500000000",
        "divvy_tenant_memory_waiting_seconds_total{tenant=\"train\",directory=\"/d/1\",device_uuid=\"GPU-a\"} 0.000000003",
        "divvy_device_memory_capacity_bytes{device_uuid=\"GPU-a\"} 100",
        "divvy_device_memory_handovers_total{device_uuid=\"GPU-a\"} 7",
        "divvy_device_memory_longest_wait_seconds{device_uuid=\"GPU-a\"} 31.300000000",
        "divvy_device_handover_bytes_total{device_uuid=\"GPU-a\"} 42",
        "divvy_tenants_unreadable 1",
        "divvy_refusals_total{code=\"DV201\"} 4",
        "divvy_refusals_total{code=\"DV213\"} 1",
        "divvy_limit_changes_total 2",
        &format!(
            "divvy_build_info{{version=\"{VERSION}\",commit=\"{}\"}} 1",
            COMMIT.unwrap_or_default()
        ),
        "divvy_device_info{device_uuid=\"GPU-a\",device_name=\"H200 \\\"x\\\"\",device_index=\"4\"} 1",
        "divvy_device_info{device_uuid=\"GPU-b\",device_name=\"H200 \\\"x\\\"\",device_index=\"\"} 1",
        "divvy_device_memory_size_bytes{device_uuid=\"GPU-a\"} 151397597184",
        "# UNIT divvy_tenant_used_seconds seconds",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
    assert!(!page.contains("divvy_tenant_held_seconds_total{tenant=\"train\",directory=\"/d/2\""));
    for absent in [
        "divvy_tenant_memory_waiting_seconds_total{tenant=\"train\",directory=\"/d/2\"",
        "divvy_device_memory_capacity_bytes{device_uuid=\"GPU-b\"}",
        "divvy_device_handover_bytes_total{device_uuid=\"GPU-b\"}",
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
            let suffix = match kind.as_str() {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
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
    assert!(empty.starts_with("# TYPE divvy_build info\n# HELP divvy_build Version"), "{empty}");
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
        let kind = metric.family_type().word();
        let labels = metric.labels().join(", ");
        let name = metric.sample_name();
        table.push_str(&format!("| `{name}` | {kind} | {labels} | {} |\n", metric.help));
    }
    golden::table("docs/metrics.md", &table);
}
