//! Sum of tenants' limits on a device, beside its size.
//!
//! A limit is no reservation: where the limits of running tenants exceed the card in sum, one of them may
//! find it full below its own limit. That is allowed, and said: by `divvy run` and `set` before it can
//! surprise, and by `divvy ps`. Pure.
//!
//! A tenant counts on the devices it has used; one that has used none yet counts where its limits name the
//! device, and on the only device of a machine. One without a limit may take all there is and adds
//! nothing to a sum of limits.

use divvy_abi::config::{Rule, selector};

use crate::machine::cards::{Card, Cards};
use crate::output::sizes;
use crate::tenants::ledger::LedgerTenant;

/// A tenant's part of the sum of limits.
#[derive(Clone, Debug)]
pub(crate) struct Promise<'a> {
    /// Its limits of memory.
    pub(crate) rules: &'a [Rule],
    /// The UUIDs of the devices it has used.
    pub(crate) used: Vec<&'a str>,
}

impl<'a> Promise<'a> {
    /// A tenant that has not used any device yet.
    pub(crate) fn new(rules: &'a [Rule]) -> Self {
        Self { rules, used: Vec::new() }
    }

    /// A tenant.
    pub(crate) fn of(tenant: &'a LedgerTenant) -> Self {
        let used = tenant.devices.iter().map(|device| device.uuid.as_str()).collect();
        Self { rules: &tenant.rules, used }
    }

    /// Those of `tenants` that run.
    pub(crate) fn of_all(tenants: &'a [LedgerTenant]) -> Vec<Self> {
        let runs = |tenant: &&LedgerTenant| {
            tenant.owner_alive == Some(true) || !tenant.processes.is_empty()
        };
        tenants.iter().filter(runs).map(Self::of).collect()
    }

    /// Whether it counts on `card`, which is the machine's only one where `is_only`.
    fn counts_on(&self, card: &Card, is_only: bool) -> bool {
        if !self.used.is_empty() {
            return self.used.iter().any(|uuid| card.is(uuid));
        }
        let (index, uuid) = card.in_rules(self.rules);
        let names = |rule: &Rule| match rule.selector {
            selector::INDEX => index == Some(rule.index),
            selector::UUID => uuid == rule.uuid,
            _ => is_only,
        };
        self.rules.iter().any(names)
    }
}

/// The devices that `tenants` have used, and the machine's.
pub(crate) fn cards(tenants: &[LedgerTenant]) -> Vec<Card> {
    let mut cards = Cards::default();
    let devices = tenants.iter().flat_map(|tenant| &tenant.devices);
    cards.add(devices.map(|device| Card {
        index: device.index,
        uuid: device.uuid.clone(),
        name: device.name.clone(),
        total_bytes: device.card_bytes,
        part_of: None,
    }));
    cards.add(Cards::of_kernel());
    cards.list
}

/// A line for each of `cards` whose memory the limits of several tenants exceed in sum; for a tenant
/// `one`, of those on which its limit counts.
pub(crate) fn notes(
    promises: &[Promise<'_>],
    cards: &[Card],
    one: Option<&Promise<'_>>,
) -> Vec<String> {
    let is_only = cards.len() == 1;
    let is_meant = |card: &&Card| {
        one.is_none_or(|one| one.counts_on(card, is_only) && card.limit_bytes(one.rules).is_some())
    };
    let note = |card: &Card| {
        let limits: Vec<u64> = promises
            .iter()
            .filter(|promise| promise.counts_on(card, is_only))
            .filter_map(|promise| Some(card.limit_bytes(promise.rules)?.min(card.total_bytes)))
            .collect();
        let sum_bytes = limits.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        let is_above = card.total_bytes > 0 && limits.len() > 1 && sum_bytes > card.total_bytes;
        is_above.then(|| {
            let device = card.index.map_or_else(|| card.uuid.clone(), |index| index.to_string());
            format!(
                "the limits of {} tenants add up to {} of the {} of device {device}: a limit is no \
                 reservation, and a tenant may find the device full below its own",
                limits.len(),
                sizes::text(sum_bytes),
                sizes::text(card.total_bytes)
            )
        })
    };
    cards.iter().filter(is_meant).filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use divvy_policy::limit::Rules;

    use super::*;

    const UUID: &str = "GPU-0aaaaaaa-0000-0000-0000-000000000001";

    fn card(index: u32, uuid: &str) -> Card {
        let (uuid, name) = (uuid.to_owned(), "H200".to_owned());
        Card { index: Some(index), uuid, name, total_bytes: 140 << 30, part_of: None }
    }

    fn rules(spec: &str) -> Rules {
        let mut rules = Rules::new();
        rules.parse_into(spec).unwrap();
        rules
    }

    #[test]
    fn limits_that_exceed_a_card_in_sum_are_said() {
        let (most, half, none) = (rules("80GiB"), rules("50%"), Rules::new());
        let only = [card(0, UUID)];
        let promises = [Promise::new(most.as_slice()), Promise::new(half.as_slice())];
        let found = notes(&promises, &only, None);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("the limits of 2 tenants add up to 150 GiB of the 140 GiB"));
        assert!(notes(&promises[..1], &only, None).is_empty());
        let with_none = [promises[1].clone(), promises[1].clone(), Promise::new(none.as_slice())];
        assert!(notes(&with_none, &only, None).is_empty());
        // Far above the card is the card.
        let large = rules("500GiB");
        let found = notes(&[Promise::new(large.as_slice()), promises[0].clone()], &only, None);
        assert!(found[0].contains("220 GiB"), "{found:?}");
    }

    #[test]
    fn a_tenant_counts_where_it_is_or_is_named() {
        let other = "GPU-0bbbbbbb-0000-0000-0000-000000000002";
        let two = [card(0, UUID), card(1, other)];
        let all = rules("100GiB");
        let idle = [Promise::new(all.as_slice()), Promise::new(all.as_slice())];
        assert!(notes(&idle, &two, None).is_empty(), "they may use different ones");
        let named = rules("1=100GiB");
        let used = Promise { rules: all.as_slice(), used: vec![other] };
        let both = [used.clone(), Promise::new(named.as_slice())];
        let found = notes(&both, &two, None);
        assert!(found.len() == 1 && found[0].contains("device 1"), "{found:?}");
        let elsewhere = Promise { rules: all.as_slice(), used: vec![UUID] };
        assert_eq!(notes(&both, &two, Some(&used)), found);
        assert!(notes(&both, &two, Some(&elsewhere)).is_empty(), "that is no matter of this one");
        assert!(notes(&[used, elsewhere], &two, None).is_empty());
    }
}
