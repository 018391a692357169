//! The environment's limits beside the cards there are: a card that is not there, and a limit in which no context has room.
//!
//! Says nothing where the driver does not, nor inside a tenant, whose limits were compared when it was made.

use divvy_policy::limit::Rules;
use divvy_policy::size::{self, Limit};
use divvy_policy::variables::CONTEXT;

use super::environment::{self, Variables};
use super::finding::Finding;
use crate::machine::cards::{Card, Cards, DriverChoice};
use crate::output::reason::Reason;
use crate::output::sizes;

/// Memory of a context in the library's own table, in bytes, by the beginning of a card's name.
const CONTEXT_BYTES: [(&str, u64); 2] = [("NVIDIA H200", 518 << 20), ("NVIDIA H100", 518 << 20)];
/// Memory of a context on a card that is not in that table.
const UNKNOWN_CONTEXT_BYTES: u64 = 600 << 20;

pub(super) fn look(variables: &Variables) -> Vec<Finding> {
    let (memory, share) = environment::rules(variables);
    if memory.is_empty() && share.rules().is_empty() {
        return Vec::new();
    }
    let cards = Cards::of(&DriverChoice::default());
    let mut findings = Vec::new();
    for (what, rules) in
        [("the limit of memory", memory.as_slice()), ("the limit of time", share.rules())]
    {
        match cards.judge(what, rules) {
            Ok(notes) => {
                let note = |words| Finding::note(Reason::LimitVariables, words);
                findings.extend(notes.into_iter().map(note));
            }
            Err(error) => findings.push(Finding::bad(
                Reason::LimitVariables,
                format!("in the environment {error:#}: it limits nothing"),
                "name a device that is there",
            )),
        }
    }
    let context = environment::value_of(variables, CONTEXT).and_then(amount);
    findings.extend(cards.list.iter().filter_map(|card| too_small(card, &memory, context)));
    findings
}

fn amount(text: &str) -> Option<u64> {
    match size::parse_written(text) {
        Ok(Limit::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// A limit below what a context takes on the card.
fn too_small(card: &Card, memory: &Rules, context: Option<u64>) -> Option<Finding> {
    let limit_bytes = card.limit_bytes(memory.as_slice())?;
    let known = CONTEXT_BYTES.iter().find(|(name, _)| card.name.starts_with(name));
    let bytes = context.or(known.map(|(_, bytes)| *bytes)).unwrap_or(UNKNOWN_CONTEXT_BYTES);
    (limit_bytes < bytes).then(|| {
        Finding::bad(
            Reason::LimitVariables,
            format!(
                "the limit of {} on {} is below the {} that a context takes: no program can begin there \
                 (DV206)",
                sizes::text(limit_bytes),
                card.words(),
                sizes::text(bytes)
            ),
            format!("allow more than {}", sizes::text(bytes)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_in_which_no_context_has_room_is_bad() {
        let card = |name: &str| Card {
            index: Some(0),
            uuid: "GPU-00000000-0000-0000-0000-000000000001".to_owned(),
            name: name.to_owned(),
            total_bytes: 16 << 30,
            part_of: None,
        };
        let rules = |value: &str| {
            let mut rules = Rules::new();
            rules.push_env("DIVVY_MEMORY", "DIVVY_MEMORY", value).unwrap();
            rules
        };
        let is_bad = |name: &str, value: &str, context| {
            too_small(&card(name), &rules(value), context).is_some()
        };
        assert!(is_bad("NVIDIA H200", "517MiB", None) && !is_bad("NVIDIA H200", "518MiB", None));
        assert!(is_bad("NVIDIA L4", "599MiB", None) && !is_bad("NVIDIA L4", "600MiB", None));
        assert!(is_bad("NVIDIA L4", "3%", None) && !is_bad("NVIDIA L4", "300MiB", Some(200 << 20)));
        assert!(!is_bad("NVIDIA L4", "0", None), "no limit");
    }
}
