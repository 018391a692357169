//! Result of a benchmark: figures, their samples by side, a table, a JSON file.
//!
//! Only medians are compared, and always within one run; the samples are stored so that anybody can
//! look at their spread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::plot::{self, PlotLine, PlotStyle};
use super::{panels, rows};
use divvy_command::output::table::TextTable;

/// Begin of the reason why a side was not measured at all, which is no failure.
pub(super) const LEFT_OUT: &str = "left out: ";

/// Kind of a figure's goal.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    /// Divvy's median less native's.
    Added(f64),
    /// Divvy's median.
    AtMost(f64),
    /// Divvy's median, from below.
    AtLeast(f64),
    /// Divvy's median over native's.
    Ratio(f64),
    /// Divvy's median over native's, from below.
    Kept(f64),
    /// How far Divvy's median may lie from a value: that value, and the distance.
    Within(f64, f64),
    /// Divvy's median less native's, at most the first value or the second times what nvshare adds.
    AddedOrNvshare(f64, f64),
    /// Divvy's median less native's, within the span of native's own samples.
    Spread,
    /// None: the figure is shown.
    None,
}

/// One figure.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Figure {
    /// Its name.
    pub(super) name: String,
    /// The metric of GPU-Virt-Bench that asks the same question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'static str>,
    /// Unit of its values.
    pub(super) unit: &'static str,
    /// Goal for Divvy.
    pub(super) goal: Goal,
    /// Values by side, in the order measured.
    pub(super) samples: BTreeMap<String, Vec<f64>>,
    /// Medians by side.
    pub(super) medians: BTreeMap<String, f64>,
    /// Why a side has no value.
    pub(super) failures: BTreeMap<String, String>,
}

impl Figure {
    /// A figure without values.
    pub(super) fn new(name: impl Into<String>, unit: &'static str, goal: Goal) -> Self {
        Self {
            name: name.into(),
            id: None,
            unit,
            goal,
            samples: BTreeMap::new(),
            medians: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// A figure that could not be measured, because the bare driver's own part could not: nothing stands beside it.
    pub(super) fn without_value(name: &str, why: &anyhow::Error) -> Self {
        let mut figure = Self::new(name, "", Goal::None);
        figure.failures.insert("native".to_owned(), format!("{why:#}"));
        figure
    }

    /// The same with the id of GPU-Virt-Bench's metric.
    pub(super) fn known_as(self, id: &'static str) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Adds what one sample of `side` gave.
    pub(super) fn take(&mut self, side: &str, sample: Result<f64>) {
        match sample {
            Ok(value) => {
                let samples = self.samples.entry(side.to_owned()).or_default();
                samples.push(value);
                if let Some(median) = median(samples) {
                    self.medians.insert(side.to_owned(), median);
                }
            }
            Err(error) => {
                self.failures.insert(side.to_owned(), format!("{error:#}"));
            }
        }
    }

    /// Adds samples of which one is judged and shown for all, not the middle.
    pub(super) fn take_all(&mut self, side: &str, samples: Vec<f64>, judged: f64) {
        self.samples.entry(side.to_owned()).or_default().extend(samples);
        self.medians.insert(side.to_owned(), judged);
    }

    /// Whether a side failed before: not tried again.
    pub(super) fn has_failed(&self, side: &str) -> bool {
        self.failures.contains_key(side)
    }

    /// Whether a side was measured and has no value.
    fn is_spoilt(&self, side: &str) -> bool {
        self.failures.get(side).is_some_and(|why| !why.starts_with(LEFT_OUT))
    }

    /// Whether there is anything to say of it.
    pub(super) fn is_told(&self) -> bool {
        !self.medians.is_empty() || !self.failures.is_empty()
    }

    /// Takes all values back: what they were measured by did not hold.
    pub(super) fn void(&mut self, why: &str) {
        for side in std::mem::take(&mut self.medians).into_keys() {
            self.failures.insert(side, why.to_owned());
        }
    }

    fn added(&self, side: &str) -> Option<f64> {
        Some(self.medians.get(side)? - self.medians.get("native")?)
    }

    /// Whether Divvy reached the goal; `None` where there is no goal or nothing to judge by.
    pub(super) fn is_met(&self) -> Option<bool> {
        let divvy = *self.medians.get("divvy")?;
        match self.goal {
            Goal::Added(most) => Some(self.added("divvy")? <= most),
            Goal::AtMost(most) => Some(divvy <= most),
            Goal::AtLeast(least) => Some(divvy >= least),
            Goal::Ratio(most) => Some(divvy <= most * self.medians.get("native")?),
            Goal::Kept(least) => Some(divvy >= least * self.medians.get("native")?),
            Goal::Within(value, distance) => Some((divvy - value).abs() <= distance),
            Goal::AddedOrNvshare(most, part) => {
                let added = self.added("divvy")?;
                Some(
                    added <= most || self.added("nvshare").is_some_and(|peer| added <= part * peer),
                )
            }
            Goal::Spread => Some(self.added("divvy")? <= self.native_spread()?),
            Goal::None => None,
        }
    }

    fn native_spread(&self) -> Option<f64> {
        let samples = self.samples.get("native")?;
        let most = samples.iter().copied().reduce(f64::max)?;
        Some(most - samples.iter().copied().reduce(f64::min)?)
    }
}

/// The middle value.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted.get(middle.checked_sub(1)?)? + upper) / 2.0)
}

/// All figures of one run.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    /// Which benchmark.
    pub(super) benchmark: &'static str,
    version: &'static str,
    date: String,
    /// The driver measured on.
    pub(super) driver: String,
    /// The cards of the machine, where they are no simulated ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) card: Option<String>,
    processor: String,
    processors: usize,
    kernel: String,
    /// The sides, in the order of the table.
    pub(super) sides: Vec<String>,
    /// The figures.
    pub(super) figures: Vec<Figure>,
    /// Source of figures and of plots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<PlotLine>,
}

impl Report {
    /// An empty report of this machine and moment.
    pub(super) fn new(benchmark: &'static str, driver: String, sides: Vec<String>) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let name = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            benchmark,
            version: env!("CARGO_PKG_VERSION"),
            date: date(Timestamp::now()),
            driver,
            card: None,
            processor: name.map(|(_, name)| name.trim().to_owned()).unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            sides,
            figures: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Whether a goal was missed or a side of ours failed.
    pub(super) fn missed(&self) -> bool {
        self.figures.iter().any(|figure| {
            figure.is_met() == Some(false)
                || figure.is_spoilt("native")
                || figure.is_spoilt("divvy")
        })
    }

    /// Stores the report in `directory` and says where.
    pub(super) fn store(&self, directory: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("{} cannot be made", directory.display()))?;
        let day = self.date.get(..10).unwrap_or("undated");
        let driver: String =
            self.driver.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let driver = driver.to_lowercase().replace("--", "-");
        let mut path = directory.join(format!("{}-{driver}-{day}.json", self.benchmark));
        // A second run of the day is a result of its own.
        for again in 2.. {
            if !path.exists() {
                break;
            }
            path = directory.join(format!("{}-{driver}-{day}-{again}.json", self.benchmark));
        }
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(&path, text)
            // Half a result is none.
            .inspect_err(|_| drop(std::fs::remove_file(&path)))
            .with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }

    /// Stores the plots beside the report.
    pub(super) fn draw(&self, report: &Path) -> Result<()> {
        let stem = report.file_stem().unwrap_or_default().to_string_lossy();
        let store = |name: &str, drawn: String| {
            let words = name.split(|c: char| !c.is_ascii_alphanumeric());
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            let path = report.with_file_name(format!("{stem}-{}.svg", words.join("-")));
            std::fs::write(&path, drawn)
                .with_context(|| format!("{} cannot be written", path.display()))
        };
        let source = self.source(report);
        let figures = serde_json::to_value(&self.figures)?;
        for side in self.sides.iter().filter(|side| *side != "native") {
            let drawn = panels::svg(figures.as_array().map_or(&[], Vec::as_slice), side, &source);
            let name = if side == "divvy" { "share" } else { side };
            drawn.map_or(Ok(()), |drawn| store(name, drawn))?;
        }
        // Its cells' dots have no names; the panels above show them.
        let lines = || self.lines.iter().filter(|line| line.plot != panels::DOTS);
        let mut plots: Vec<&str> = lines().map(|line| line.plot.as_str()).collect();
        plots.dedup();
        for plot in plots {
            let lines: Vec<_> = lines().filter(|line| line.plot == plot).collect();
            let drawn = match rows::style(plot) {
                Some(style) => rows::svg(style, plot, &source, &lines),
                None => plot::svg(&PlotStyle::of(plot), &source, &lines),
            };
            store(plot, drawn)?;
        }
        Ok(())
    }

    /// Origin of a plot: file, command, card, driver and day.
    fn source(&self, report: &Path) -> String {
        let file = report.file_name().unwrap_or_default().to_string_lossy();
        let card = self.card.as_deref().map(|card| format!(" on {card}")).unwrap_or_default();
        let day = self.date.get(..10).unwrap_or("undated");
        let driver = self.driver.trim_start_matches("NVIDIA ");
        format!("{file}: divvy bench {}{card}, driver {driver}, {day}", self.benchmark)
    }

    /// The table.
    pub(super) fn table(&self) -> String {
        let mut head: Vec<&'static str> = vec!["FIGURE", "UNIT"];
        // Names live as long as the program: there are a handful of sides.
        head.extend(self.sides.iter().map(|side| &*format!(">{side}").leak()));
        head.extend([">added", "GOAL", "MET"]);
        let mut table = TextTable::new(&head);
        for figure in &self.figures {
            let value = |side: &String| match figure.medians.get(side) {
                Some(median) => text(*median),
                None => figure.failures.get(side).map_or("-".to_owned(), |why| failed(why)),
            };
            let id = figure.id.map(|id| format!(" ({id})")).unwrap_or_default();
            let mut cells = vec![format!("{}{id}", figure.name), figure.unit.to_owned()];
            cells.extend(self.sides.iter().map(value));
            // Beside a bound on the figure itself the difference says nothing.
            let is_bound =
                matches!(figure.goal, Goal::AtMost(_) | Goal::AtLeast(_) | Goal::Within(..));
            let added = figure.added("divvy").filter(|_| !is_bound);
            cells.push(added.map_or_else(|| "-".to_owned(), text));
            cells.push(match figure.goal {
                Goal::Added(most) => format!("added <= {}", text(most)),
                Goal::AtMost(most) => format!("<= {}", text(most)),
                Goal::AtLeast(least) => format!(">= {}", text(least)),
                Goal::Ratio(most) => format!("<= {} x native", text(most)),
                Goal::Kept(least) => format!(">= {} x native", text(least)),
                Goal::Within(value, distance) => format!("{} +- {}", text(value), text(distance)),
                Goal::AddedOrNvshare(most, part) => {
                    format!("added <= {} or {} x nvshare's", text(most), text(part))
                }
                Goal::Spread => format!(
                    "added <= {} (native's spread)",
                    figure.native_spread().map_or_else(|| "-".to_owned(), text)
                ),
                Goal::None => String::new(),
            });
            cells.push(match figure.is_met() {
                Some(true) => "yes".to_owned(),
                Some(false) => "NO".to_owned(),
                None => String::new(),
            });
            table.row(cells);
        }
        let mut out = table.to_string();
        for figure in &self.figures {
            for (side, why) in &figure.failures {
                let failed = if why.starts_with(LEFT_OUT) { "" } else { "failed: " };
                out.push_str(&format!("\n{} of {side} {failed}{why}", figure.name));
            }
        }
        if out.ends_with('\n') { out } else { out + "\n" }
    }
}

/// A side without a value: a time that was not enough is one, of a kind.
fn failed(why: &str) -> String {
    match why.strip_prefix("no answer within ") {
        Some(time) => format!("> {time}"),
        None if why.starts_with("void: ") => "void".to_owned(),
        None if why.starts_with(LEFT_OUT) => "left out".to_owned(),
        None => "failed".to_owned(),
    }
}

/// A number as a table shows it: three figures, thousands separated.
fn text(value: f64) -> String {
    if value.abs() < 100.0 && value.fract() != 0.0 {
        let text = if value.abs() < 1.0 { format!("{value:.3}") } else { format!("{value:.2}") };
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value <= -0.5 { format!("-{text}") } else { text }
}

/// The time in UTC, as `2026-11-21T07:05:09Z`.
fn date(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(goal: Goal, native: f64, divvy: f64) -> Figure {
        let mut figure = Figure::new("pair", "ns", goal);
        for (side, value) in [("native", native), ("divvy", divvy)] {
            figure.take(side, Ok(value));
        }
        figure
    }

    #[test]
    fn goals_are_met_or_missed() {
        for (goal, native, divvy, met) in [
            (Goal::Added(300.0), 100.0, 400.0, Some(true)),
            (Goal::Added(300.0), 100.0, 401.0, Some(false)),
            (Goal::AtMost(5.0), 9.0, 5.0, Some(true)),
            (Goal::AtLeast(99.5), 0.0, 99.4, Some(false)),
            (Goal::Ratio(2.0), 4.0, 8.1, Some(false)),
            (Goal::Kept(0.98), 100.0, 98.5, Some(true)),
            (Goal::Kept(0.98), 100.0, 97.0, Some(false)),
            (Goal::Within(30.0, 1.0), 99.0, 30.9, Some(true)),
            (Goal::Within(30.0, 1.0), 99.0, 28.9, Some(false)),
            (Goal::AddedOrNvshare(50.0, 0.8), 100.0, 160.0, Some(false)),
            (Goal::None, 4.0, 8.1, None),
        ] {
            assert_eq!(figure(goal, native, divvy).is_met(), met, "{goal:?}");
        }
        assert_eq!(Figure::new("x", "ns", Goal::AtMost(1.0)).is_met(), None);
        let mut exec = figure(Goal::AddedOrNvshare(50.0, 0.8), 100.0, 160.0);
        exec.take("nvshare", Ok(177.0));
        assert_eq!(exec.is_met(), Some(true));
        let mut noisy = figure(Goal::Spread, 100.0, 108.0);
        assert_eq!(noisy.is_met(), Some(false));
        noisy.take("native", Ok(110.0));
        assert_eq!(noisy.is_met(), Some(true));
    }

    #[test]
    fn the_table_reads_well_and_names_what_failed() {
        let mut report = Report::new("overhead", "d".to_owned(), vec![]);
        report.sides = ["native", "divvy", "hami"].map(str::to_owned).to_vec();
        let mut one = figure(Goal::Added(300.0), 1200.5, 1400.0);
        one.take("hami", Err(anyhow::anyhow!("no answer within 60 s")));
        report.figures.push(one);
        assert_eq!(
            report.table(),
            "\
FIGURE  UNIT  native  divvy    hami  added  GOAL          MET
pair    ns     1,200  1,400  > 60 s    200  added <= 300  yes

pair of hami failed: no answer within 60 s
"
        );
        assert!(!report.missed());
    }

    #[test]
    fn a_plot_names_its_file_its_command_its_card_and_its_day() {
        let mut report = Report::new("share", "NVIDIA 580.1".to_owned(), vec![]);
        report.date = "2026-11-28T13:39:53Z".to_owned();
        let source = |report: &Report| report.source(Path::new("/a/b.json"));
        assert_eq!(source(&report), "b.json: divvy bench share, driver 580.1, 2026-11-28");
        report.card = Some("NVIDIA H100".to_owned());
        assert!(source(&report).contains("share on NVIDIA H100, driver"));
    }

    #[test]
    fn medians_dates_and_numbers() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        for (seconds, nanoseconds, words) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_827_696, 0, "2000-02-29T12:34:56Z"),
            (1_795_244_709, 0, "2026-11-21T07:05:09Z"),
            (1_795_244_709, 999_999_999, "2026-11-21T07:05:09Z"),
        ] {
            assert_eq!(date(Timestamp::new(seconds, nanoseconds).unwrap()), words);
        }
        for (value, words) in [
            (0.0, "0"),
            (2.123, "2.12"),
            (-0.5, "-0.5"),
            (0.9994, "0.999"),
            (1234567.0, "1,234,567"),
            (300.0, "300"),
        ] {
            assert_eq!(text(value), words);
        }
    }
}
