//! The screen of `divvy top`: two tables, and a line at the foot.
//!
//! Plain text with three styles; what does not fit is cut, and the rows scroll so that the chosen one
//! is seen. Holds no state.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::app::App;
use super::memory;
use super::model::{Gpu, TenantRow};
use crate::output::table::TextTable;
use crate::output::{plain, sizes};
use crate::tenants::limits;
use crate::wire::MemoryView;

const KEYS: &str = "q quit  s sort  p pause/resume  +/- cap  e set cap  m set memory";

/// Draws the whole.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let gpus = gpus(app).to_string();
    let rows = rows(app).to_string();
    let height = |text: &str| u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    // One line of the head is fixed; the rows below it scroll.
    let [title, top, _, head, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(height(&gpus).saturating_add(height(&notes(app)))),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Paragraph::new(Line::styled(self::title(app), bold)), title);
    frame.render_widget(Paragraph::new(gpus + &notes(app)), top);
    let mut lines = rows.lines();
    let first = lines.next().unwrap_or_default();
    frame.render_widget(Paragraph::new(Line::styled(first.to_owned(), bold)), head);
    let body_lines: Vec<Line<'_>> = lines
        .enumerate()
        .map(|(at, line)| match at == app.chosen {
            true => Line::styled(line, reversed),
            false => Line::raw(line),
        })
        .collect();
    let seen = usize::from(body.height).max(1);
    let offset = (app.chosen + 1).saturating_sub(seen);
    let offset = u16::try_from(offset).unwrap_or(u16::MAX);
    frame.render_widget(Paragraph::new(body_lines).scroll((offset, 0)), body);
    frame.render_widget(Paragraph::new(self::foot(app)), foot);
}

/// The same as text, without the foot.
pub(super) fn text(app: &App) -> String {
    format!("{}\n{}{}\n{}", title(app), gpus(app), notes(app), rows(app))
}

fn title(app: &App) -> String {
    let picture = &app.picture;
    let mut tenants: Vec<&str> = picture.rows.iter().map(|row| row.directory.as_str()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let unreadable = match picture.unreadable {
        0 => String::new(),
        count => format!(", {count} unreadable (divvy ps says why)"),
    };
    let daemon = if picture.daemons == 0 { ", no daemon" } else { "" };
    format!(
        "divvy top: {} tenants on {} GPUs{unreadable}{daemon}; by {}",
        tenants.len(),
        picture.gpus.len(),
        app.sort.word()
    )
}

fn foot(app: &App) -> String {
    match &app.input {
        Some((field, text)) => format!("{}: {text}_   (Enter sets, Esc leaves)", field.prompt()),
        None if !app.message.is_empty() => plain::line(&app.message).into_owned(),
        None => KEYS.to_owned(),
    }
}

fn gpus(app: &App) -> TextTable {
    let mut table =
        TextTable::new(&["GPU", "NAME", ">HELD", ">OF", ">USED", "TIME", ">TURNS/S", ">FOREIGN"]);
    for gpu in &app.picture.gpus {
        let turns = gpu.turns_per_second.map(|turns| format!("{turns:.0}"));
        table.row([
            gpu_name(gpu.index, &gpu.uuid),
            gpu.name.clone(),
            sizes::text(gpu.held_bytes),
            sizes::text(gpu.card_bytes),
            percent(gpu.used_ratio),
            gpu.mode.clone().unwrap_or_else(|| "-".to_owned()),
            turns.unwrap_or_else(|| "-".to_owned()),
            gpu.foreign.to_string(),
        ]);
    }
    table
}

/// Where the memory of tenants that oversubscribe a device is, and why a device is not divided by turns.
fn notes(app: &App) -> String {
    let note = |gpu: &Gpu| {
        let name = gpu_name(gpu.index, &gpu.uuid);
        let words = [gpu.memory.as_ref().map(memory_words), gpu.reason.clone()];
        let lines = words.into_iter().flatten().map(|words| format!("GPU {name}: {words}"));
        lines.map(|line| format!("{}\n", plain::line(&line))).collect::<String>()
    };
    app.picture.gpus.iter().map(note).collect()
}

fn memory_words(memory: &MemoryView) -> String {
    format!(
        "{} on the card where {} may be, {} away; {} hand-overs, longest wait {:.1} s",
        sizes::text(memory.resident_bytes),
        sizes::text(memory.capacity_bytes),
        sizes::text(memory.away_bytes),
        memory.hand_overs,
        memory.longest_wait_ns as f64 / 1e9
    )
}

fn rows(app: &App) -> TextTable {
    let may_any_leave = app.picture.rows.iter().any(|row| row.memory.is_some());
    let columns = if may_any_leave { memory::HEAD.as_slice() } else { &[] };
    let time = [
        ">ASKED",
        ">REACHED",
        ">THROTTLED",
        ">WAITING",
        ">QUEUE",
        ">LAUNCHES/S",
        "GATE",
        "PRIORITY",
    ];
    let mut table =
        TextTable::new(&[&["GPU", "TENANT", ">HELD", ">LIMIT"], columns, &time].concat());
    for row in &app.picture.rows {
        let launches = row.launches_per_second.filter(|_| row.reached_ratio.is_some());
        let class = if row.class == "latency" { ", latency" } else { "" };
        let held = [
            gpu_name(row.index, &row.gpu),
            row.tenant.clone(),
            sizes::text(row.held_bytes),
            sizes::limit(row.limit_bytes),
        ];
        let places = may_any_leave.then(|| memory::cells(row.memory.as_ref()));
        let time = [
            asked(row),
            percent(row.reached_ratio),
            percent(row.throttled_ratio),
            percent(row.waited_ratio),
            queue(row.queued_ns),
            launches.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
            row.gate.to_owned(),
            format!("{}{class}", row.priority),
        ];
        table.row(held.into_iter().chain(places.into_iter().flatten()).chain(time));
    }
    table
}

/// The cap, or the weight where there is none.
fn asked(row: &TenantRow) -> String {
    match (row.share_ppm, row.weight) {
        (Some(ppm), 0) => limits::percent(u64::from(ppm)),
        (Some(ppm), weight) => format!("{} w{weight}", limits::percent(u64::from(ppm))),
        (None, 0) => "-".to_owned(),
        (None, weight) => format!("w{weight}"),
    }
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}%", ratio * 100.0))
}

/// Work in flight, in milliseconds.
fn queue(ns: u64) -> String {
    if ns == 0 { "-".to_owned() } else { format!("{:.1} ms", ns as f64 / 1e6) }
}

fn gpu_name(index: Option<u32>, uuid: &str) -> String {
    index.map_or_else(|| uuid.chars().take(12).collect(), |index| index.to_string())
}
