//! Shares of two programs over time, drawn in characters.
//!
//! Pure. Promises: no line is wider than 80 columns; a program's letter stands at the share it had, a star where both had the
//! same, and nothing where nothing is known.

/// A program's shares: its letter, and times in seconds with shares from 0 to 1.
#[derive(Clone, Debug)]
pub(super) struct PlotTrack<'a> {
    pub(super) letter: char,
    pub(super) samples: &'a [(f64, f64)],
}

/// Columns of the plot itself; the scale takes seven more.
const COLUMNS: usize = 72;
/// Lines from 0 to 100 %, each of 10 points.
const LINES: usize = 11;

/// The plot of `seconds`, with a mark below where something was changed.
pub(super) fn text(tracks: &[PlotTrack<'_>], seconds: f64, changes: &[f64]) -> String {
    let column = |at: f64| {
        let part = (at / seconds.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        ((part * COLUMNS as f64) as usize).min(COLUMNS - 1)
    };
    let mut cells = vec![[' '; COLUMNS]; LINES];
    for track in tracks {
        let mut sums = [(0.0, 0_u32); COLUMNS];
        for (at, share) in track.samples {
            if let Some((sum, count)) = sums.get_mut(column(*at)) {
                *sum += share;
                *count += 1;
            }
        }
        for (at, (sum, count)) in sums.into_iter().enumerate().filter(|(_, (_, count))| *count > 0)
        {
            let share = (sum / f64::from(count)).clamp(0.0, 1.0);
            let line = LINES - 1 - (share * (LINES - 1) as f64).round() as usize;
            if let Some(cell) = cells.get_mut(line).and_then(|line| line.get_mut(at)) {
                *cell = if *cell == ' ' { track.letter } else { '*' };
            }
        }
    }
    let mut text = String::new();
    for (at, line) in cells.iter().enumerate() {
        let percent = (LINES - 1 - at) * 10;
        let scale = if percent.is_multiple_of(50_usize) {
            format!("{percent:>3} %")
        } else {
            " ".repeat(5)
        };
        let line: String = line.iter().collect();
        text.push_str(format!(" {scale}|{line}").trim_end());
        text.push('\n');
    }
    let mut axis = ['-'; COLUMNS];
    for at in changes {
        if let Some(cell) = axis.get_mut(column(*at)) {
            *cell = '^';
        }
    }
    let axis: String = axis.iter().collect();
    let end = format!("{seconds:.0} s");
    text.push_str(&format!("      +{axis}\n       0 s{end:>0$}\n", COLUMNS - 3));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_where_the_shares_were() {
        let a: Vec<_> = (0..72).map(|at| ((f64::from(at) + 0.5) / 6.0, 0.3)).collect();
        let b: Vec<_> = (0..72)
            .map(|at| ((f64::from(at) + 0.5) / 6.0, if at < 36 { 0.7 } else { 0.3 }))
            .collect();
        let tracks =
            [PlotTrack { letter: 's', samples: &a }, PlotTrack { letter: 't', samples: &b }];
        let text = text(&tracks, 12.0, &[6.0]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], " 100 %|");
        assert_eq!(lines[3], format!("      |{}", "t".repeat(36)));
        assert_eq!(lines[7], format!("      |{}{}", "s".repeat(36), "*".repeat(36)));
        assert_eq!(lines[11], format!("      +{}^{}", "-".repeat(36), "-".repeat(35)));
        assert!(
            lines[12].starts_with("       0 s") && lines[12].ends_with("12 s"),
            "{}",
            lines[12]
        );
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn nothing_known_is_an_empty_plot() {
        let text = text(&[PlotTrack { letter: 's', samples: &[] }], 0.0, &[]);
        assert_eq!(text.matches('s').count(), 2, "of seconds: {text}");
    }
}
