//! Kernels of several devices that wait for one another, as those of a sum over all of them do.
//!
//! A rank's kernel keeps its device from its beginning on, and gets on once those of all ranks have begun. From then
//! on each takes its own time: that one is switched out later does not hold the others up.

use super::state::{Collective, Which, World};
use crate::card::Position;

impl World {
    /// A rank has launched its kernel.
    pub(super) fn join(&mut self, which: Which, device: usize, position: Position, now_ns: u64) {
        self.cards[device].hold(position, true);
        let at = self.collectives.iter().position(|one| one.which == which);
        let at = at.unwrap_or_else(|| {
            self.collectives.push(Collective { which, joined: Vec::new() });
            self.collectives.len() - 1
        });
        self.collectives[at].joined.push((device, position));
        self.look(device);
        self.meet(now_ns);
    }

    /// Has those get on of which all have begun.
    pub(super) fn meet(&mut self, now_ns: u64) {
        for Collective { which, joined } in std::mem::take(&mut self.collectives) {
            for (device, _) in &joined {
                self.cards[*device].advance(now_ns);
            }
            let mut begun = joined.iter();
            let have_begun =
                begun.all(|(device, position)| self.cards[*device].has_begun(*position));
            if joined.len() < which.ranks as usize || !have_begun {
                self.collectives.push(Collective { which, joined });
                continue;
            }
            for (device, position) in joined {
                self.cards[device].hold(position, false);
                self.look(device);
            }
        }
    }
}
