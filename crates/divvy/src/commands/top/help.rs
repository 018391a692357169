//! The list of keys, and of what the screen's signs mean.
//!
//! Pure. Fits 60 columns and 24 lines; the line at the foot of the screen is made of the same keys.

use ratatui::text::{Line, Span};

use super::theme::{LimitState, Theme};

/// Keys, what they do, and in a word for the foot, in the order in which they are offered there.
const KEYS: [(&str, &str, &str); 12] = [
    ("?", "this list; any key leaves it", "help"),
    ("q", "ends; Esc and Ctrl-C too", "quit"),
    ("Enter", "shows a tenant's processes, or hides them", "processes"),
    ("/", "shows tenants whose name has what follows; Esc all", "filter"),
    ("s", "sorts by share, memory, time waited, name", "sort"),
    ("p", "pauses the tenant, after a question; resumes it", "pause"),
    ("+ -", "its cap on this GPU, 5 % up and down; asks first", "cap"),
    ("e", "writes a cap: 30%, 0 for none, default", "set cap"),
    ("m", "writes a memory limit: 8GiB, 50%, 0, default", "set memory"),
    ("w", "writes a weight", "weight"),
    ("r", "turns the order round", "reverse"),
    ("j k", "next and previous row; also arrows, Page, Home, End", ""),
];

/// The whole list.
pub(super) fn lines(theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled("Keys", theme.head())];
    for (key, does, _) in &KEYS {
        lines.push(Line::from(vec![
            Span::styled(format!("  {key:<6} "), theme.key()),
            Span::raw(*does),
        ]));
    }
    lines.push(Line::default());
    lines.push(Line::styled(
        "Bars are of the whole GPU; the mark is the cap or the limit.",
        theme.head(),
    ));
    let states = [
        (LimitState::Within, "within", "in use, and below the mark"),
        (LimitState::At, "at", "the cap holds it back; memory is 90 % of its limit"),
        (LimitState::Beyond, "beyond", "above the mark, or memory was refused just now"),
    ];
    for (state, word, means) in states {
        lines.push(Line::from(vec![
            Span::styled(format!("  {word:<6} "), theme.limit_state(state)),
            Span::raw(means),
        ]));
    }
    lines.push(Line::raw("  MINUTE is the share reached in the last 60 s."));
    lines
}

/// As many keys as fit into `width`.
pub(super) fn foot(theme: Theme, width: usize) -> Line<'static> {
    let mut spans = Vec::new();
    let mut used = 0;
    for (key, _, word) in KEYS.iter().filter(|(.., word)| !word.is_empty()) {
        let gap = if used == 0 { "" } else { "  " };
        let more = gap.len() + key.len() + 1 + word.len();
        if used + more > width {
            break;
        }
        used += more;
        spans.push(Span::raw(gap));
        spans.push(Span::styled(*key, theme.key()));
        spans.push(Span::raw(format!(" {word}")));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_the_smallest_screen() {
        let lines = lines(Theme { has_color: false });
        assert!(lines.len() <= 22, "{}", lines.len());
        for line in lines {
            assert!(line.width() <= 60, "{line}");
        }
        for width in 0..200 {
            assert!(foot(Theme { has_color: true }, width).width() <= width);
        }
    }
}
