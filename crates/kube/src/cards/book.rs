//! Book of the node's devices: what the daemon told, in the words of a pool. Pure.
//!
//! A card with MIG on is no device; its instances are, which claims share as they share cards. A card or instance of which the
//! memory is not known is not in the book, since nothing could be promised of it.

use std::time::SystemTime;

use super::answer::{ToldCard, ToldCards};
use super::health::{CardHealth, NodeCard, NodeCards};
use super::terms::CardTerms;

/// Beginning of a UUID, and of the name of its device.
const PREFIXES: [(&str, &str); 2] = [("GPU-", "gpu-"), ("MIG-", "mig-")];
/// The longest name of a device.
const MOST_NAME_BYTES: usize = 63;

/// Devices of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardBook {
    /// In the driver's order, which is that in which the scheduler takes them.
    pub devices: Vec<BookedDevice>,
    /// The driver's version.
    pub driver: Option<String>,
    /// Reason why this is not news: no daemon, or a driver that does not answer it.
    pub doubt: Option<String>,
    /// Cards that are no devices, and why.
    pub left_out: Vec<String>,
    /// Time of the last look, whatever came of it.
    pub checked: Option<SystemTime>,
    /// Whether the cards were ever told.
    pub is_known: bool,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookedDevice {
    /// Its name in the pool.
    pub name: String,
    /// As the driver's tools print it.
    pub uuid: String,
    /// The product's name.
    pub product: String,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Compute capability, such as `9.0`.
    pub capability: Option<String>,
    /// Architecture, such as `Hopper`.
    pub architecture: Option<String>,
    /// The root of its bus, such as `pci0000:17`.
    pub pcie_root: Option<String>,
    /// The NUMA node that it is nearest to.
    pub numa_node: Option<u32>,
    /// Card or instance.
    pub kind: DeviceKind,
    /// Its health.
    pub health: CardHealth,
    /// The same in words; may be empty.
    pub message: String,
}

/// Kind of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// A card.
    #[default]
    Card,
    /// An instance of a partitioned card.
    Instance {
        /// The card's UUID.
        parent: String,
        /// Its profile, such as `1g.18gb`.
        profile: Option<String>,
    },
}

/// Name of the device with this UUID; `None` where it is no UUID of a device.
pub fn name_of(uuid: &str) -> Option<String> {
    let name = PREFIXES.iter().find_map(|(of_uuid, of_name)| {
        let rest = uuid.strip_prefix(of_uuid)?;
        Some(format!("{of_name}{}", rest.to_ascii_lowercase()))
    });
    name.filter(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let rest = name.get(4..).unwrap_or_default();
    name.len() <= MOST_NAME_BYTES
        && !rest.is_empty()
        && name.bytes().all(plain)
        && !name.ends_with('-')
}

impl CardBook {
    /// The book after an answer.
    pub(super) fn after(&self, told: ToldCards, now: SystemTime) -> Self {
        let driver = told.driver.or_else(|| self.driver.clone());
        if let Some(why) = &told.detail {
            // The driver was not asked, and what the kernel alone tells has no size: all that was known stays, in doubt.
            return Self { driver, ..self.without(why, now) };
        }
        let mut next = Self { driver, checked: Some(now), is_known: true, ..Self::default() };
        for card in &told.cards {
            next.enter(card);
        }
        next
    }

    /// The book after a failure to ask.
    pub(super) fn without(&self, why: &str, now: SystemTime) -> Self {
        Self {
            devices: self.devices.iter().map(|device| device.in_doubt(why)).collect(),
            doubt: Some(why.to_owned()),
            checked: Some(now),
            ..self.clone()
        }
    }

    fn enter(&mut self, card: &ToldCard) {
        let uuid = &card.uuid;
        if !card.mig {
            return self.add(card, uuid, card.memory_bytes, DeviceKind::Card);
        }
        if card.instances.is_empty() {
            self.left_out.push(format!("{uuid} is partitioned (MIG) and has no instances"));
        }
        for instance in &card.instances {
            let (parent, profile) = (uuid.clone(), instance.profile.clone());
            let kind = DeviceKind::Instance { parent, profile };
            self.add(card, &instance.uuid, instance.memory_bytes, kind);
        }
    }

    fn add(&mut self, card: &ToldCard, uuid: &str, memory_bytes: u64, kind: DeviceKind) {
        let health = card.health;
        let Some(name) = name_of(uuid) else {
            self.left_out.push(format!("{uuid:?} is no UUID that a device can be named after"));
            return;
        };
        if self.devices.iter().any(|device| device.name == name) {
            self.left_out.push(format!("{uuid} is told of twice"));
            return;
        }
        // One that has failed may not say its size any more; it is told of for its health.
        if memory_bytes == 0 && health != CardHealth::Unhealthy {
            self.left_out.push(format!("the driver does not tell how much memory {uuid} has"));
            return;
        }
        self.devices.push(BookedDevice {
            name,
            uuid: uuid.to_owned(),
            product: card.name.clone(),
            memory_bytes,
            capability: card.compute_capability.clone(),
            architecture: card.architecture.clone(),
            pcie_root: card.pcie_root.clone(),
            numa_node: card.numa_node,
            kind,
            health,
            message: card.detail.clone().unwrap_or_default(),
        });
    }

    /// All devices, with their health for the kubelet and what they have to give on these terms.
    pub fn cards(&self, terms: CardTerms) -> NodeCards {
        let card = |device: &BookedDevice| NodeCard {
            device: device.name.clone(),
            gpu_uuid: device.uuid.clone(),
            health: device.health,
            message: device.message.clone(),
            offer: terms.offer(device.memory_bytes),
        };
        NodeCards {
            cards: self.devices.iter().map(card).collect(),
            // A look that told nothing yet is none.
            checked: self.checked.filter(|_| self.is_known),
        }
    }
}

impl BookedDevice {
    /// The same while nobody can say how it is. One that had failed has not recovered by that.
    fn in_doubt(&self, why: &str) -> Self {
        if self.health == CardHealth::Unhealthy {
            return self.clone();
        }
        Self { health: CardHealth::Unknown, message: why.to_owned(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::answer::ToldInstance;
    use super::*;

    const A: &str = "GPU-0aaaaaaa-0000-0000-0000-000000000001";
    const B: &str = "GPU-0bbbbbbb-0000-0000-0000-000000000002";
    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    /// UUID of the device with this name, as the driver's tools print it.
    fn uuid_of(name: &str) -> Option<String> {
        let uuid = PREFIXES.iter().find_map(|(of_uuid, of_name)| {
            let rest = name.strip_prefix(of_name)?;
            Some(format!("{of_uuid}{rest}"))
        });
        uuid.filter(|_| is_name(name))
    }

    fn card(uuid: &str) -> ToldCard {
        ToldCard {
            uuid: uuid.to_owned(),
            memory_bytes: 80 << 30,
            health: CardHealth::Healthy,
            ..ToldCard::default()
        }
    }

    fn told(cards: &[ToldCard]) -> ToldCards {
        ToldCards { cards: cards.to_vec(), ..ToldCards::default() }
    }

    fn health(book: &CardBook) -> Vec<(CardHealth, &str)> {
        book.devices.iter().map(|device| (device.health, device.message.as_str())).collect()
    }

    #[test]
    fn a_name_says_which_card_it_is() {
        let name = "gpu-0aaaaaaa-0000-0000-0000-000000000001";
        assert_eq!(name_of(A).as_deref(), Some(name));
        assert_eq!(uuid_of(name).as_deref(), Some(A));
        assert_eq!(uuid_of("mig-1").as_deref(), Some("MIG-1"));
        for none in
            ["", "GPU-", "gpu-", "GPU-a b", "gpu-A", "0", "gpu", "nvme-1", "GPU-x-", "GPU-\n"]
        {
            assert_eq!((name_of(none), uuid_of(none)), (None, None), "{none:?}");
        }
        assert_eq!(name_of(&format!("GPU-{}", "a".repeat(60))), None);
    }

    #[test]
    fn the_last_book_stays_in_doubt_while_nobody_tells() {
        let empty = CardBook::default().without("no daemon", NOW);
        assert!(!empty.is_known && empty.devices.is_empty());
        let no_driver = ToldCards { detail: Some("no NVML".to_owned()), ..told(&[]) };
        assert!(!empty.after(no_driver.clone(), NOW).is_known);

        let mut ill = card(B);
        (ill.health, ill.detail) = (CardHealth::Unhealthy, Some("lost".to_owned()));
        let book = empty.after(told(&[card(A), ill]), NOW);
        assert_eq!(health(&book), [(CardHealth::Healthy, ""), (CardHealth::Unhealthy, "lost")]);
        for gone in [book.without("no daemon", NOW), book.after(no_driver.clone(), NOW)] {
            let why = gone.doubt.as_deref().unwrap();
            assert!(gone.is_known);
            assert_eq!(
                health(&gone),
                [(CardHealth::Unknown, why), (CardHealth::Unhealthy, "lost")]
            );
        }
        let back = book.without("no daemon", NOW).after(told(&[card(B)]), NOW);
        assert_eq!((back.devices.len(), back.doubt.as_deref()), (1, None));
        assert_eq!(back.devices[0].health, CardHealth::Healthy);
    }

    #[test]
    fn a_partitioned_card_is_its_instances() {
        let mut parted = card(A);
        parted.mig = true;
        let book = CardBook::default().after(told(&[parted.clone(), card(B)]), NOW);
        assert_eq!((book.devices.len(), book.left_out.len()), (1, 1));
        let instance = |uuid: &str, memory_bytes| ToldInstance {
            uuid: uuid.to_owned(),
            profile: Some("1g.18gb".to_owned()),
            memory_bytes,
        };
        parted.instances = vec![instance("MIG-1", 16 << 30), instance("MIG-2", 0)];
        let book = CardBook::default().after(told(&[parted]), NOW);
        let [device] = &book.devices[..] else { panic!("{book:?}") };
        assert_eq!((device.name.as_str(), device.memory_bytes), ("mig-1", 16 << 30));
        let (parent, profile) = (A.to_owned(), Some("1g.18gb".to_owned()));
        assert_eq!(device.kind, DeviceKind::Instance { parent, profile });
        assert!(book.left_out[0].contains("MIG-2"), "{:?}", book.left_out);
    }

    #[test]
    fn hostile_lists_are_left_out_in_words() {
        let mut sizeless = card(B);
        sizeless.memory_bytes = 0;
        let book =
            CardBook::default().after(told(&[card(A), card(A), sizeless, card("../x")]), NOW);
        assert_eq!((book.devices.len(), book.left_out.len()), (1, 3));
    }

    proptest! {
        #[test]
        fn names_and_uuids_are_each_others(text in "(GPU|MIG|gpu|mig)?-?[0-9a-fA-F-]{0,60}|\\PC*") {
            if let Some(name) = name_of(&text) {
                prop_assert!(name.len() <= 63);
                prop_assert!(uuid_of(&name).unwrap().eq_ignore_ascii_case(&text));
            }
            if let Some(uuid) = uuid_of(&text) {
                prop_assert_eq!(name_of(&uuid), Some(text));
            }
        }
    }
}
