//! Colours of the screen by what they mean.
//!
//! Pure. Without colour bold and dim are left, and every meaning also stands in words or in the form of a mark.

use ratatui::style::{Color, Modifier, Style};

use super::model::{Gpu, TenantRow};

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) has_color: bool,
}

/// State of a number against its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitState {
    /// Nothing to say.
    None,
    /// In use, and within its limit.
    Within,
    /// At its limit, or near it: the limit is at work.
    At,
    /// Beyond it, or refused.
    Beyond,
}

/// A tenant whose threads wait for its cap for this part of the time is held by it.
const HELD_BY_CAP: f64 = 0.05;
/// A share may exceed a cap by this within one interval and be right over the next.
const ABOVE_CAP: f64 = 0.05;
/// Memory is near its limit from here.
const NEARLY_FULL: f64 = 0.9;

impl LimitState {
    /// Of a tenant's device time.
    pub(super) fn of_time(row: &TenantRow) -> Self {
        let Some(reached) = row.reached_ratio.filter(|ratio| *ratio > 0.0) else {
            return Self::None;
        };
        match row.share_ppm.map(|ppm| f64::from(ppm) / 1e6) {
            Some(cap) if reached > cap + ABOVE_CAP => Self::Beyond,
            Some(_) if row.throttled_ratio.is_some_and(|ratio| ratio > HELD_BY_CAP) => Self::At,
            _ => Self::Within,
        }
    }

    /// Of a tenant's memory.
    pub(super) fn of_memory(row: &TenantRow) -> Self {
        let full = row.limit_bytes.map(|limit| row.held_bytes as f64 / limit.max(1) as f64);
        match full {
            _ if row.refused_per_second.is_some_and(|rate| rate > 0.0) => Self::Beyond,
            Some(full) if full > 1.0 => Self::Beyond,
            Some(full) if full >= NEARLY_FULL => Self::At,
            _ if row.held_bytes == 0 => Self::None,
            _ => Self::Within,
        }
    }

    /// Of all memory of a device.
    pub(super) fn of_card(gpu: &Gpu) -> Self {
        match gpu.held_bytes as f64 / gpu.card_bytes.max(1) as f64 {
            full if full > 1.0 => Self::Beyond,
            full if full >= NEARLY_FULL => Self::At,
            0.0 => Self::None,
            _ => Self::Within,
        }
    }
}

impl Theme {
    fn color(self, color: Color) -> Style {
        if self.has_color { Style::new().fg(color) } else { Style::new() }
    }

    /// Of a number or bar.
    pub(super) fn limit_state(self, state: LimitState) -> Style {
        match state {
            LimitState::None => Style::new(),
            LimitState::Within => self.color(Color::Green),
            LimitState::At => self.color(Color::Yellow),
            LimitState::Beyond => self.color(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// Of a gate's word.
    pub(super) fn gate(self, gate: &str) -> Style {
        match gate {
            "timed" | "turns" => self.color(Color::Green),
            "closed" => self.color(Color::Yellow),
            "paused" => self.color(Color::Magenta).add_modifier(Modifier::BOLD),
            "left" => self.color(Color::Red),
            _ => Style::new(),
        }
    }

    /// Of the word for a tenant's memory that may leave the card.
    pub(super) fn memory(self, word: &str) -> Style {
        match word.split(' ').next() {
            Some("runs") => self.color(Color::Green),
            Some("waits" | "restores" | "moves") => self.color(Color::Yellow),
            Some("larger" | "pinned-out" | "bypassed") => self.color(Color::Red),
            Some("frozen") => self.color(Color::Cyan),
            _ => Style::new(),
        }
    }

    /// Of heads and titles.
    pub(super) fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Of a cap's or limit's mark.
    pub(super) fn mark(self) -> Style {
        self.color(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// Of history, and of what is beside the point.
    pub(super) fn faint(self) -> Style {
        self.color(Color::Blue)
    }

    /// Of a key in a line of keys.
    pub(super) fn key(self) -> Style {
        self.color(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// Of the chosen row, whose bars must stay as they are.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> TenantRow {
        TenantRow {
            reached_ratio: Some(0.3),
            share_ppm: Some(300_000),
            held_bytes: 5,
            limit_bytes: Some(10),
            ..TenantRow::default()
        }
    }

    #[test]
    fn time_stands_by_its_cap() {
        let of = |change: fn(&mut TenantRow)| {
            let mut row = row();
            change(&mut row);
            LimitState::of_time(&row)
        };
        assert_eq!(of(|_| ()), LimitState::Within);
        assert_eq!(of(|row| row.throttled_ratio = Some(0.5)), LimitState::At);
        assert_eq!(of(|row| row.reached_ratio = Some(0.4)), LimitState::Beyond);
        assert_eq!(of(|row| row.reached_ratio = None), LimitState::None);
    }

    #[test]
    fn memory_stands_by_its_limit() {
        let of = |change: fn(&mut TenantRow)| {
            let mut row = row();
            change(&mut row);
            LimitState::of_memory(&row)
        };
        assert_eq!(of(|_| ()), LimitState::Within);
        assert_eq!(of(|row| row.held_bytes = 9), LimitState::At);
        assert_eq!(of(|row| row.held_bytes = 11), LimitState::Beyond);
        assert_eq!(of(|row| row.refused_per_second = Some(1.0)), LimitState::Beyond);
        assert_eq!(of(|row| row.held_bytes = 0), LimitState::None);
    }

    #[test]
    fn without_colour_nothing_is_coloured() {
        let theme = Theme { has_color: false };
        for state in [LimitState::None, LimitState::Within, LimitState::At, LimitState::Beyond] {
            assert_eq!(theme.limit_state(state).fg, None);
        }
        let others = [theme.gate("closed"), theme.mark(), theme.key(), theme.faint()];
        assert!(others.iter().all(|style| style.fg.is_none()));
        assert_eq!(Theme { has_color: true }.gate("closed").fg, Some(Color::Yellow));
    }
}
