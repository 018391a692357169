//! Why memory that may leave a card stays on it, or does not come back: one closed list, for `freeze`, `thaw` and `ps`.
//!
//! Promises: each reason has one word for programs and one clause for people.
//!
//! Does not say which reason holds: [`super::why`] does, except for the reason that a process gives itself ([`Stays`]).

use divvy_abi::usage::Stays;

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $text:literal;)*) => {
        /// A reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause { $($(#[$doc])* $name,)* }

        impl Cause {
            /// All of them.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its word for programs.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// A clause for people.
            pub(crate) const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

causes! {
    /// A call of the program has not returned.
    Calls = "calls", "a call of the program that may use it has not returned";
    /// Work has not ended.
    Work = "work", "work on the card does not end, a stream that waits for the program itself perhaps";
    /// A stream captures.
    Capture = "capture", "a stream is being captured";
    /// The host is full.
    Host = "host", "the host has no room for it";
    /// Contexts are broken.
    Context = "context", "its contexts are broken, and answer no call any more";
    /// The driver fails.
    Driver = "driver", "the driver refuses to move it";
    /// The tenant has no living process.
    NoProcess = "no-process", "no process of the tenant is alive";
    /// The process has not seen the wish.
    NotAnswered = "not-answered", "its program has not answered yet: it is stopped, or only just begins";
    /// Paused tenants have no turn.
    Paused = "paused", "the tenant is paused: `divvy set TENANT --resume` lets it go on";
    /// Others have their turn.
    Turn = "turn", "other tenants have their turn with the card, and its own has not come";
    /// It is too large.
    Larger = "larger", "it is larger than the room that the card has for memory that may leave";
    /// Memory of others cannot leave.
    PinnedOut = "pinned-out", "memory of others that cannot leave takes the room on the card";
    /// It did not leave in time before.
    Bypassed = "bypassed", "it did not leave in its time, and counts as memory that stays until it leaves";
    /// Its turn has come.
    Coming = "coming", "it is on its way back";
    /// It was sent away.
    Frozen = "frozen", "it was sent away by `divvy freeze`";
    /// Another program has the room, and no daemon makes some.
    NoDaemon = "no-daemon", "the card has no room for it, and no daemon serves the tenant that would have others make some";
    /// The card is full.
    CardFull = "card-full", "the card has no room for it";
}

impl serde::Serialize for Cause {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Cause {
    /// The cause that a process says.
    pub(crate) const fn said(stays: Stays) -> Option<Self> {
        match stays {
            Stays::Not => None,
            Stays::Calls => Some(Self::Calls),
            Stays::Work => Some(Self::Work),
            Stays::Capture => Some(Self::Capture),
            Stays::Host => Some(Self::Host),
            Stays::Context => Some(Self::Context),
            Stays::Driver => Some(Self::Driver),
        }
    }
}
