//! Book of templates: which pods want which, which there are, and what is to be done about it. Pure: time is given to it.
//!
//! Promises: a template is made where a pod names it, none of that name is there, and the namespace has fewer than
//! [`MOST_TEMPLATES`] of ours. One is taken away where it is ours and no pod has named it for as long as is said. Nothing is done before
//! all pods and templates were listed. Whatever is not done is told of on the pod.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kube::runtime::watcher::Event;

use crate::claim::Ask;

/// Templates of ours that a namespace has at most.
pub(crate) const MOST_TEMPLATES: usize = 64;
/// Time after which a trouble that goes on is told of again.
const AGAIN: Duration = Duration::from_secs(600);
/// Time after the first refusal by the API server, which doubles with each, and the longest.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(64);

/// Namespace and name of a template.
pub(super) type TemplatePlace = (String, String);

/// Pod that names a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelledPod {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) template: TemplatePlace,
}

/// Template that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenTemplate {
    pub(super) place: TemplatePlace,
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) is_ours: bool,
    /// Whether it says what its name does.
    pub(super) is_as_named: bool,
}

/// Trouble that a pod is told of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TemplateTrouble {
    /// A name that stands for no claim.
    NoName,
    /// Another template of that name.
    Another,
    /// As many as there may be.
    TooMany,
    /// The API server refuses it, in its words.
    Refused(String),
}

/// Deed that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplateDeed {
    Make(TemplatePlace, Ask),
    Remove(SeenTemplate),
}

impl TemplateDeed {
    pub(super) fn place(&self) -> &TemplatePlace {
        match self {
            Self::Make(place, _) => place,
            Self::Remove(template) => &template.place,
        }
    }
}

/// Decision on all of it.
#[derive(Debug, Default)]
pub(super) struct TemplateDecision {
    pub(super) deeds: Vec<TemplateDeed>,
    pub(super) told: Vec<(LabelledPod, TemplateTrouble)>,
    /// Time at which there will be something to do if nothing changes.
    pub(super) next: Option<Instant>,
}

impl TemplateDecision {
    /// There will be something to do then, if not before.
    fn look_at(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |before| before.min(at)));
    }
}

/// Pods by the template that they name.
type Wanted<'a> = BTreeMap<&'a TemplatePlace, Vec<&'a LabelledPod>>;

/// A kind of object as a watch tells of it.
#[derive(Debug)]
struct Watched<K, T> {
    all: BTreeMap<K, T>,
    /// Those of the list that is being read.
    listed: Option<BTreeMap<K, T>>,
    is_complete: bool,
}

impl<K: Ord, T> Default for Watched<K, T> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), listed: None, is_complete: false }
    }
}

impl<K: Ord, T> Watched<K, T> {
    fn hear(&mut self, event: Event<(K, Option<T>)>) {
        match event {
            Event::Init => self.listed = Some(BTreeMap::new()),
            Event::InitApply((key, Some(it))) => {
                drop(self.listed.get_or_insert_default().insert(key, it))
            }
            Event::InitApply((_, None)) => {}
            Event::InitDone => {
                self.all = self.listed.take().unwrap_or_default();
                self.is_complete = true;
            }
            Event::Apply((key, Some(it))) => drop(self.all.insert(key, it)),
            Event::Apply((key, None)) | Event::Delete((key, _)) => drop(self.all.remove(&key)),
        }
    }
}

#[derive(Debug)]
struct Failure {
    count: u32,
    until: Instant,
    words: String,
}

/// The book.
#[derive(Debug, Default)]
pub(super) struct TemplateBook {
    /// By UID.
    pods: Watched<String, LabelledPod>,
    templates: Watched<TemplatePlace, SeenTemplate>,
    /// Since when no pod names those of ours.
    idle: BTreeMap<TemplatePlace, Instant>,
    told: BTreeMap<(String, TemplateTrouble), Instant>,
    failures: BTreeMap<TemplatePlace, Failure>,
}

impl TemplateBook {
    /// Hears of a pod, by its UID; of one without a label there is nothing to know.
    pub(super) fn hear_pod(&mut self, event: Event<(String, Option<LabelledPod>)>) {
        self.pods.hear(event);
    }

    /// Hears of a template; of one whose name stands for no claim there is nothing to know.
    pub(super) fn hear_template(&mut self, event: Event<(TemplatePlace, Option<SeenTemplate>)>) {
        self.templates.hear(event);
    }

    /// Enters a deed that is done; `made` is the template that there is then.
    pub(super) fn done(&mut self, place: &TemplatePlace, made: Option<SeenTemplate>) {
        self.failures.remove(place);
        match made {
            Some(template) => drop(self.templates.all.insert(place.clone(), template)),
            None => drop(self.templates.all.remove(place)),
        }
    }

    /// Enters a deed that was refused.
    pub(super) fn failed(&mut self, place: &TemplatePlace, words: String, now: Instant) {
        let count = self.failures.get(place).map_or(0, |failure| failure.count);
        let wait = RETRY.saturating_mul(1 << count.min(8)).min(LONGEST_RETRY);
        let failure = Failure { count: count.saturating_add(1), until: now + wait, words };
        self.failures.insert(place.clone(), failure);
    }

    /// Forgets what only the holder of the lease may know: another has held it since.
    pub(super) fn start_anew(&mut self) {
        (self.idle, self.told, self.failures) = Default::default();
    }

    /// Decides. `patience` is how long a template may be named by nobody.
    pub(super) fn decide(&mut self, now: Instant, patience: Duration) -> TemplateDecision {
        let mut decision = TemplateDecision::default();
        if !self.pods.is_complete || !self.templates.is_complete {
            return decision;
        }
        let mut wanted = Wanted::new();
        for pod in self.pods.all.values() {
            wanted.entry(&pod.template).or_default().push(pod);
        }
        let troubled = self.make(&wanted, now, &mut decision);
        let idle = self.remove(&wanted, now, patience, &mut decision);
        let known: BTreeSet<TemplatePlace> =
            wanted.keys().map(|place| (*place).clone()).chain(idle.keys().cloned()).collect();
        self.failures.retain(|place, _| known.contains(place));
        self.idle = idle;
        self.told.retain(|(uid, _), at| {
            self.pods.all.contains_key(uid) && now.saturating_duration_since(*at) < AGAIN
        });
        for (pod, trouble) in troubled {
            let key = (pod.uid.clone(), trouble.clone());
            let at = *self.told.entry(key).or_insert_with(|| {
                decision.told.push((pod, trouble));
                now
            });
            decision.look_at(at + AGAIN);
        }
        decision
    }

    /// Makes the templates that are wanted and missing, within bounds; returns the pods that have a trouble, and it.
    fn make(
        &self,
        wanted: &Wanted<'_>,
        now: Instant,
        decision: &mut TemplateDecision,
    ) -> Vec<(LabelledPod, TemplateTrouble)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for template in self.templates.all.values().filter(|template| template.is_ours) {
            *counts.entry(&template.place.0).or_default() += 1;
        }
        let mut troubled = Vec::new();
        for (place, pods) in wanted {
            let failure = self.failures.get(*place);
            let trouble = match (self.templates.all.get(*place), Ask::of_name(&place.1)) {
                (Some(template), _) if template.is_as_named => None,
                (Some(_), _) => Some(TemplateTrouble::Another),
                (None, None) => Some(TemplateTrouble::NoName),
                (None, Some(ask)) => {
                    let count = counts.entry(&place.0).or_default();
                    if *count >= MOST_TEMPLATES {
                        Some(TemplateTrouble::TooMany)
                    } else {
                        *count += 1;
                        match failure.filter(|failure| failure.until > now) {
                            Some(failure) => decision.look_at(failure.until),
                            None => decision.deeds.push(TemplateDeed::Make((*place).clone(), ask)),
                        }
                        failure.map(|failure| TemplateTrouble::Refused(failure.words.clone()))
                    }
                }
            };
            let each =
                |it: TemplateTrouble| pods.iter().map(move |pod| ((*pod).clone(), it.clone()));
            troubled.extend(trouble.into_iter().flat_map(each));
        }
        troubled
    }

    /// Removes our templates that no pod has wanted for `patience`; returns those that none wants, and since when.
    fn remove(
        &self,
        wanted: &Wanted<'_>,
        now: Instant,
        patience: Duration,
        decision: &mut TemplateDecision,
    ) -> BTreeMap<TemplatePlace, Instant> {
        let mut idle = BTreeMap::new();
        for (place, template) in &self.templates.all {
            if !template.is_ours || wanted.contains_key(place) {
                continue;
            }
            let since = *self.idle.get(place).unwrap_or(&now);
            idle.insert(place.clone(), since);
            let waits = self.failures.get(place).map(|failure| failure.until);
            match waits.into_iter().chain([since + patience]).filter(|at| *at > now).max() {
                Some(at) => decision.look_at(at),
                None => decision.deeds.push(TemplateDeed::Remove(template.clone())),
            }
        }
        idle
    }
}
