//! Properties of changes over generated histories: a step means what it says whatever was set before.
#![cfg(not(loom))]

use divvy_abi::Uuid;
use divvy_abi::config::Rule;
use divvy_policy::change::{Names, Step, Steps};
use divvy_policy::limit::{self, Rules, Selector, UuidText, rule};
use divvy_policy::share;
use divvy_policy::size::Limit;
use proptest::prelude::*;

/// Devices of the machine.
const DEVICES: u8 = 4;
const CARD_BYTES: u64 = 1 << 40;

fn uuid(device: u8) -> Uuid {
    [device + 1; 16]
}

fn names() -> Vec<Names> {
    let known = |device| Names { index: Some(u32::from(device)), uuid: uuid(device) };
    (0..DEVICES).map(known).collect()
}

/// What holds on a device.
fn holds(rules: &[Rule], device: u8) -> Option<u64> {
    limit::resolve(rules, Some(u32::from(device)), &uuid(device), CARD_BYTES).unwrap()
}

fn selector() -> impl Strategy<Value = Selector> {
    prop_oneof![
        2 => Just(Selector::All),
        3 => (0..u32::from(DEVICES)).prop_map(Selector::Index),
        3 => (0..DEVICES).prop_map(|device| Selector::Uuid(uuid(device))),
    ]
}

fn amount() -> impl Strategy<Value = Limit> {
    prop_oneof![
        1 => Just(Limit::Unlimited),
        4 => (1_u64..9).prop_map(|gib| Limit::Bytes(gib << 30)),
        2 => (1_u32..10).prop_map(|tenths| Limit::Ppm(tenths * 100_000)),
    ]
}

/// One change: steps for different devices.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (selector(), prop::option::weighted(0.7, amount()));
    prop::collection::vec(step.prop_map(|(devices, limit)| Step { devices, limit }), 1..5).prop_map(
        |mut steps: Vec<Step>| {
            let mut seen = Vec::new();
            steps.retain(|step| {
                let is_new = !seen.contains(&step.devices);
                seen.push(step.devices);
                is_new
            });
            steps
        },
    )
}

/// Rules as `divvy run` takes them.
fn start() -> impl Strategy<Value = Vec<Rule>> {
    steps().prop_map(|steps| {
        let mut rules = Rules::new();
        for step in steps {
            rules.push(rule(step.devices, step.limit.unwrap_or(Limit::Bytes(1 << 30)))).unwrap();
        }
        rules.as_slice().to_vec()
    })
}

fn change(rules: &[Rule], start: &[Rule], steps: &[Step]) -> Vec<Rule> {
    let mut asked = Steps::new();
    steps.iter().for_each(|step| asked.push(*step).unwrap());
    asked.apply(rules, start, &names()).unwrap().as_slice().to_vec()
}

/// The rules after a history of changes.
fn after(start: &[Rule], history: &[Vec<Step>]) -> Vec<Rule> {
    history.iter().fold(start.to_vec(), |rules, steps| change(&rules, start, steps))
}

fn device_of(devices: Selector) -> Option<u8> {
    (0..DEVICES).find(|device| {
        devices == Selector::Uuid(uuid(*device)) || devices == Selector::Index(u32::from(*device))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn a_limit_for_every_device_holds_on_every_device(
        start in start(),
        history in prop::collection::vec(steps(), 0..5),
        limit in amount(),
    ) {
        let rules = after(&start, &history);
        let now = change(&rules, &start, &[Step { devices: Selector::All, limit: Some(limit) }]);
        for device in 0..=DEVICES {
            prop_assert_eq!(holds(&now, device), limit.resolve(CARD_BYTES), "{:?}", now);
        }
    }

    #[test]
    fn a_limit_for_one_device_holds_there_and_changes_no_other(
        start in start(),
        history in prop::collection::vec(steps(), 0..5),
        devices in selector().prop_filter("one device", |devices| *devices != Selector::All),
        limit in amount(),
    ) {
        let rules = after(&start, &history);
        let now = change(&rules, &start, &[Step { devices, limit: Some(limit) }]);
        let one = device_of(devices).unwrap();
        for device in 0..=DEVICES {
            let expected = if device == one { limit.resolve(CARD_BYTES) } else { holds(&rules, device) };
            prop_assert_eq!(holds(&now, device), expected, "device {} of {:?}", device, now);
        }
    }

    #[test]
    fn the_default_of_every_device_is_what_it_was_started_with(
        start in start(),
        history in prop::collection::vec(steps(), 0..5),
    ) {
        let rules = after(&start, &history);
        let now = change(&rules, &start, &[Step { devices: Selector::All, limit: None }]);
        prop_assert_eq!(now, start);
    }

    #[test]
    fn the_default_of_one_device_is_its_own_limit_of_the_start_or_the_one_for_all(
        start in start(),
        history in prop::collection::vec(steps(), 0..5),
        devices in selector().prop_filter("one device", |devices| *devices != Selector::All),
    ) {
        let rules = after(&start, &history);
        let now = change(&rules, &start, &[Step { devices, limit: None }]);
        let one = device_of(devices).unwrap();
        let is_own = |rule: &&Rule| {
            let selector = limit::selector_of(rule).unwrap();
            device_of(selector) == Some(one)
        };
        let own = start.iter().filter(is_own).count();
        // A device that the machine has not has no limit of its own.
        let expected = if own > 0 { holds(&start, one) } else { holds(&rules, DEVICES) };
        prop_assert_eq!(holds(&now, one), expected, "{:?}", now);
        for device in (0..=DEVICES).filter(|device| *device != one) {
            prop_assert_eq!(holds(&now, device), holds(&rules, device), "device {}", device);
        }
    }

    #[test]
    fn the_order_of_steps_does_not_count(
        start in start(),
        history in prop::collection::vec(steps(), 0..3),
        steps in steps(),
    ) {
        let rules = after(&start, &history);
        let mut reversed = steps.clone();
        reversed.reverse();
        let (forth, back) = (change(&rules, &start, &steps), change(&rules, &start, &reversed));
        for device in 0..=DEVICES {
            prop_assert_eq!(holds(&forth, device), holds(&back, device));
        }
    }

    /// A text of steps is read as it was written.
    #[test]
    fn steps_are_read_as_they_are_written(steps in steps()) {
        let written = |step: &Step| {
            let devices = match step.devices {
                Selector::All => String::new(),
                Selector::Index(index) => format!("{index}="),
                Selector::Uuid(uuid) => format!("{}=", UuidText(&uuid)),
            };
            let value = match step.limit {
                None => "default".to_owned(),
                Some(Limit::Unlimited) => "0".to_owned(),
                Some(Limit::Bytes(bytes)) => format!("{}GiB", bytes >> 30),
                Some(Limit::Ppm(ppm)) => format!("{}%", ppm / 10_000),
            };
            devices + &value
        };
        // A zero before a comma reads as a decimal one: `--memory` given twice says it.
        let mut read = Steps::new();
        for step in &steps {
            let text = written(step);
            prop_assert!(read.parse_into(&text).is_ok(), "{}", text);
        }
        let mut found: Vec<Step> = read.iter().collect();
        found.sort_by_key(|step| steps.iter().position(|one| one.devices == step.devices));
        prop_assert_eq!(found, steps);
    }
}

#[test]
fn a_rule_of_a_device_that_is_not_known_stays() {
    let mut asked = Steps::new();
    asked.parse_into("0=8GiB").unwrap();
    let stranger = rule(Selector::Uuid([9; 16]), Limit::Bytes(1 << 30));
    let now = asked.apply(&[stranger], &[], &[]).unwrap();
    assert_eq!(now.as_slice(), [stranger, rule(Selector::Index(0), Limit::Bytes(8 << 30))]);
}

#[test]
fn two_steps_for_the_same_devices_are_refused() {
    let mut asked = Steps::new();
    assert!(asked.parse_into("0=8GiB,0=default").is_err());
    let mut shares = Steps::new();
    share::parse_steps(&mut shares, "30%,1=default").unwrap();
    assert!(shares.gives_back() && share::parse_steps(&mut shares, "40%").is_err());
    assert!(share::parse_steps(&mut Steps::new(), "8GiB").is_err());
}

#[test]
fn more_rules_than_fit_are_refused() {
    let rules: Vec<_> =
        (0..33).map(|i| rule(Selector::Uuid([i; 16]), Limit::Bytes(1 << 30))).collect();
    let mut asked = Steps::new();
    asked.parse_into("0=8GiB").unwrap();
    assert!(asked.apply(&rules, &[], &[]).is_err());
    let mut all = Steps::new();
    all.parse_into("8GiB").unwrap();
    assert_eq!(all.apply(&rules, &[], &[]).unwrap().as_slice().len(), 1);
}
