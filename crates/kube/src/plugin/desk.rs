//! Desk: where devices are given to containers and taken back, one at a time, with the book and the prepare core.
//!
//! ```text
//! Allocate ──▶ book: do they fit? ──▶ lists: others do not any more ──▶ core: tenant, files ──▶ answer
//! podresources ──▶ book: who has none any more? ──▶ core: taken back ──▶ lists: others fit again
//! ```
//!
//! Promises: what cannot be prepared is given back; nothing is forgotten before the core has taken it back. A daemon that is away
//! for a moment, as when it is restarted, is waited for, since the kubelet refuses a pod for good.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::book::{DeviceOffer, ListedAt, PodList, ShareBook, TakenDevices};
use super::prefer::preferred;
use super::size::ShareSize;
use super::times::PluginTimes;
use crate::cards::{CardBook, CardTerms};
use crate::cluster::PluginNode;
use crate::event::EventLog;
use crate::prepare::{
    AllocatedClaim, AllocatedShare, ContainerEdits, DriverConfig, HostDisk, NodeDaemon, NodeDisk,
    ParametersOf, PrepareCore, PrepareError, PrepareReason,
};

/// Request of a claim that stands for a container's devices.
const REQUEST: &str = "gpu";
/// Pause before a daemon that is away is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Things that a container is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GivenShares {
    /// UUIDs of the cards.
    pub(super) cards: Vec<String>,
    /// CDI devices.
    pub(super) cdi_devices: Vec<String>,
    /// The same as the tenant's of them brings.
    pub(super) edits: ContainerEdits,
}

/// The desk.
#[derive(Debug)]
pub(super) struct ShareDesk<D, K = HostDisk> {
    core: Arc<PrepareCore<D, K>>,
    book: Mutex<ShareBook>,
    lists: BTreeMap<ShareSize, watch::Sender<Vec<DeviceOffer>>>,
    times: PluginTimes,
    log: EventLog,
}

impl<D, K> ShareDesk<D, K>
where
    D: NodeDaemon + Send + Sync + 'static,
    K: NodeDisk + Send + Sync + 'static,
{
    pub(super) fn new(
        core: PrepareCore<D, K>,
        sizes: &[ShareSize],
        terms: CardTerms,
        times: PluginTimes,
        log: EventLog,
    ) -> Self {
        Self {
            core: Arc::new(core),
            book: Mutex::new(ShareBook::new(terms)),
            lists: sizes.iter().map(|size| (*size, watch::Sender::default())).collect(),
            times,
            log,
        }
    }

    pub(super) fn log(&self) -> &EventLog {
        &self.log
    }

    pub(super) fn times(&self) -> &PluginTimes {
        &self.times
    }

    pub(super) fn sizes(&self) -> impl Iterator<Item = ShareSize> + '_ {
        self.lists.keys().copied()
    }

    /// List of the devices of a size, with each change.
    pub(super) fn list(&self, size: ShareSize) -> watch::Receiver<Vec<DeviceOffer>> {
        self.lists.get(&size).map_or_else(|| watch::channel(Vec::new()).1, watch::Sender::subscribe)
    }

    /// Enters the node's cards, and whether they may be sold; sentences about those that are not.
    pub(super) async fn enter_cards(&self, cards: &CardBook, node: &PluginNode) -> Vec<String> {
        let mut book = self.book.lock().await;
        let refused = node.refusal.as_ref().map(|refusal| refusal.words.as_str());
        let left_out = book.enter_cards(cards, refused);
        self.tell(&book);
        left_out
    }

    /// Makes the book again of the checkpoint and of what pods have; the number of claims.
    ///
    /// # Errors
    /// Those of the checkpoint.
    pub(super) async fn recover(
        &self,
        list: &PodList,
        kubelet_began: Instant,
    ) -> Result<usize, PrepareError> {
        let mut book = self.book.lock().await;
        let known = self.work(|core| core.sweep().and_then(|_| core.known())).await?;
        let count = known.iter().filter(|claim| book.find_again(&claim.uid, &claim.shares)).count();
        let at = self.at(book.turn(), kubelet_began);
        let gone = book.observe(list, at);
        self.take_back(&mut book, &gone).await;
        self.make_again(&mut book).await;
        self.tell(&book);
        Ok(count)
    }

    /// Turn of the book, for a list of pods that is asked for now.
    pub(super) async fn turn(&self) -> u64 {
        self.book.lock().await.turn()
    }

    /// Hears what pods have, of a list that was asked for at `turn`, and takes back what none has.
    pub(super) async fn hear(&self, list: &PodList, turn: u64, kubelet_began: Instant) {
        let mut book = self.book.lock().await;
        let gone = book.observe(list, self.at(turn, kubelet_began));
        self.take_back(&mut book, &gone).await;
        self.make_again(&mut book).await;
        if let Err(error) = self.work(PrepareCore::sweep).await {
            self.log.say(&format!("cannot finish what was left to do: {error}"));
        }
        self.tell(&book);
    }

    fn at(&self, turn: u64, kubelet_began: Instant) -> ListedAt {
        let PluginTimes { unseen, begins, .. } = self.times;
        ListedAt { turn, now: Instant::now(), kubelet_began, unseen, begins }
    }

    /// Makes what pods have already, as the kubelet does not ask for it again: a reboot has taken the files, or somebody else.
    async fn make_again(&self, book: &mut MutexGuard<'_, ShareBook>) {
        for taken in book.unmade() {
            // All devices of a claim are of one size.
            let Some(size) = taken.devices.first().map(|(device, _)| device.size) else { continue };
            let claim = claim_of(size, &taken);
            let answers = self.work(move |core| core.prepare(&[claim])).await;
            match answers.into_iter().map(|answer| answer.result).next() {
                Some(Ok(_)) => {
                    book.enter_made(&taken.uid);
                    self.log.say(&format!("found {}: a pod has it", taken.uid));
                }
                Some(Err(error)) => {
                    self.log.say(&format!("cannot make {} again: {error}", taken.uid))
                }
                None => {}
            }
        }
    }

    async fn take_back(&self, book: &mut MutexGuard<'_, ShareBook>, gone: &[String]) {
        if gone.is_empty() {
            return;
        }
        let uids = gone.to_vec();
        for answer in self.work(move |core| core.unprepare(&uids)).await {
            match answer.result {
                Ok(()) => {
                    book.forget(&answer.uid);
                    self.log.say(&format!("took back {}: no pod has it", answer.uid));
                }
                Err(error) => self.log.say(&format!("cannot take back {}: {error}", answer.uid)),
            }
        }
    }

    /// Devices that are best of those available.
    pub(super) async fn preferred(
        &self,
        available: &[String],
        must: &[String],
        count: usize,
    ) -> Vec<String> {
        preferred(&*self.book.lock().await, available, must, count)
    }

    /// Gives devices of a size to a container.
    ///
    /// # Errors
    /// In words; nothing is left of it.
    pub(super) async fn give(
        &self,
        size: ShareSize,
        ids: &[String],
    ) -> Result<GivenShares, String> {
        let begun = Instant::now();
        let mut book = self.book.lock().await;
        let taken = book.take(size, ids, begun).inspect_err(|why| {
            self.log.say(&format!("cannot give {}: {why}", size.resource()));
        })?;
        // The kubelet is to hear of what does not fit any more as soon as it can.
        self.tell(&book);
        let result = self.prepare(claim_of(size, &taken), taken.is_of_another).await;
        let uid = &taken.uid;
        let ms = begun.elapsed().as_millis();
        match &result {
            Ok(_) => {
                self.log.say(&format!("gave {uid} in {ms} ms: {}", cards_of(&taken).join(", ")))
            }
            Err(error) => self.log.say(&format!("cannot give {uid} in {ms} ms: {error}")),
        }
        if result.is_err() && !taken.is_held {
            self.take_back(&mut book, std::slice::from_ref(uid)).await;
        }
        self.tell(&book);
        let shares = result.map_err(|error| error.to_string())?;
        let mut given = GivenShares { cards: cards_of(&taken), ..GivenShares::default() };
        for share in shares {
            for device in share.cdi_devices {
                if !given.cdi_devices.contains(&device) {
                    given.cdi_devices.push(device);
                }
            }
            given.edits = share.edits;
        }
        Ok(given)
    }

    async fn prepare(
        &self,
        claim: AllocatedClaim,
        is_of_another: bool,
    ) -> Result<Vec<crate::prepare::PreparedShare>, PrepareError> {
        let deadline = Instant::now() + self.times.patience;
        if is_of_another {
            // Files that a pod before has written are not the next one's.
            let uid = claim.uid.clone();
            self.work(move |core| drop(core.unprepare(&[uid]))).await;
        }
        loop {
            let claim = claim.clone();
            let answer = self.work(move |core| core.prepare(&[claim])).await;
            let lost =
                || PrepareError::new(PrepareReason::TimedOut, "the work ended without an answer");
            let result =
                answer.into_iter().next().map_or_else(|| Err(lost()), |answer| answer.result);
            let is_away = |error: &PrepareError| {
                matches!(error.reason, PrepareReason::DaemonUnreachable | PrepareReason::Locked)
            };
            match result {
                Err(error) if is_away(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await
                }
                result => return result,
            }
        }
    }

    /// Has the core do something, on a thread where that may block.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PrepareCore<D, K>) -> T + Send + 'static,
    ) -> T {
        let core = self.core.clone();
        match tokio::task::spawn_blocking(move || work(&core)).await {
            Ok(done) => done,
            // A panic, which is a mistake of ours, goes on.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn tell(&self, book: &ShareBook) {
        for (size, list) in &self.lists {
            let next = book.offers(*size);
            list.send_if_modified(|now| {
                let is_news = *now != next;
                *now = next;
                is_news
            });
        }
    }
}

fn cards_of(taken: &TakenDevices) -> Vec<String> {
    let mut cards: Vec<_> = taken.devices.iter().map(|(_, uuid)| uuid.clone()).collect();
    cards.dedup();
    cards
}

/// The claim that stands for a container's devices.
fn claim_of(size: ShareSize, taken: &TakenDevices) -> AllocatedClaim {
    let shares = taken.devices.iter().map(|(device, uuid)| AllocatedShare {
        request: REQUEST.to_owned(),
        device: device.to_string(),
        gpu_uuid: uuid.clone(),
        share_id: Some(device.to_string()),
        memory_bytes: size.memory_bytes(),
        cores_percent: size.cores_percent,
        ..AllocatedShare::default()
    });
    AllocatedClaim {
        uid: taken.uid.clone(),
        name: size.resource(),
        shares: shares.collect(),
        // A container cannot unset what its loader reads from a file.
        config: vec![DriverConfig {
            of: ParametersOf::Class,
            requests: Vec::new(),
            parameters: json!({ "apiVersion": "divvy.dev/v1", "kind": "Share", "preload": "file" }),
        }],
        ..AllocatedClaim::default()
    }
}
