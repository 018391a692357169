//! The plots that the documentation shows, out of stored results: `cargo xtask pictures` writes them.
//!
//! Tests alone. Promises: each is what a benchmark would draw of that result, and the committed file is not another.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::plot::{self, CHANGE, LATENCY, PlotLine, PlotStyle};
use super::{panels, rows};

/// A picture: its name below `docs/pictures`, the result below `bench/results`, its cards, and the plot of it.
struct Picture(&'static str, &'static str, &'static str, &'static str);

/// Of each the newest result that has all of it.
const PICTURES: [Picture; 5] = [
    Picture("share.svg", "h100-2026-11-25/share.json", "an NVIDIA H100", panels::DOTS),
    Picture("change.svg", "h100-2026-11-25/share.json", "an NVIDIA H100", CHANGE),
    Picture(
        "caps.svg",
        "h100-2026-11-27/fairness-changes-caps.json",
        "an NVIDIA H100",
        "caps of 20 and 30 and 50 %",
    ),
    Picture("latency.svg", "h100-2026-11-27/latency.json", "an NVIDIA H100", LATENCY),
    Picture(
        "turns.svg",
        "h200-2026-11-28/oversubscribe-4-48.json",
        "an NVIDIA H200",
        "turns, 4 x 48 GiB, always busy",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A line of a stored plot. Programs of results from before they were called so are called so.
fn line(line: &Value) -> PlotLine {
    let word = |key: &str| line[key].as_str().unwrap().to_owned();
    let pair = |pair: &Value| (pair[0].as_f64().unwrap(), pair[1].as_f64().unwrap());
    let name = word("name").replace("divvy ", "divvy, program ");
    PlotLine {
        plot: word("plot"),
        name,
        points: line["points"].as_array().unwrap().iter().map(pair).collect(),
        band: line.get("band").map(|band| pair(band).into()),
    }
}

impl Picture {
    fn drawn(&self) -> String {
        let Self(_, file, card, plot) = self;
        let stored = format!("bench/results/{file}");
        let text = std::fs::read_to_string(root().join(&stored)).unwrap();
        let result: Value = serde_json::from_str(&text).unwrap();
        let of = |key: &str| result[key].as_str().unwrap();
        let (benchmark, day) = (of("benchmark"), &of("date")[..10]);
        let driver = of("driver").trim_start_matches("NVIDIA ");
        let source = format!("{stored}: divvy bench {benchmark} on {card}, driver {driver}, {day}");
        if *plot == panels::DOTS {
            return panels::svg(result["figures"].as_array().unwrap(), "divvy", &source).unwrap();
        }
        let lines = result["lines"].as_array().unwrap().iter();
        let lines: Vec<_> = lines.filter(|line| line["plot"] == **plot).map(line).collect();
        assert!(!lines.is_empty(), "{stored} has no plot {plot}");
        let lines: Vec<&PlotLine> = lines.iter().collect();
        match rows::style(plot) {
            Some(style) => rows::svg(style, plot, &source, &lines),
            None => plot::svg(&PlotStyle::of(plot), &source, &lines),
        }
    }
}

#[test]
fn the_committed_pictures_are_what_the_stored_results_give() {
    let is_written = std::env::var_os("DIVVY_GOLDEN").is_some_and(|value| value == "write");
    for picture in &PICTURES {
        let path = root().join("docs/pictures").join(picture.0);
        let drawn = picture.drawn();
        if is_written {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, drawn).unwrap();
            continue;
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == drawn, "{} is not of its result: run `cargo xtask pictures`", picture.0);
    }
}
