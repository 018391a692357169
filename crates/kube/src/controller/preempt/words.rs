//! Scheduler's words about a pod: whether nothing but shares stands in its way on the nodes that this controller takes for fit.
//!
//! The message counts nodes by the first reason against each, and devices are asked last. So where all reasons are ones that
//! [`super::node`] judges too, or devices, a node that is fit by that judgement lacks devices alone. Any other reason, or words that are
//! not understood, means that nobody is evicted.

/// Reason against a node that lacks devices.
const DEVICES: &str = "cannot allocate all claims";
/// Beginnings of the reasons that the controller judges itself.
const JUDGED: [&str; 6] = [
    "node(s) were unschedulable",
    "node(s) had untolerated taint",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    "Insufficient ",
    "Too many pods",
];

/// Judges the message of a pod's condition `PodScheduled`.
///
/// # Errors
/// The part that stands in the way.
pub(super) fn waits_for_devices(message: &str) -> Result<(), String> {
    let unknown = || Err(message.chars().take(200).collect());
    let Some((_, reasons)) = message.split_once(" nodes are available: ") else { return unknown() };
    // Behind it stands what other parts of the scheduler say.
    let reasons = reasons.split(". ").next().unwrap_or(reasons).trim_end_matches('.');
    let mut lacks_devices = false;
    for reason in reasons.split(", ") {
        let Some((count, reason)) = reason.split_once(' ') else { return unknown() };
        if count.parse::<u32>().is_err() {
            return unknown();
        }
        if reason == DEVICES {
            lacks_devices = true;
        } else if !JUDGED.iter().any(|judged| reason.starts_with(judged)) {
            return Err(reason.to_owned());
        }
    }
    if lacks_devices { Ok(()) } else { unknown() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn devices_alone_or_what_is_judged_too() {
        for message in [
            "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: \
             1 Preemption is not helpful for scheduling.",
            "0/3 nodes are available: 1 cannot allocate all claims, 2 node(s) had untolerated taint {a: b}.",
            "0/4 nodes are available: 1 Insufficient cpu, 1 Too many pods, 2 cannot allocate all claims",
        ] {
            assert_eq!(waits_for_devices(message), Ok(()), "{message}");
        }
        for (message, part) in [
            ("", ""),
            ("waiting for resource claim controller", "waiting"),
            ("0/1 nodes are available: 1 Insufficient cpu.", "Insufficient"),
            (
                "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) had volume node affinity conflict.",
                "volume",
            ),
            ("0/2 nodes are available: 1 cannot allocate all claims, node(s) odd.", "odd"),
            ("0/2 nodes are available: cannot allocate all claims.", "cannot"),
        ] {
            assert!(waits_for_devices(message).unwrap_err().contains(part), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_message_panics(message in any::<String>()) {
            let _ = waits_for_devices(&message);
            let _ = waits_for_devices(&format!("0/1 nodes are available: {message}"));
        }
    }
}
