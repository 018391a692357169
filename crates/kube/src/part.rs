//! A part of a card that a pod asks for by annotations, as KAI and Run:ai read them, for one of its
//! containers.
//!
//! Promises: an amount that cannot be understood refuses the document, and so do annotations
//! without an amount.
//!
//! Does not know what the container asks for itself.

use crate::asked::{PartAmount, PodPart};
use crate::claim::MOST_MIB;
use crate::key::{Fate, Place};
use crate::keys;
use crate::note::{Code, Notes};
use crate::quantity;
use crate::yaml::{MapEntry, Node};

/// Amounts and places that were found so far.
#[derive(Debug, Default)]
struct Said {
    amount: Option<(String, usize, PartAmount)>,
    cards: Option<u64>,
    container: Option<String>,
    /// The first key, for people.
    first: Option<(String, usize)>,
}

/// Takes such annotations and labels out of a pod's metadata.
pub(crate) fn take(metadata: &mut Node, notes: &mut Notes) -> Option<PodPart> {
    let mut said = Said::default();
    for part in ["annotations", "labels"] {
        for entry in metadata.get(part).map(Node::entries).unwrap_or_default().to_vec() {
            let name = &*entry.key.text;
            let Some(key) = keys::find_at_pod(part == "labels", name) else { continue };
            let fates = [Fate::PodMemory, Fate::PodFraction, Fate::PodCount, Fate::PodContainer];
            if !fates.contains(&key.fate) {
                continue;
            }
            if let Err(reason) = said.read(key.fate, &entry) {
                let value = entry.value.text().unwrap_or_default();
                let words = format!("{name}: {value:?} {reason}");
                notes.add(Code::BadValue, entry.line, name, words);
            }
            if let Some(system) = keys::system(key) {
                let value = entry.value.text().unwrap_or_default();
                let words = format!("{name}: {value}: a key of {system}: {}", key.becomes);
                notes.add(Code::Foreign, entry.line, name, words);
            }
            metadata.take(&[part, name]);
        }
    }
    let Said { amount, cards, container, first } = said;
    match (amount, first) {
        (Some((name, line, amount)), _) => Some(PodPart { name, line, amount, cards, container }),
        (None, Some((name, line))) if notes.refusals() == 0 => {
            let words = format!("{name} has no gpu-memory or gpu-fraction beside it; write one");
            notes.add(Code::Contradiction, line, &name, words);
            None
        }
        (None, _) => None,
    }
}

impl Said {
    fn read(&mut self, fate: Fate, entry: &MapEntry) -> Result<(), &'static str> {
        let text = entry.value.text().unwrap_or_default();
        let place = (entry.key.text.clone(), entry.line);
        self.first.get_or_insert_with(|| place.clone());
        let amount = match fate {
            Fate::PodCount => {
                self.cards = Some(quantity::whole_text(text)?);
                return Ok(());
            }
            Fate::PodContainer => {
                self.container = Some(text.to_owned());
                return Ok(());
            }
            Fate::PodMemory => match quantity::whole_text(text)? {
                mib @ 1..=MOST_MIB => PartAmount::Mib(mib),
                _ => return Err("is no memory of a card in MiB"),
            },
            _ => match quantity::millionths(text)? {
                part @ 1..=1_000_000 => PartAmount::Millionths(part),
                _ => return Err("is no part of a card; write one above 0, up to 1"),
            },
        };
        if self.amount.is_some() {
            return Err("stands beside another amount; keep one");
        }
        self.amount = Some((place.0, place.1, amount));
        Ok(())
    }
}

/// The container that has it: the named one, else the first that asks for cards itself, else the
/// first.
pub(crate) fn place(part: &PodPart, spec: &Node) -> Option<(&'static str, usize)> {
    let lists = ["containers", "initContainers"];
    let all = || {
        lists.into_iter().flat_map(|list| {
            let items = spec.get(list).map(Node::items).unwrap_or_default();
            items.iter().enumerate().map(move |(at, item)| (list, at, item))
        })
    };
    let named = |item: &Node| item.get("name").and_then(Node::text).map(str::to_owned);
    let found = match &part.container {
        Some(name) => all().find(|(.., item)| named(item).as_ref() == Some(name)),
        None => all().find(|(.., item)| asks(item)).or_else(|| all().next()),
    };
    found.map(|(list, at, _)| (list, at))
}

fn asks(container: &Node) -> bool {
    let side = |side| container.at(&["resources", side]).map(Node::entries).unwrap_or_default();
    let is_asked = |entry: &MapEntry| {
        let key = keys::find(Place::Resource, &entry.key.text);
        key.is_some_and(|key| key.fate != Fate::Kept)
    };
    side("limits").iter().chain(side("requests")).any(is_asked)
}
