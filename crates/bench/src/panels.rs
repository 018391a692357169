//! Plot of shares under caps: a row for each program, a panel for each cap, out of a result's figures.
//!
//! Promises: all that is drawn stands in the result, and every cell of it that has a share is drawn. In a panel the cap is
//! a line in the middle, the goals are bands around what the cell should have, the share is a mark, and a bar reaches as
//! far as the farthest window of a second was off. Numbers stand beside it, so that what lies beyond the axis is told
//! too. Does not judge otherwise than the figures' goals do.

use serde_json::Value;

use super::plot::{GOAL, number, origin, rect, sheet, styled, title};

/// Name of a plot of a result's lines that has no names of cells: those that this one shows instead.
pub(super) const DOTS: &str = "share";

/// Points on each side of a cap that an axis shows, and between its ticks.
const POINTS: f64 = 6.0;
const TICK: f64 = 3.0;
/// Begin of the names of figures of cells, the cap in them, and the end of those of their windows.
const BEGIN: &str = "share, ";
const AT: &str = " at ";
const WINDOWS: &str = ", worst 1 s window off by";

/// Height of a row, of all above the rows, of the axes and of a note below them.
const ROW: f64 = 20.0;
const ABOVE: f64 = 112.0;
const AXES: f64 = 48.0;
const NOTE: f64 = 16.0;
/// Width of a panel, of that what its numbers have, and where they end; of a letter of a program's name; and least of all.
const PANEL: f64 = 210.0;
const NUMBERS: f64 = 82.0;
const HAS_AT: f64 = 38.0;
const OFF_AT: f64 = 72.0;
const LETTER: f64 = 6.4;
const LEAST_WIDTH: f64 = 820.0;
/// Told apart also by those who do not see red and green: as it should be, and not.
const MET: &str = "#0072b2";
const MISSED: &str = "#d55e00";
const FAINT: &str = "#666";

/// Ways to submit kernels, as names of cells have them, in words.
const MODES: [(&str, &str); 8] = [
    ("sync", "each waited for"),
    ("async", "in a queue"),
    ("graph", "as CUDA graphs"),
    ("ex", "by cuLaunchKernelEx"),
    ("cooperative", "launched cooperatively"),
    ("streams", "on four streams"),
    ("copy", "each behind a copy"),
    ("paced", "one every 20 µs"),
];

/// A program under a cap.
#[derive(Debug)]
struct Share {
    program: String,
    cap: f64,
    /// In percent: measured, what it should be, and how far from that it may be.
    measured: f64,
    target: f64,
    within: f64,
    /// The farthest window of a second, and how far it may be.
    window: Option<(f64, Option<f64>)>,
}

impl Share {
    /// One side's, of a figure; `None` where it is of something else, or has no value.
    fn of(figure: &Value, all: &[Value], side: &str) -> Option<Self> {
        let name = figure.get("name")?.as_str()?;
        let (program, cap) = cell(name.strip_prefix(BEGIN)?)?;
        let goal = figure.get("goal")?.get("within")?;
        let bound = |at: usize| goal.get(at).and_then(Value::as_f64);
        let worst = format!("{name}{WINDOWS}");
        let worst = all.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(&*worst));
        let most = |worst: &Value| worst.get("goal")?.get("at_most")?.as_f64();
        Some(Self {
            program: in_words(&program),
            cap,
            measured: median(figure, side)?,
            target: bound(0)?,
            within: bound(1)?,
            window: worst.and_then(|worst| Some((median(worst, side)?, most(worst)))),
        })
    }

    /// Whether its goal is within the axis of its cap.
    fn is_on_axis(&self) -> bool {
        (self.target - self.cap).abs() + self.within <= POINTS
    }

    fn is_met(&self) -> bool {
        (self.measured - self.target).abs() <= self.within
    }

    /// Whether the farthest window is near enough; `None` where it need not be.
    fn is_window_met(&self) -> Option<bool> {
        self.window.and_then(|(off, most)| Some(off <= most?))
    }
}

fn median(figure: &Value, side: &str) -> Option<f64> {
    figure.get("medians")?.get(side)?.as_f64()
}

/// The program and the cap of `5 us sync at 30 %`; what follows the cap belongs to the program.
fn cell(name: &str) -> Option<(String, f64)> {
    let (program, rest) = name.rsplit_once(AT)?;
    let (cap, rest) = rest.split_once(" %")?;
    Some((format!("{program}{rest}"), cap.parse().ok()?))
}

/// A program's name with its way to submit in words.
fn in_words(program: &str) -> String {
    let words = program.rsplit_once(' ').and_then(|(length, mode)| {
        let mode = MODES.iter().find(|(name, _)| *name == mode)?.1;
        // Other programs may end in such a word.
        let is_length =
            length.split(' ').count() == 2 && length.starts_with(|c: char| c.is_ascii_digit());
        is_length.then(|| format!("{length} kernels, {mode}"))
    });
    words.unwrap_or_else(|| program.to_owned()).replace(" us", " µs")
}

/// The order in which things come first.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

/// The plot of what `side` gave, below which its `source` is named; `None` where no cell has a share.
pub(super) fn svg(figures: &[Value], side: &str, source: &str) -> Option<String> {
    let shares: Vec<Share> =
        figures.iter().filter_map(|figure| Share::of(figure, figures, side)).collect();
    let programs = distinct(shares.iter().map(|share| share.program.as_str()));
    let mut caps = distinct(shares.iter().map(|share| share.cap));
    caps.sort_by(f64::total_cmp);
    let longest = programs.iter().map(|program| program.chars().count()).max()?;
    let left = longest as f64 * LETTER + 20.0;
    let width = (left + PANEL * caps.len() as f64).max(LEAST_WIDTH).ceil();
    let bottom = ABOVE + ROW * programs.len() as f64;
    let notes = notes(&shares);
    let height = bottom + AXES + NOTE * (notes.len() as f64 + 1.5);
    let mut out = sheet(width, height);
    let mut add = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    head(&shares, side).into_iter().for_each(&mut add);
    let has_windows = shares.iter().any(|share| share.window.is_some());
    for (program, row) in programs.iter().zip(0_u32..) {
        let y = ABOVE + ROW * f64::from(row);
        if row % 2 == 0 {
            add(rect(0.0, y, width, ROW, "#000", 0.04));
        }
        add(styled(left - 10.0, y + 14.0, "text-anchor=\"end\"", program));
    }
    for (cap, at) in caps.iter().zip(0_u32..) {
        let from = left + PANEL * f64::from(at);
        let axis = Axis { from, until: from + PANEL - NUMBERS, cap: *cap };
        axis.frame(bottom, has_windows, &mut add);
        for share in shares.iter().filter(|share| share.cap == *cap) {
            let row = programs.iter().position(|program| *program == share.program);
            axis.draw(share, ABOVE + ROW * row.unwrap_or(0) as f64, &mut add);
        }
    }
    for (note, at) in notes.iter().zip(1_u32..) {
        let y = bottom + AXES + NOTE * f64::from(at) - 4.0;
        add(styled(10.0, y, &format!("font-size=\"11\" fill=\"{FAINT}\""), note));
    }
    add(origin(height - 10.0, source));
    out.push_str("</svg>\n");
    Some(out)
}

/// Title, how many goals are met, and the legend.
fn head(shares: &[Share], side: &str) -> Vec<String> {
    let of = if side == "divvy" { "Divvy" } else { side };
    let what = format!("Device time that a program gets under {of}'s cap");
    let met = shares.iter().filter(|share| share.is_met()).count();
    let windows: Vec<bool> = shares.iter().filter_map(Share::is_window_met).collect();
    let mut counted = format!(
        "One program at a time, each under each cap: {met} of {} shares meet their goal",
        shares.len()
    );
    if !windows.is_empty() {
        let met = windows.iter().filter(|met| **met).count();
        counted += &format!(", and so do all windows of 1 s in {met} of {}", windows.len());
    }
    let mut lines =
        vec![title(&what), styled(10.0, 44.0, &format!("fill=\"{FAINT}\""), &(counted + "."))];
    let (y, mut x) = (66.0, 10.0);
    let mut key = |mark: &dyn Fn(f64) -> String, words: &str| {
        lines.push(mark(x));
        lines.push(styled(x + 22.0, y, "font-size=\"11\"", words));
        x += 36.0 + words.chars().count() as f64 * 6.0;
    };
    key(&|x| stroke(x + 8.0, y - 11.0, y + 3.0), "cap");
    key(&|x| mark(x + 8.0, y - 4.0, true), "share");
    let goal = format!("its goal{}", bound(shares.iter().map(|share| share.within)));
    key(&|x| rect(x, y - 10.0, 16.0, 12.0, GOAL, 0.3), &goal);
    if !windows.is_empty() {
        key(&|x| rect(x, y - 6.0, 16.0, 4.0, MET, 0.45), "farthest window of 1 s");
        let goals = shares.iter().filter_map(|share| share.window?.1);
        let goal = format!("its goal{}", bound(goals));
        key(&|x| rect(x, y - 10.0, 16.0, 12.0, GOAL, 0.12), &goal);
    }
    key(&|x| mark(x + 8.0, y - 4.0, false), "misses its goal");
    lines
}

/// How far things may be off, where that is the same for all.
fn bound(all: impl Iterator<Item = f64>) -> String {
    match distinct(all).as_slice() {
        [one] => format!(", ±{} point{}", number(*one), if *one == 1.0 { "" } else { "s" }),
        _ => String::new(),
    }
}

/// Notes on marks that are not plain, a line each.
fn notes(shares: &[Share]) -> Vec<String> {
    let windows = || shares.iter().filter_map(|share| share.window);
    let told = [
        (
            windows().next().is_some(),
            "has: the share in %; 1 s: by how many points the farthest window of 1 s was off.",
        ),
        (
            shares
                .iter()
                .any(|share| (share.measured - share.cap).abs() > POINTS && share.is_on_axis())
                || windows().any(|(off, _)| off > POINTS),
            "A bar with a tip, or a mark at the end of its axis, lies beyond it: the numbers say where.",
        ),
        (
            windows().any(|(_, most)| most.is_none()),
            "A grey bar has no goal: one kernel is as long as half of a window.",
        ),
        (
            shares.iter().any(|share| !share.is_on_axis()),
            "Without a cap: all that the program can use of the device, which is its goal where the cap is more.",
        ),
    ];
    told.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note.to_owned()).collect()
}

/// One panel's axis.
struct Axis {
    from: f64,
    until: f64,
    cap: f64,
}

impl Axis {
    /// Where a share is, at most at the axis's ends.
    fn at(&self, share: f64) -> f64 {
        let part = (share - self.cap) / POINTS / 2.0 + 0.5;
        self.from + part.clamp(0.0, 1.0) * (self.until - self.from)
    }

    fn frame(&self, bottom: f64, has_windows: bool, add: &mut impl FnMut(String)) {
        let middle = self.at(self.cap);
        let cap = format!("cap {} %", number(self.cap));
        add(styled(middle, ABOVE - 10.0, "text-anchor=\"middle\" font-weight=\"bold\"", &cap));
        let small = format!("font-size=\"10\" fill=\"{FAINT}\" text-anchor=\"end\"");
        add(styled(self.until + HAS_AT, ABOVE - 10.0, &small, "has"));
        if has_windows {
            add(styled(self.until + OFF_AT, ABOVE - 10.0, &small, "1 s"));
        }
        let mut tick = -POINTS;
        while tick <= POINTS {
            let x = self.at(self.cap + tick);
            add(format!("<path d=\"M{x:.1} {ABOVE:.1}L{x:.1} {bottom:.1}\" stroke=\"#ddd\"/>"));
            add(styled(
                x,
                bottom + 15.0,
                "font-size=\"11\" text-anchor=\"middle\"",
                &number(self.cap + tick),
            ));
            tick += TICK;
        }
        add(stroke(middle, ABOVE, bottom));
        add(styled(
            middle,
            bottom + 32.0,
            "font-size=\"11\" text-anchor=\"middle\"",
            "% of the device's time",
        ));
    }

    fn draw(&self, share: &Share, top: f64, add: &mut impl FnMut(String)) {
        let middle = top + ROW / 2.0;
        if share.is_on_axis() {
            self.draw_marks(share, top, add);
        } else {
            let words = format!("{} without a cap", number((share.target * 10.0).round() / 10.0));
            let look = format!(
                "font-size=\"11\" font-style=\"italic\" text-anchor=\"middle\" fill=\"{FAINT}\""
            );
            let x = (self.from + self.until) / 2.0;
            add(rect(x - 56.0, top + 2.0, 112.0, ROW - 4.0, "white", 1.0));
            add(styled(x, middle + 4.0, &look, &words));
        }
        let look = |is_met: Option<bool>| match is_met {
            Some(false) => format!(
                "font-size=\"11\" font-weight=\"bold\" fill=\"{MISSED}\" text-anchor=\"end\""
            ),
            Some(true) => "font-size=\"11\" text-anchor=\"end\"".to_owned(),
            None => format!("font-size=\"11\" fill=\"{FAINT}\" text-anchor=\"end\""),
        };
        let measured = format!("{:.1}", share.measured);
        add(styled(self.until + HAS_AT, middle + 4.0, &look(Some(share.is_met())), &measured));
        if let Some((off, _)) = share.window {
            let off_by = if off < 10.0 { format!("±{off:.1}") } else { format!("±{off:.0}") };
            add(styled(self.until + OFF_AT, middle + 4.0, &look(share.is_window_met()), &off_by));
        }
    }

    /// Bands, bar and mark.
    fn draw_marks(&self, share: &Share, top: f64, add: &mut impl FnMut(String)) {
        let middle = top + ROW / 2.0;
        let mut band = |by: f64, height: f64, colour: &str, opacity: f64| {
            let (left, right) = (self.at(share.target - by), self.at(share.target + by));
            add(rect(left, middle - height / 2.0, right - left, height, colour, opacity));
        };
        if let Some(most) = share.window.and_then(|(_, most)| most) {
            band(most, ROW, GOAL, 0.12);
        }
        band(share.within, ROW, GOAL, 0.3);
        if let Some((off, _)) = share.window {
            let colour = match share.is_window_met() {
                Some(true) => MET,
                Some(false) => MISSED,
                None => "#888",
            };
            band(off, 4.0, colour, 0.45);
            if off > POINTS {
                for (end, by) in [(self.from, 5.0), (self.until, -5.0)] {
                    add(format!(
                        "<path d=\"M{end:.1} {middle:.1}l{by} -4v8z\" fill=\"{colour}\"/>"
                    ));
                }
            }
        }
        add(mark(self.at(share.measured), middle, share.is_met()));
    }
}

/// A cap's line.
fn stroke(x: f64, from: f64, until: f64) -> String {
    format!(
        "<path d=\"M{x:.1} {from:.1}L{x:.1} {until:.1}\" stroke=\"#000\" stroke-width=\"1.2\"/>"
    )
}

/// A share: a dot, or a diamond where it is not as it should be.
fn mark(x: f64, y: f64, is_met: bool) -> String {
    if is_met {
        format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{MET}\"/>")
    } else {
        format!(
            "<path d=\"M{x:.1} {:.1}l5.5 5.5 -5.5 5.5 -5.5 -5.5z\" fill=\"{MISSED}\"/>",
            y - 5.5
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figures(name: &str, target: f64, share: f64, off: f64, most: &Value) -> Vec<Value> {
        vec![
            json!({"name": name, "goal": {"within": [target, 1.0]}, "medians": {"divvy": share}}),
            json!({"name": format!("{name}{WINDOWS}"), "goal": most, "medians": {"divvy": off}}),
        ]
    }

    #[test]
    fn each_cell_has_its_name_its_numbers_and_its_goals() {
        let within = json!({"at_most": 3.0});
        let all = [
            figures("share, 5 us sync at 30 %", 30.0, 30.4, 1.4, &within),
            figures("share, 5 us sync at 70 %", 37.5, 36.8, 2.9, &within),
            figures("share, 5 us async at 70 %", 70.0, 72.3, 5.6, &within),
            figures("share, 500 ms a<b at 70 %", 70.0, 69.8, 29.7, &json!("none")),
            vec![json!({"name": "share, mean error of all cells", "medians": {"divvy": 0.2}})],
        ]
        .concat();
        let text = svg(&all, "divvy", "here").unwrap();
        for said in [
            ">5 µs kernels, each waited for<",
            ">5 µs kernels, in a queue<",
            ">500 ms a&lt;b<",
            ">cap 30 %<",
            ">cap 70 %<",
            ">30.4<",
            ">±1.4<",
            ">37.5 without a cap<",
            "3 of 4 shares meet their goal, and so do all windows of 1 s in 2 of 3",
            ">its goal, ±1 point<",
            ">its goal, ±3 points<",
            ">Source: here<",
        ] {
            assert!(text.contains(said), "no {said} in {text}");
        }
        // The legend has one of each.
        assert_eq!(text.matches("<circle").count(), 3, "{text}");
        let diamonds = text.matches("l5.5 5.5").count();
        assert_eq!(diamonds, 2, "{text}");
        assert_eq!(text.matches("v8z").count(), 2, "both tips of the one bar that is longer");
        assert!(!text.contains("NaN") && svg(&all, "hami", "here").is_none());
    }

    #[test]
    fn a_program_keeps_what_is_said_behind_its_cap() {
        let of = |name| cell(name).map(|(program, cap)| (in_words(&program), cap));
        let named = |words: &str, cap| Some((words.to_owned(), cap));
        assert_eq!(of("5 us paced at 10 %"), named("5 µs kernels, one every 20 µs", 10.0));
        assert_eq!(
            of("4 processes of 100 us sync at 25 % under a daemon, sum"),
            named("4 processes of 100 µs sync under a daemon, sum", 25.0)
        );
        assert_eq!(of("mean error of all cells"), None);
        assert_eq!(of("30 to 70 % while it runs"), None);
    }
}
