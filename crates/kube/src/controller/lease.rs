//! Lease: which of several controllers writes.
//!
//! The holder renews it every [`LeaseTimes::retry`]. Another takes it when it has seen the same record for as long as that
//! says, by its own clock: clocks of machines are not compared. The holder begins no write later than
//! [`LeaseTimes::begin_within`] after it **sent** the renewal that last succeeded, and none may take longer than what is left of the
//! lease then. So a holder that is stopped, cut off or slow has ended its writes before another begins.
//!
//! Does not keep the API server from doing a request that came in time late: no lease can. Each write names the version or the
//! UID that it is of, or makes a name that is not there.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::cluster::jittered;
use crate::event::EventLog;

/// Name of the lease.
const NAME: &str = "divvy-controller";
/// The longest beginning of an identity.
const MOST_STEM_BYTES: usize = 200;

/// Times of a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseTimes {
    pub(super) duration: Duration,
}

impl LeaseTimes {
    /// Time after a renewal within which a write may begin.
    fn begin_within(self) -> Duration {
        self.duration * 2 / 3
    }

    /// Time after a renewal within which a write has ended.
    fn end_within(self) -> Duration {
        self.duration * 9 / 10
    }

    /// Time between two tries.
    fn retry(self) -> Duration {
        self.duration / 7
    }
}

/// Right to write, as it is at the moment.
#[derive(Clone, Debug)]
pub(super) struct Leadership {
    /// Time at which the renewal that last succeeded was sent.
    renewed: watch::Receiver<Option<Instant>>,
    times: LeaseTimes,
}

impl Leadership {
    /// Time that a write which begins at once has; none where it may not begin.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.patience_at(Instant::now())
    }

    fn patience_at(&self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since((*self.renewed.borrow())?);
        if passed >= self.times.begin_within() {
            return None;
        }
        self.times.end_within().checked_sub(passed)
    }

    /// Waits until the lease is taken, renewed or lost. Does not end where nobody keeps it.
    pub(super) async fn changed(&mut self) {
        if self.renewed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// One that wants the lease.
pub(super) struct Candidate {
    leases: Api<Lease>,
    identity: String,
    times: LeaseTimes,
    renewed: watch::Sender<Option<Instant>>,
    log: EventLog,
    /// The lease as it was last read or written.
    known: Option<Lease>,
    /// Since when `known` has its record.
    seen: Instant,
    problem: Option<String>,
}

impl Candidate {
    /// One that is called `stem`, with something behind it that no other process has.
    pub(super) fn new(
        client: kube::Client,
        namespace: &str,
        stem: &str,
        times: LeaseTimes,
        log: EventLog,
    ) -> (Self, Leadership) {
        let chance = RandomState::new().build_hasher().finish();
        let stem = stem.get(..MOST_STEM_BYTES).unwrap_or(stem);
        let (renewed, seen) = watch::channel(None);
        let candidate = Self {
            leases: Api::namespaced(client, namespace),
            identity: format!("{stem}_{chance:016x}"),
            times,
            renewed,
            log,
            known: None,
            seen: Instant::now(),
            problem: None,
        };
        (candidate, Leadership { renewed: seen, times })
    }

    /// Wants it for as long as it is run.
    pub(super) async fn run(&mut self) {
        loop {
            let tried = timeout(self.times.duration / 3, self.attempt()).await;
            let words = match tried {
                Ok(Ok(())) => None,
                Ok(Err(words)) => Some(words),
                Err(_) => {
                    // Whether it was done is not known.
                    self.known = None;
                    Some("no answer in time".to_owned())
                }
            };
            if let Some(words) = words.filter(|words| self.problem.as_ref() != Some(words)) {
                self.log.tell("lease-failed", &format!("lease {NAME}: {words}"));
                self.problem = Some(words);
            }
            let renewed = *self.renewed.borrow();
            if renewed.is_some_and(|at| at.elapsed() >= self.times.begin_within()) {
                self.renewed.send_replace(None);
                self.log.tell("lease-lost", &format!("lease {NAME} is lost: nothing is written"));
            }
            tokio::time::sleep(jittered(self.times.retry())).await;
        }
    }

    /// Gives it back, so that another need not wait until it is over. Nothing may be written by then.
    pub(super) async fn release(mut self) {
        let was_held = self.renewed.send_replace(None).is_some();
        let Some(mut lease) = self.known.take().filter(|_| was_held) else { return };
        if let Some(spec) = &mut lease.spec {
            (spec.holder_identity, spec.lease_duration_seconds) = (None, Some(1));
        }
        let params = PostParams::default();
        let _ = timeout(self.times.retry(), self.leases.replace(NAME, &params, &lease)).await;
    }

    async fn attempt(&mut self) -> Result<(), String> {
        let is_held = self.renewed.borrow().is_some();
        // The holder knows what it wrote; a conflict tells it of anything else.
        if !is_held || self.known.is_none() {
            let found = self.leases.get_opt(NAME).await.map_err(|error| error.to_string())?;
            self.see(found, Instant::now());
        }
        let spec = self.known.as_ref().and_then(|lease| lease.spec.as_ref());
        let over = Instant::now().saturating_duration_since(self.seen);
        let Some(next) = next_record(spec, &self.identity, over, self.times, Timestamp::now())
        else {
            if is_held {
                self.renewed.send_replace(None);
            }
            return Ok(());
        };
        let sent = Instant::now();
        let params = PostParams::default();
        let mut lease = self.known.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
            spec: None,
        });
        lease.spec = Some(next);
        let written = match &self.known {
            Some(_) => self.leases.replace(NAME, &params, &lease).await,
            None => self.leases.create(&params, &lease).await,
        };
        match written {
            Ok(lease) => {
                self.see(Some(lease), Instant::now());
                self.renewed.send_replace(Some(sent));
                self.problem = None;
                if !is_held {
                    let words = format!("lease {NAME} is held by {}", self.identity);
                    self.log.tell("lease-taken", &words);
                }
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                // Another was there first; read again at the next try.
                self.known = None;
                if is_held {
                    self.renewed.send_replace(None);
                    self.log.tell("lease-lost", &format!("lease {NAME} is another's"));
                }
                Ok(())
            }
            Err(error) => {
                // Whether it was done is not known.
                self.known = None;
                Err(error.to_string())
            }
        }
    }

    fn see(&mut self, found: Option<Lease>, now: Instant) {
        let record = |lease: &Option<Lease>| {
            let version = |lease: &Lease| lease.metadata.resource_version.clone();
            lease.as_ref().map(|lease| (version(lease), lease.spec.clone()))
        };
        if record(&found) != record(&self.known) {
            self.seen = now;
        }
        self.known = found;
    }
}

/// The record to write; none while the lease is another's. `same` is how long it was seen as it is.
fn next_record(
    found: Option<&LeaseSpec>,
    identity: &str,
    same: Duration,
    times: LeaseTimes,
    clock: Timestamp,
) -> Option<LeaseSpec> {
    let holder = found.and_then(|spec| spec.holder_identity.as_deref()).filter(|it| !it.is_empty());
    let is_own = holder == Some(identity);
    if let (Some(spec), Some(_), false) = (found, holder, is_own) {
        let seconds = spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok());
        // A record without its time, or with none, is given as much as ours.
        let duration = seconds.filter(|it| *it > 0).map_or(times.duration, Duration::from_secs);
        if same < duration.max(times.duration) {
            return None;
        }
    }
    let before = found.cloned().unwrap_or_default();
    let transitions = before.lease_transitions.unwrap_or(0);
    Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(times.duration.as_secs()).ok(),
        renew_time: Some(MicroTime(clock)),
        acquire_time: match is_own {
            true => before.acquire_time,
            false => Some(MicroTime(clock)),
        },
        lease_transitions: Some(transitions.saturating_add(i32::from(!is_own))),
        ..LeaseSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMES: LeaseTimes = LeaseTimes { duration: Duration::from_secs(15) };

    fn held_by(holder: &str, seconds: Option<i32>) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: seconds,
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    fn step(found: Option<&LeaseSpec>, same: Duration) -> Option<LeaseSpec> {
        next_record(found, "me", same, TIMES, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_lease_is_taken_when_its_time_is_over_and_not_before() {
        let (short, over) = (Duration::from_millis(14_999), Duration::from_secs(15));
        assert!(step(None, Duration::ZERO).is_some());
        assert!(step(Some(&held_by("", Some(15))), Duration::ZERO).is_some());
        assert!(step(Some(&LeaseSpec::default()), Duration::ZERO).is_some());
        for seconds in [Some(15), Some(1), Some(0), Some(-1), None] {
            assert_eq!(step(Some(&held_by("other", seconds)), short), None, "{seconds:?}");
            let taken = step(Some(&held_by("other", seconds)), over).unwrap();
            assert_eq!(taken.lease_transitions, Some(4));
        }
        assert_eq!(step(Some(&held_by("other", Some(60))), over), None);
        let own = step(Some(&held_by("me", Some(15))), Duration::ZERO).unwrap();
        assert_eq!((own.lease_transitions, own.lease_duration_seconds), (Some(3), Some(15)));
    }

    proptest! {
        /// The holder's last write has ended before another may take the lease, whatever its length.
        #[test]
        fn no_write_of_the_old_holder_meets_one_of_the_new(
            millis in 1_000..600_000_u64, passed in 0..1_200_000_u64,
        ) {
            let times = LeaseTimes { duration: Duration::from_millis(millis) };
            let sent = Instant::now();
            let (_sender, renewed) = watch::channel(Some(sent));
            let leadership = Leadership { renewed, times };
            let begins = sent + Duration::from_millis(passed);
            if let Some(patience) = leadership.patience_at(begins) {
                // Another has seen the record at `sent` at the earliest.
                prop_assert!(begins + patience < sent + times.duration);
                prop_assert!(!patience.is_zero());
            }
            prop_assert!(leadership.patience_at(sent).is_some());
        }
    }

    #[test]
    fn who_never_had_it_writes_nothing() {
        let (sender, renewed) = watch::channel(None);
        let leadership = Leadership { renewed, times: TIMES };
        assert_eq!(leadership.patience(), None);
        sender.send_replace(Some(Instant::now()));
        assert!(leadership.patience().is_some());
    }
}
