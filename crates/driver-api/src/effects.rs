//! Divvy's effects on an entry point: a set, because one call may need several.
//!
//! The meanings are the house's contract; each hook that carries one has an end-to-end test.

/// One thing Divvy does with an entry point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Effect {
    /// Takes or returns device memory: ask, call, settle.
    Account = 1,
    /// Its answer is virtualised.
    Answer = 1 << 1,
    /// Submits GPU work.
    Gate = 1 << 2,
    /// May read or write device memory, submit work, or make a stream wait for the program.
    Touch = 1 << 3,
    /// Our state must follow it.
    Observe = 1 << 4,
    /// Cannot be made safe under a tenant's limits.
    Refuse = 1 << 5,
    /// Moves data between host and device or makes a stream wait: it ends a span of work that is
    /// being measured.
    Span = 1 << 6,
}

impl Effect {
    /// All effects, in the order of their bits.
    pub const ALL: [Self; 7] = [
        Self::Account,
        Self::Answer,
        Self::Gate,
        Self::Touch,
        Self::Observe,
        Self::Refuse,
        Self::Span,
    ];

    /// The word that stands for it in `effects.txt` and in the coverage page.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Answer => "answer",
            Self::Gate => "gate",
            Self::Touch => "touch",
            Self::Observe => "observe",
            Self::Refuse => "refuse",
            Self::Span => "span",
        }
    }
}

/// A set of effects; the empty set is `pass`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effects(u8);

impl Effects {
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Whether `effect` is in the set.
    pub const fn has(self, effect: Effect) -> bool {
        self.0 & effect as u8 != 0
    }

    /// Whether the call is forwarded untouched.
    pub const fn is_pass(self) -> bool {
        self.0 == 0
    }

    /// Whether the call is hooked: it has an effect other than `touch`, which alone is that of calls about managed
    /// memory, which does not move by our hand.
    pub const fn needs_hook(self) -> bool {
        self.0 & !(Effect::Touch as u8) != 0
    }
}
