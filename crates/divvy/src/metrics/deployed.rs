//! The dashboard and the alerts in `deploy/`, and the page of the alerts, against the metrics that there are.
//!
//! The projects' own parsers judge syntax (`tests/metrics`, which needs Go); this needs nothing and runs everywhere.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::golden;

/// Metrics of the agent on a node of a cluster, which a test of its own compares with `docs/metrics.md`.
const AGENTS: [&str; 6] = [
    "divvy_claim_info",
    "divvy_agent_pods_known",
    "divvy_agent_condition",
    "divvy_agent_node_refused",
    "divvy_agent_prepares_total",
    "divvy_agent_unprepares_total",
];

fn read(path: &str) -> String {
    std::fs::read_to_string(golden::repository().join(path)).unwrap()
}

fn dashboard() -> Value {
    serde_json::from_str(&read("deploy/grafana-dashboard.json")).unwrap()
}

/// Every metric in this expression exists, counters are rated and gauges are not.
fn judge(expression: &str) -> usize {
    let mut known: BTreeSet<String> = all().map(Metric::sample_name).collect();
    known.extend(AGENTS.map(str::to_owned));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut names = 0;
    for (at, _) in expression.match_indices("divvy_") {
        let before = &expression[..at];
        if before.ends_with(is_word) {
            continue;
        }
        let rest = &expression[at..];
        let name = &rest[..rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())];
        assert!(known.contains(name), "{name} in {expression} is no metric");
        let is_rated = before.ends_with("rate(") || before.ends_with("increase(");
        assert_eq!(name.ends_with("_total"), is_rated, "{name} in {expression}");
        names += 1;
    }
    names
}

fn walk<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                found.push((key, value));
                walk(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let dashboard = dashboard();
    let mut found = Vec::new();
    walk(&dashboard, &mut found);
    let mut asked = BTreeSet::new();
    for (key, value) in found {
        match value.as_str().filter(|_| key == "expr" || key == "definition") {
            Some(expression) => {
                assert!(judge(expression) > 0, "{expression}");
                let is_filtered = expression.contains("$instance") || key == "definition";
                assert!(is_filtered, "{expression} is of all instances");
                asked.extend(
                    all().map(Metric::sample_name).filter(|name| expression.contains(name)),
                );
            }
            None => assert_ne!(key, "expr", "{value}"),
        }
    }
    let missing: Vec<String> =
        all().map(Metric::sample_name).filter(|name| !asked.contains(name)).collect();
    assert!(missing.is_empty(), "on no panel: {missing:?}");
}

#[test]
fn the_dashboard_is_laid_out() {
    let dashboard = dashboard();
    let variables: Vec<&str> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "instance", "device", "tenant"]);
    let panels = dashboard["panels"].as_array().unwrap();
    assert_eq!((&panels[0]["type"], &panels[0]["title"]), (&"row".into(), &"Now".into()));
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let mut limited = 0;
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id stands twice");
        let place = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        let (x, y) = (place("x"), place("y"));
        assert!(x + place("w") <= 24, "{title} is beyond the edge");
        for cell in (x..x + place("w")).flat_map(|x| (y..y + place("h")).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{title} lies on another panel at {cell:?}");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{title} is not described");
        let has_unit = panel["fieldConfig"]["defaults"]["unit"].is_string();
        assert!(has_unit || panel["type"] == "table", "{title} has no unit");
        let targets = panel["targets"].as_array().unwrap();
        let legends = targets.iter().filter_map(|target| target["legendFormat"].as_str());
        // Use and limit stand in one panel, and the limit is dashed there.
        if legends.clone().any(|legend| legend.ends_with(" limit")) {
            assert!(legends.count() > 1, "{title} has a limit alone");
            assert_eq!(panel["fieldConfig"]["overrides"][0]["matcher"]["options"], "/ limit$/");
            limited += 1;
        }
    }
    assert!(limited >= 3, "{limited} panels have use and limit");
}

#[test]
fn every_alert_says_what_to_do_and_where_that_is_explained() {
    let rules = read("deploy/alerts.yml");
    let page = read("docs/alerts.md");
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() >= 6);
    for alert in &alerts {
        let name = alert.lines().next().unwrap();
        for key in ["expr:", "for:", "severity:", "summary:", "description:", "runbook_url:"] {
            let stands = alert.lines().any(|line| line.trim_start().starts_with(key));
            assert!(stands, "{name} has no {key}");
        }
        let severity = alert.lines().find_map(|line| line.trim().strip_prefix("severity: "));
        assert!(matches!(severity, Some("critical" | "warning")), "{name}: {severity:?}");
        assert!(alert.matches('`').count() >= 2, "{name} names no command");
        let anchor = format!("/docs/alerts.md#{}\n", name.to_lowercase());
        assert!(alert.contains(&anchor), "{name} links to another section");
        assert!(
            page.contains(&format!("\n## {name}\n")),
            "{name} has no section in docs/alerts.md"
        );
        assert!(
            read("deploy/alerts_test.yml").contains(&format!("alertname: {name}\n")),
            "{name} is not tested"
        );
    }
    assert_eq!(page.matches("\n## Divvy").count(), alerts.len());
    let expressions = rules.lines().filter(|line| !line.trim_start().starts_with('#'));
    assert!(judge(&expressions.collect::<Vec<_>>().join("\n")) > 10);
}
