//! The book, alone: what fits, what is reclaimed and when.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::book::{ListedAt, PodList, ShareBook, TakenDevices};
use super::super::ids::DeviceGroup;
use super::super::prefer::preferred;
use super::super::size::ShareSize;
use super::{A, B, size};
use crate::cards::{BookedDevice, CardBook, CardHealth, CardTerms, DeviceKind};

pub(super) const UNSEEN: Duration = Duration::from_secs(300);
const SIZES: [&str; 3] = ["8g-30c", "16g-20c", "40g-50c"];

pub(super) fn card(uuid: &str, gib: u64) -> BookedDevice {
    BookedDevice {
        uuid: uuid.to_owned(),
        memory_bytes: gib << 30,
        health: CardHealth::Healthy,
        numa_node: Some(1),
        ..BookedDevice::default()
    }
}

pub(super) fn cards(devices: &[BookedDevice]) -> CardBook {
    CardBook { devices: devices.to_vec(), is_known: true, ..CardBook::default() }
}

fn slots(slots: u32) -> CardTerms {
    CardTerms { slots, ..CardTerms::default() }
}

pub(super) fn sizes() -> Vec<ShareSize> {
    SIZES.map(size).to_vec()
}

pub(super) fn book() -> ShareBook {
    let mut book = ShareBook::new(CardTerms::default());
    assert_eq!(book.enter_cards(&cards(&[card(A, 80), card(B, 80)]), None), [""; 0]);
    book
}

pub(super) fn healthy(book: &ShareBook, of: &str) -> Vec<String> {
    book.offers(size(of)).into_iter().filter(|it| it.is_healthy).map(|it| it.id).collect()
}

fn take(book: &mut ShareBook, of: &str, ids: &[&str]) -> Result<TakenDevices, String> {
    let ids: Vec<_> = ids.iter().map(|&id| id.to_owned()).collect();
    book.take(size(of), &ids, Instant::now())
}

/// Hears a list of a kubelet that began at `began`, and runs one pod beside those that have something.
pub(super) fn observe(
    book: &mut ShareBook,
    groups: &[DeviceGroup],
    turn: u64,
    (began, now): (Instant, Instant),
) -> Vec<String> {
    let list = PodList { pods: groups.len() + 1, groups: groups.to_vec() };
    book.observe(
        &list,
        ListedAt { turn, now, kubelet_began: began, unseen: UNSEEN, begins: UNSEEN },
    )
}

pub(super) fn group(ids: &[&str]) -> DeviceGroup {
    ids.iter().map(|id| id.parse().unwrap()).collect()
}

#[test]
fn a_card_is_one_for_all_sizes() {
    let mut book = book();
    assert_eq!(healthy(&book, "8g-30c").len(), 6);
    assert_eq!(healthy(&book, "40g-50c").len(), 4);
    assert_eq!(healthy(&book, "16g-20c").len(), 10);
    let taken = take(&mut book, "40g-50c", &["0aaaaaaa-40g-50c-1"]).unwrap();
    assert_eq!((&*taken.uid, taken.is_held), ("dp-0aaaaaaa-40g-50c-1", false));
    assert_eq!(taken.devices[0].1, A);
    // Of 40 GiB and 50 %: one of 30 %, two of 20 %, one of 50 % more.
    assert_eq!(
        healthy(&book, "8g-30c"),
        ["0aaaaaaa-8g-30c-0", "0bbbbbbb-8g-30c-0", "0bbbbbbb-8g-30c-1", "0bbbbbbb-8g-30c-2"]
    );
    assert_eq!(healthy(&book, "16g-20c").len(), 2 + 5);
    let both =
        ["0aaaaaaa-40g-50c-0", "0aaaaaaa-40g-50c-1", "0bbbbbbb-40g-50c-0", "0bbbbbbb-40g-50c-1"];
    assert_eq!(healthy(&book, "40g-50c"), both);
    take(&mut book, "8g-30c", &["0aaaaaaa-8g-30c-0"]).unwrap();
    assert_eq!(healthy(&book, "40g-50c"), both[1..], "the one that is taken, and B's");
    let refused = take(&mut book, "40g-50c", &["0aaaaaaa-40g-50c-0"]).unwrap_err();
    assert!(refused.contains("32768 MiB, 20 %") && refused.contains(A), "{refused}");
    assert_eq!(book.offers(size("8g-30c")).len(), 6, "ids stay, healthy or not");
    assert_eq!(book.offers(size("8g-30c"))[0].numa_node, Some(1));
    book.forget("dp-0aaaaaaa-40g-50c-1");
    assert_eq!(healthy(&book, "8g-30c").len(), 6);
}

#[test]
fn places_bound_small_shares() {
    let mut book = ShareBook::new(slots(3));
    book.enter_cards(&cards(&[card(A, 80)]), None);
    assert_eq!(healthy(&book, "1g-1c").len(), 3);
    let all = ["0aaaaaaa-1g-1c-0", "0aaaaaaa-1g-1c-1", "0aaaaaaa-1g-1c-2"];
    let taken = take(&mut book, "1g-1c", &all).unwrap();
    assert_eq!(taken.devices.len(), 3);
    assert!(take(&mut book, "1g-1c", &["0aaaaaaa-1g-1c-3"]).unwrap_err().contains("0 places left"));
    // Devices that are taken stay in the list and count, whatever is sold.
    let mut fewer = ShareBook::new(slots(2));
    fewer.enter_cards(&cards(&[card(A, 80)]), None);
    fewer.find_again(&taken.uid, &all.iter().map(|&id| id.to_owned()).collect());
    assert_eq!(healthy(&fewer, "1g-1c"), all);
    assert!(take(&mut fewer, "1g-1c", &["0aaaaaaa-1g-1c-9"]).is_err());
}

#[test]
fn cards_that_fail_or_must_not_be_sold_are_unhealthy() {
    let mut book = book();
    take(&mut book, "8g-30c", &["0aaaaaaa-8g-30c-0"]).unwrap();
    let mut ill = card(A, 0);
    (ill.health, ill.message) = (CardHealth::Unhealthy, "lost".to_owned());
    book.enter_cards(&cards(&[ill, card(B, 80)]), None);
    assert!(healthy(&book, "8g-30c").iter().all(|id| id.starts_with("0bbbbbbb")));
    assert_eq!(book.offers(size("8g-30c")).len(), 6);
    let refused = take(&mut book, "8g-30c", &["0aaaaaaa-8g-30c-0"]).unwrap_err();
    assert!(refused.contains("has failed: lost"), "{refused}");

    let both = cards(&[card(A, 80), card(B, 80)]);
    book.enter_cards(&both, Some("another sells them"));
    assert_eq!(healthy(&book, "8g-30c"), ["0aaaaaaa-8g-30c-0"], "a pod has it");
    let refused = take(&mut book, "8g-30c", &["0bbbbbbb-8g-30c-0"]).unwrap_err();
    assert!(refused.contains("another sells them"), "{refused}");

    let in_doubt = CardBook { doubt: Some("no daemon".to_owned()), ..both.clone() };
    book.enter_cards(&in_doubt, None);
    assert_eq!(healthy(&book, "8g-30c"), ["0aaaaaaa-8g-30c-0"]);
    book.enter_cards(&both, None);
    assert_eq!(healthy(&book, "8g-30c").len(), 6);

    let left_out = book.enter_cards(&cards(&[card(A, 80), card("GPU-1", 80)]), None);
    assert!(left_out[0].contains("GPU-1"), "{left_out:?}");
    assert!(
        take(&mut book, "8g-30c", &["0bbbbbbb-8g-30c-0"])
            .unwrap_err()
            .contains("no card of this node")
    );
}

#[test]
fn an_instance_is_sold_by_sizes_as_a_card_is() {
    let mut book = ShareBook::new(CardTerms::default());
    let mut instance = card(&B.replace("GPU-", "MIG-"), 18);
    instance.kind = DeviceKind::Instance { parent: A.to_owned(), profile: None };
    assert_eq!(book.enter_cards(&cards(std::slice::from_ref(&instance)), None), [""; 0]);
    assert_eq!(healthy(&book, "8g-30c"), ["0bbbbbbb-8g-30c-0", "0bbbbbbb-8g-30c-1"]);
    let taken = take(&mut book, "8g-30c", &["0bbbbbbb-8g-30c-1"]).unwrap();
    assert_eq!(taken.devices[0].1, instance.uuid);
}

#[test]
fn more_memory_is_sold_than_there_is_but_no_share_larger_than_its_card() {
    let mut book = ShareBook::new(CardTerms { memory_percent: 150, ..CardTerms::default() });
    book.enter_cards(&cards(&[card(A, 80)]), None);
    assert_eq!(healthy(&book, "40g-30c").len(), 3);
    assert_eq!(healthy(&book, "81g-30c"), [""; 0]);
    take(&mut book, "40g-30c", &["0aaaaaaa-40g-30c-0"]).unwrap();
    assert_eq!(healthy(&book, "80g-30c").len(), 1);
    assert_eq!(book.offers(size("81g-30c")), []);
    let mut less = ShareBook::new(CardTerms { memory_percent: 50, ..CardTerms::default() });
    less.enter_cards(&cards(&[card(A, 80)]), None);
    assert_eq!((healthy(&less, "40g-30c").len(), healthy(&less, "41g-30c").len()), (1, 0));
}

#[test]
fn hostile_requests_take_nothing() {
    let mut book = book();
    let many: Vec<String> = (0..100).map(|number| format!("0aaaaaaa-8g-30c-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (ids, part) in [
        (&[][..], "0 devices"),
        (&["../../etc"], "no device of this plugin"),
        (&["0aaaaaaa-8g-30c-0", "0aaaaaaa-8g-30c-0"], "named twice"),
        (&["0aaaaaaa-16g-20c-0"], "none of divvy.dev/gpu-8g-30c"),
        (&["0ccccccc-8g-30c-0"], "no card of this node begins with 0ccccccc"),
        (&many[..4], "does not fit any more"),
        (&many, "100 devices"),
    ] {
        let refused = take(&mut book, "8g-30c", ids).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!((book.count(), healthy(&book, "8g-30c").len()), (0, 6));
}

#[test]
fn a_claim_goes_when_two_lists_lack_it_or_none_ever_had_it() {
    let (mut book, start) = (book(), Instant::now());
    let both = ["0aaaaaaa-8g-30c-0", "0aaaaaaa-8g-30c-1"];
    let uid = take(&mut book, "8g-30c", &both).unwrap().uid;
    let mut look = |listed: &[DeviceGroup], after: u64| {
        let turn = book.turn();
        observe(&mut book, listed, turn, (start, start + Duration::from_secs(after)))
    };
    assert!(look(&[], 0).is_empty() && look(&[], 60).is_empty());
    assert!(look(&[group(&both)], 61).is_empty());
    assert!(look(&[], 62).is_empty());
    assert!(look(&[group(&both)], 63).is_empty());
    assert!(look(&[], 64).is_empty());
    assert_eq!(look(&[], 65), [&*uid]);
    assert_eq!(look(&[], 66), [&*uid], "until it is forgotten");
    book.forget(&uid);

    let never = take(&mut book, "8g-30c", &both[..1]).unwrap();
    assert!(!never.is_of_another);
    let turn = book.turn();
    let later = Instant::now() + UNSEEN;
    assert!(observe(&mut book, &[], turn, (start, start)).is_empty());
    // A list that was asked for before it was taken says nothing of it.
    assert!(observe(&mut book, &[], turn - 1, (start, later)).is_empty());
    assert_eq!(observe(&mut book, &[], turn, (start, later)), [never.uid]);
}

#[test]
fn a_kubelet_that_begins_is_not_believed_that_pods_are_gone() {
    let (mut book, start) = (book(), Instant::now());
    let id = ["0aaaaaaa-8g-30c-0"];
    let uid = take(&mut book, "8g-30c", &id).unwrap().uid;
    let turn = book.turn();
    assert!(observe(&mut book, &[group(&id)], turn, (start, start)).is_empty());
    let began = start + Duration::from_secs(60);
    for after in [0, 5, 100, 299] {
        let now = began + Duration::from_secs(after);
        assert!(observe(&mut book, &[], turn, (began, now)).is_empty(), "{after}");
    }
    // One that lists no pod at all has not been told of any, however long that takes.
    let at = ListedAt {
        turn,
        now: began + 10 * UNSEEN,
        kubelet_began: began,
        unseen: UNSEEN,
        begins: UNSEEN,
    };
    assert!(book.observe(&PodList::default(), at).is_empty());
    let mut named = book.clone();
    assert_eq!(observe(&mut book, &[], turn, (began, began + UNSEEN)), [&*uid]);
    // One that has named it is believed.
    assert!(observe(&mut named, &[group(&id)], turn, (began, began)).is_empty());
    assert!(observe(&mut named, &[], turn, (began, began)).is_empty());
    assert_eq!(observe(&mut named, &[], turn, (began, began)), [&*uid]);

    // Of a plugin that begins, a kubelet that has been there long is believed as well.
    let mut next = super::books::book();
    assert!(next.find_again(&uid, &BTreeSet::new()));
    let (turn, long) = (next.turn(), start + UNSEEN);
    assert!(observe(&mut next, &[], turn, (start, long)).is_empty());
    assert_eq!(observe(&mut next, &[], turn, (start, long)), [uid]);

    // One that has given something itself is to name it soon.
    let given = take(&mut next, "40g-50c", &["0bbbbbbb-40g-50c-0"]).unwrap().uid;
    let (turn, now) = (next.turn(), Instant::now());
    let list = PodList { pods: 1, groups: Vec::new() };
    let at = ListedAt { turn, now, kubelet_began: start, unseen: Duration::ZERO, begins: UNSEEN };
    assert!(!next.observe(&list, at).contains(&given));
    assert!(next.observe(&list, at).contains(&given));
}

#[test]
fn the_same_devices_of_another_pod_are_not_the_claim_of_the_one_before() {
    let (mut book, now) = (book(), Instant::now());
    let id = ["0aaaaaaa-8g-30c-0"];
    assert!(!take(&mut book, "8g-30c", &id).unwrap().is_held);
    // An init container's, which the container after it has too.
    let again = take(&mut book, "8g-30c", &id).unwrap();
    assert!(again.is_held && !again.is_of_another);
    let turn = book.turn();
    observe(&mut book, &[group(&id)], turn, (now, now));
    assert!(take(&mut book, "8g-30c", &id).unwrap().is_of_another);
    // A list from before it was taken again does not count against it.
    for _ in 0..3 {
        assert!(observe(&mut book, &[], turn, (now, now)).is_empty());
    }
}

#[test]
fn a_checkpoint_that_was_lost_is_made_again_of_the_list() {
    let (mut book, now) = (book(), Instant::now());
    let listed = group(&["0aaaaaaa-40g-50c-0", "0aaaaaaa-40g-50c-1"]);
    let turn = book.turn();
    assert!(observe(&mut book, std::slice::from_ref(&listed), turn, (now, now)).is_empty());
    assert_eq!((book.count(), healthy(&book, "16g-20c").len()), (1, 5));
    // The kubelet does not ask for what its pods have.
    let unmade = book.unmade();
    assert_eq!((unmade.len(), unmade[0].devices.len()), (1, 2));
    book.enter_made(&unmade[0].uid);
    assert!(book.unmade().is_empty());
    let turn = book.turn();
    assert!(observe(&mut book, &[], turn, (now, now)).is_empty());
    assert_eq!(observe(&mut book, &[], turn, (now, now)).len(), 1);
    assert!(!book.find_again("3f0c7a52-1c1f-4f6a-9d3e-0a1b2c3d4e5f", &BTreeSet::new()));
}

#[test]
fn nothing_is_sold_while_a_claim_from_before_is_known_by_half() {
    let (mut book, now) = (book(), Instant::now());
    let both = group(&["0aaaaaaa-8g-30c-0", "0aaaaaaa-8g-30c-1"]);
    let ids = ["0aaaaaaa-8g-30c-0", "0aaaaaaa-8g-30c-1"];
    let uid = take(&mut book.clone(), "8g-30c", &ids).unwrap().uid;
    // The checkpoint is lost; the CDI file says which claim it is, by its first device.
    assert!(book.find_again(&uid, &BTreeSet::new()));
    assert_eq!(healthy(&book, "40g-50c").len(), 0);
    let refused = take(&mut book, "40g-50c", &["0bbbbbbb-40g-50c-0"]).unwrap_err();
    assert!(refused.contains("not known until the kubelet has listed it"), "{refused}");
    // Another claim of its first device does not stand for it.
    let (turn, one) = (book.turn(), group(&ids[..1]));
    let mut gone = book.clone();
    for (list, expected) in [(&one, 0), (&one, 1)] {
        let left = observe(&mut gone, std::slice::from_ref(list), turn, (now, now + UNSEEN));
        assert_eq!(left.len(), expected);
    }
    observe(&mut book, std::slice::from_ref(&both), turn, (now, now));
    assert_eq!((healthy(&book, "40g-50c").len(), book.unmade().len()), (2, 1));
}

#[test]
fn the_fullest_card_is_filled_first() {
    let mut book = book();
    take(&mut book, "8g-30c", &["0bbbbbbb-8g-30c-2"]).unwrap();
    let available: Vec<String> = healthy(&book, "16g-20c");
    let prefer = |must: &[&str], count| {
        let must: Vec<_> = must.iter().map(|&id| id.to_owned()).collect();
        preferred(&book, &available, &must, count)
    };
    assert_eq!(prefer(&[], 1), ["0bbbbbbb-16g-20c-0"]);
    // Three more fit there; the rest is on the other card.
    assert_eq!(prefer(&[], 4)[3], "0aaaaaaa-16g-20c-0");
    assert_eq!(prefer(&["0aaaaaaa-16g-20c-3"], 2), ["0aaaaaaa-16g-20c-3", "0aaaaaaa-16g-20c-0"]);
    assert_eq!(prefer(&["0aaaaaaa-16g-20c-3"], 1), ["0aaaaaaa-16g-20c-3"]);
    assert_eq!(prefer(&[], 100).len(), available.len());
    assert_eq!(
        preferred(&book, &["x".to_owned(), "0ccccccc-8g-30c-0".to_owned()], &[], 2),
        [""; 0]
    );
}
