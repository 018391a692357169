//! Room of a node's cards for a claim, by what the checkpoint has of all others: the last look before programs run. Pure.
//!
//! The scheduler counts what is claimed, so a claim that it has allocated fits. It may not where two schedulers wrote for a moment,
//! or where a pod was deleted by force, whose claim the scheduler counts no more and whose programs still run. Such a claim is
//! refused until the others have ended; the kubelet asks again.
//!
//! Promises: on one node no card is given away twice, whoever allocated. A claim that is on the node already is never refused, nor
//! one of which it is not known what its card has; the same claim in another allocation is another. What is to go does not count: its
//! containers have ended.

use super::allocated::AllocatedClaim;
use super::checkpoint::{ClaimCheckpoint, ClaimLine};
use super::plan::ClaimPlan;
use super::reason::{PrepareError, PrepareReason};
use super::taken::{TakenPart, taken};

/// Claims that a refusal names.
const MOST_NAMES: usize = 3;

/// Checks that a claim fits its cards beside all others of the node.
///
/// # Errors
/// [`PrepareReason::CardFull`].
pub(super) fn check(
    checkpoint: &ClaimCheckpoint,
    claim: &AllocatedClaim,
    plan: &ClaimPlan,
) -> Result<(), PrepareError> {
    let taken = taken(claim);
    let others = || checkpoint.claims.values().filter(|line| !line.removing);
    let is_there =
        |line: &ClaimLine| !line.removing && plan.values().all(|it| line.ids.contains(&it.id));
    if checkpoint.claims.get(&claim.uid).is_some_and(is_there) {
        return Ok(());
    }
    for (uuid, part) in &taken {
        let offer = claim.shares.iter().find(|share| share.gpu_uuid == *uuid);
        let Some(offer) = offer.and_then(|share| share.offer) else { continue };
        let mut sum = TakenPart::default();
        let mut names = Vec::new();
        for line in others() {
            let Some(part) = line.taken.get(uuid) else { continue };
            sum.add(*part);
            names.push(format!("{}/{}", line.namespace, line.name));
        }
        let left = sum.left(offer);
        if part.fits(left) {
            continue;
        }
        let more = names.len().saturating_sub(MOST_NAMES);
        names.truncate(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (asked, left) = (part.words(), left.words());
        let words = if names.is_empty() {
            format!(
                "{asked} were allocated of {uuid}, which has {left} to give: the node's --slots or --memory-percent were lowered since, or \
                 no scheduler has allocated that; delete the pod and its claim"
            )
        } else {
            format!(
                "{asked} were allocated of {uuid}, where {left} are left beside {}{more}: another scheduler wrote at that moment, or \
                 a pod that was deleted by force still runs; asked again until they have ended",
                names.join(", ")
            )
        };
        return Err(PrepareError::new(PrepareReason::CardFull, words));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::allocated::{AllocatedShare, CardOffer};
    use super::super::plan;
    use super::super::taken::CARD_PERCENT;
    use super::super::tests::{claim, share};
    use super::*;

    const CARD: &str = "GPU-0a";
    const OFFER: CardOffer = CardOffer { memory_bytes: 80 << 30, slots: 4 };

    fn asks(uid: &str, gib: u64, cores_percent: u32) -> AllocatedClaim {
        let mut asks = claim(uid);
        asks.shares = vec![share("gpu", CARD, uid)];
        let share = &mut asks.shares[0];
        (share.memory_bytes, share.cores_percent) = (gib << 30, cores_percent);
        share.offer = Some(OFFER);
        asks
    }

    fn check(node: &ClaimCheckpoint, claim: &AllocatedClaim) -> Result<(), PrepareError> {
        super::check(node, claim, &plan::of(claim, None).unwrap())
    }

    fn enter(checkpoint: &mut ClaimCheckpoint, claim: &AllocatedClaim) {
        let line = checkpoint.claims.entry(claim.uid.clone()).or_default();
        (line.name, line.taken) = (claim.name.clone(), taken(claim));
        line.ids = plan::of(claim, None).unwrap().into_values().map(|tenant| tenant.id).collect();
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_is_there_is_not() {
        let mut node = ClaimCheckpoint::new("boot");
        enter(&mut node, &asks("a", 40, 50));
        enter(&mut node, &asks("b", 30, 40));
        for (claim, fits) in [
            (asks("c", 10, 10), true),
            (asks("c", 11, 10), false),
            (asks("c", 10, 11), false),
            (asks("b", 30, 40), true),
        ] {
            assert_eq!(check(&node, &claim).is_ok(), fits, "{claim:?}");
        }
        let words = check(&node, &asks("c", 11, 10)).unwrap_err().words;
        assert!(words.contains("memory 10Gi, cores 10 and slots 2 are left"), "{words}");
        // Beyond the card as they are, each is what the node has already.
        enter(&mut node, &asks("c", 60, 60));
        assert_eq!(check(&node, &asks("c", 60, 60)), Ok(()));
        // One of which the containers have ended, and a card of which nothing is known.
        node.claims.get_mut("c").unwrap().removing = true;
        assert_eq!(check(&node, &asks("d", 10, 10)), Ok(()));
        let mut unknown = asks("d", 80, 100);
        unknown.shares[0].offer = None;
        assert_eq!(check(&node, &unknown), Ok(()));
        // The same claim in another allocation is another, beside what it had.
        assert!(check(&node, &asks("c", 60, 60)).is_err());
        let again = |gib, cores| {
            let mut again = asks("b", gib, cores);
            again.shares[0].share_id = Some("again".to_owned());
            again
        };
        assert_eq!(check(&node, &again(10, 10)), Ok(()));
        assert!(check(&node, &again(30, 40)).is_err());
        let words = check(&ClaimCheckpoint::new("boot"), &asks("a", 81, 1)).unwrap_err().words;
        assert!(words.contains("which has memory 80Gi, cores 100 and slots 4 to give"), "{words}");
    }

    #[test]
    fn shares_of_one_card_count_together() {
        let node = ClaimCheckpoint::new("boot");
        let mut both = asks("a", 40, 50);
        let more = |number: usize| {
            let mut more = asks("a", 1, 1).shares[0].clone();
            more.share_id = Some(format!("share-{number}"));
            more
        };
        both.shares.push(AllocatedShare { memory_bytes: 40 << 30, cores_percent: 50, ..more(9) });
        assert_eq!(check(&node, &both), Ok(()));
        both.shares[1].cores_percent = 51;
        assert!(check(&node, &both).is_err());
        both.shares = (0..5).map(more).collect();
        assert!(check(&node, &both).is_err(), "there are four slots");
    }

    proptest! {
        #[test]
        fn no_card_is_given_away_twice(
            claims in prop::collection::vec((0..8_usize, 1..50_u64, 1..60_u32, any::<bool>()), 1..30),
        ) {
            let mut node = ClaimCheckpoint::new("boot");
            for (uid, gib, cores, ends) in claims {
                let mut asks = asks(&format!("u{uid}"), gib, cores);
                asks.shares[0].share_id = Some(format!("{gib}-{cores}"));
                if ends {
                    node.claims.remove(&asks.uid);
                } else if check(&node, &asks).is_ok() {
                    enter(&mut node, &asks);
                }
                let mut sum = TakenPart::default();
                node.claims.values().flat_map(|line| line.taken.values()).for_each(|part| sum.add(*part));
                prop_assert!(sum.memory_bytes <= OFFER.memory_bytes);
                prop_assert!(sum.cores_percent <= CARD_PERCENT && sum.slots <= OFFER.slots);
            }
        }
    }
}
