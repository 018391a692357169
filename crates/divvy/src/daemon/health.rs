//! Whether a daemon gives turns as it should, for who restarts those that do not.
//!
//! Healthy is a daemon whose scheduling thread has stepped within [`RECENT_NS`]. It steps five times a second where there is
//! nothing to do, so a daemon that is slower hangs, is stopped, or is on a host that has no time for it. A process that
//! stands by is as healthy as the daemon that it stands by for.
//!
//! Promises: a verdict that is no good says why. Does not judge what is divided, only that somebody does.

use serde::Serialize;

use super::engine::now_ns;

/// How long ago the last step may be: ten of the slowest.
const RECENT_NS: u64 = 2_000_000_000;

/// A verdict, as `/healthz` says it.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Health {
    /// ok or failing.
    status: &'static str,
    /// Why it fails; absent where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The daemon's process; absent where none answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Whether the process that answers is that daemon, or stands by for it.
    standby: bool,
    /// Time since the scheduling thread's last step; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_step_seconds: Option<f64>,
    /// Version of the process that answers.
    version: &'static str,
}

impl Health {
    /// Of this process, whose scheduling thread stepped at `stepped_ns`; 0 for not yet.
    pub(super) fn of_own(stepped_ns: u64) -> Self {
        Self::judge(Some(std::process::id()), false, stepped_ns, now_ns())
    }

    /// Of another process, whose view was made at `seen_ns`.
    pub(super) fn of_other(pid: u32, seen_ns: u64) -> Self {
        Self::judge(Some(pid), true, seen_ns, now_ns())
    }

    /// Where nobody answers.
    pub(super) fn of_none(why: String) -> Self {
        Self { status: "failing", reason: Some(why), ..Self::judge(None, true, 0, 0) }
    }

    /// True where turns go on.
    pub(super) fn is_ok(&self) -> bool {
        self.reason.is_none()
    }

    /// Why they do not.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    fn judge(pid: Option<u32>, standby: bool, stepped_ns: u64, now_ns: u64) -> Self {
        let since_ns = (stepped_ns > 0).then(|| now_ns.saturating_sub(stepped_ns));
        let seconds = |ns: u64| ns as f64 / 1e9;
        let reason = match since_ns {
            None => Some("the scheduling thread has not stepped yet".to_owned()),
            Some(since_ns) if since_ns > RECENT_NS => Some(format!(
                "the scheduling thread stepped last {:.1} s ago; {} s are the most",
                seconds(since_ns),
                seconds(RECENT_NS)
            )),
            Some(_) => None,
        };
        Self {
            status: if reason.is_none() { "ok" } else { "failing" },
            reason,
            pid,
            standby,
            last_step_seconds: since_ns.map(seconds),
            version: crate::metrics::VERSION,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_healthy_while_its_last_step_is_recent() {
        let at = |stepped_ns, now_ns| Health::judge(Some(7), false, stepped_ns, now_ns);
        assert!(at(5, 5).is_ok() && at(5, 5 + RECENT_NS).is_ok());
        // A step that began after the clock was read.
        assert!(at(6, 5).is_ok());
        let late = at(5, 3_500_000_005);
        assert!(!late.is_ok());
        let json = serde_json::to_value(&late).unwrap();
        let reason = "the scheduling thread stepped last 3.5 s ago; 2 s are the most";
        let expected = serde_json::json!({
            "status": "failing", "reason": reason, "pid": 7, "standby": false,
            "last_step_seconds": 3.5, "version": env!("CARGO_PKG_VERSION"),
        });
        assert_eq!(json, expected);
        assert!(!at(0, 5).is_ok(), "before the first step");
        let none = Health::of_none("no daemon answers".to_owned());
        assert!(!none.is_ok() && none.reason.as_deref() == Some("no daemon answers"));
    }
}
