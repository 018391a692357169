//! Findings: why a pod waits, as a stable word for programs and in a sentence for people, with what is to be done.
//!
//! Promises: a word keeps its meaning.

use serde::Serialize;

use super::books::CardOffer;
use crate::offers::Amounts;

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FindingKind {
    /// The pod runs, or has ended.
    Started,
    /// The pod asks for no share.
    NoShare,
    /// A scheduling gate holds the pod.
    Gated,
    /// The pod asks for HAMi's resources, which nobody has turned into a claim.
    HamiLeft,
    /// Another scheduler than the stock one is to place the pod.
    OtherScheduler,
    /// A template that is not there.
    NoTemplate,
    /// A claim that is not there.
    NoClaim,
    /// A class that is not there.
    NoClass,
    /// No node publishes a card.
    NoCards,
    /// A node that has cards and may not publish them.
    NodeRefused,
    /// A capacity that no card has.
    UnknownCapacity,
    /// More than any card has, however empty.
    TooLarge,
    /// No card has enough left.
    NoRoom,
    /// Some card has room, and the scheduler refuses for another reason.
    OtherReason,
    /// Placed, and the node cannot be made ready.
    NotPrepared,
    /// Placed, and not started yet.
    Starting,
    /// Something that could not be read, so that less is known.
    NotRead,
}

impl FindingKind {
    /// Every kind, and what it means.
    #[cfg(test)]
    pub(crate) const ALL: &[(Self, &str)] = &[
        (Self::Started, "it runs, or has ended"),
        (Self::NoShare, "it asks for no share of a card"),
        (Self::Gated, "a scheduling gate holds it"),
        (Self::HamiLeft, "it asks for HAMi's resources, which nobody has turned into a claim"),
        (Self::OtherScheduler, "another scheduler than the stock one is to place it"),
        (Self::NoTemplate, "the template of a claim is not there"),
        (Self::NoClaim, "a claim is not there"),
        (Self::NoClass, "the class of a claim is not there"),
        (Self::NoCards, "no node publishes a card"),
        (Self::NodeRefused, "a node has cards and may not publish them"),
        (
            Self::UnknownCapacity,
            "it asks for a capacity that no card has, or for an amount that is no whole number",
        ),
        (Self::TooLarge, "it asks for more than any card has, however empty"),
        (Self::NoRoom, "no card has enough left; the table says what is missing on each"),
        (
            Self::OtherReason,
            "some card has room, and the scheduler refuses for another reason, or says this",
        ),
        (
            Self::NotPrepared,
            "it has a node, which cannot be made ready; the words of the [agent](kubernetes-agent.md#what-it-does-where-something-is-missing)",
        ),
        (Self::Starting, "it has a node, and nothing says that a share is in its way"),
        (Self::NotRead, "something could not be read, mostly for want of a right; less is known"),
    ];

    /// Whether the pod waits for what this says.
    pub(crate) fn holds(self) -> bool {
        !matches!(self, Self::Started | Self::NoShare | Self::NotRead)
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Finding {
    #[serde(rename = "word")]
    pub(crate) kind: FindingKind,
    pub(crate) words: String,
    /// Way out of it; empty where there is none.
    pub(crate) fix: String,
}

/// A request of the pod beside the cards.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RequestView {
    pub(crate) claim: String,
    pub(crate) request: String,
    pub(crate) asked: Amounts,
    pub(crate) cards: Vec<CardView>,
}

/// A card beside a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CardView {
    #[serde(flatten)]
    pub(crate) card: CardOffer,
    /// Why it does not have the request; empty where it fits.
    pub(crate) lacks: String,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Explanation {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// Whether something of this holds the pod up.
    pub(crate) waits: bool,
    pub(crate) findings: Vec<Finding>,
    pub(crate) requests: Vec<RequestView>,
}
