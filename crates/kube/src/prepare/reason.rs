//! Reasons why a claim cannot be prepared or taken back: a stable word for programs, and words for people.
//!
//! Promises: a word keeps its meaning. The kubelet shows the text as an event of the pod, and asks again.

use std::fmt::{Display, Formatter, Result};

/// Reason of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareReason {
    /// A claim that no allocation looks like.
    BadClaim,
    /// Parameters that are not understood.
    BadParameters,
    /// More than the class allows.
    AboveClass,
    /// No library on the node.
    NoLibrary,
    /// Another instance has the checkpoint.
    Locked,
    /// A call that another instance's has overtaken.
    Overtaken,
    /// A checkpoint of a newer version.
    CheckpointNewer,
    /// A checkpoint that cannot be read or written.
    CheckpointFailed,
    /// Files that SELinux keeps containers from.
    NotLabelled,
    /// A file of the Container Device Interface that cannot be written or removed.
    CdiFailed,
    /// No daemon answers.
    DaemonUnreachable,
    /// A card that this node does not have.
    UnknownCard,
    /// A card of which the node's other claims leave less than was allocated.
    CardFull,
    /// A claim that is gone, another of the same name, or not allocated.
    ClaimChanged,
    /// A node, or a card of it, that must not be used.
    NodeRefused,
    /// No API server answers.
    ApiUnreachable,
    /// The API server refuses.
    ApiRefused,
    /// Not done in the time that the kubelet gives.
    TimedOut,
    /// The daemon refuses.
    DaemonRefused,
}

impl PrepareReason {
    /// Every reason, its word, and what is to be done about it.
    pub const ALL: &[(Self, &str, &str)] = &[
        (
            Self::BadClaim,
            "bad-claim",
            "the allocation is not one of this driver's devices: delete the claim",
        ),
        (
            Self::BadParameters,
            "bad-parameters",
            "the parameters of the claim or of its class are not understood: the words name the field",
        ),
        (
            Self::AboveClass,
            "above-class",
            "the claim asks for more than its class allows: ask for less, or for another class",
        ),
        (
            Self::NoLibrary,
            "no-library",
            "the library is not on the node: install it at the path that the words name",
        ),
        (
            Self::Locked,
            "locked",
            "another instance holds the checkpoint: asked again, or end the one that hangs",
        ),
        (
            Self::Overtaken,
            "overtaken",
            "another agent has changed the node since the call began: asked again",
        ),
        (
            Self::CheckpointNewer,
            "checkpoint-newer",
            "a newer agent wrote the checkpoint: let it run, or drain the node and remove the file",
        ),
        (
            Self::CheckpointFailed,
            "checkpoint-failed",
            "the checkpoint cannot be read or written: mend the disk or the folder",
        ),
        (
            Self::NotLabelled,
            "not-labelled",
            "SELinux keeps containers from a file that is to be mounted: label it, as the words say",
        ),
        (Self::CdiFailed, "cdi-failed", "a CDI file cannot be written or removed: mend the folder"),
        (Self::DaemonUnreachable, "daemon-unreachable", "no daemon answers on the node: start it"),
        (
            Self::UnknownCard,
            "unknown-card",
            "the allocated device is none of this node's cards: look at its ResourceSlice, delete the claim",
        ),
        (
            Self::CardFull,
            "card-full",
            "the node's other claims leave less of the card than was allocated: asked again until they have ended",
        ),
        (
            Self::ClaimChanged,
            "claim-changed",
            "the claim is gone, another of its name, or not allocated: the pod is to be made again",
        ),
        (
            Self::NodeRefused,
            "node-refused",
            "the node's runtime knows no CDI, or another plugin sells the card: the words name it and the fix",
        ),
        (
            Self::ApiUnreachable,
            "api-unreachable",
            "no API server answers, so the claim cannot be read: asked again",
        ),
        (
            Self::ApiRefused,
            "api-refused",
            "the API server does not let the agent read the claim: mend its ClusterRole",
        ),
        (
            Self::TimedOut,
            "timed-out",
            "it takes longer than the kubelet waits; it goes on, and is asked again",
        ),
        (
            Self::DaemonRefused,
            "daemon-refused",
            "the daemon refuses, by a code of its own that the words begin with",
        ),
    ];

    /// The word.
    pub fn word(self) -> &'static str {
        let find = Self::ALL.iter().find(|(reason, ..)| *reason == self);
        find.map_or("daemon-refused", |(_, word, _)| word)
    }
}

impl Display for PrepareReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.word())
    }
}

/// Failure of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareError {
    /// Its reason.
    pub reason: PrepareReason,
    /// The same for people: the value and the fix.
    pub words: String,
}

impl PrepareError {
    pub(crate) fn new(reason: PrepareReason, words: impl Into<String>) -> Self {
        Self { reason, words: words.into() }
    }
}

impl Display for PrepareError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {}", self.reason, self.words)
    }
}

impl std::error::Error for PrepareError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_one_word_of_its_own() {
        let mut words: Vec<_> = PrepareReason::ALL.iter().map(|(_, word, _)| *word).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), PrepareReason::ALL.len());
        // The last is declared last: none is left out of the table.
        assert_eq!(PrepareReason::DaemonRefused as usize + 1, words.len());
        for (reason, word, _) in PrepareReason::ALL {
            assert_eq!(&reason.to_string(), word);
            assert!(word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{word}");
        }
    }
}
