//! Judgement: what of a pod's surroundings holds it up. Pure.
//!
//! Promises: a pod is said to wait for a card alone where no card of the cluster answers its request; what could not be read is
//! unknown, and nothing is concluded from it; the words of the scheduler and the kubelet about the pod are among the findings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::resource::v1::{CapacityRequirements, ResourceClaim};

use super::books::{BookedOffer, CardAnswer, books};
use super::finding::{CardView, Explanation, Finding, FindingKind, RequestView};
use super::look::{NamedClaim, PodScene};
use super::page::amounts;
use crate::cluster::{NODE_ACCEPTED, NodeReason};
use crate::driver::DRIVER;
use crate::offers::{Amounts, NotForIt};
use crate::prepare::PrepareReason;
use crate::quantity;

/// Resources that HAMi's pods ask for.
const HAMI: &str = "nvidia.com/gpu";

/// Everything that is to be said of a pod.
pub(super) fn judge(scene: &PodScene) -> Explanation {
    let metadata = &scene.pod.metadata;
    let mut judge = Judge { scene, findings: Vec::new(), requests: Vec::new() };
    judge.pod();
    for words in &scene.unread {
        judge.say(FindingKind::NotRead, words.clone(), "");
    }
    let waits = judge.findings.iter().any(|finding| finding.kind.holds());
    Explanation {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        pod: metadata.name.clone().unwrap_or_default(),
        waits,
        findings: judge.findings,
        requests: judge.requests,
    }
}

struct Judge<'a> {
    scene: &'a PodScene,
    findings: Vec<Finding>,
    requests: Vec<RequestView>,
}

/// A request of a claim, as the scheduler takes it.
struct Asked {
    request: String,
    class: String,
    amounts: Amounts,
    /// Quantities that are no whole numbers.
    unread: Vec<String>,
    has_selector: bool,
    /// Devices of the request, each of which is another card.
    count: i64,
}

impl Judge<'_> {
    fn say(&mut self, kind: FindingKind, words: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding { kind, words: words.into(), fix: fix.into() });
    }

    fn pod(&mut self) {
        let spec = self.scene.pod.spec.clone().unwrap_or_default();
        let status = self.scene.pod.status.clone().unwrap_or_default();
        let phase = status.phase.as_deref().unwrap_or("Pending");
        if phase != "Pending" {
            let node = spec.node_name.as_deref().unwrap_or("no node");
            self.say(FindingKind::Started, format!("it is {phase} on {node}"), "");
            return;
        }
        if let Some(node) = &spec.node_name {
            self.placed(node);
            return;
        }
        let gates: Vec<_> =
            spec.scheduling_gates.iter().flatten().map(|gate| &*gate.name).collect();
        if !gates.is_empty() {
            let words = format!("a scheduling gate holds it: {}", gates.join(", "));
            self.say(FindingKind::Gated, words, "whoever set the gate takes it away");
        }
        let scheduler = spec.scheduler_name.as_deref().unwrap_or("default-scheduler");
        if scheduler != "default-scheduler" {
            let words = format!("schedulerName is {scheduler}");
            let fix = format!(
                "if no {scheduler} runs here that knows resource claims, leave schedulerName out"
            );
            self.say(FindingKind::OtherScheduler, words, fix);
        }
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let limits = containers.filter_map(|it| it.resources.as_ref()?.limits.as_ref());
        let names = limits.flat_map(|limits| limits.keys()).filter(|name| name.starts_with(HAMI));
        let mut names: Vec<_> = names.map(|name| &**name).collect();
        names.sort_unstable();
        names.dedup();
        if !names.is_empty() {
            let words =
                format!("it asks for {}, which nothing of Divvy's offers", names.join(", "));
            let fix = "make claims of them by `divvy kube convert`, which says why the policy divvy-hami leaves such a pod alone";
            self.say(FindingKind::HamiLeft, words, fix);
        }
        let has_share = self.claims();
        if !has_share && names.is_empty() {
            self.say(FindingKind::NoShare, "it asks for no share of a card", "");
        }
        self.scheduler();
    }

    /// Judges the claims; whether some of them is for a share.
    fn claims(&mut self) -> bool {
        let mut has_share = false;
        for named in &self.scene.claims {
            let Some(claim) = &named.claim else {
                has_share |= self.missing(named);
                continue;
            };
            for class in &self.scene.no_classes {
                if super::look::class_names(claim).contains(class) {
                    has_share = true;
                    let words = format!(
                        "claim {} names the class {class}, which is not there",
                        name_of(claim)
                    );
                    let fix = "install the classes: kubectl apply -k deploy/kubernetes";
                    self.say(FindingKind::NoClass, words, fix);
                }
            }
            let ours: Vec<_> =
                asked(claim).into_iter().filter(|asked| self.is_ours(&asked.class)).collect();
            has_share |= !ours.is_empty();
            let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
            if allocation.is_none() && !ours.is_empty() {
                self.cards(claim, ours);
            }
        }
        has_share
    }

    /// A claim that is not there; whether that is known to hold the pod up.
    fn missing(&mut self, named: &NamedClaim) -> bool {
        match (&named.template, &named.object) {
            (Some(template), None) if named.has_template == Some(false) => {
                let words = format!(
                    "its claim {} is of the template {template}, which is not in the namespace",
                    named.name
                );
                let fix = "make it; `divvy kube convert` writes it, and the controller makes those of the policy divvy-hami";
                self.say(FindingKind::NoTemplate, words, fix);
                true
            }
            // It may be there, and be for a share.
            (_, Some(_)) if named.is_unread => true,
            (_, Some(object)) => {
                let words = format!("its claim {object} is not there");
                self.say(FindingKind::NoClaim, words, "make the claim, or make the pod again");
                true
            }
            (Some(template), None) => {
                let words =
                    format!("its claim {} is not made yet of the template {template}", named.name);
                let fix = "the controller manager makes it; see its events of the pod";
                self.say(FindingKind::NoClaim, words, fix);
                true
            }
            (None, None) => false,
        }
    }

    fn is_ours(&self, class: &str) -> bool {
        let read = self.scene.classes.iter().find(|it| it.metadata.name.as_deref() == Some(class));
        let Some(read) = read else {
            return class == DRIVER || class.ends_with(&format!(".{DRIVER}"));
        };
        let mut selectors = read.spec.selectors.iter().flatten().filter_map(|it| it.cel.as_ref());
        let mut configs = read.spec.config.iter().flatten().filter_map(|it| it.opaque.as_ref());
        selectors.any(|cel| cel.expression.contains(DRIVER))
            || configs.any(|it| it.driver == DRIVER)
    }

    /// A claim that is not allocated, beside the cards.
    fn cards(&mut self, claim: &ResourceClaim, requests: Vec<Asked>) {
        // The cards are not known; a line about what could not be read says so.
        let Some(slices) = &self.scene.slices else { return };
        let others = self.scene.others.as_deref();
        let cards = books(slices, others.unwrap_or_default());
        if cards.is_empty() {
            let fix = "look at the agents: kubectl -n divvy-system get pods -o wide; nodes need the label nvidia.com/gpu.present";
            self.say(FindingKind::NoCards, "no node publishes a card", fix);
        }
        let mut accepted = Vec::new();
        for event in newest(&self.scene.node_events, |_| true) {
            let node = event.involved_object.name.clone().unwrap_or_default();
            if event.reason.as_deref() == Some(NODE_ACCEPTED) {
                // Refusals from before are over.
                accepted.push(node);
                continue;
            }
            // Other events of the node are about its cards and claims.
            let reason = event.reason.as_deref().unwrap_or_default();
            let is_warning = NodeReason::ALL.iter().any(|(.., it)| *it == reason);
            let publishes = cards.iter().any(|card| card.node() == node);
            if is_warning && !publishes && !accepted.contains(&node) {
                let words = format!("node {node}: {}", event.message.clone().unwrap_or_default());
                self.say(
                    FindingKind::NodeRefused,
                    words,
                    "the words name what to mend on the node",
                );
            }
        }
        for request in requests {
            if !cards.is_empty() {
                self.request(name_of(claim), request, &cards, others.is_some());
            }
        }
    }

    fn request(&mut self, claim: &str, asked: Asked, cards: &[BookedOffer], knows_room: bool) {
        let Asked { request, amounts: wanted, unread, has_selector, count, .. } = asked;
        let place = format!("request {request} of claim {claim}");
        for words in unread {
            let fix = "write whole numbers, such as memory: 8Gi and cores: \"30\"";
            self.say(FindingKind::UnknownCapacity, format!("{place} asks for {words}"), fix);
        }
        let answers: Vec<_> = cards.iter().map(|card| (card, card.answer(&wanted))).collect();
        let any = |is: fn(&CardAnswer) -> bool| answers.iter().any(|(_, answer)| is(answer));
        let fits = any(|answer| *answer == CardAnswer::Fits);
        let lacks = any(|answer| matches!(answer, CardAnswer::Lacks(_) | CardAnswer::Taken));
        let asks = match &*amounts(&wanted) {
            "" => "a whole card".to_owned(),
            asks => asks.to_owned(),
        };
        let most = most_of_a_node(&answers);
        let unknown = answers.iter().find_map(|(_, answer)| match answer {
            CardAnswer::Never(NotForIt::Unknown(name)) => Some(name),
            _ => None,
        });
        if (fits || lacks) && usize::try_from(count).is_ok_and(|count| count > most) {
            let words = format!(
                "{place} asks for {count} devices, and no node has more than {most} cards for it: each of a request's devices is \
                 another card, with or without a constraint"
            );
            let fix = "lower the count; for several shares of one card write several requests";
            self.say(FindingKind::TooLarge, words, fix);
        } else if (fits || lacks) && !knows_room {
            // Nothing is known of what others have.
        } else if fits {
            let selector = if has_selector { ", selectors of the request aside," } else { "" };
            let words = format!("{place} asks for {asks}, which{selector} some card has");
            let fix = "see what the scheduler says: another claim, the node's taints, affinity or the pod's other resources";
            self.say(FindingKind::OtherReason, words, fix);
        } else if lacks {
            let words = format!("{place} asks for {asks}, and no card has that much left");
            let fix = "wait for others to end, ask for less, or add a node";
            self.say(FindingKind::NoRoom, words, fix);
        } else if let Some(name) = unknown {
            let words = format!("{place} asks for the capacity {name}, which no card has");
            self.say(FindingKind::UnknownCapacity, words, "cards have memory, cores and slots");
        } else {
            let words = format!("{place} asks for {asks}, which is more than any card has");
            self.say(FindingKind::TooLarge, words, "ask for less; it never fits");
        }
        let view = |(card, answer): (&BookedOffer, CardAnswer)| {
            let lacks = match answer {
                CardAnswer::Fits | CardAnswer::Lacks(_) | CardAnswer::Taken if !knows_room => {
                    "what others have is not known".to_owned()
                }
                CardAnswer::Fits => String::new(),
                CardAnswer::Lacks(what) => format!("lacks {}", amounts(&what)),
                CardAnswer::Taken => "not shared, and taken".to_owned(),
                CardAnswer::Never(NotForIt::TooSmall(name)) => {
                    format!("has too little {name} at all")
                }
                CardAnswer::Never(NotForIt::Unknown(name)) => format!("has no {name}"),
            };
            let mut card = card.offer();
            if !knows_room {
                (card.free, card.shares) = (None, None);
            }
            CardView { card, lacks }
        };
        let cards = answers.into_iter().map(view).collect();
        self.requests.push(RequestView { claim: claim.to_owned(), request, asked: wanted, cards });
    }

    fn scheduler(&mut self) {
        let status = self.scene.pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let refused = conditions.find(|it| it.type_ == "PodScheduled" && it.status == "False");
        let Some(message) = refused.and_then(|it| it.message.clone()) else { return };
        let kind = FindingKind::OtherReason;
        self.say(kind, format!("the scheduler says: {message}"), "");
    }

    /// A pod that has a node, and does not run.
    fn placed(&mut self, node: &str) {
        let failures = newest(&self.scene.events, |event| {
            let about = event.message.as_deref().unwrap_or_default();
            event.type_.as_deref() == Some("Warning")
                && (event.reason.as_deref() == Some("FailedPrepareDynamicResources")
                    || about.contains(DRIVER)
                    || event.reporting_component.as_deref() == Some(DRIVER))
        });
        for event in failures.iter().take(3) {
            let message = event.message.clone().unwrap_or_default();
            let known = PrepareReason::ALL
                .iter()
                .find(|(_, word, _)| message.contains(&format!("{word}: ")));
            let fix = match known {
                Some((_, word, fix)) => format!("{word}: {fix}"),
                None => format!("look at the agent of {node}: divvy-kube agent --ready in its pod"),
            };
            self.say(FindingKind::NotPrepared, format!("{node}: {message}"), fix);
        }
        if failures.is_empty() && self.scene.has_more_events {
            let words = format!(
                "it is placed on {node}; why it has not started is in events, which could not be read"
            );
            self.say(
                FindingKind::Starting,
                words,
                "see kubectl describe pod with the right to list events",
            );
        } else if failures.is_empty() {
            let words =
                format!("it is placed on {node}, and nothing says that a share is in its way");
            let fix = format!(
                "see kubectl describe pod: images, volumes; and whether the agent of {node} is ready"
            );
            self.say(FindingKind::Starting, words, fix);
        }
    }
}

/// Events that `is` takes, the newest of each object and reason, newest first.
fn newest(events: &[Event], is: impl Fn(&Event) -> bool) -> Vec<Event> {
    let at = |event: &Event| {
        let series = event.series.as_ref().and_then(|series| series.last_observed_time.clone());
        let time = series.or_else(|| event.event_time.clone()).map(|time| time.0);
        time.max(event.last_timestamp.clone().map(|time| time.0))
    };
    let mut events: Vec<_> = events.iter().filter(|event| is(event)).cloned().collect();
    events.sort_by_key(|event| Reverse(at(event)));
    let mut known = Vec::new();
    events.retain(|event| {
        let key = (event.involved_object.uid.clone(), event.reason.clone());
        let is_new = !known.contains(&key);
        known.push(key);
        is_new
    });
    events
}

fn name_of(claim: &ResourceClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

/// Requests of a claim; of alternatives each.
fn asked(claim: &ResourceClaim) -> Vec<Asked> {
    let requests = claim.spec.devices.as_ref().and_then(|devices| devices.requests.as_ref());
    let mut all = Vec::new();
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = &request.exactly {
            all.push(one(
                request.name.clone(),
                &exactly.device_class_name,
                exactly.capacity.as_ref(),
                exactly.selectors.is_some(),
                exactly.count,
            ));
        }
        for alternative in request.first_available.iter().flatten() {
            all.push(one(
                format!("{}/{}", request.name, alternative.name),
                &alternative.device_class_name,
                alternative.capacity.as_ref(),
                alternative.selectors.is_some(),
                alternative.count,
            ));
        }
    }
    all
}

fn one(
    request: String,
    class: &str,
    capacity: Option<&CapacityRequirements>,
    has_selector: bool,
    count: Option<i64>,
) -> Asked {
    let (mut amounts, mut unread) = (Amounts::new(), Vec::new());
    let requests = capacity.and_then(|capacity| capacity.requests.as_ref());
    for (name, quantity) in requests.into_iter().flatten() {
        match quantity::whole_text(&quantity.0).ok() {
            Some(amount) => drop(amounts.insert(name.clone(), amount)),
            None => unread.push(format!("{name} {}", quantity.0)),
        }
    }
    Asked {
        request,
        class: class.to_owned(),
        amounts,
        unread,
        has_selector,
        count: count.unwrap_or(1),
    }
}

/// The most cards of one node that may ever have the request.
fn most_of_a_node(answers: &[(&BookedOffer, CardAnswer)]) -> usize {
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    for (card, answer) in answers {
        let ever = !matches!(answer, CardAnswer::Never(_));
        *nodes.entry(card.node()).or_default() += usize::from(ever);
    }
    nodes.into_values().max().unwrap_or(0)
}
