//! Book of a node's shares: what each card has, what is taken of it and by which claim, and so which devices may still be
//! given away. Pure.
//!
//! Memory, time and places of a card are one for all sizes: a device that is taken makes those of every size unhealthy that do not
//! fit any more. Devices of a size that are healthy fit together, so that the scheduler counts right as long as it gives away one
//! size; two sizes at the same moment may not fit beside each other, and the later of them is refused.
//!
//! Promises: what is taken never exceeds the card, but for what a smaller `--slots` or another card finds taken already; a device
//! that is taken stays healthy as long as its card is, since a pod has it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::ids::{DeviceGroup, ShareDevice, digits_of, first_of, key_of, uid_of};
use super::size::ShareSize;
use crate::cards::{CardBook, CardHealth, CardTerms};

/// Cores of a card.
const CARD_PERCENT: u32 = 100;
/// Devices that a container may ask for.
const MOST_DEVICES: usize = 64;
/// Lists in a row that do not name a claim's devices, after which nobody has it.
const MOST_ABSENCES: u32 = 2;

/// Whether devices of a card may be given away.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CardSale {
    Open,
    /// The daemon or the driver does not answer.
    InDoubt,
    /// Refused, with the reason.
    Refused(String),
    /// It has failed, with the reason.
    Ill(String),
}

/// A card.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SoldCard {
    uuid: String,
    digits: String,
    memory_bytes: u64,
    numa_node: Option<u32>,
    sale: CardSale,
}

/// Room of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CardRoom {
    pub(super) memory_bytes: u64,
    pub(super) cores_percent: u32,
    pub(super) slots: u32,
}

/// Devices of a claim.
#[derive(Clone, Debug)]
struct Holding {
    devices: DeviceGroup,
    /// When it was taken; none for one that is known from a life before.
    since: Option<Instant>,
    /// Turn of that.
    turn: u64,
    /// When a list named a pod that has it.
    seen: Option<Instant>,
    /// Whether its tenant and files were made since the plugin began.
    is_made: bool,
    /// Lists since then that did not.
    absences: u32,
}

/// List of what pods have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodList {
    /// Number of pods, whatever they have.
    pub(super) pods: usize,
    /// Devices of each container that has some.
    pub(super) groups: Vec<DeviceGroup>,
}

/// Circumstances of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedAt {
    /// Turn of the book when it was asked for.
    pub(super) turn: u64,
    /// When it came.
    pub(super) now: Instant,
    /// When the kubelet began, which does not know its pods at first.
    pub(super) kubelet_began: Instant,
    /// After which devices are nobody's that were given since it began, and that it never named.
    pub(super) unseen: Duration,
    /// After which it knows its pods, from when it began.
    pub(super) begins: Duration,
}

/// Device as the kubelet is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceOffer {
    pub(super) id: String,
    pub(super) is_healthy: bool,
    pub(super) numa_node: Option<u32>,
}

/// Devices that were taken for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TakenDevices {
    /// UID of their claim.
    pub(super) uid: String,
    /// Devices with the UUIDs of their cards.
    pub(super) devices: Vec<(ShareDevice, String)>,
    /// Whether a claim of these devices is there already.
    pub(super) is_held: bool,
    /// Whether that is one of a pod before: its tenant is not to be inherited.
    pub(super) is_of_another: bool,
}

/// The book.
#[derive(Clone, Debug)]
pub(super) struct ShareBook {
    terms: CardTerms,
    /// By the digits that name them.
    cards: BTreeMap<String, SoldCard>,
    /// By the UIDs of claims.
    holdings: BTreeMap<String, Holding>,
    turn: u64,
}

impl ShareBook {
    pub(super) fn new(terms: CardTerms) -> Self {
        let (cards, holdings) = Default::default();
        Self { terms, cards, holdings, turn: 0 }
    }

    /// Enters the node's cards, none of which may be sold where `refused` says why; sentences about those that are not sold.
    pub(super) fn enter_cards(&mut self, book: &CardBook, refused: Option<&str>) -> Vec<String> {
        let mut left_out = book.left_out.clone();
        let mut found = Vec::new();
        for device in &book.devices {
            match digits_of(&device.uuid) {
                None => left_out.push(format!("{:?} is no card's UUID", device.uuid)),
                Some(digits) => found.push((digits, device)),
            }
        }
        let before = std::mem::take(&mut self.cards);
        for (digits, device) in &found {
            let key = key_of(digits, found.iter().map(|(digits, _)| digits.as_str()));
            let sale = match (device.health, refused) {
                (CardHealth::Unhealthy, _) => CardSale::Ill(device.message.clone()),
                (_, Some(why)) => CardSale::Refused(why.to_owned()),
                _ if book.doubt.is_some() => CardSale::InDoubt,
                _ => CardSale::Open,
            };
            // One that has failed may not say its size any more.
            let known = before
                .values()
                .find(|card| card.digits == *digits)
                .map_or(0, |card| card.memory_bytes);
            let memory_bytes = if device.memory_bytes == 0 { known } else { device.memory_bytes };
            let (uuid, numa_node) = (device.uuid.clone(), device.numa_node);
            self.cards.insert(
                key,
                SoldCard { uuid, digits: digits.clone(), memory_bytes, numa_node, sale },
            );
        }
        left_out
    }

    /// Devices that are taken.
    fn taken(&self) -> BTreeSet<&ShareDevice> {
        self.holdings.values().flat_map(|holding| &holding.devices).collect()
    }

    /// Claim of which not all devices are known. Until they are, nothing is sold: they may be anywhere.
    fn partial(&self) -> Option<&str> {
        let mut all = self.holdings.iter();
        all.find_map(|(uid, holding)| is_partial(uid, &holding.devices).then_some(uid.as_str()))
    }

    /// Room of a card that nothing is taken of.
    fn whole(&self, card: &SoldCard) -> CardRoom {
        CardRoom {
            memory_bytes: self.terms.memory_sold(card.memory_bytes),
            cores_percent: CARD_PERCENT,
            slots: self.terms.slots,
        }
    }

    fn room(&self, card: &SoldCard) -> CardRoom {
        let mut room = self.whole(card);
        for device in
            self.taken().into_iter().filter(|device| card.digits.starts_with(&device.card))
        {
            room.memory_bytes = room.memory_bytes.saturating_sub(device.size.memory_bytes());
            room.cores_percent = room.cores_percent.saturating_sub(device.size.cores_percent);
            room.slots = room.slots.saturating_sub(1);
        }
        room
    }

    /// Room of the card that is named so.
    pub(super) fn room_of(&self, card: &str) -> Option<CardRoom> {
        self.cards.get(card).map(|card| self.room(card))
    }

    /// Devices of a size, for the kubelet.
    pub(super) fn offers(&self, size: ShareSize) -> Vec<DeviceOffer> {
        let taken = self.taken();
        let mut offers = Vec::new();
        for (key, card) in &self.cards {
            let has_size = size.memory_bytes() <= self.terms.most_memory(card.memory_bytes);
            let whole = if has_size { self.whole(card).fits(size) } else { 0 };
            let is_open = card.sale == CardSale::Open && self.partial().is_none();
            let mut left = if is_open && has_size { self.room(card).fits(size) } else { 0 };
            let own = |device: &&&ShareDevice| device.card == *key && device.size == size;
            let numbers: BTreeSet<u32> =
                (0..whole).chain(taken.iter().filter(own).map(|device| device.number)).collect();
            for number in numbers {
                let device = ShareDevice { card: key.clone(), size, number };
                let is_healthy = if taken.contains(&device) {
                    !matches!(card.sale, CardSale::Ill(_))
                } else {
                    let fits = left > 0;
                    left = left.saturating_sub(1);
                    fits
                };
                offers.push(DeviceOffer {
                    id: device.to_string(),
                    is_healthy,
                    numa_node: card.numa_node,
                });
            }
        }
        offers
    }

    /// Takes devices of a size for a container.
    ///
    /// # Errors
    /// In words, of which nothing was taken.
    pub(super) fn take(
        &mut self,
        size: ShareSize,
        ids: &[String],
        now: Instant,
    ) -> Result<TakenDevices, String> {
        let group = read_group(size, ids)?;
        let uid = uid_of(&group).ok_or("no device is named")?;
        let devices = self.check(&group)?;
        let before = self.holdings.get(&uid);
        let taken = TakenDevices {
            uid: uid.clone(),
            devices,
            is_held: before.is_some(),
            is_of_another: before.is_some_and(|holding| holding.seen.is_some()),
        };
        self.turn += 1;
        let (since, turn) = (Some(now), self.turn);
        let holding =
            Holding { devices: group, since, turn, seen: None, is_made: true, absences: 0 };
        self.holdings.insert(uid, holding);
        Ok(taken)
    }

    /// The devices with their cards' UUIDs, if those that are not taken fit.
    fn check(&self, group: &DeviceGroup) -> Result<Vec<(ShareDevice, String)>, String> {
        let taken = self.taken();
        let mut rooms: BTreeMap<&str, CardRoom> = BTreeMap::new();
        let mut devices = Vec::new();
        for device in group {
            let Some(card) = self.cards.get(&device.card) else {
                return Err(format!("{device}: no card of this node begins with {}", device.card));
            };
            match &card.sale {
                CardSale::Ill(why) => {
                    return Err(format!("{device}: {} has failed: {why}", card.uuid));
                }
                CardSale::Refused(why) if !taken.contains(device) => {
                    return Err(format!("{device}: {why}"));
                }
                _ => {}
            }
            devices.push((device.clone(), card.uuid.clone()));
            if taken.contains(device) {
                continue;
            }
            if let Some(uid) = self.partial() {
                return Err(format!(
                    "{device}: what {uid} has is not known until the kubelet has listed it; make this pod again"
                ));
            }
            let room = rooms.entry(&device.card).or_insert_with(|| self.room(card));
            let left = *room;
            *room = left.without(device.size).ok_or_else(|| {
                format!(
                    "{device} does not fit any more: {} has {} MiB, {} % and {} places left; another pod was given them at the same \
                     moment, make this one again",
                    card.uuid,
                    left.memory_bytes >> 20,
                    left.cores_percent,
                    left.slots
                )
            })?;
        }
        Ok(devices)
    }

    /// Claims that pods have and that were not made yet, as after a reboot: the kubelet does not ask for them again.
    pub(super) fn unmade(&self) -> Vec<TakenDevices> {
        let wanted =
            self.holdings.iter().filter(|(_, holding)| holding.seen.is_some() && !holding.is_made);
        let taken = wanted.filter_map(|(uid, holding)| {
            let card = |device: &ShareDevice| {
                Some((device.clone(), self.cards.get(&device.card)?.uuid.clone()))
            };
            let devices = holding.devices.iter().map(card).collect::<Option<_>>()?;
            let is_whole = !is_partial(uid, &holding.devices);
            is_whole.then(|| TakenDevices {
                uid: uid.clone(),
                devices,
                is_held: true,
                is_of_another: false,
            })
        });
        taken.collect()
    }

    /// Notes that a claim was made.
    pub(super) fn enter_made(&mut self, uid: &str) {
        if let Some(holding) = self.holdings.get_mut(uid) {
            holding.is_made = true;
        }
    }

    /// Forgets a claim.
    pub(super) fn forget(&mut self, uid: &str) {
        self.holdings.remove(uid);
    }

    /// Enters a claim that a checkpoint names; whether it is one of a plugin.
    pub(super) fn find_again(&mut self, uid: &str, shares: &BTreeSet<String>) -> bool {
        let Some(first) = first_of(uid) else { return false };
        let mut devices: DeviceGroup =
            shares.iter().filter_map(|share| share.parse().ok()).collect();
        devices.insert(first);
        self.hold(uid.to_owned(), devices, None);
        true
    }

    fn hold(&mut self, uid: String, devices: DeviceGroup, seen: Option<Instant>) {
        self.turn += 1;
        let (since, turn) = (None, self.turn);
        let holding = Holding { devices, since, turn, seen, is_made: false, absences: 0 };
        self.holdings.insert(uid, holding);
    }

    /// Turn of the last change. A list of pods that is asked for after it knows of all that was taken until it.
    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// Number of claims that have something.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.holdings.len()
    }

    /// Hears which devices containers have; UIDs of claims that nobody has any more. These stay in the book until they are
    /// forgotten.
    pub(super) fn observe(&mut self, list: &PodList, at: ListedAt) -> Vec<String> {
        let mut gone = Vec::new();
        for (uid, holding) in
            self.holdings.iter_mut().filter(|(_, holding)| holding.turn <= at.turn)
        {
            let is_partial = is_partial(uid, &holding.devices);
            let has = |group: &DeviceGroup| match is_partial {
                true => uid_of(group).as_ref() == Some(uid),
                false => holding.devices.is_subset(group),
            };
            if list.groups.iter().any(has) {
                (holding.seen, holding.absences) = (Some(at.now), 0);
                continue;
            }
            holding.absences = holding.absences.saturating_add(1);
            if holding.absences >= MOST_ABSENCES && holding.is_known_to(list, at) {
                gone.push(uid.clone());
            }
        }
        // Of a checkpoint that was lost.
        for group in &list.groups {
            let taken = self.taken();
            if group.iter().all(|device| taken.contains(device)) {
                continue;
            }
            if let Some(uid) = uid_of(group) {
                self.hold(uid, group.clone(), Some(at.now));
            }
        }
        gone
    }
}

impl Holding {
    /// Whether the kubelet of the list knows of it: it named it once, or had the time to. One that knows no pod at all, though
    /// the plugin is one, has not been told of them.
    fn is_known_to(&self, list: &PodList, at: ListedAt) -> bool {
        let began = at.kubelet_began;
        if self.seen.is_some_and(|seen| seen >= began) {
            return true;
        }
        let since = |then| at.now.saturating_duration_since(then);
        let had_time = match self.since.filter(|given| *given >= began) {
            Some(given) => since(given) >= at.unseen,
            None => since(began) >= at.begins,
        };
        list.pods > 0 && had_time
    }
}

impl CardRoom {
    /// How many shares of a size there is room for.
    pub(super) fn fits(self, size: ShareSize) -> u32 {
        let memory = u32::try_from(self.memory_bytes / size.memory_bytes()).unwrap_or(u32::MAX);
        memory.min(self.cores_percent / size.cores_percent).min(self.slots)
    }

    fn without(self, size: ShareSize) -> Option<Self> {
        Some(Self {
            memory_bytes: self.memory_bytes.checked_sub(size.memory_bytes())?,
            cores_percent: self.cores_percent.checked_sub(size.cores_percent)?,
            slots: self.slots.checked_sub(1)?,
        })
    }
}

/// Whether a claim has more devices than are known: its checkpoint was lost, and no list has named it yet.
fn is_partial(uid: &str, devices: &DeviceGroup) -> bool {
    uid_of(devices).as_deref() != Some(uid)
}

/// Devices of a request.
fn read_group(size: ShareSize, ids: &[String]) -> Result<DeviceGroup, String> {
    if !(1..=MOST_DEVICES).contains(&ids.len()) {
        return Err(format!("{} devices; a container has 1 to {MOST_DEVICES}", ids.len()));
    }
    let mut group = DeviceGroup::new();
    for id in ids {
        let device: ShareDevice = id.parse()?;
        if device.size != size {
            return Err(format!("{id} is none of {}", size.resource()));
        }
        if !group.insert(device) {
            return Err(format!("{id} is named twice"));
        }
    }
    Ok(group)
}
