//! Counts of what came of the kubelet's calls, for metrics: one for each claim of a call, by the word of its answer.
//!
//! Promises: words are those of [`PrepareReason`] and one for success, however claims fail; a count never falls while the agent
//! lives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::prepare::{PrepareError, PrepareReason};

/// Kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimCall {
    /// A claim is to be prepared.
    Prepare,
    /// A claim is to be taken back.
    Unprepare,
}

impl ClaimCall {
    /// The word of a success.
    pub fn done(self) -> &'static str {
        match self {
            Self::Prepare => "prepared",
            Self::Unprepare => "taken-back",
        }
    }
}

/// Counts; a handle, of which all copies are one.
#[derive(Clone, Debug, Default)]
pub struct CallCounts(Arc<Mutex<BTreeMap<(ClaimCall, &'static str), u64>>>);

impl CallCounts {
    /// Counts an answer.
    pub(super) fn count<T>(&self, call: ClaimCall, answer: &Result<T, PrepareError>) {
        let word = answer.as_ref().map_or_else(|error| error.reason.word(), |_| call.done());
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((call, word)).or_default() += 1;
    }

    /// Every word, and its count: of one that never came it is 0, so that the first is seen to come.
    pub fn of(&self, call: ClaimCall) -> Vec<(&'static str, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words = PrepareReason::ALL.iter().map(|(_, word, _)| *word);
        let words = std::iter::once(call.done()).chain(words);
        words.map(|word| (word, counts.get(&(call, word)).copied().unwrap_or(0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_their_words_and_calls() {
        let counts = CallCounts::default();
        let failed = |reason| Err::<(), _>(PrepareError::new(reason, "why"));
        counts.count(ClaimCall::Prepare, &Ok(()));
        counts.count(ClaimCall::Prepare, &failed(PrepareReason::NodeRefused));
        counts.clone().count(ClaimCall::Prepare, &failed(PrepareReason::NodeRefused));
        counts.count(ClaimCall::Unprepare, &failed(PrepareReason::Locked));
        let seen = |call| {
            let mut all = counts.of(call);
            assert_eq!(all.len(), PrepareReason::ALL.len() + 1);
            all.retain(|(_, count)| *count > 0);
            all
        };
        assert_eq!(seen(ClaimCall::Prepare), [("prepared", 1), ("node-refused", 2)]);
        assert_eq!(seen(ClaimCall::Unprepare), [("locked", 1)]);
    }
}
