//! Text of the page, in Prometheus' text format 0.0.4. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::pods::TenantPods;
use crate::prepare::HeldClaim;

/// Metric of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageMetric {
    pub(super) name: &'static str,
    /// As docs/metrics.md has it: facts are gauges on the page.
    pub(super) kind: &'static str,
    pub(super) help: &'static str,
}

pub(super) const CLAIM: PageMetric = PageMetric {
    name: "divvy_claim_info",
    kind: "info",
    help: "A tenant that is a claim's: 1, with the names of the claim and of its pods.",
};
pub(super) const PODS: PageMetric = PageMetric {
    name: "divvy_agent_pods_known",
    kind: "gauge",
    help: "1 where the kubelet has told the agent which pods have claims, else 0: then pods are not named.",
};
/// The longest value of a label.
const MOST_VALUE_CHARS: usize = 512;

/// The page of these claims, with the pods that the kubelet tells of.
pub(super) fn text(
    node: &str,
    held: &[HeldClaim],
    pods: &Result<BTreeMap<String, TenantPods>, String>,
) -> String {
    let mut text = String::new();
    head(&mut text, &PODS);
    let _ = writeln!(text, "{} {}", PODS.name, u8::from(pods.is_ok()));
    if let Err(why) = pods {
        // For people; who reads metrics passes over it.
        let _ = writeln!(text, "# {}", why.replace(char::is_control, " "));
    }
    head(&mut text, &CLAIM);
    let nobody = TenantPods::default();
    for claim in held {
        for tenant in &claim.tenants {
            let known = pods.as_ref().ok().and_then(|pods| pods.get(&tenant.id));
            let TenantPods { pods, containers } = known.unwrap_or(&nobody);
            let labels = [
                ("tenant", tenant.id.clone()),
                ("namespace", claim.namespace.clone()),
                ("claim", claim.name.clone()),
                ("request", tenant.request.clone()),
                ("pod", joined(pods)),
                ("container", joined(containers)),
                ("node", node.to_owned()),
            ];
            let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(&value)));
            let _ = writeln!(text, "{}{{{}}} 1", CLAIM.name, labels.join(","));
        }
    }
    text
}

/// Lines before the samples of a metric.
pub(super) fn head(text: &mut String, metric: &PageMetric) {
    let PageMetric { name, kind, help } = metric;
    let kind = if *kind == "info" { "gauge" } else { kind };
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Names, which hold no comma.
fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

/// A value as it stands between quotes.
fn escaped(value: &str) -> String {
    let mut out = String::new();
    for (at, c) in value.chars().enumerate() {
        match c {
            _ if at == MOST_VALUE_CHARS => {
                out.push('…');
                break;
            }
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::prepare::HeldTenant;

    fn held(name: &str, request: &str) -> HeldClaim {
        let tenant = HeldTenant {
            id: "claim.u.0123456789abcdef".to_owned(),
            request: request.to_owned(),
            cards: BTreeSet::new(),
        };
        HeldClaim {
            uid: "u".to_owned(),
            namespace: "team".to_owned(),
            name: name.to_owned(),
            size: None,
            shares: BTreeSet::new(),
            tenants: vec![tenant],
        }
    }

    fn pods(pods: &[&str], containers: &[&str]) -> BTreeMap<String, TenantPods> {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let of = TenantPods { pods: names(pods), containers: names(containers) };
        BTreeMap::from([("claim.u.0123456789abcdef".to_owned(), of)])
    }

    #[test]
    fn a_tenant_is_one_line_whoever_shares_it() {
        let page = text("n1", &[held("train", "gpu")], &Ok(pods(&["a", "b"], &["main"])));
        let line = "divvy_claim_info{tenant=\"claim.u.0123456789abcdef\",namespace=\"team\",claim=\"train\",\
            request=\"gpu\",pod=\"a,b\",container=\"main\",node=\"n1\"} 1\n";
        assert!(page.contains(line) && page.contains("\ndivvy_agent_pods_known 1\n"), "{page}");
        assert_eq!(page.matches("\ndivvy_claim_info{").count(), 1);
    }

    #[test]
    fn without_the_kubelets_list_claims_are_told_without_pods() {
        let page = text("n1", &[held("train", "gpu")], &Err("no\nsocket".to_owned()));
        assert!(page.contains("claim=\"train\",request=\"gpu\",pod=\"\",container=\"\""), "{page}");
        assert!(page.contains("\ndivvy_agent_pods_known 0\n# no socket\n"), "{page}");
    }

    proptest! {
        #[test]
        fn no_name_breaks_out_of_its_label(name in "\\PC{0,600}|[\"\\\\\n{},=]{0,20}", pod in "\\PC*") {
            let page = text(&name, &[held(&name, &name)], &Ok(pods(&[&pod], &[&name])));
            let lines: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
            prop_assert_eq!(lines.len(), 2);
            // Outside of quotes there is nothing that a name has brought.
            let (mut outside, mut inside, mut skips) = (String::new(), false, false);
            for c in lines[1].chars() {
                match c {
                    _ if skips => skips = false,
                    '\\' if inside => skips = true,
                    '"' => inside = !inside,
                    c if !inside => outside.push(c),
                    _ => {}
                }
            }
            prop_assert_eq!(outside, "divvy_claim_info{tenant=,namespace=,claim=,request=,pod=,container=,node=} 1");
        }
    }
}
