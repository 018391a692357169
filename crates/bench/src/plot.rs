//! Plots as SVG: lines or dots over two axes, with a legend. Nothing else.

use std::fmt::Write as _;

/// Values over something, as a plot shows them.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct PlotLine {
    /// The plot it belongs to.
    pub(super) plot: String,
    /// Its name in the plot.
    pub(super) name: String,
    /// The values; a point that was not measured is absent.
    pub(super) points: Vec<(f64, f64)>,
    /// In a plot of rows: where its values should lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) band: Option<[f64; 2]>,
}

/// How a plot looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlotStyle<'a> {
    /// Above it.
    pub(super) title: &'a str,
    /// Quantities of the axes.
    pub(super) axes: [&'static str; 2],
    /// Dots instead of lines.
    pub(super) dots: bool,
}

pub(super) const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
/// Room left, above, below; the legend is on the right.
const MARGINS: [f64; 3] = [60.0, 36.0, 50.0];
const LEGEND: f64 = 210.0;
/// Told apart also by those who do not see red and green.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];

/// An axis from zero or below to a round number.
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) until: f64,
    step: f64,
}

impl Scale {
    pub(super) fn over(values: impl Iterator<Item = f64> + Clone) -> Self {
        let most = values.clone().fold(f64::MIN, f64::max);
        let least = values.fold(0.0, f64::min);
        let span = if most > least { most - least } else { 1.0 };
        let magnitude = 10_f64.powf((span / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * magnitude);
        let step = step.into_iter().find(|step| span / step <= 6.0).unwrap_or(span);
        let from = (least / step).floor() * step;
        let until = ((least + span) / step).ceil().max((from / step) + 1.0) * step;
        Self { from, until, step }
    }

    pub(super) fn part(&self, value: f64) -> f64 {
        (value - self.from) / (self.until - self.from)
    }

    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        let count = ((self.until - self.from) / self.step).round() as u32;
        (0..=count).map(|n| self.from + f64::from(n) * self.step)
    }
}

/// The beginning of a plot: its size, and white below all.
pub(super) fn sheet(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    )
}

/// The plot of `lines`.
pub(super) fn svg(style: &PlotStyle<'_>, lines: &[&PlotLine]) -> String {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (x, y) = (Scale::over(points().map(|point| point.0)), Scale::over(points().map(|p| p.1)));
    let [left, above, below] = MARGINS;
    let (right, bottom) = (WIDTH - LEGEND, HEIGHT - below);
    let at = |(px, py): (f64, f64)| {
        (left + x.part(px) * (right - left), bottom - y.part(py) * (bottom - above))
    };
    let mut out = sheet(WIDTH, HEIGHT);
    let mut add = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    add(words((left + right) / 2.0, above - 14.0, "middle", style.title));
    for tick in x.ticks() {
        let (px, _) = at((tick, y.from));
        add(rule(px, above, px, bottom));
        add(words(px, bottom + 16.0, "middle", &number(tick)));
    }
    for tick in y.ticks() {
        let (_, py) = at((x.from, tick));
        add(rule(left, py, right, py));
        add(words(left - 6.0, py + 4.0, "end", &number(tick)));
    }
    add(words((left + right) / 2.0, HEIGHT - 12.0, "middle", style.axes[0]));
    add(words(left - 44.0, above - 14.0, "start", style.axes[1]));
    for (line, at_row) in lines.iter().zip(0_u32..) {
        let colour = COLOURS[at_row as usize % COLOURS.len()];
        let places: Vec<_> = line.points.iter().map(|point| at(*point)).collect();
        if style.dots {
            for (px, py) in &places {
                add(format!(
                    "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\" fill=\"{colour}\" fill-opacity=\"0.6\"/>"
                ));
            }
        } else {
            let path: Vec<_> = places.iter().map(|(px, py)| format!("{px:.1},{py:.1}")).collect();
            add(format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                path.join(" ")
            ));
        }
        let row = above + 16.0 * f64::from(at_row);
        add(format!(
            "<rect x=\"{:.1}\" y=\"{row:.1}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>",
            right + 10.0
        ));
        add(words(right + 28.0, row + 6.0, "start", &line.name));
    }
    out.push_str("</svg>\n");
    out
}

pub(super) fn rule(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!("<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"#ddd\"/>")
}

pub(super) fn words(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let mut safe = String::new();
    for character in text.trim().chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            other => safe.push(other),
        }
    }
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{safe}</text>")
}

pub(super) fn number(value: f64) -> String {
    let mut text = String::new();
    // A string takes everything.
    let _ = write!(text, "{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_shows_every_point_and_name() {
        let line = |name: &str, points: Vec<(f64, f64)>| PlotLine {
            plot: "p".to_owned(),
            name: name.to_owned(),
            points,
            band: None,
        };
        let lines = [line("a<b", vec![(0.0, 1.0), (10.0, 98.0)]), line("c", vec![(-5.0, 30.0)])];
        let style = PlotStyle { title: "t", axes: ["x", "y"], dots: false };
        let text = svg(&style, &lines.iter().collect::<Vec<_>>());
        assert!(text.contains("a&lt;b") && text.matches("<polyline").count() == 2, "{text}");
        let dots = svg(&PlotStyle { dots: true, ..style }, &lines.iter().collect::<Vec<_>>());
        assert_eq!(dots.matches("<circle").count(), 3);
        assert!(!text.contains("NaN") && !svg(&style, &[]).contains("NaN"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        let scale = Scale::over([3.0, 97.0].into_iter());
        assert_eq!((scale.from, scale.until, scale.step), (0.0, 100.0, 20.0));
        let scale = Scale::over([-500.0, 980.0].into_iter());
        assert!(scale.from <= -500.0 && scale.until >= 980.0);
        assert_eq!(number(-0.0), "0");
        assert_eq!(number(2.50), "2.5");
    }
}
