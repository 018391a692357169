//! Properties of the pure rooms over generated inputs: the grammar never guesses, the ledger never
//! exceeds, the answers never contradict each other.
#![cfg(not(loom))]

use std::cell::RefCell;

use divvy_policy::answer;
use divvy_policy::charge;
use divvy_policy::ledger::{self, Admission, MemoryRefusal, Slots};
use divvy_policy::limit::{self, Rules, Selector, UuidText};
use divvy_policy::size::{self, Limit};
use proptest::prelude::*;

/// A size written in one of the ways people write it, and the bytes it means.
fn written_size() -> impl Strategy<Value = (String, Option<u64>)> {
    let unit = prop::sample::select(vec![("", 0_u32), ("k", 10), ("m", 20), ("g", 30), ("t", 40)]);
    let tail = prop::sample::select(vec!["", "b", "B", "i", "iB", "ib"]);
    (0_u64..5000, unit, tail, any::<bool>()).prop_map(|(number, (letter, shift), tail, upper)| {
        let letter = if upper { letter.to_uppercase() } else { letter.to_owned() };
        let tail = if letter.is_empty() { "" } else { tail };
        (format!("{number}{letter}{tail}"), (number != 0).then(|| number << shift))
    })
}

struct Plain(RefCell<Vec<(u64, u64)>>);

impl Plain {
    fn new(slots: usize) -> Self {
        Self(RefCell::new(vec![(0, 0); slots]))
    }
}

impl Slots for Plain {
    fn high(&self) -> usize {
        self.0.borrow().len()
    }
    fn asking(&self, slot: usize) -> u64 {
        self.0.borrow()[slot].1
    }
    fn held_word(&self, slot: usize) -> u64 {
        self.0.borrow()[slot].0
    }
    fn add_asking(&self, slot: usize, delta: u64) {
        let word = &mut self.0.borrow_mut()[slot].1;
        *word = word.wrapping_add(delta);
    }
    fn add_held_word(&self, slot: usize, delta: u64) {
        let word = &mut self.0.borrow_mut()[slot].0;
        *word = word.wrapping_add(delta);
    }
    fn replace_held_word(&self, slot: usize, old: u64, new: u64) -> Result<(), u64> {
        let word = &mut self.0.borrow_mut()[slot].0;
        if *word != old {
            return Err(*word);
        }
        *word = new;
        Ok(())
    }
}

struct Alone;

impl Admission for Alone {
    fn reap(&mut self) {}
    fn pause(&mut self) -> bool {
        false
    }
}

proptest! {
    #[test]
    fn a_written_size_means_its_bytes((text, bytes) in written_size()) {
        let expected = match bytes {
            None => Ok(Limit::Unlimited),
            Some(bytes) if bytes <= size::MAX_BYTES => Ok(Limit::Bytes(bytes)),
            Some(_) => Err(size::SizeReason::TooLarge),
        };
        prop_assert_eq!(size::parse(&text).map_err(|e| e.reason), expected);
    }

    #[test]
    fn no_text_is_unlimited_but_a_written_zero(text in ".{0,12}") {
        if size::parse(&text) == Ok(Limit::Unlimited) {
            let rest = text.strip_prefix('0');
            prop_assert!(rest.is_some_and(|rest| rest.chars().all(|c| "bBkKmMgGtTiI".contains(c))));
        }
    }

    #[test]
    fn a_fraction_is_exact_to_the_byte(whole in 0_u64..1000, digits in "[0-9]{1,9}") {
        let text = format!("{whole}.{digits}g");
        let scale = 10_u128.pow(u32::try_from(digits.len()).expect("short"));
        let number = u128::from(whole) * scale + digits.parse::<u128>().expect("digits");
        let bytes = u64::try_from((number << 30) / scale).expect("small");
        let expected = if bytes == 0 { None } else { Some(Limit::Bytes(bytes)) };
        prop_assert_eq!(size::parse(&text).ok(), expected);
    }

    #[test]
    fn an_error_shows_what_was_written(text in "[ -~]{0,40}") {
        if let Err(error) = size::parse(&text) {
            let quoted = format!("\"{text}\"");
            prop_assert!(error.to_string().contains(&quoted));
        }
        let mut rules = Rules::new();
        if let Err(error) = rules.parse_into(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn any_uuid_reads_back(uuid in any::<[u8; 16]>()) {
        prop_assert_eq!(limit::parse_uuid(&UuidText(&uuid).to_string()), Some(uuid));
    }

    #[test]
    fn the_order_of_rules_does_not_matter(
        all in 1_u64..1000, index in 1_u64..1000, by_uuid in 1_u64..1000, order in 0_usize..6,
    ) {
        let uuid = [9; 16];
        let mut rules = [
            limit::rule(Selector::All, Limit::Bytes(all)),
            limit::rule(Selector::Index(3), Limit::Bytes(index)),
            limit::rule(Selector::Uuid(uuid), Limit::Bytes(by_uuid)),
        ];
        rules.rotate_left(order % 3);
        if order >= 3 {
            rules.swap(0, 1);
        }
        prop_assert_eq!(limit::resolve(&rules, Some(3), &uuid, 1), Ok(Some(by_uuid)));
        prop_assert_eq!(limit::resolve(&rules, Some(3), &[0; 16], 1), Ok(Some(index)));
        prop_assert_eq!(limit::resolve(&rules, None, &[0; 16], 1), Ok(Some(all)));
    }

    #[test]
    fn a_share_of_a_card_never_exceeds_it(ppm in 1_u32..=1_000_000, card in any::<u64>()) {
        prop_assert!(Limit::Ppm(ppm).resolve(card).is_some_and(|bytes| bytes <= card));
    }

    #[test]
    fn answers_fit_together(
        limit in prop::option::of(any::<u64>()), used in any::<u64>(),
        card in any::<u64>(), free in any::<u64>(),
    ) {
        let free = free.min(card);
        let told = answer::memory(limit, used, card, free);
        prop_assert!(told.total_bytes <= card);
        prop_assert!(told.free_bytes <= free);
        prop_assert!(told.used_bytes <= told.total_bytes);
        prop_assert!(told.free_bytes <= told.total_bytes - told.used_bytes);
        prop_assert!(limit.is_none_or(|limit| told.total_bytes <= limit));
    }

    #[test]
    fn charges_cover_what_they_are_for(bytes in any::<u64>(), address in any::<u64>()) {
        let charged = charge::whole_granules(bytes);
        prop_assert!(charged.is_multiple_of(charge::GRANULE_BYTES));
        prop_assert!(charged >= bytes || bytes > u64::MAX - charge::GRANULE_BYTES);
        prop_assert!(charge::pool_reserve(bytes) >= charged || bytes > u64::MAX / 2);
        prop_assert!(charge::first_granule(address) <= charge::last_granule(address, bytes));
    }

    /// One after the other, the ledger is exact: granted when it fits, refused when not.
    #[test]
    fn one_at_a_time_the_ledger_is_exact(
        limit in 1_u64..1000,
        acts in prop::collection::vec((1_usize..5, 0_u64..400, 0_u8..5), 0..200),
    ) {
        let slots = Plain::new(5);
        let mut truth = [0_u64; 5];
        for (slot, bytes, act) in acts {
            let held: u64 = truth.iter().sum();
            match act {
                0..=2 => {
                    let outcome = match ledger::ask(&slots, slot, bytes, limit) {
                        Some(total_bytes) => Ok(total_bytes),
                        None => ledger::admit(&slots, slot, bytes, limit, &mut Alone),
                    };
                    if held + bytes <= limit {
                        prop_assert_eq!(outcome, Ok(held + bytes));
                        truth[slot] += bytes;
                    } else {
                        prop_assert_eq!(outcome, Err(MemoryRefusal::OverLimit { held_bytes: held }));
                    }
                }
                3 => {
                    ledger::give_back(&slots, slot, bytes);
                    truth[slot] = truth[slot].saturating_sub(bytes);
                }
                _ => {
                    ledger::clear(&slots, slot);
                    truth[slot] = 0;
                }
            }
            prop_assert_eq!(ledger::used_bytes(&slots), truth.iter().sum::<u64>());
        }
    }
}
