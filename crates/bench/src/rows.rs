//! Plots of rows: one for each thing measured, with its name, its values as dots, and the band they should lie in; or the
//! times in which something ran, as bars.

use super::plot::{PlotLine, Scale, WIDTH, number, rule, sheet, words};

/// The plots that are drawn so: what their names begin with, and the quantity of their axis.
const PLOTS: [(&str, &str); 3] = [
    (
        "throughput",
        "steps of all copies together, % of what one copy does alone; green: where they should be",
    ),
    ("link", "bytes moved in the time, % of what the link carries"),
    (TURNS, "s since the first step of the first copy; blue: the copy runs"),
];
/// Begin of the names of plots whose points are times from and until.
const TURNS: &str = "turns";

/// Room left of the values, right of them, above, below, and for each row.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 30.0;
const ABOVE: f64 = 36.0;
const BELOW: f64 = 50.0;
const ROW: f64 = 30.0;

/// Quantity of the axis of the plot of this name; `None` where it is no plot of rows.
pub(super) fn axis(plot: &str) -> Option<&'static str> {
    PLOTS.iter().find(|(name, _)| plot.starts_with(name)).map(|(_, axis)| *axis)
}

/// The plot of `lines`, a row each.
pub(super) fn svg(title: &str, axis: &str, lines: &[&PlotLine]) -> String {
    let is_spans = lines.iter().any(|line| line.plot.starts_with(TURNS));
    let value = |point: &(f64, f64)| if is_spans { point.1 } else { point.0 };
    let values = lines.iter().flat_map(|line| line.points.iter().map(value));
    let bands = lines.iter().flat_map(|line| line.band.into_iter().flatten());
    let scale = Scale::over(values.chain(bands));
    let bottom = ABOVE + ROW * lines.len() as f64;
    let height = bottom + BELOW;
    let at = |value: f64| LEFT + scale.part(value) * (WIDTH - RIGHT - LEFT);
    let mut out = sheet(WIDTH, height);
    let mut add = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    add(words(WIDTH / 2.0, ABOVE - 14.0, "middle", title));
    for (line, row) in lines.iter().zip(0_u32..) {
        let Some([from, until]) = line.band else { continue };
        let (left, right) = (at(from), at(until));
        add(format!(
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{ROW}\" fill=\"#009e73\" \
             fill-opacity=\"0.15\"/>",
            ABOVE + ROW * f64::from(row),
            (right - left).max(1.0)
        ));
    }
    for tick in scale.ticks() {
        add(rule(at(tick), ABOVE, at(tick), bottom));
        add(words(at(tick), bottom + 16.0, "middle", &number(tick)));
    }
    for (line, row) in lines.iter().zip(0_u32..) {
        let middle = ABOVE + ROW * (f64::from(row) + 0.5);
        add(words(LEFT - 8.0, middle + 4.0, "end", &line.name));
        add(rule(LEFT, middle, WIDTH - RIGHT, middle));
        for (value, until) in &line.points {
            if is_spans {
                add(format!(
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#0072b2\"/>",
                    at(*value),
                    middle - ROW / 3.0,
                    (at(*until) - at(*value)).max(0.5),
                    ROW / 1.5
                ));
                continue;
            }
            add(format!(
                "<circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"4\" fill=\"#0072b2\" fill-opacity=\"0.6\"/>",
                at(*value)
            ));
        }
    }
    add(words((LEFT + WIDTH - RIGHT) / 2.0, height - 12.0, "middle", axis));
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_name_its_values_and_its_band() {
        let row = |name: &str, values: &[f64], band| PlotLine {
            plot: "link".to_owned(),
            name: name.to_owned(),
            points: values.iter().map(|value| (*value, 0.0)).collect(),
            band,
        };
        let rows = [row("a<b", &[97.5, 98.0], Some([97.0, 100.0])), row("c", &[], None)];
        let text = svg("t", "x", &rows.iter().collect::<Vec<_>>());
        assert!(text.contains("a&lt;b") && text.contains(">c<"), "{text}");
        assert_eq!(text.matches("<circle").count(), 2, "{text}");
        assert_eq!(text.matches("fill-opacity=\"0.15\"").count(), 1, "{text}");
        assert!(!text.contains("NaN") && !svg("t", "x", &[]).contains("NaN"));
    }

    #[test]
    fn times_in_which_something_ran_are_bars() {
        let row = PlotLine {
            plot: "turns, 2 x 1 GiB".to_owned(),
            name: "divvy, copy 1".to_owned(),
            points: vec![(0.0, 9.5), (21.0, 30.0)],
            band: None,
        };
        let text = svg("t", "s", &[&row]);
        assert_eq!(text.matches("fill=\"#0072b2\"").count(), 2, "{text}");
        assert!(!text.contains("<circle") && text.contains(">30<"), "{text}");
    }

    #[test]
    fn only_plots_of_rows_have_one_axis() {
        assert!(axis("link").is_some() && axis("throughput, 2 x 1 GiB").is_some());
        assert_eq!(axis("share"), None);
    }
}
