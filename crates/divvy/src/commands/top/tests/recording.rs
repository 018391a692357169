//! The screen as a picture for the documentation, drawn from the cells that the terminal would have been given:
//! `cargo xtask pictures` writes it.
//!
//! Blocks and marks are drawn as forms, so that bars have no gaps whatever the reader's font is; all else is text.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::screens::{busy_app, drawn, lines_of};
use super::*;
use crate::golden;

const PICTURE: &str = "docs/pictures/top.svg";
/// Columns and lines of the terminal.
const SIZE: [u16; 2] = [104, 15];

/// A cell in pixels, its letters' size and how far their foot is below its top.
const CELL: [f64; 2] = [8.4, 19.0];
const LETTERS: f64 = 14.0;
const FOOT: f64 = 14.0;
/// Room above and below a form.
const GAP: f64 = 1.5;
/// Room around the cells, and of the window's bar above them.
const ROOM: f64 = 14.0;
const BAR: f64 = 32.0;

const PAPER: &str = "#1b1f27";
const INK: &str = "#d8dee9";

/// A terminal's colours, as many have them on dark.
fn color(color: Color) -> &'static str {
    match color {
        Color::Green => "#8fcf6f",
        Color::Yellow => "#e8c466",
        Color::Red => "#ff7b72",
        Color::Blue => "#79b8ff",
        Color::Magenta => "#d9a0e6",
        Color::Cyan => "#66d0d6",
        Color::Reset => INK,
        other => panic!("the screen has no {other}"),
    }
}

/// The part of a cell that a form fills: left, top, width, height, each of the whole.
fn form(symbol: &str) -> Option<[f64; 4]> {
    let mut symbols = symbol.chars();
    let (symbol, None) = (symbols.next()?, symbols.next()) else { return None };
    let eighths = |from: char| f64::from(u32::from(symbol) - u32::from(from) + 1) / 8.0;
    Some(match symbol {
        // One eighth to the whole, from below.
        '▁'..='█' => [0.0, 1.0 - eighths('▁'), 1.0, eighths('▁')],
        // Seven eighths to one, from the left.
        '▉'..='▏' => [0.0, 0.0, 1.0 - eighths('▉'), 1.0],
        '│' => [0.42, 0.0, 0.16, 1.0],
        '┃' => [0.34, 0.0, 0.32, 1.0],
        _ => return None,
    })
}

/// Ink and paper of a cell.
fn colors(cell: &Cell) -> [&'static str; 2] {
    let ink = color(cell.fg);
    if cell.modifier.contains(Modifier::REVERSED) { [PAPER, ink] } else { [ink, PAPER] }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Lengths of the runs of cells that `same` says are alike, with their first cells' columns.
fn runs(cells: &[&Cell], same: impl Fn(&Cell, &Cell) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (column, cell) in cells.iter().enumerate() {
        match runs.last_mut() {
            Some((from, count)) if same(cells[*from], cell) => *count += 1,
            _ => runs.push((column, 1)),
        }
    }
    runs
}

fn rect(x: f64, y: f64, [width, height]: [f64; 2], colour: &str) -> String {
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n"
    )
}

/// Forms and letters of one line, whose top is at `y`. Neighbours that are alike are one form, without a seam, and one text,
/// whose length keeps the columns in any font.
fn line(cells: &[&Cell], y: f64, out: &mut String) {
    let [width, height] = CELL;
    let at = |column: usize| ROOM + width * column as f64;
    for (from, count) in runs(cells, |a, b| colors(a)[1] == colors(b)[1]) {
        let paper = colors(cells[from])[1];
        if paper != PAPER {
            *out += &rect(at(from), y, [width * count as f64, height], paper);
        }
    }
    let is_whole = |cell: &Cell| form(cell.symbol()).is_some_and(|[.., wide, _]| wide == 1.0);
    let same_form =
        |a: &Cell, b: &Cell| is_whole(a) && a.symbol() == b.symbol() && colors(a) == colors(b);
    for (from, count) in runs(cells, same_form) {
        let Some([left, top, wide, high]) = form(cells[from].symbol()) else { continue };
        let size = [wide * width * count as f64, high * (height - 2.0 * GAP)];
        let (x, y) = (at(from) + left * width, y + GAP + top * (height - 2.0 * GAP));
        *out += &rect(x, y, size, colors(cells[from])[0]);
    }
    let is_text = |cell: &Cell| form(cell.symbol()).is_none() && cell.symbol() != " ";
    let look = |cell: &Cell| (colors(cell)[0], cell.modifier.contains(Modifier::BOLD));
    for (from, count) in runs(cells, |a, b| is_text(a) && is_text(b) && look(a) == look(b)) {
        if !is_text(cells[from]) {
            continue;
        }
        let text: String = cells[from..from + count].iter().map(|cell| cell.symbol()).collect();
        let (ink, is_bold) = look(cells[from]);
        let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{ink}\"{weight} textLength=\"{:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\">{}</text>",
            at(from),
            y + FOOT,
            width * count as f64,
            escaped(&text)
        );
    }
}

/// The cells in a window of this title.
fn svg(buffer: &Buffer, title: &str) -> String {
    let width = (CELL[0] * f64::from(buffer.area.width) + 2.0 * ROOM).ceil();
    let height = CELL[1] * f64::from(buffer.area.height) + BAR + ROOM;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"{LETTERS}\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for (at, colour) in [20.0, 38.0, 56.0].iter().zip(["#ff5f57", "#febc2e", "#28c840"]) {
        let _ = writeln!(out, "<circle cx=\"{at}\" cy=\"16\" r=\"5.5\" fill=\"{colour}\"/>");
    }
    let middle = width / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{middle:.1}\" y=\"20\" fill=\"#8b95a5\" text-anchor=\"middle\" font-size=\"12\">{}</text>",
        escaped(title)
    );
    for row in 0..buffer.area.height {
        let cells = (0..buffer.area.width).map(|x| buffer.cell((x, row)).unwrap());
        line(&cells.collect::<Vec<_>>(), BAR + CELL[1] * f64::from(row), &mut out);
    }
    out + "</svg>\n"
}

#[test]
fn the_screen_as_a_picture() {
    let look = Look { theme: Theme { has_color: true }, glyphs: Glyphs::Unicode };
    let app = busy_app();
    let buffer = drawn(&app, look, SIZE[0], SIZE[1]);
    let text = svg(&buffer, "divvy top");
    for (cells, row) in lines_of(&buffer).iter().zip(1..) {
        for word in cells.split_whitespace().filter(|word| word.is_ascii()) {
            assert!(text.contains(&escaped(word)), "line {row} has {word}");
        }
    }
    golden::file(PICTURE, &text);
}

#[test]
fn forms_fill_their_part_of_a_cell() {
    assert_eq!(form("█"), Some([0.0, 0.0, 1.0, 1.0]));
    assert_eq!(form("▄"), Some([0.0, 0.5, 1.0, 0.5]));
    assert_eq!(form("▏"), Some([0.0, 0.0, 0.125, 1.0]));
    assert_eq!(form("▉"), Some([0.0, 0.0, 0.875, 1.0]));
    assert_eq!(form("a"), None);
    assert_eq!(form(" "), None);
}
