//! A world of a kubelet, a checkpoint and the book: whatever happens in whichever order, nothing is given away twice or lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::book::ShareBook;
use super::super::ids::{DeviceGroup, ShareDevice};
use super::super::prefer::preferred;
use super::super::size::ShareSize;
use super::books::{UNSEEN, book, card as card_of, cards, healthy, observe, sizes};
use super::{A, B};
use crate::cards::CardHealth;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    /// A pod comes, by a list that is perhaps not the last; the plugin may be killed before it answers.
    Comes {
        size: usize,
        count: usize,
        is_late: bool,
        is_killed: bool,
    },
    Goes(usize),
    ListIsAsked,
    ListIsHeard,
    TimePasses,
    Restart,
    KubeletRestarts,
    CheckpointIsLost,
    CardFails(bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    let comes = (0..3_usize, 1..3_usize, any::<bool>(), prop::bool::weighted(0.1));
    prop_oneof![
        8 => comes.prop_map(|(size, count, is_late, is_killed)| H::Comes { size, count, is_late, is_killed }),
        4 => (0..8_usize).prop_map(H::Goes),
        4 => Just(H::ListIsAsked),
        4 => Just(H::ListIsHeard),
        1 => Just(H::TimePasses),
        1 => Just(H::Restart),
        1 => Just(H::KubeletRestarts),
        1 => Just(H::CheckpointIsLost),
        1 => any::<bool>().prop_map(H::CardFails),
    ]
}

/// A kubelet, a checkpoint and the plugin's book.
struct World {
    book: ShareBook,
    /// Containers that run.
    pods: Vec<DeviceGroup>,
    checkpoint: BTreeMap<String, BTreeSet<String>>,
    /// Healthy devices of each size, as the kubelet was told last, and before that.
    told: [BTreeMap<ShareSize, Vec<String>>; 2],
    asked: Option<(u64, Instant, Vec<DeviceGroup>)>,
    now: Instant,
    kubelet_began: Instant,
    /// Whether it has been told of its pods.
    is_told: bool,
}

impl World {
    fn new() -> Self {
        let (pods, checkpoint, told) = Default::default();
        let now = Instant::now();
        let mut world = Self {
            book: book(),
            pods,
            checkpoint,
            told,
            asked: None,
            now,
            kubelet_began: now,
            is_told: true,
        };
        world.tell();
        world
    }

    fn tell(&mut self) {
        let now = |size: ShareSize| (size, healthy(&self.book, &size.to_string()));
        let now = sizes().into_iter().map(now).collect();
        self.told[1] = std::mem::replace(&mut self.told[0], now);
    }

    /// Pods as the kubelet lists them: none, where it has just begun.
    fn listed(&self) -> Vec<DeviceGroup> {
        if self.is_told { self.pods.clone() } else { Vec::new() }
    }

    fn hear(&mut self, listed: &[DeviceGroup], turn: u64, began: Instant) {
        for uid in observe(&mut self.book, listed, turn, (began, self.now)) {
            self.checkpoint.remove(&uid);
            self.book.forget(&uid);
        }
        for made in self.book.unmade() {
            let shares = made.devices.iter().map(|(device, _)| device.to_string()).collect();
            self.checkpoint.insert(made.uid.clone(), shares);
            self.book.enter_made(&made.uid);
        }
    }

    fn restart(&mut self) {
        self.book = book();
        for (uid, shares) in &self.checkpoint {
            assert!(self.book.find_again(uid, shares));
        }
        self.asked = None;
        let turn = self.book.turn();
        self.hear(&self.listed(), turn, self.kubelet_began);
    }

    fn happens(&mut self, happening: &Happening) {
        match *happening {
            Happening::Comes { size, count, is_late, is_killed } => {
                self.comes(sizes()[size], count, is_late, is_killed)
            }
            Happening::Goes(at) => {
                if at < self.pods.len() {
                    self.pods.remove(at);
                }
            }
            Happening::ListIsAsked => {
                self.asked = Some((self.book.turn(), self.kubelet_began, self.listed()));
            }
            Happening::ListIsHeard => {
                if let Some((turn, began, listed)) = self.asked.take() {
                    self.hear(&listed, turn, began);
                }
            }
            // A kubelet is told of its pods in less than that.
            Happening::TimePasses => {
                self.now += UNSEEN / 2;
                self.is_told = true;
                self.asked = None;
            }
            Happening::KubeletRestarts => {
                self.now += Duration::from_secs(1);
                self.kubelet_began = self.now;
                self.is_told = false;
                self.asked = None;
            }
            Happening::Restart => self.restart(),
            Happening::CheckpointIsLost => {
                // The daemon's list and the CDI files still say which claims there are.
                self.checkpoint.values_mut().for_each(BTreeSet::clear);
                self.restart();
            }
            Happening::CardFails(fails) => {
                let mut card = card_of(A, 80);
                if fails {
                    card.health = CardHealth::Unhealthy;
                }
                self.book.enter_cards(&cards(&[card, card_of(B, 80)]), None);
            }
        }
        self.tell();
    }

    fn comes(&mut self, size: ShareSize, count: usize, is_late: bool, is_killed: bool) {
        // The kubelet admits the pods that it had before any other.
        if !self.is_told {
            return;
        }
        let taken: BTreeSet<String> =
            self.pods.iter().flatten().map(ShareDevice::to_string).collect();
        let told = self.told[usize::from(is_late)].get(&size).cloned().unwrap_or_default();
        let free: Vec<String> = told.into_iter().filter(|id| !taken.contains(id)).collect();
        let chosen = preferred(&self.book, &free, &[], count);
        if chosen.len() < count {
            return;
        }
        let Ok(taken) = self.book.take(size, &chosen, self.now) else { return };
        let shares = taken.devices.iter().map(|(device, _)| device.to_string()).collect();
        self.checkpoint.insert(taken.uid, shares);
        if is_killed {
            self.restart();
        } else {
            self.pods.push(taken.devices.into_iter().map(|(device, _)| device).collect());
        }
    }

    /// Asserts that the containers that run have no more than there is, and that as many fit as are said to.
    fn check(&self) {
        for (key, _) in [("0aaaaaaa", A), ("0bbbbbbb", B)] {
            let on = self.pods.iter().flatten().filter(|device| device.card == key);
            let (mut memory, mut cores) = (0, 0);
            for device in on {
                memory += device.size.memory_gib;
                cores += device.size.cores_percent;
            }
            assert!(
                memory <= 80 && cores <= 100,
                "{key}: {memory} GiB, {cores} %: {:?}",
                self.pods
            );
        }
        let taken: BTreeSet<&ShareDevice> = self.pods.iter().flatten().collect();
        for size in sizes() {
            let mut book = self.book.clone();
            for id in healthy(&self.book, &size.to_string()) {
                if !taken.contains(&id.parse::<ShareDevice>().unwrap()) {
                    book.take(size, &[id], self.now).unwrap();
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_given_away_twice_whatever_happens(happenings in prop::collection::vec(happening(), 0..60)) {
        let mut world = World::new();
        for happening in &happenings {
            world.happens(happening);
            world.check();
        }
        // Once all have gone, all is there again.
        world.pods.clear();
        world.is_told = true;
        world.now += UNSEEN;
        world.happens(&Happening::CardFails(false));
        for _ in 0..3 {
            world.happens(&Happening::ListIsAsked);
            world.happens(&Happening::ListIsHeard);
        }
        prop_assert_eq!((world.book.count(), world.checkpoint.len()), (0, 0));
        prop_assert_eq!(healthy(&world.book, "8g-30c").len(), 6);
    }
}
