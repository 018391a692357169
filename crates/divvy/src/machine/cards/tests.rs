//! Devices of a machine that the test makes up: limits that are compared with them, and instances of partitioned cards.

use divvy_policy::limit::Rules;

use super::*;

const UUIDS: [&str; 2] =
    ["GPU-0aaaaaaa-0000-0000-0000-000000000001", "GPU-0bbbbbbb-0000-0000-0000-000000000002"];

fn card(index: u32, gib: u64) -> Card {
    let uuid = UUIDS[index as usize].to_owned();
    Card {
        index: Some(index),
        uuid,
        name: "H200".to_owned(),
        total_bytes: gib << 30,
        part_of: None,
    }
}

fn cards(list: &[Card], unknown: bool) -> Cards {
    Cards { list: list.to_vec(), unknown: unknown.then(|| "no NVML".to_owned()) }
}

#[test]
fn a_rule_by_index_gets_the_device_that_is_known() {
    let two = cards(&[card(0, 140), card(1, 140)], false);
    let named = |spec| {
        let mut rules = Rules::new();
        rules.parse_into(spec).unwrap();
        two.named(&rules.as_slice()[0])
    };
    assert_eq!((named("1=8GiB").index, Some(named("1=8GiB").uuid)), (1, parse_uuid(UUIDS[1])));
    assert!(limit::is_bare(&named("2=8GiB")));
    assert_eq!(named("8GiB").uuid, [0; 16]);
    // Wherever the device stands in a process, and whichever index it is thought to have there.
    let [one, other] = UUIDS.map(|uuid| parse_uuid(uuid).unwrap());
    let rules = [named("1=8GiB")];
    assert_eq!(limit::resolve(&rules, Some(0), &other, 1 << 40), Ok(Some(8 << 30)));
    assert_eq!(limit::resolve(&rules, None, &other, 1 << 40), Ok(Some(8 << 30)));
    assert_eq!(limit::resolve(&rules, Some(1), &one, 1 << 40), Ok(None));
}

fn judge(cards: &Cards, spec: &str) -> Result<Vec<String>> {
    let mut rules = Rules::new();
    rules.parse_into(spec).unwrap();
    cards.judge("--memory", rules.as_slice())
}

#[test]
fn a_device_that_is_not_there_is_refused_with_those_that_are() {
    let one = cards(&[card(0, 140)], false);
    let words = judge(&one, "3=8GiB").unwrap_err();
    assert_eq!(crate::output::failure::code_of(&words), 2);
    let words = words.to_string();
    assert!(words.starts_with("--memory names device 3, which is not there; "), "{words}");
    assert!(words.contains("device 0 (H200, GPU-0aaaaaaa-"), "{words}");
    let other = format!("{}=8GiB", UUIDS[1]);
    assert!(judge(&one, &other).unwrap_err().to_string().contains(UUIDS[1]));
    let none = judge(&cards(&[], false), "0=8GiB").unwrap_err().to_string();
    assert!(none.contains("this machine has none"), "{none}");
    for good in ["8GiB", "0=8GiB,1g", &format!("{}=8GiB", UUIDS[0]), "50%"] {
        assert!(judge(&one, good).unwrap().is_empty(), "{good}");
    }
}

#[test]
fn without_nvml_only_what_the_kernel_knows_is_refused() {
    let kernels = cards(&[card(0, 0)], true);
    assert!(judge(&kernels, "3=8GiB").is_err());
    // It may be an instance of a partitioned card, whose UUIDs the kernel's list has not.
    assert!(judge(&kernels, &format!("{}=8GiB", UUIDS[1])).is_ok());
    assert!(judge(&cards(&[], true), "3=8GiB").unwrap().is_empty());
    assert!(judge(&kernels, "9999GiB").unwrap().is_empty());
}

#[test]
fn a_limit_above_the_card_is_said_once() {
    let two = cards(&[card(0, 140), card(1, 140)], false);
    let notes = judge(&two, "500GiB").unwrap();
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(note.starts_with("the limit of 500 GiB is above the 140 GiB of device 0"), "{note}");
    assert!(note.contains(", the 140 GiB of device 1"), "{note}");
    let notes = judge(&two, "100GiB,1=141GiB").unwrap();
    assert!(notes.len() == 1 && !notes[0].contains("device 0"), "{notes:?}");
    assert!(judge(&two, "140GiB,1=100%").unwrap().is_empty());
}

#[test]
fn devices_known_from_elsewhere_are_added_once() {
    let mut known = cards(&[card(0, 0)], true);
    known.add([card(0, 140), card(1, 80)]);
    assert_eq!(known.list, [card(0, 140), card(1, 80)]);
    // A device that only a tenant knows may have any index; the only one has the first.
    let mut simulated = cards(&[Card { index: None, ..card(0, 140) }], true);
    assert!(judge(&simulated, "3=8GiB").unwrap().is_empty());
    simulated.number_the_only();
    assert_eq!(simulated.list[0].index, Some(0));
    assert!(judge(&simulated, "0=8GiB").unwrap().is_empty());
    assert!(judge(&simulated, "3=8GiB").is_err());
    // As another machine, or a container, numbers it.
    known.add([Card { index: Some(1), uuid: "GPU-x".to_owned(), ..card(0, 7) }]);
    assert_eq!((known.list.len(), known.list[2].index), (3, None));
}

#[test]
fn an_instance_has_the_limits_of_its_card_unless_its_own_uuid_has_one() {
    let digits = "0ccccccc-0000-0000-0000-000000000003";
    // As a tenant's files have it, whose library has found the index of the card.
    let used = Card { uuid: format!("GPU-{digits}"), ..card(0, 18) };
    let part_of = Some(PartitionedCard { index: 0, uuid: UUIDS[0].to_owned() });
    let instance = Card { index: None, uuid: format!("MIG-{digits}"), part_of, ..used.clone() };
    let mut known = cards(&[used], false);
    known.add([card(0, 140), instance.clone()]);
    assert_eq!(known.list, [instance.clone(), card(0, 140)]);
    let limit = |spec: &str| {
        let mut rules = Rules::new();
        rules.parse_into(spec).unwrap();
        instance.limit_bytes(rules.as_slice())
    };
    let own = format!("MIG-{digits}");
    for (spec, gib) in [
        ("8GiB", 8),
        ("0=8GiB", 8),
        (&format!("{}=8GiB", UUIDS[0]), 8),
        (&format!("0=8GiB,{own}=2GiB"), 2),
        ("50%", 9),
    ] {
        assert_eq!(limit(spec), Some(gib << 30), "{spec}");
    }
    assert_eq!(limit("1=8GiB"), None);
    let named = [known.named(&{
        let mut rules = Rules::new();
        rules.parse_into("0=8GiB").unwrap();
        rules.as_slice()[0]
    })];
    assert_eq!(instance.limit_bytes(&named), Some(8 << 30));
}

#[test]
fn the_driver_is_asked_for_limits_of_memory_and_for_devices() {
    let specs = |spec: &str| [spec.to_owned()];
    assert!(Cards::are_needed(&specs("8GiB"), &[]));
    assert!(Cards::are_needed(&[], &specs("1=50%")));
    assert!(Cards::are_needed(&specs("1=default"), &[]));
    assert!(!Cards::are_needed(&specs("0"), &specs("50%")));
    assert!(!Cards::are_needed(&[], &[]));
}
