//! Tables of the screen: devices and tenants, as styled cells in columns that fit the width.
//!
//! Pure. Which columns there are, in which order they give way, and their cells; widths are [`super::columns`]'s. Promises: no
//! line is wider than asked from 60 columns on; a tenant's name keeps at least eight characters.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::app::App;
use super::bars::Glyphs;
use super::columns::{ColumnPlan, Placed, Room, place};
use super::model::{Gpu, TenantRow};
use super::theme::{LimitState, Theme};
use super::{cells, memory};
use crate::output::{plain, sizes};

/// Characters that a name, a bar and a minute keep on a screen of [`NARROW`] columns; and a tenant's bar on one that has less,
/// so that what was asked for has room beside it.
const LEAST: usize = 8;
const LEAST_BAR: usize = 6;
const NARROW: usize = 80;
/// From here on two columns have two blanks between them.
const WIDE: usize = 100;

/// How cells are drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) theme: Theme,
    pub(super) glyphs: Glyphs,
}

/// Contents of a cell.
enum Cell {
    Left(String, Style),
    Right(String, Style),
    /// Part of the device in use, and the mark.
    Bar(f64, Option<f64>, Style),
    /// The tenant's minute.
    History,
}

impl Cell {
    fn width(&self) -> usize {
        match self {
            Self::Left(text, _) | Self::Right(text, _) => width(text),
            Self::Bar(..) | Self::History => 0,
        }
    }
}

/// A column of the tenants' table, or of the devices'.
struct Column<T> {
    head: &'static str,
    rank: u8,
    room: Room,
    cell: fn(&T, Theme) -> Cell,
}

const fn column<T>(
    head: &'static str,
    rank: u8,
    room: Room,
    cell: fn(&T, Theme) -> Cell,
) -> Column<T> {
    Column { head, rank, room, cell }
}

fn left(text: impl Into<String>) -> Cell {
    Cell::Left(text.into(), Style::new())
}

fn right(text: impl Into<String>) -> Cell {
    Cell::Right(text.into(), Style::new())
}

/// Columns of devices. The name of a card gives way first, then what a daemon says.
fn gpu_columns(app: &App) -> Vec<Column<Gpu>> {
    let is_any_foreign = app.picture.gpus.iter().any(|gpu| gpu.foreign > 0);
    vec![
        column("GPU", 0, Room::Cells, |gpu, _| left(cells::gpu_name(gpu.index, &gpu.uuid))),
        column("NAME", 4, Room::Text(6), |gpu, _| left(plain::line(&gpu.name))),
        column("TIME", 0, Room::Bar(LEAST, 30), |gpu, theme| {
            let used = gpu.used_ratio.unwrap_or(0.0);
            Cell::Bar(used, None, theme.limit_state(LimitState::Within))
        }),
        column("USED", 0, Room::Cells, |gpu, _| right(cells::percent(gpu.used_ratio))),
        column("MEMORY", 0, Room::Bar(LEAST, 30), |gpu, theme| {
            let full = gpu.held_bytes as f64 / gpu.card_bytes.max(1) as f64;
            Cell::Bar(full, None, theme.limit_state(LimitState::of_card(gpu)))
        }),
        column("HELD", 1, Room::Cells, |gpu, theme| {
            let style = theme.limit_state(LimitState::of_card(gpu));
            Cell::Right(sizes::text(gpu.held_bytes), style)
        }),
        column("OF", 2, Room::Cells, |gpu, _| right(sizes::text(gpu.card_bytes))),
        column("TURNS", 3, Room::Cells, |gpu, _| left(cells::mode(gpu))),
        column("A SECOND", 5, Room::Cells, |gpu, _| right(cells::turns(gpu))),
        column("FOREIGN", if is_any_foreign { 1 } else { 5 }, Room::Cells, |gpu, theme| {
            let state = if gpu.foreign > 0 { LimitState::Beyond } else { LimitState::None };
            Cell::Right(gpu.foreign.to_string(), theme.limit_state(state))
        }),
    ]
}

/// Columns of tenants: first how much of what they may they have, then why. On a wide screen names and bars grow as well
/// as columns come.
fn tenant_columns(app: &App, width: usize) -> Vec<Column<TenantRow>> {
    let more = width.saturating_sub(NARROW);
    // One of a screen's columns is the mark's.
    let bar = if width + 1 < NARROW { LEAST_BAR } else { LEAST + more / 16 };
    let long = LEAST + more / 8;
    let many = app.picture.gpus.len() > 1;
    let may_any_leave = app.picture.rows.iter().any(|row| row.memory.is_some());
    let mut columns = vec![
        column("GPU", if many { 1 } else { 9 }, Room::Cells, |row: &TenantRow, _| {
            left(cells::gpu_name(row.index, &row.gpu))
        }),
        column("TENANT", 0, Room::Text(long), |row, _| left(plain::line(&row.tenant))),
        column("SHARE", 0, Room::Bar(bar, 30), |row, theme| {
            let cap = row.share_ppm.map(|ppm| f64::from(ppm) / 1e6);
            let style = theme.limit_state(LimitState::of_time(row));
            Cell::Bar(row.reached_ratio.unwrap_or(0.0), cap, style)
        }),
        column("REACHED", 0, Room::Cells, |row, theme| {
            let style = theme.limit_state(LimitState::of_time(row));
            Cell::Right(cells::percent(row.reached_ratio), style)
        }),
        column("ASKED", 2, Room::Cells, |row, _| right(cells::asked(row))),
        column("MINUTE", 3, Room::Bar(long, 60), |_, _| Cell::History),
        column("MEMORY", 1, Room::Bar(bar, 30), |row, theme| {
            let of_card = |bytes: u64| bytes as f64 / row.card_bytes.max(1) as f64;
            let style = theme.limit_state(LimitState::of_memory(row));
            Cell::Bar(of_card(row.held_bytes), row.limit_bytes.map(of_card), style)
        }),
        column("HELD", 1, Room::Cells, |row, theme| {
            let style = theme.limit_state(LimitState::of_memory(row));
            Cell::Right(sizes::text(row.held_bytes), style)
        }),
        column("LIMIT", 4, Room::Cells, |row, _| right(sizes::limit(row.limit_bytes))),
    ];
    if may_any_leave {
        columns.extend([
            column("ON CARD", 5, Room::Cells, |row: &TenantRow, _| right(place_cell(row, 0))),
            column("AWAY", 4, Room::Cells, |row, _| right(place_cell(row, 1))),
            column("IT", 3, Room::Cells, |row, theme| {
                let words = place_cell(row, 2);
                let style = theme.memory(&words);
                Cell::Left(words, style)
            }),
            column("GB/S", 6, Room::Cells, |row, _| right(place_cell(row, 3))),
        ]);
    }
    columns.extend([
        column("GATE", 2, Room::Cells, |row: &TenantRow, theme| {
            Cell::Left(row.gate.to_owned(), theme.gate(row.gate))
        }),
        column("THROTTLED", 5, Room::Cells, |row, _| right(cells::percent(row.throttled_ratio))),
        column("WAITING", 5, Room::Cells, |row, _| right(cells::percent(row.waited_ratio))),
        column("QUEUE", 7, Room::Cells, |row, _| right(cells::queue(row.queued_ns))),
        column("LAUNCHES/S", 8, Room::Cells, |row, _| right(cells::launches(row))),
        column("PROCESSES", 8, Room::Cells, |row, _| right(row.processes.to_string())),
        column("PRIORITY", 6, Room::Cells, |row, _| left(cells::priority(row))),
    ]);
    columns
}

fn place_cell(row: &TenantRow, at: usize) -> String {
    memory::cells(row.memory.as_ref()).into_iter().nth(at).unwrap_or_default()
}

/// The table of devices.
pub(super) fn gpus(app: &App, look: Look, width: usize) -> Vec<Line<'static>> {
    let rows: Vec<&Gpu> = app.picture.gpus.iter().collect();
    lines(&gpu_columns(app), &rows, look, width, |_, _| Vec::new())
}

/// The table of tenants: its head, and a line for each row that is shown.
pub(super) fn tenants(app: &App, look: Look, width: usize) -> Vec<Line<'static>> {
    let rows: Vec<&TenantRow> = app.rows().collect();
    lines(&tenant_columns(app, width), &rows, look, width, |row, cells| {
        app.history.of(&row.directory, &row.gpu, cells)
    })
}

fn lines<T>(
    columns: &[Column<T>],
    rows: &[&T],
    look: Look,
    width: usize,
    history: impl Fn(&T, usize) -> Vec<Option<f64>>,
) -> Vec<Line<'static>> {
    let filled: Vec<Vec<Cell>> = rows
        .iter()
        .map(|row| columns.iter().map(|column| (column.cell)(row, look.theme)).collect())
        .collect();
    let plan: Vec<ColumnPlan<usize>> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| ColumnPlan {
            column: at,
            head: column.head,
            rank: column.rank,
            room: column.room,
            cells: filled.iter().filter_map(|row| row.get(at)).map(Cell::width).max().unwrap_or(0),
        })
        .collect();
    let gap = if width < WIDE { 1 } else { 2 };
    let placed = place(&plan, width, gap);
    let is_right = |at: usize| {
        let cell = filled.first().and_then(|row| row.get(at));
        matches!(cell, Some(Cell::Right(..)))
    };
    let head = placed.iter().map(|placed| {
        let text = match is_right(placed.column) {
            true => format!("{:>1$}", placed.head, placed.width),
            false => format!("{:<1$}", placed.head, placed.width),
        };
        vec![Span::styled(text, look.theme.head())]
    });
    let mut lines = vec![joined(head, gap)];
    for (row, filled) in rows.iter().zip(&filled) {
        let of_row = placed.iter().map(|placed| match filled.get(placed.column) {
            Some(cell) => drawn(cell, placed, look, |cells| history(row, cells)),
            None => Vec::new(),
        });
        lines.push(joined(of_row, gap));
    }
    lines
}

fn joined(cells: impl Iterator<Item = Vec<Span<'static>>>, gap: usize) -> Line<'static> {
    let mut spans = Vec::new();
    for cell in cells {
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(gap)));
        }
        spans.extend(cell);
    }
    Line::from(spans)
}

/// A cell in exactly the width of its column.
fn drawn(
    cell: &Cell,
    placed: &Placed<usize>,
    look: Look,
    history: impl Fn(usize) -> Vec<Option<f64>>,
) -> Vec<Span<'static>> {
    let Look { theme, glyphs } = look;
    let padded = |text: &str, is_right: bool, style: Style| {
        let text = cut(text, placed.width, glyphs);
        let blank = " ".repeat(placed.width.saturating_sub(width(&text)));
        let text = if is_right { format!("{blank}{text}") } else { format!("{text}{blank}") };
        vec![Span::styled(text, style)]
    };
    match cell {
        Cell::Left(text, style) => padded(text, false, *style),
        Cell::Right(text, style) => padded(text, true, *style),
        Cell::Bar(ratio, mark, style) => {
            let bar = glyphs.bar(placed.width, *ratio, *mark);
            let mark = if bar.is_at_mark { *style } else { theme.mark() };
            vec![
                Span::styled(bar.below, *style),
                Span::styled(bar.mark, mark),
                Span::styled(bar.above, *style),
            ]
        }
        Cell::History => {
            vec![Span::styled(glyphs.history(&history(placed.width)), theme.faint())]
        }
    }
}

/// Columns of the terminal that a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// `text` in at most `most` columns, with a sign where something is missing.
pub(super) fn cut(text: &str, most: usize, glyphs: Glyphs) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        let longer = format!("{kept}{c}");
        if width(&longer) + 1 > most {
            break;
        }
        kept = longer;
    }
    if most > 0 {
        kept.push(glyphs.cut());
    }
    kept
}
