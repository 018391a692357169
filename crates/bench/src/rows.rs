//! Plots of rows: one for each thing measured, with its name, its values as dots, and the band they should lie in; or the
//! times in which something ran, as bars.

use super::plot::{
    GOAL, PlotLine, Scale, WIDTH, number, origin, rect, rule, sheet, styled, title, words,
};

/// How a plot of rows looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RowsStyle {
    /// Begin of its name; the rest of it stands in the title.
    begin: &'static str,
    title: &'static str,
    axis: &'static str,
    /// Meaning of its dots, or of its bars.
    mark: &'static str,
    is_spans: bool,
}

/// The plots that are drawn so.
const PLOTS: [RowsStyle; 3] = [
    RowsStyle {
        begin: "throughput",
        title: "Copies of a program whose memory together may exceed the card",
        axis: "steps of all copies together, % of those of one copy alone",
        mark: "measured",
        is_spans: false,
    },
    RowsStyle {
        begin: "link",
        title: "Memory that leaves the card and comes back: how fast, beside the link",
        axis: "bytes moved in the time, % of those that the link carries in it",
        mark: "measured, a dot each time",
        is_spans: false,
    },
    RowsStyle {
        begin: "turns",
        title: "Copies of a program that take turns on the card",
        axis: "s since the first step of the first copy",
        mark: "the copy runs",
        is_spans: true,
    },
];
const MARK: &str = "#0072b2";

/// Room left of the values, right of them, above, below, and for each row.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 30.0;
const ABOVE: f64 = 64.0;
const BELOW: f64 = 68.0;
const ROW: f64 = 30.0;

/// Style of the plot of this name; `None` where it is no plot of rows.
pub(super) fn style(plot: &str) -> Option<&'static RowsStyle> {
    PLOTS.iter().find(|style| plot.starts_with(style.begin))
}

/// The plot of `lines`, a row each.
pub(super) fn svg(style: &RowsStyle, plot: &str, source: &str, lines: &[&PlotLine]) -> String {
    let value = |point: &(f64, f64)| if style.is_spans { point.1 } else { point.0 };
    let values = lines.iter().flat_map(|line| line.points.iter().map(value));
    let bands = || lines.iter().flat_map(|line| line.band.into_iter().flatten());
    let scale = Scale::over(values.chain(bands()));
    let bottom = ABOVE + ROW * lines.len() as f64;
    let height = bottom + BELOW;
    let at = |value: f64| LEFT + scale.part(value) * (WIDTH - RIGHT - LEFT);
    let mut out = sheet(WIDTH, height);
    let mut add = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let of = plot.strip_prefix(style.begin).unwrap_or_default().trim_start_matches(", ");
    let of = if of.is_empty() { String::new() } else { format!(": {of}") };
    add(title(&format!("{}{of}", style.title)));
    // The legend.
    add(mark(style, 14.0, 24.0, 44.0));
    add(styled(28.0, 48.0, "font-size=\"11\"", style.mark));
    if bands().next().is_some() {
        add(rect(190.0, 38.0, 16.0, 12.0, GOAL, 0.3));
        add(styled(212.0, 48.0, "font-size=\"11\"", "goal"));
    }
    for (line, row) in lines.iter().zip(0_u32..) {
        let Some([from, until]) = line.band else { continue };
        let (left, right) = (at(from), at(until));
        let top = ABOVE + ROW * f64::from(row);
        add(rect(left, top, (right - left).max(1.0), ROW, GOAL, 0.3));
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
            add(mark(style, at(*value), at(*until), middle));
        }
    }
    add(words((LEFT + WIDTH - RIGHT) / 2.0, bottom + 34.0, "middle", style.axis));
    add(origin(height - 10.0, source));
    out.push_str("</svg>\n");
    out
}

/// A value, or the time from one place to the other.
fn mark(style: &RowsStyle, x: f64, until: f64, middle: f64) -> String {
    if style.is_spans {
        return rect(x, middle - ROW / 3.0, (until - x).max(0.5), ROW / 1.5, MARK, 1.0);
    }
    format!(
        "<circle cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"4\" fill=\"{MARK}\" fill-opacity=\"0.6\"/>"
    )
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
        let link = style("link").unwrap();
        let text = svg(link, "link", "here", &rows.iter().collect::<Vec<_>>());
        assert!(text.contains("a&lt;b") && text.contains(">c<"), "{text}");
        // The legend has one of each.
        assert_eq!(text.matches("<circle").count(), 3, "{text}");
        assert_eq!(text.matches("fill-opacity=\"0.3\"").count(), 2, "{text}");
        assert!(text.contains(">goal<") && text.contains(">Source: here<"), "{text}");
        let none = svg(link, "link", "", &[]);
        assert!(!text.contains("NaN") && !none.contains("NaN") && !none.contains(">goal<"));
    }

    #[test]
    fn times_in_which_something_ran_are_bars() {
        let row = PlotLine {
            plot: "turns, 2 x 1 GiB".to_owned(),
            name: "divvy, copy 1".to_owned(),
            points: vec![(0.0, 9.5), (21.0, 30.0)],
            band: None,
        };
        let text = svg(style(&row.plot).unwrap(), &row.plot, "here", &[&row]);
        assert_eq!(text.matches("fill=\"#0072b2\"").count(), 3, "two, and the legend's: {text}");
        assert!(text.contains("turns on the card: 2 x 1 GiB<"), "{text}");
        assert!(!text.contains("<circle") && text.contains(">30<"), "{text}");
    }

    #[test]
    fn only_plots_of_rows_have_such_a_style() {
        assert!(style("link").is_some() && style("throughput, 2 x 1 GiB").is_some());
        assert_eq!(style("share"), None);
    }
}
