//! A tenant's place among others: its virtual time, and what it was when it left a domain or a priority.
//!
//! Promises: a lead or a debt counts where it was made. Does not know the others: [`super::along`] does.

/// How a tenant has come to its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has none yet.
    #[default]
    Nowhere,
    /// It has come into a domain, and is to stand so far ahead of its peers.
    Comes { ahead_ns: u64 },
    /// It has its place.
    Placed,
}

/// A tenant's place.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// Virtual time: what it held, divided by its weight.
    pub(super) virtual_ns: u64,
    pub(super) standing: Standing,
    /// How far it was ahead of the peer furthest behind at the last look, and when that was.
    ahead_ns: u64,
    seen_ns: u64,
    /// It was charged for a turn, or for work in a lull, since the last full look.
    pub(super) was_served: bool,
    /// The priority that its place is among.
    level: i32,
    /// The one it was at before, and how far ahead of the others there it was when it left.
    left: Option<(i32, i64)>,
}

impl Place {
    /// Comes into a domain whose round goes to `round_ns`, as far ahead as it was where it was before unless
    /// that is longer ago than `kept_ns`. In the same domain it keeps its place.
    pub(super) fn enter(
        &mut self,
        (now_ns, kept_ns): (u64, u64),
        round_ns: u64,
        priority: i32,
        is_another: bool,
    ) {
        let is_first = self.standing == Standing::Nowhere;
        if !is_first && !is_another {
            return;
        }
        if is_first {
            self.level = priority;
        }
        let is_kept = now_ns.saturating_sub(self.seen_ns) < kept_ns;
        let ahead_ns = if is_kept { self.ahead_ns } else { 0 };
        self.virtual_ns = round_ns.saturating_add(ahead_ns);
        self.standing = Standing::Comes { ahead_ns };
    }

    /// Notes how far it is ahead of its peers, of which the one furthest behind is at `lowest`.
    pub(super) fn note_lead(&mut self, lowest: Option<u64>, now_ns: u64) {
        let lowest_ns = lowest.unwrap_or(self.virtual_ns);
        self.ahead_ns = self.virtual_ns.saturating_sub(lowest_ns);
        self.seen_ns = now_ns;
    }

    /// The priority that it is among.
    pub(super) fn level(&self) -> i32 {
        self.level
    }

    /// The same, where that is not `priority`.
    pub(super) fn level_before(&self, priority: i32) -> Option<i32> {
        (self.level != priority).then_some(self.level)
    }

    /// Takes its place among the tenants of `priority`, of which the one furthest behind is at `here_ns`;
    /// `there_ns` is that of the priority it leaves. When it comes back there it is as far ahead as it was, or
    /// as far behind, up to `step_ns`. A lead or debt at one priority does not count at another.
    pub(super) fn change_level(
        &mut self,
        priority: i32,
        [here_ns, there_ns]: [Option<u64>; 2],
        step_ns: u64,
    ) {
        let ahead = |of_ns: u64| signed(self.virtual_ns).saturating_sub(signed(of_ns));
        let left = (self.level, there_ns.map_or(0, ahead));
        let (_, ahead_ns) = self.left.filter(|(level, _)| *level == priority).unwrap_or((0, 0));
        if let Some(here_ns) = here_ns {
            let place_ns = signed(here_ns).saturating_add(ahead_ns.max(-signed(step_ns)));
            self.virtual_ns = u64::try_from(place_ns).unwrap_or(0);
        }
        self.left = Some(left);
        self.level = priority;
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
