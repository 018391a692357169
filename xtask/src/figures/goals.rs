//! A figure's goal in words, and whether Divvy's median reached it.

use serde_json::Value;

use super::number::number;
use super::stored::median;

/// Starting a program may cost this, or this part of what nvshare's library adds to it.
const EXEC: &str = "exec of a program";
const OF_NVSHARE: f64 = 0.8;

/// Words and verdict.
pub(super) fn judged(figure: &Value) -> (String, &'static str) {
    let (words, met) = judge(figure).unwrap_or(("-".to_owned(), None));
    let met = match met {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "-",
    };
    (words, met)
}

fn judge(figure: &Value) -> Option<(String, Option<bool>)> {
    let (native, divvy) = (median(figure, "native"), median(figure, "divvy"));
    let added = |side: Option<f64>| Some(side? - native?);
    let within = |bound: f64| added(divvy).map(|added| added <= bound);
    let goal = figure.get("goal")?;
    if goal.as_str() == Some("spread") {
        let spread = native_spread(figure)?;
        let words = format!("added ≤ {} (native's own spread)", number(spread));
        return Some((words, within(spread)));
    }
    let (kind, value) = goal.as_object()?.iter().next()?;
    let pair = |at: usize| value.get(at).and_then(Value::as_f64);
    let bound = value.as_f64().or_else(|| pair(0))?;
    let is_exec =
        || figure.get("name").and_then(Value::as_str).is_some_and(|n| n.starts_with(EXEC));
    Some(match kind.as_str() {
        // Results from before the second half of this goal was modelled have only the first.
        "added" | "added_or_nvshare" if is_exec() => {
            let nvshare = added(median(figure, "nvshare"));
            let part = pair(1).unwrap_or(OF_NVSHARE);
            let beats = added(divvy).zip(nvshare).map(|(divvy, nvshare)| divvy <= part * nvshare);
            let words = format!("added ≤ {} or ≤ {part} × nvshare's", number(bound));
            (words, within(bound).map(|within| within || beats == Some(true)))
        }
        "added" => (format!("added ≤ {}", number(bound)), within(bound)),
        "at_most" => (format!("≤ {}", number(bound)), divvy.map(|divvy| divvy <= bound)),
        "at_least" => (format!("≥ {}", number(bound)), divvy.map(|divvy| divvy >= bound)),
        "ratio" => {
            let met = divvy.zip(native).map(|(divvy, native)| divvy <= bound * native);
            (format!("≤ {} × native", number(bound)), met)
        }
        "kept" => {
            let met = divvy.zip(native).map(|(divvy, native)| divvy >= bound * native);
            (format!("≥ {} × native", number(bound)), met)
        }
        "within" => {
            let distance = pair(1)?;
            let met = divvy.map(|divvy| (divvy - bound).abs() <= distance);
            (format!("{} ± {}", number(bound), number(distance)), met)
        }
        other => (format!("{other} {}", number(bound)), None),
    })
}

/// How far apart native's own samples lie: what a real driver's calls differ by without us.
fn native_spread(figure: &Value) -> Option<f64> {
    let samples = figure.get("samples")?.get("native")?.as_array()?;
    let values = || samples.iter().filter_map(Value::as_f64);
    let most = values().reduce(f64::max)?;
    Some(most - values().reduce(f64::min)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(name: &str, goal: &Value, medians: &Value) -> (String, &'static str) {
        judged(&json!({"name": name, "goal": goal, "medians": medians}))
    }

    #[test]
    fn starting_may_cost_fifty_or_less_than_nvshare() {
        let old = json!({"added": 50.0});
        let new = json!({"added_or_nvshare": [50.0, 0.8]});
        let exec = "exec of a program without GPU";
        let dear = json!({"native": 500.0, "divvy": 570.0, "nvshare": 580.0});
        let cheaper = json!({"native": 500.0, "divvy": 570.0, "nvshare": 590.0});
        for goal in [&old, &new] {
            assert_eq!(verdict(exec, goal, &dear).1, "**no**");
            let (words, met) = verdict(exec, goal, &cheaper);
            assert_eq!((words.as_str(), met), ("added ≤ 50 or ≤ 0.8 × nvshare's", "yes"));
            assert_eq!(verdict(exec, goal, &json!({"native": 500.0, "divvy": 540.0})).1, "yes");
        }
        assert_eq!(verdict("launch", &old, &cheaper).1, "**no**");
    }

    #[test]
    fn shares_and_what_is_kept() {
        let medians = json!({"native": 100.0, "divvy": 30.9});
        assert_eq!(verdict("s", &json!({"within": [30.0, 1.0]}), &medians).1, "yes");
        assert_eq!(verdict("s", &json!({"within": [32.0, 1.0]}), &medians).1, "**no**");
        assert_eq!(verdict("s", &json!({"kept": 0.98}), &medians).0, "≥ 0.98 × native");
        assert_eq!(verdict("s", &json!("none"), &medians), ("-".to_owned(), "-"));
    }
}
