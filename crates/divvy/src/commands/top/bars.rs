//! Bars and lines of history, drawn in characters.
//!
//! Pure. A bar stands for the whole device, from its left edge to its right, and has a mark where the tenant's cap or limit
//! is; a line of history stands for a minute. Each is exactly as wide as it is asked to be.

/// Characters that a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glyphs {
    /// Blocks in eighths.
    Unicode,
    /// Where the locale is no UTF-8.
    Ascii,
}

/// A bar in its three parts, since each may have a colour of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    /// Up to the mark, or all of it where there is none.
    pub(super) below: String,
    /// The mark.
    pub(super) mark: String,
    /// Beyond the mark.
    pub(super) above: String,
    /// Whether the bar reaches the mark.
    pub(super) is_at_mark: bool,
}

impl Glyphs {
    /// Those of a locale, by the first of its variables that is set.
    pub(super) fn of_locale(variable: impl Fn(&str) -> Option<String>) -> Self {
        let names = ["LC_ALL", "LC_CTYPE", "LANG"];
        let locale = names.into_iter().filter_map(variable).find(|value| !value.is_empty());
        let is_utf8 = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        if is_utf8 { Self::Unicode } else { Self::Ascii }
    }

    /// Steps of a cell that is filled in part, from nearly empty to full.
    fn steps(self) -> &'static [char] {
        match self {
            Self::Unicode => &['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'],
            Self::Ascii => &['#'],
        }
    }

    fn empty(self) -> char {
        match self {
            Self::Unicode => '·',
            Self::Ascii => '.',
        }
    }

    /// The mark of a bar that does not reach it, and of one that does.
    fn marks(self) -> [char; 2] {
        match self {
            Self::Unicode => ['│', '┃'],
            Self::Ascii => ['|', '!'],
        }
    }

    /// Levels of a line of history, the first of them for nothing.
    fn levels(self) -> &'static [char] {
        match self {
            Self::Unicode => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => &['_', '.', ':', '-', '=', '+', '*', '#'],
        }
    }

    /// Sign behind a text that was cut.
    pub(super) fn cut(self) -> char {
        match self {
            Self::Unicode => '…',
            Self::Ascii => '~',
        }
    }

    /// A bar of `width` characters that is filled to `ratio` of its length, with a mark at `mark`.
    pub(super) fn bar(self, width: usize, ratio: f64, mark: Option<f64>) -> Bar {
        let (ratio, steps) = (clamped(ratio), self.steps());
        let filled = (ratio * (width * steps.len()) as f64).round() as usize;
        let cell = |at: usize| match filled.saturating_sub(at * steps.len()) {
            0 => self.empty(),
            part => steps.get(part.min(steps.len()) - 1).copied().unwrap_or(self.empty()),
        };
        let cells = |from: usize, to: usize| (from..to).map(cell).collect::<String>();
        let Some(mark) = mark.filter(|_| width > 0) else {
            let none = String::new();
            return Bar {
                below: cells(0, width),
                mark: none.clone(),
                above: none,
                is_at_mark: false,
            };
        };
        let mark = clamped(mark);
        // The mark of the whole is the last cell.
        let at = ((mark * width as f64) as usize).min(width - 1);
        // A hundredth of the device is less than a cell shows.
        let is_at_mark = ratio + 0.01 >= mark;
        let [open, reached] = self.marks();
        let mark = if is_at_mark { reached } else { open };
        Bar { below: cells(0, at), mark: mark.to_string(), above: cells(at + 1, width), is_at_mark }
    }

    /// A line of history, one character for each value; nothing is known where there is none.
    pub(super) fn history(self, values: &[Option<f64>]) -> String {
        let levels = self.levels();
        let level = |value: &Option<f64>| {
            let Some(value) = value else { return ' ' };
            let at = (clamped(*value) * (levels.len() - 1) as f64).ceil() as usize;
            levels.get(at).copied().unwrap_or(' ')
        };
        values.iter().map(level).collect()
    }
}

fn clamped(ratio: f64) -> f64 {
    if ratio.is_nan() { 0.0 } else { ratio.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bar: &Bar) -> String {
        [&*bar.below, &*bar.mark, &*bar.above].concat()
    }

    #[test]
    fn a_bar_is_filled_in_eighths_and_marked() {
        let bar = |ratio, mark| text(&Glyphs::Unicode.bar(8, ratio, mark));
        assert_eq!(bar(0.0, None), "········");
        assert_eq!(bar(0.5, None), "████····");
        assert_eq!(bar(0.55, None), "████▍···");
        assert_eq!(bar(0.25, Some(0.5)), "██··│···");
        assert_eq!(bar(0.5, Some(0.5)), "████┃···");
        assert_eq!(bar(0.9, Some(0.5)), "████┃██▎");
        assert_eq!(bar(1.0, Some(1.0)), "███████┃");
        assert_eq!(bar(f64::NAN, Some(0.0)), "┃·······");
        let plain = |ratio, mark| text(&Glyphs::Ascii.bar(8, ratio, mark));
        assert_eq!(
            (plain(0.5, Some(0.75)), plain(2.0, None)),
            ("####..|.".into(), "########".into())
        );
    }

    #[test]
    fn history_shows_levels_and_what_is_not_known() {
        let values = [None, Some(0.0), Some(0.01), Some(0.5), Some(1.0), Some(7.0)];
        assert_eq!(Glyphs::Unicode.history(&values), " ▁▂▅██");
        assert_eq!(Glyphs::Ascii.history(&values), " _.=##");
    }

    #[test]
    fn blocks_are_for_a_locale_that_has_them() {
        let of = |name: &'static str, value: &'static str| {
            Glyphs::of_locale(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(of("LANG", "en_GB.UTF-8"), Glyphs::Unicode);
        assert_eq!(of("LC_ALL", "C.utf8"), Glyphs::Unicode);
        assert_eq!(of("LANG", "C"), Glyphs::Ascii);
        assert_eq!(of("LANGUAGE", "de_DE.UTF-8"), Glyphs::Ascii);
    }

    proptest! {
        #[test]
        fn a_bar_has_the_width_that_was_asked_for(
            width in 0_usize..200, ratio in -1.0..3.0, mark in proptest::option::of(-1.0..3.0),
        ) {
            for glyphs in [Glyphs::Unicode, Glyphs::Ascii] {
                prop_assert_eq!(text(&glyphs.bar(width, ratio, mark)).chars().count(), width);
            }
        }
    }
}
