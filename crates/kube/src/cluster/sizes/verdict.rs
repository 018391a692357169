//! Verdict on a wish, which becomes the status of its object. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{SizeObject, SizeStatus};
use crate::prepare::ResizedClaim;
use crate::quantity;

/// Condition of an object: whether its wish is what holds.
const APPLIED: &str = "Applied";
/// The longest message.
const MOST_MESSAGE_CHARS: usize = 1000;

/// Reason of a verdict, as the condition has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SizeReason {
    /// The shares have that size.
    Resized,
    /// They cannot have it, or the wish is not understood.
    Refused,
    /// The object was made before the claim, or applied to an earlier one of the name.
    OlderThanClaim,
    /// Something is missing; tried again.
    Failed,
    /// No pod has the claim on the node any more.
    NotPrepared,
}

impl SizeReason {
    fn word(self) -> &'static str {
        match self {
            Self::Resized => "Resized",
            Self::Refused => "Refused",
            Self::OlderThanClaim => "OlderThanClaim",
            Self::Failed => "Failed",
            Self::NotPrepared => "NotPrepared",
        }
    }
}

/// Outcome of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SizeVerdict {
    pub(super) reason: SizeReason,
    pub(super) message: String,
    /// The node whose agent says it; empty where it has nothing more to say.
    pub(super) node: String,
    pub(super) claim_uid: Option<String>,
    pub(super) memory: Option<String>,
    pub(super) cores: Option<String>,
}

impl SizeVerdict {
    /// Of a claim that was resized.
    pub(super) fn resized(node: &str, claim_uid: &str, resized: &ResizedClaim) -> Self {
        let memory = resized.memory_bytes.map(quantity::binary);
        let cores = resized.cores_percent.map(|cores| cores.to_string());
        let parts = [("memory", &memory), ("cores", &cores)].map(|(name, value)| {
            format!("{name} {}", value.as_deref().unwrap_or("of each request its own"))
        });
        let message = std::iter::once(parts.join(", ")).chain(resized.held.iter().cloned());
        Self {
            reason: SizeReason::Resized,
            message: message.collect::<Vec<_>>().join("; "),
            node: node.to_owned(),
            claim_uid: Some(claim_uid.to_owned()),
            memory,
            cores,
        }
    }

    /// Of one that was not: what holds is what held before, by the object's own word where that is of this claim.
    pub(super) fn not(
        reason: SizeReason,
        message: impl Into<String>,
        node: &str,
        claim_uid: Option<&str>,
        before: &SizeStatus,
    ) -> Self {
        let is_same = before.node.as_deref() == Some(node)
            && (claim_uid.is_none() || before.claim_uid.as_deref() == claim_uid);
        let kept = if is_same { before.clone() } else { SizeStatus::default() };
        Self {
            reason,
            message: message.into(),
            node: node.to_owned(),
            // An object that was never applied is bound to no claim.
            claim_uid: before.claim_uid.clone(),
            memory: kept.memory,
            cores: kept.cores,
        }
    }

    /// Of an object whose claim this node has no more.
    pub(super) fn released(before: &SizeStatus) -> Self {
        Self {
            reason: SizeReason::NotPrepared,
            message: "no pod has the claim on a node: applied when one has".to_owned(),
            node: String::new(),
            claim_uid: before.claim_uid.clone(),
            memory: None,
            cores: None,
        }
    }

    fn message(&self) -> String {
        self.message.chars().take(MOST_MESSAGE_CHARS).collect()
    }

    fn condition_status(&self) -> &'static str {
        if self.reason == SizeReason::Resized { "True" } else { "False" }
    }

    fn status(&self, object: &SizeObject, now: Timestamp) -> SizeStatus {
        let is_applied = |condition: &&Condition| condition.type_ == APPLIED;
        let before = object.status.conditions.iter().find(is_applied);
        let since = before.filter(|before| before.status == self.condition_status());
        SizeStatus {
            observed_generation: Some(object.generation),
            node: Some(self.node.clone()),
            claim_uid: self.claim_uid.clone(),
            memory: self.memory.clone(),
            cores: self.cores.clone(),
            conditions: vec![Condition {
                type_: APPLIED.to_owned(),
                status: self.condition_status().to_owned(),
                reason: self.reason.word().to_owned(),
                message: self.message(),
                observed_generation: Some(object.generation),
                last_transition_time: since
                    .map_or(Time(now), |before| before.last_transition_time.clone()),
            }],
        }
    }

    /// The merge patch that makes it the object's status; none where it is.
    pub(super) fn patch(&self, object: &SizeObject, now: Timestamp) -> Option<Value> {
        let status = self.status(object, now);
        // Fields that are none become null, which takes them away.
        (status != object.status).then(|| json!({ "status": status }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(status: Value) -> SizeObject {
        let object = json!({ "metadata": { "namespace": "team", "name": "train", "uid": "u", "generation": 3 },
            "spec": { "memory": "4Gi" }, "status": status });
        SizeObject::of(&serde_json::from_value(object).unwrap())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_status_that_is_right_is_not_written_again() {
        let resized = ResizedClaim {
            memory_bytes: Some(4 << 30),
            cores_percent: None,
            held: vec!["5Gi of GPU-1 were held".to_owned()],
        };
        let verdict = SizeVerdict::resized("n1", "uid-1", &resized);
        let written = verdict.patch(&object(Value::Null), at(1)).unwrap()["status"].clone();
        assert_eq!((&written["node"], &written["memory"]), (&json!("n1"), &json!("4Gi")));
        assert_eq!((&written["claimUID"], &written["cores"]), (&json!("uid-1"), &Value::Null));
        let message = "memory 4Gi, cores of each request its own; 5Gi of GPU-1 were held";
        assert_eq!(written["conditions"][0]["message"], message);
        assert_eq!(verdict.patch(&object(written.clone()), at(9)), None);

        // A refusal tells what still holds, and another time since when.
        let object = object(written);
        let refused =
            SizeVerdict::not(SizeReason::Refused, "no", "n1", Some("uid-1"), &object.status);
        let written = refused.patch(&object, at(9)).unwrap()["status"].clone();
        assert_eq!((&written["memory"], &written["claimUID"]), (&json!("4Gi"), &json!("uid-1")));
        assert_eq!(written["conditions"][0]["status"], "False");
        assert_eq!(written["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:09Z");
        let released = SizeVerdict::released(&object.status).patch(&object, at(9)).unwrap();
        assert_eq!(
            (&released["status"]["node"], &released["status"]["memory"]),
            (&json!(""), &Value::Null)
        );
        assert_eq!(released["status"]["claimUID"], "uid-1", "bound to it still");
    }

    #[test]
    fn what_was_said_of_another_claim_is_not_said_of_this_one() {
        let status = json!({ "node": "n1", "claimUID": "uid-1", "memory": "4Gi" });
        let object = object(status);
        let not = SizeVerdict::not(
            SizeReason::OlderThanClaim,
            "x".repeat(5000),
            "n1",
            Some("uid-2"),
            &object.status,
        );
        let written = not.patch(&object, at(1)).unwrap()["status"].clone();
        assert_eq!((&written["memory"], &written["claimUID"]), (&Value::Null, &json!("uid-1")));
        assert_eq!(written["conditions"][0]["message"].as_str().unwrap().len(), 1000);
    }
}
