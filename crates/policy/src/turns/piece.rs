//! Pieces of the floor of low priority: how far a tenant is with its next one.
//!
//! ```text
//! Accrues --owed a piece--> Due --its turn begins--> Runs --the piece is over--> Drains --its work has ended-->
//! Accrues
//! ```
//!
//! Promises: a piece is paid for as it begins, used or not; time that a kernel takes beyond it is a
//! debt. Does not say how much a tenant is owed: that is done in `floor`.

use super::tuning;

/// How far a tenant is with its next piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Piece {
    /// It is not owed one yet.
    #[default]
    Accrues,
    /// It goes first.
    Due,
    /// It has its turn, in which it goes first.
    Runs { until_ns: u64 },
    /// Others wait until then for the rest in flight, which beside them would take a slice.
    Drains { until_ns: u64 },
}

/// A tenant's floor. Starts as `default()`.
#[derive(Clone, Debug, Default)]
pub(super) struct Floor {
    pub(super) piece: Piece,
    /// It wants a device that others of higher priority keep from it: its gate is closed, or it has its piece. One that
    /// came to be owed a piece in a turn that a pause of theirs gave it would have that turn to its end.
    pub(super) is_kept_out: bool,
    /// Time that it is owed; less than nothing where a kernel outlasted its piece.
    pub(super) owed_ns: i64,
}

impl Floor {
    /// It goes before all others.
    pub(super) fn goes_first(&self) -> bool {
        matches!(self.piece, Piece::Due | Piece::Runs { .. })
    }

    /// Work of its piece may be in flight, for which others wait.
    pub(super) fn drains(&self, now_ns: u64) -> bool {
        matches!(self.piece, Piece::Drains { until_ns } if now_ns < until_ns)
    }

    /// Its turn has ended, whether it has used its piece or not.
    pub(super) fn turn_ended(&mut self) {
        if matches!(self.piece, Piece::Runs { .. }) {
            self.piece = Piece::Accrues;
        }
    }

    /// It was charged for so much. A piece is paid for as it begins; what outlasts it is a debt. What it
    /// has at another time, while a higher one pauses, makes none.
    pub(super) fn charge(&mut self, wall_ns: u64) {
        let left_ns = self.owed_ns.saturating_sub_unsigned(wall_ns);
        self.owed_ns = match self.piece {
            Piece::Runs { .. } => self.owed_ns,
            Piece::Drains { .. } => left_ns,
            Piece::Accrues | Piece::Due => left_ns.max(self.owed_ns.min(0)),
        };
    }

    /// Its turn begins, and ends at `until_ns`.
    pub(super) fn begin(&mut self, piece_ns: u64, until_ns: u64) {
        if self.piece == Piece::Due {
            self.piece = Piece::Runs { until_ns };
            self.owed_ns = self.owed_ns.saturating_sub_unsigned(piece_ns);
        }
    }

    /// So much of the time that has passed is owed to it.
    pub(super) fn accrue(&mut self, more_ns: u64, piece_ns: u64) {
        let piece = i64::try_from(piece_ns).unwrap_or(i64::MAX);
        let most = piece.saturating_mul(tuning::MOST_PIECES);
        self.owed_ns = self.owed_ns.saturating_add_unsigned(more_ns).min(most);
        if self.piece == Piece::Accrues && self.owed_ns >= piece {
            self.piece = Piece::Due;
        }
    }

    /// Its piece may be over, or the work that is left of it has ended.
    pub(super) fn end_piece(&mut self, now_ns: u64, piece_ns: u64, has_ended: bool) {
        self.piece = match self.piece {
            Piece::Runs { until_ns } if until_ns <= now_ns => {
                Piece::Drains { until_ns: now_ns.saturating_add(piece_ns) }
            }
            Piece::Drains { .. } if has_ended => Piece::Accrues,
            piece => piece,
        };
    }
}
