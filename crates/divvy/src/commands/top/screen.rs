//! The screen of `divvy top`: a title, the devices, the tenants with their processes, and a line at the foot.
//!
//! Columns that do not fit are left out, texts are cut, and the rows scroll so that the chosen one is seen. Holds no state.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::{App, Mode};
use super::model::Member;
use super::table::{self, Look, cut};
use super::theme::LimitState;
use super::{cells, help};
use crate::output::{plain, sizes};

/// Stands before the chosen row.
const MARK: &str = ">";

/// Draws the whole.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, look: Look) {
    let width = usize::from(frame.area().width);
    let notes = cells::notes(&app.picture);
    let mut top = table::gpus(app, look, width);
    top.extend(notes.into_iter().map(Line::raw));
    let top_height = u16::try_from(top.len()).unwrap_or(u16::MAX);
    let [title, gpus, _, rest, foot] = Layout::vertical([
        Constraint::Length(1),
        // Half of it at most: the rows are what the screen is for.
        Constraint::Length(top_height.min(frame.area().height / 2)),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::styled(self::title(app, look, width), look.theme.head()), title);
    match app.mode {
        Mode::Help => {
            let all = gpus.union(rest);
            frame.render_widget(Paragraph::new(help::lines(look.theme)), all);
        }
        _ => {
            frame.render_widget(Paragraph::new(top), gpus);
            draw_rows(frame, app, look, rest);
        }
    }
    frame.render_widget(self::foot(app, look, width), foot);
}

/// The head of the rows is fixed; what is below it scrolls.
fn draw_rows(frame: &mut Frame<'_>, app: &App, look: Look, area: Rect) {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let width = usize::from(area.width);
    let mut lines = table::tenants(app, look, width.saturating_sub(MARK.len())).into_iter();
    frame.render_widget(marked(lines.next().unwrap_or_default(), " "), head);
    let (mut shown, mut chosen) = (Vec::new(), (0, 0));
    for (at, (line, row)) in lines.zip(app.rows()).enumerate() {
        let first = shown.len();
        let is_chosen = at == app.chosen;
        shown.push(match is_chosen {
            true => marked(line, MARK).style(look.theme.chosen()),
            false => marked(line, " "),
        });
        if app.is_expanded(row) {
            let members = row.members.iter();
            shown.extend(members.map(|member| self::member(member, look, width)));
            if row.members.is_empty() {
                shown.push(Line::raw("      no process is there"));
            }
        }
        if is_chosen {
            chosen = (first, shown.len());
        }
    }
    if shown.is_empty() {
        shown.push(Line::raw(nothing(app)));
    }
    // The chosen row is seen whatever its processes need.
    let (first, end) = chosen;
    let offset = end.saturating_sub(usize::from(body.height).max(1)).min(first);
    let offset = u16::try_from(offset).unwrap_or(u16::MAX);
    frame.render_widget(Paragraph::new(shown).scroll((offset, 0)), body);
}

/// The line with a mark before it.
fn marked(mut line: Line<'static>, mark: &'static str) -> Line<'static> {
    line.spans.insert(0, Span::raw(mark));
    line
}

fn nothing(app: &App) -> &'static str {
    match app.picture.rows.is_empty() {
        true => "No tenant uses a GPU. Start one: divvy run --memory 8GiB -- COMMAND",
        false => "No tenant's name has that in it. Esc shows all.",
    }
}

fn member(member: &Member, look: Look, width: usize) -> Line<'static> {
    let kinds: Vec<String> = member
        .by_kind
        .iter()
        .map(|(kind, bytes)| format!("{kind} {}", sizes::text(*bytes)))
        .collect();
    let words = format!(
        "      {:>7} {:<16} {:>9}  {}",
        member.pid,
        plain::line(&member.program),
        sizes::text(member.held_bytes),
        kinds.join(", ")
    );
    let mut spans = vec![Span::raw(cut(words.trim_end(), width, look.glyphs))];
    if member.refusals > 0 {
        let refused = format!("  {} refused", member.refusals);
        spans.push(Span::styled(refused, look.theme.limit_state(LimitState::Beyond)));
    }
    Line::from(spans)
}

fn title(app: &App, look: Look, width: usize) -> String {
    let picture = &app.picture;
    let filtered = match app.filter.as_str() {
        "" => String::new(),
        filter => {
            let (shown, all) = (app.rows().count(), picture.rows.len());
            format!("; {shown} of {all} rows have {:?}", plain::line(filter))
        }
    };
    let unreadable = match picture.unreadable {
        0 => String::new(),
        count => format!("; {count} unreadable (divvy ps says why)"),
    };
    let daemon = if picture.daemons == 0 { "; no daemon" } else { "" };
    let order = if app.is_reversed { ", reversed" } else { "" };
    let words = format!(
        "divvy top: {}; by {}{order}{filtered}{daemon}{unreadable}",
        cells::counts(picture),
        app.sort.word()
    );
    cut(&words, width, look.glyphs)
}

fn foot(app: &App, look: Look, width: usize) -> Line<'static> {
    let theme = look.theme;
    let entry = |prompt: &str, text: &str, keys: &str| {
        // The end of a long line is where the user is.
        let tail: String = text.chars().rev().take(width / 3).collect();
        let tail: String = tail.chars().rev().collect();
        let words = format!("{prompt}: {}_   ({keys})", plain::line(&tail));
        Line::raw(cut(&words, width, look.glyphs))
    };
    match &app.mode {
        Mode::Write(field, text) => entry(field.prompt(), text, "Enter to review, Esc to cancel"),
        Mode::Filter => entry("name has", &app.filter, "Enter keeps, Esc shows all"),
        Mode::Confirm { question, .. } => {
            const ANSWER: &str = "  apply? [y/N]";
            let question =
                cut(&plain::line(question), width.saturating_sub(ANSWER.len()), look.glyphs);
            Line::from(vec![
                Span::styled(question, theme.limit_state(LimitState::At)),
                Span::styled(ANSWER, theme.key()),
            ])
        }
        Mode::Rows | Mode::Help if !app.message.words.is_empty() => {
            let state = if app.message.is_error { LimitState::Beyond } else { LimitState::Within };
            let words = cut(&plain::line(&app.message.words), width, look.glyphs);
            Line::styled(words, theme.limit_state(state))
        }
        Mode::Rows | Mode::Help => help::foot(theme, width),
    }
}
