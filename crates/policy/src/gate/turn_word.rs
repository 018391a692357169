//! The word of a turn inside a tenant: a count, the unit that has or had the turn, and flags.
//!
//! Promises: one word, so that a change of it is made with all of it in view, and no two turns have one number. Does
//! not say when a turn ends: that is decided in `inside`.

use divvy_abi::usage::SHARED_SLOT;

/// The unit that a turn names for processes that share memory or events.
pub(super) const JOINED: usize = Turn::UNIT as usize;

/// A turn, as [`divvy_abi::usage::gate_tenant::TURN`] holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn(pub(super) u64);

impl Turn {
    /// Bits that name the unit.
    const UNIT: u64 = (1 << 16) - 1;
    /// Flag of a turn that its holder has handed on, and that is not taken yet.
    const HANDED_ON: u64 = 1 << 16;
    /// Flag of a turn in which others may go beside its holder, which leaves most of the device unused.
    const LOOSE: u64 = 1 << 17;
    /// Flag of a turn behind one that was not handed on.
    const LAPSED: u64 = 1 << 18;
    /// Lowest bit of the turn's count.
    const ONE: u64 = 1 << 19;

    /// Returns the unit that has or last had the turn.
    pub(super) fn unit(self) -> usize {
        usize::try_from(self.0 & Self::UNIT).unwrap_or(SHARED_SLOT)
    }

    pub(super) fn is_held(self) -> bool {
        self.0 & Self::HANDED_ON == 0
    }

    pub(super) fn is_loose(self) -> bool {
        self.0 & Self::LOOSE != 0
    }

    /// Returns the turn's count and unit.
    pub(super) fn number(self) -> u64 {
        self.0 & !(Self::HANDED_ON | Self::LOOSE | Self::LAPSED)
    }

    /// Returns how many turns came before it.
    pub(super) fn count(self) -> u64 {
        self.0 / Self::ONE
    }

    pub(super) fn handed_on(self) -> Self {
        Self(self.number() | Self::HANDED_ON)
    }

    pub(super) fn loosened(self) -> Self {
        Self(self.0 | Self::LOOSE)
    }

    pub(super) fn is_behind_a_lapse(self) -> bool {
        self.0 & Self::LAPSED != 0
    }

    pub(super) fn behind_a_lapse(self, is_second: bool) -> Self {
        Self(self.0 | if is_second { Self::LOOSE } else { Self::LAPSED })
    }

    pub(super) fn fastened(self) -> Self {
        Self(self.0 & !Self::LOOSE)
    }

    pub(super) fn taken_by(self, unit: usize) -> Self {
        let count = (self.0 & !(Self::ONE - 1)).wrapping_add(Self::ONE);
        Self(count | (unit as u64 & Self::UNIT))
    }
}
