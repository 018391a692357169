//! Plots of rows: one for each thing measured, with its name, its values as dots, and the band they should lie in.

use super::plot::{PlotLine, Scale, WIDTH, number, rule, sheet, words};

/// The plots that are drawn so: their names, and the quantity of their axis.
const PLOTS: [(&str, &str); 2] = [
    (
        "throughput",
        "steps of all copies together, % of what one copy does alone on the bare driver",
    ),
    ("link", "bytes moved in the time, % of what the link carries"),
];

/// Room left of the values, right of them, above, below, and for each row.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 30.0;
const ABOVE: f64 = 36.0;
const BELOW: f64 = 50.0;
const ROW: f64 = 30.0;

/// Quantity of the axis of the plot of this name; `None` where it is no plot of rows.
pub(super) fn axis(plot: &str) -> Option<&'static str> {
    PLOTS.iter().find(|(name, _)| *name == plot).map(|(_, axis)| *axis)
}

/// The plot of `lines`, a row each.
pub(super) fn svg(title: &str, axis: &str, lines: &[&PlotLine]) -> String {
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
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
        for (value, _) in &line.points {
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
    fn only_plots_of_rows_have_one_axis() {
        assert!(axis("link").is_some() && axis("throughput").is_some());
        assert_eq!(axis("share"), None);
    }
}
