//! The worst cases of a soak as SVG: for each kind a bar a case, as long as it is off in tolerances.
//!
//! Promises: what is drawn is in the stored result, each bar with its seed and points; a case that broke, which is off
//! without end, has a bar of its own colour to the edge. Does not judge.

use anyhow::{Context, Result};
use serde_json::Value;

const WIDTH: f64 = 760.0;
/// Left of a bar, for its seed; right of the longest, for its value.
const SEEDS: f64 = 70.0;
const VALUES: f64 = 150.0;
/// Height of a bar with the room below it, of a panel's title, of its axis, and of the head.
const BAR: f64 = 14.0;
const TITLE: f64 = 30.0;
const AXIS: f64 = 44.0;
const HEAD: f64 = 58.0;
/// Told apart also by those who do not see red and green: had more than due, had less, broke.
const SIDES: [(&str, &str); 3] = [
    ("#d55e00", "had more than it is due"),
    ("#0072b2", "had less than it is due"),
    ("#000000", "hangs, or breaks a capture"),
];

/// A case that is drawn.
struct Bar {
    seed: u64,
    /// None where something broke.
    tolerances: Option<f64>,
    points: f64,
}

impl Bar {
    fn of(worst: &Value) -> Result<Self> {
        Ok(Self {
            seed: worst.get("seed").and_then(Value::as_u64).context("a case without a seed")?,
            tolerances: worst.get("tolerances").and_then(Value::as_f64),
            points: worst.get("points").and_then(Value::as_f64).unwrap_or(0.0),
        })
    }

    fn side(&self) -> usize {
        match self.tolerances {
            None => 2,
            Some(_) => usize::from(self.points < 0.0),
        }
    }

    fn text(&self) -> String {
        match self.tolerances {
            None => "broke".to_owned(),
            Some(off) => format!("{off:.2} ({:+.1} points)", self.points),
        }
    }
}

/// Cases of one kind.
struct Panel {
    title: String,
    bars: Vec<Bar>,
}

impl Panel {
    fn of(kind: &Value) -> Result<Self> {
        let word = |key: &str| kind.get(key).and_then(Value::as_str);
        let count = |key: &str| kind.get(key).and_then(Value::as_u64).unwrap_or(0);
        let name = word("kind").context("a kind without a name")?;
        let worst = kind.get("worst").and_then(Value::as_array).context("a kind without cases")?;
        let title = format!(
            "{name}: {} of {} beyond their tolerance, {} broke",
            count("beyond_tolerance"),
            count("cases"),
            count("broken")
        );
        Ok(Self { title, bars: worst.iter().map(Bar::of).collect::<Result<_>>()? })
    }

    fn height(&self) -> f64 {
        TITLE + if self.bars.is_empty() { 0.0 } else { AXIS + BAR * self.bars.len() as f64 }
    }

    fn draw(&self, top: f64, add: &mut impl FnMut(String)) {
        add(words(SEEDS, top + 16.0, "start", &self.title));
        if self.bars.is_empty() {
            return;
        }
        let longest = self.bars.iter().filter_map(|bar| bar.tolerances).fold(1.0, f64::max);
        let step = step(longest);
        let until = (longest / step).ceil() * step;
        let at = |value: f64| SEEDS + value / until * (WIDTH - SEEDS - VALUES);
        let (first, bottom) = (top + TITLE, top + TITLE + BAR * self.bars.len() as f64);
        for nth in 0..=(until / step).round() as u32 {
            let value = f64::from(nth) * step;
            add(rule(at(value), first, bottom, "#ddd"));
            add(words(at(value), bottom + 14.0, "middle", &value.to_string()));
        }
        for (bar, row) in self.bars.iter().zip(0_u32..) {
            let (y, end) = (first + BAR * f64::from(row), at(bar.tolerances.unwrap_or(until)));
            let (height, colour) = (BAR - 4.0, SIDES[bar.side()].0);
            let (left, width) = (at(0.0), end - at(0.0));
            add(words(SEEDS - 6.0, y + 9.0, "end", &bar.seed.to_string()));
            add(format!(
                "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
            ));
            add(words(end + 6.0, y + 9.0, "start", &bar.text()));
        }
        add(rule(at(1.0), first, bottom, "#000"));
        add(words((at(0.0) + at(until)) / 2.0, bottom + 30.0, "middle", "off, in tolerances"));
        add(words(SEEDS - 6.0, bottom + 30.0, "end", "seed"));
    }
}

/// Steps of an axis that ends at so much: six at most, of 1, 2 or 5.
fn step(longest: f64) -> f64 {
    let steps = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    steps.into_iter().find(|step| longest / step <= 6.0).unwrap_or(longest)
}

/// The plot of a stored result, whose file is called `name`.
pub(super) fn svg(result: &Value, name: &str) -> Result<String> {
    let kinds = result.get("kinds").and_then(Value::as_array);
    let kinds = kinds.with_context(|| format!("{name} is no result of a soak of shares"))?;
    let panels = kinds.iter().map(Panel::of).collect::<Result<Vec<_>>>()?;
    let height = HEAD + panels.iter().map(Panel::height).sum::<f64>();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let mut add = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let number = |key: &str| result.get(key).and_then(Value::as_u64).unwrap_or(0);
    let seeds = format!("seeds {} to {}", number("from"), number("to").saturating_sub(1));
    let title = format!("{name}: the worst cases of {seeds}; 1 is at its tolerance");
    add(words(WIDTH / 2.0, 20.0, "middle", &title));
    for ((colour, side), at) in SIDES.iter().zip(0_u32..) {
        let x = SEEDS + 200.0 * f64::from(at);
        add(format!("<rect x=\"{x:.1}\" y=\"34.0\" width=\"12\" height=\"8\" fill=\"{colour}\"/>"));
        add(words(x + 18.0, 42.0, "start", side));
    }
    let mut top = HEAD;
    for panel in &panels {
        panel.draw(top, &mut add);
        top += panel.height();
    }
    out.push_str("</svg>\n");
    Ok(out)
}

fn rule(x: f64, from: f64, to: f64, colour: &str) -> String {
    format!("<path d=\"M{x:.1} {from:.1}L{x:.1} {to:.1}\" stroke=\"{colour}\"/>")
}

fn words(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let safe = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{safe}</text>")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_case_has_a_bar_with_its_seed() {
        let worst = |seed: u64, off: Option<f64>, points: f64| json!({ "seed": seed, "tolerances": off, "points": points });
        let kind = |name: &str, worst: Vec<Value>| {
            json!({
                "kind": name, "cases": 9, "broken": 1, "beyond_tolerance": 2, "worst": worst,
            })
        };
        let lone = kind(
            "lone",
            vec![worst(71, None, 0.0), worst(72, Some(32.8), 49.8), worst(73, Some(0.5), -0.7)],
        );
        let result = json!({ "from": 70, "to": 79, "kinds": [lone, kind("a<b", Vec::new())] });
        let text = svg(&result, "soak.json").unwrap();
        for said in [
            ">71<",
            ">72<",
            ">73<",
            "32.80 (+49.8 points)",
            "0.50 (-0.7 points)",
            ">broke<",
            "seeds 70 to 78",
            "lone: 2 of 9 beyond their tolerance, 1 broke",
            "a&lt;b",
            "off, in tolerances",
        ] {
            assert!(text.contains(said), "no {said} in {text}");
        }
        for ((colour, _), bars) in SIDES.iter().zip([1, 1, 1]) {
            // One more in the legend.
            assert_eq!(text.matches(&format!("fill=\"{colour}\"")).count(), bars + 1, "{text}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(svg(&json!({ "figures": [] }), "share.json").is_err());
    }

    #[test]
    fn an_axis_has_few_steps() {
        assert_eq!([1.0, 2.6, 6.4, 32.8, 95.0].map(step), [0.5, 0.5, 2.0, 10.0, 20.0]);
    }
}
