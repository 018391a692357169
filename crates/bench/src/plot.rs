//! Plots as SVG: lines over two axes, with caps, goals, a legend and a source; and the parts of which all plots are made.
//!
//! Promises: a plot says itself what it shows, in which units, and where it comes from. Nothing else.

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
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlotStyle {
    /// Above it.
    pub(super) title: String,
    /// Quantities of the axes.
    pub(super) axes: [&'static str; 2],
    /// Caps in percent, a line each.
    pub(super) caps: Vec<f64>,
    /// Goal: from where to where values should lie, and between which places of the other axis.
    pub(super) goal: Option<[[f64; 2]; 2]>,
}

impl PlotStyle {
    /// The style of the plot of this name.
    pub(super) fn of(plot: &str) -> Self {
        match plot {
            CHANGE => Self {
                title: "A program whose cap changes from 30 to 70 % while it runs".to_owned(),
                axes: ["ms since the change", "share of the device's time in windows of 20 ms, %"],
                caps: vec![30.0, 70.0],
                goal: Some([[68.0, 72.0], [20.0, 1000.0]]),
            },
            LATENCY => Self {
                title: "Requests of 10 ms of work, alone and beside programs that flood the card"
                    .to_owned(),
                axes: [
                    "ms from a request's arrival to its end",
                    "answered within that time, % of all",
                ],
                caps: Vec::new(),
                goal: None,
            },
            _ => Self {
                title: format!("Programs beside each other: {plot}"),
                axes: [
                    "s since the first window",
                    "share of the device's time in windows of 0.1 s, %",
                ],
                caps: caps(plot),
                goal: None,
            },
        }
    }
}

/// Names of plots with a style of their own.
pub(super) const CHANGE: &str = "change";
pub(super) const LATENCY: &str = "latency";

/// The caps in a plot's name: the numbers of `caps of 20 and 30 %`, and not what is said of duty.
fn caps(plot: &str) -> Vec<f64> {
    let mut caps = Vec::new();
    let parts: Vec<&str> = plot.split(" %").collect();
    for pair in parts.windows(2) {
        if pair[1].starts_with(" duty") {
            continue;
        }
        let words =
            pair[0].rsplit(' ').take_while(|word| *word == "and" || word.parse::<u32>().is_ok());
        let mut found: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        found.reverse();
        caps.append(&mut found);
    }
    caps
}

pub(super) const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 470.0;
/// Room left, above, below; the legend is on the right.
const MARGINS: [f64; 3] = [60.0, 64.0, 68.0];
const LEGEND: f64 = 270.0;
/// Room before it, for names of caps.
const CAPS: f64 = 66.0;
/// Letters of a line of it.
const LETTERS: usize = 28;
/// Of where values should lie.
pub(super) const GOAL: &str = "#009e73";
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

/// The title of a plot.
pub(super) fn title(text: &str) -> String {
    styled(10.0, 24.0, "font-size=\"15\" font-weight=\"bold\"", text)
}

/// The origin of a plot whose last line of text is at `y`.
pub(super) fn origin(y: f64, source: &str) -> String {
    styled(10.0, y, "font-size=\"11\" fill=\"#666\"", &format!("Source: {source}"))
}

/// The plot of `lines`.
pub(super) fn svg(style: &PlotStyle, source: &str, lines: &[&PlotLine]) -> String {
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
    add(title(&style.title));
    let mut legend = Legend { x: right + CAPS, y: above };
    if let Some([[least, most], [from, until]]) = style.goal {
        let (left, top) = at((from.max(x.from), most.min(y.until)));
        let (right, bottom) = at((until.min(x.until), least.max(y.from)));
        add(rect(left, top, right - left, bottom - top, GOAL, 0.3));
    }
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
    for cap in style.caps.iter().filter(|cap| **cap <= y.until) {
        let (_, py) = at((x.from, *cap));
        add(format!(
            "<path d=\"M{left:.1} {py:.1}L{right:.1} {py:.1}\" stroke=\"#000\" stroke-dasharray=\"6 4\"/>"
        ));
        let label = format!("cap {} %", number(*cap));
        add(styled(right + 6.0, py + 4.0, "font-size=\"11\"", &label));
    }
    add(words((left + right) / 2.0, bottom + 34.0, "middle", style.axes[0]));
    add(words(10.0, above - 14.0, "start", style.axes[1]));
    for (line, at_row) in lines.iter().zip(0_usize..) {
        let colour = COLOURS[at_row % COLOURS.len()];
        let places: Vec<_> = line.points.iter().map(|point| at(*point)).collect();
        let path: Vec<_> = places.iter().map(|(px, py)| format!("{px:.1},{py:.1}")).collect();
        add(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            path.join(" ")
        ));
        legend.name(&rect(legend.x, legend.y, 12.0, 4.0, colour, 1.0), &line.name, &mut add);
    }
    if let Some([[least, most], _]) = style.goal {
        let words = format!("goal: {} to {} %", number(least), number(most));
        legend.name(&rect(legend.x, legend.y - 3.0, 12.0, 10.0, GOAL, 0.3), &words, &mut add);
    }
    add(origin(HEIGHT - 10.0, source));
    out.push_str("</svg>\n");
    out
}

/// The place of the next name of a legend.
struct Legend {
    x: f64,
    y: f64,
}

impl Legend {
    /// A mark and its name; a long name is of several lines.
    fn name(&mut self, mark: &str, name: &str, add: &mut impl FnMut(String)) {
        add(mark.to_owned());
        for line in broken(name, LETTERS) {
            add(words(self.x + 18.0, self.y + 6.0, "start", &line));
            self.y += 16.0;
        }
    }
}

/// A text in lines of at most so many letters, broken between words.
fn broken(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

pub(super) fn rect(x: f64, y: f64, width: f64, height: f64, colour: &str, opacity: f64) -> String {
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\" \
         fill-opacity=\"{opacity}\"/>"
    )
}

pub(super) fn rule(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!("<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"#ddd\"/>")
}

pub(super) fn words(x: f64, y: f64, anchor: &str, text: &str) -> String {
    styled(x, y, &format!("text-anchor=\"{anchor}\""), text)
}

/// A text with the attributes that say how it looks.
pub(super) fn styled(x: f64, y: f64, attributes: &str, text: &str) -> String {
    let mut safe = String::new();
    for character in text.trim().chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            other => safe.push(other),
        }
    }
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{safe}</text>")
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
        let style = PlotStyle {
            title: "t".to_owned(),
            axes: ["x", "y"],
            caps: vec![30.0],
            goal: Some([[28.0, 32.0], [0.0, 10.0]]),
        };
        let text = svg(&style, "here", &lines.iter().collect::<Vec<_>>());
        assert!(text.contains("a&lt;b") && text.matches("<polyline").count() == 2, "{text}");
        for said in [">t<", ">x<", ">y<", ">cap 30 %<", ">goal: 28 to 32 %<", ">Source: here<"] {
            assert!(text.contains(said), "no {said} in {text}");
        }
        assert!(!text.contains("NaN") && !svg(&style, "", &[]).contains("NaN"));
    }

    #[test]
    fn caps_are_read_from_a_plots_name() {
        assert_eq!(caps("tenants of 30 and 70 %, without a daemon"), [30.0, 70.0]);
        assert_eq!(caps("caps of 20 and 30 and 50 %"), [20.0, 30.0, 50.0]);
        assert_eq!(caps("50 % of 1 ms async beside a stranger of 20 % duty"), [50.0]);
        assert_eq!(caps("queues of 1 ms and a cap of 20 % for one"), [20.0]);
        assert!(caps("weights 1:3").is_empty());
        assert_eq!(PlotStyle::of(CHANGE).caps, [30.0, 70.0]);
    }

    #[test]
    fn long_names_are_of_several_lines() {
        assert_eq!(broken("one two three", 7), ["one two", "three"]);
        assert_eq!(broken("longer-than-a-line x", 7), ["longer-than-a-line", "x"]);
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
