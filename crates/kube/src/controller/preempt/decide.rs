//! Decision whom to evict for a pod that waits for shares. Pure.
//!
//! Promises: a victim has a lower priority than the pod that waits, always. Nobody is evicted where that pod would not fit
//! afterwards, or fits already, counting pods that are ending as gone. Of the ways there are it takes the one whose dearest victim has
//! the lowest priority; then the one with the fewest victims; then the lowest priorities in sum; then the youngest, whose work is
//! the least. Up to [`MOST_TRIED`] victims this is exact; where more are needed no victim is needless.
//!
//! Room that was made for a pod of the same or a higher priority is kept for it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::offers::{Amounts, Card, CardLoad};

/// Victims of which every choice is tried.
pub(super) const MOST_TRIED: usize = 3;
/// Pods on a card or node among which every choice is tried.
const MOST_CHOICES: usize = 32;
/// Steps of a search for places, after which there are none.
const MOST_STEPS: u32 = 20_000;

/// Pod, by which it is found again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodKey {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// Pod that is on a node.
#[derive(Clone, Debug)]
pub(super) struct HoldingPod {
    pub(super) key: PodKey,
    pub(super) node: String,
    pub(super) priority: i32,
    /// Time of its creation, in seconds of the clock.
    pub(super) created_s: i64,
    /// Whether it is about to give back what it has.
    pub(super) is_ending: bool,
}

/// Share that a claim has of a card.
#[derive(Clone, Debug)]
pub(super) struct HeldShare {
    /// Places in [`ClusterShares::cards`] and [`ClusterShares::pods`].
    pub(super) card: usize,
    /// All those that must end before it is free; none where nothing here frees it.
    pub(super) holders: Vec<usize>,
    pub(super) amounts: Amounts,
}

/// Shares of a cluster at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterShares {
    pub(super) cards: Vec<Card>,
    pub(super) pods: Vec<HoldingPod>,
    pub(super) shares: Vec<HeldShare>,
}

/// Share that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedShare {
    pub(super) amounts: Amounts,
    /// Group of which each is on another card than the others.
    pub(super) apart: Option<usize>,
}

/// Shares that a pod wants, all on one node.
#[derive(Clone, Debug)]
pub(super) struct PodWish {
    pub(super) priority: i32,
    pub(super) wants: Vec<WantedShare>,
    /// Nodes on which it may be, but for the shares.
    pub(super) nodes: BTreeSet<String>,
}

/// Room that was made for a pod that has not come yet.
#[derive(Clone, Debug)]
pub(super) struct KeptRoom {
    pub(super) node: String,
    pub(super) priority: i32,
    pub(super) wants: Vec<WantedShare>,
}

/// Decision for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Preemption {
    /// It fits, perhaps when others have ended: nothing is to be done.
    Fits,
    /// These go, by their places, and then it fits on the node.
    Evict { node: String, victims: Vec<usize> },
    /// No eviction helps.
    Nothing,
}

/// Order of the ways: the smallest is taken.
type Cost = (i32, usize, i64, Reverse<i64>);

/// Decides. `kept` is room for others, `spared` are pods that may not go, by their UIDs.
pub(super) fn decide(
    shares: &ClusterShares,
    wish: &PodWish,
    kept: &[KeptRoom],
    spared: &BTreeSet<String>,
) -> Preemption {
    let mut best: Option<(Cost, &String, Vec<usize>)> = None;
    for node in &wish.nodes {
        let here = kept.iter().filter(|room| room.node == *node && room.priority >= wish.priority);
        // Groups of two pods have nothing to do with each other.
        let wants: Vec<(usize, &WantedShare)> = here
            .enumerate()
            .flat_map(|(at, room)| room.wants.iter().map(move |want| (at + 1, want)))
            .chain(wish.wants.iter().map(|want| (0, want)))
            .collect();
        let cards: Vec<usize> = (0..shares.cards.len())
            .filter(|at| shares.cards.get(*at).is_some_and(|card| card.node == *node))
            .collect();
        let scopes: Vec<Vec<usize>> = match wants.len() {
            // One share is on one card: each card is a way of its own.
            1 => cards.iter().map(|card| vec![*card]).collect(),
            _ => vec![cards],
        };
        for cards in scopes {
            let held = shares.shares.iter().filter(|share| cards.contains(&share.card)).collect();
            let scope = Scope { shares, cards, held, wants: wants.clone() };
            if scope.fits(&BTreeSet::new()) {
                return Preemption::Fits;
            }
            let Some(victims) = scope.victims(wish.priority, node, spared) else { continue };
            let cost = scope.cost(&victims);
            if best.as_ref().is_none_or(|(known, ..)| cost < *known) {
                best = Some((cost, node, victims));
            }
        }
    }
    match best {
        Some((_, node, victims)) => Preemption::Evict { node: node.clone(), victims },
        None => Preemption::Nothing,
    }
}

/// Cards among which places are looked for, and what is to be placed: each share with the number of its pod.
struct Scope<'a> {
    shares: &'a ClusterShares,
    cards: Vec<usize>,
    /// Shares of these cards.
    held: Vec<&'a HeldShare>,
    wants: Vec<(usize, &'a WantedShare)>,
}

impl Scope<'_> {
    fn pod(&self, at: usize) -> Option<&HoldingPod> {
        self.shares.pods.get(at)
    }

    /// Whether all is placed where pods that are ending, and these, are gone.
    fn fits(&self, gone: &BTreeSet<usize>) -> bool {
        let is_gone =
            |at: &usize| gone.contains(at) || self.pod(*at).is_none_or(|pod| pod.is_ending);
        let mut places: Vec<Place<'_>> = Vec::new();
        for at in &self.cards {
            let Some(card) = self.shares.cards.get(*at) else { continue };
            let mut load = CardLoad::default();
            for share in self.held.iter().filter(|share| share.card == *at) {
                if share.holders.is_empty() || !share.holders.iter().all(is_gone) {
                    load.add(&share.amounts);
                }
            }
            places.push((card, load, BTreeSet::new()));
        }
        let mut steps = MOST_STEPS;
        placed(&mut places, &self.wants, &mut steps)
    }

    /// Victims with which all is placed; none where there are no such.
    fn victims(&self, priority: i32, node: &str, spared: &BTreeSet<String>) -> Option<Vec<usize>> {
        let holders = self.held.iter().flat_map(|share| &share.holders);
        let mut holders: Vec<(usize, &HoldingPod)> = holders
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter_map(|at| Some((*at, self.pod(*at)?)))
            .filter(|(_, pod)| {
                pod.priority < priority
                    && !pod.is_ending
                    && pod.node == node
                    && !spared.contains(&pod.key.uid)
            })
            .collect();
        holders.sort_by_key(|(_, pod)| (pod.priority, Reverse(pod.created_s)));
        let levels: BTreeSet<i32> = holders.iter().map(|(_, pod)| pod.priority).collect();
        for level in levels {
            let choices: Vec<usize> = holders
                .iter()
                .filter(|(_, pod)| pod.priority <= level)
                .map(|(at, _)| *at)
                .collect();
            if self.fits(&choices.iter().copied().collect()) {
                return Some(self.fewest(&choices).unwrap_or_else(|| self.needed(&choices)));
            }
        }
        None
    }

    /// The best of all choices of few.
    fn fewest(&self, choices: &[usize]) -> Option<Vec<usize>> {
        if choices.len() > MOST_CHOICES {
            return None;
        }
        (1..=MOST_TRIED).find_map(|count| {
            let mut found: Option<(Cost, Vec<usize>)> = None;
            chosen(choices, count, &mut Vec::new(), &mut |victims| {
                let cost = self.cost(victims);
                if found.as_ref().is_none_or(|(known, _)| cost < *known)
                    && self.fits(&victims.iter().copied().collect())
                {
                    found = Some((cost, victims.to_vec()));
                }
            });
            found.map(|(_, victims)| victims)
        })
    }

    /// All of the choices but those without which it fits too, of which the dearest are spared first.
    fn needed(&self, choices: &[usize]) -> Vec<usize> {
        let mut gone: BTreeSet<usize> = choices.iter().copied().collect();
        for at in choices.iter().rev() {
            gone.remove(at);
            if !self.fits(&gone) {
                gone.insert(*at);
            }
        }
        gone.into_iter().collect()
    }

    fn cost(&self, victims: &[usize]) -> Cost {
        let pods = || victims.iter().filter_map(|at| self.pod(*at));
        (
            pods().map(|pod| pod.priority).max().unwrap_or(i32::MIN),
            victims.len(),
            pods().map(|pod| i64::from(pod.priority)).sum(),
            Reverse(pods().map(|pod| pod.created_s).min().unwrap_or(i64::MAX)),
        )
    }
}

/// Calls with each choice of `count` of them.
fn chosen(from: &[usize], count: usize, taken: &mut Vec<usize>, call: &mut impl FnMut(&[usize])) {
    if count == 0 {
        return call(taken);
    }
    for (at, one) in from.iter().enumerate() {
        taken.push(*one);
        chosen(from.get(at + 1..).unwrap_or_default(), count - 1, taken, call);
        taken.pop();
    }
}

/// Card, as full as it is, and the groups of which it has one.
type Place<'a> = (&'a Card, CardLoad, BTreeSet<(usize, usize)>);

/// Whether each of `wants` finds a place.
fn placed(places: &mut [Place<'_>], wants: &[(usize, &WantedShare)], steps: &mut u32) -> bool {
    let Some(((pod, want), rest)) = wants.split_first() else { return true };
    for at in 0..places.len() {
        let Some(left) = steps.checked_sub(1) else { return false };
        *steps = left;
        let Some((card, load, groups)) = places.get_mut(at) else { return false };
        let group = want.apart.map(|group| (*pod, group));
        if group.is_some_and(|group| groups.contains(&group)) {
            continue;
        }
        let Ok(amounts) = card.consumed(&want.amounts) else { continue };
        if !card.has_room(load, &amounts) {
            continue;
        }
        let before = load.clone();
        load.add(&amounts);
        groups.extend(group);
        if placed(places, rest, steps) {
            return true;
        }
        if let Some((_, load, groups)) = places.get_mut(at) {
            *load = before;
            group.map(|group| groups.remove(&group));
        }
    }
    false
}
