//! The book against a namespace that is played, and templates as objects.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kube::runtime::watcher::Event;
use proptest::prelude::*;
use serde_json::json;

use super::book::*;
use super::object;
use crate::claim::Ask;

const IDLE: Duration = Duration::from_secs(600);

fn place(name: &str) -> TemplatePlace {
    ("team".to_owned(), name.to_owned())
}

fn pod(number: usize, template: &str) -> (String, Option<LabelledPod>) {
    let uid = format!("uid-{number}");
    let pod =
        LabelledPod { name: format!("pod-{number}"), uid: uid.clone(), template: place(template) };
    (uid, Some(pod))
}

fn template(name: &str, is_ours: bool, is_as_named: bool) -> SeenTemplate {
    let (uid, version) = (format!("uid of {name}"), "1".to_owned());
    SeenTemplate { place: place(name), uid, version, is_ours, is_as_named }
}

fn told_of(template: &SeenTemplate) -> (TemplatePlace, Option<SeenTemplate>) {
    (template.place.clone(), Some(template.clone()))
}

/// A book that has heard of all.
fn book(templates: &[SeenTemplate]) -> TemplateBook {
    let mut book = TemplateBook::default();
    book.hear_pod(Event::Init);
    book.hear_pod(Event::InitDone);
    book.hear_template(Event::Init);
    for template in templates {
        book.hear_template(Event::InitApply(told_of(template)));
    }
    book.hear_template(Event::InitDone);
    book
}

/// Does what is due, as a namespace that refuses nothing would.
fn settle(book: &mut TemplateBook, now: Instant) -> Vec<(LabelledPod, TemplateTrouble)> {
    let mut told = Vec::new();
    loop {
        let decision = book.decide(now, IDLE);
        told.extend(decision.told);
        let Some(deed) = decision.deeds.into_iter().next() else { return told };
        let made = match &deed {
            TemplateDeed::Make((_, name), _) => Some(template(name, true, true)),
            TemplateDeed::Remove(_) => None,
        };
        book.done(deed.place(), made);
    }
}

#[test]
fn a_template_that_a_pod_names_is_made_once() {
    let now = Instant::now();
    let mut book = book(&[]);
    for number in 0..3 {
        book.hear_pod(Event::Apply(pod(number, "gpu-8192mi-30c")));
    }
    let ask = Ask::of_name("gpu-8192mi-30c").unwrap();
    assert_eq!(book.decide(now, IDLE).deeds, [TemplateDeed::Make(place("gpu-8192mi-30c"), ask)]);
    assert!(settle(&mut book, now).is_empty());
    assert!(book.decide(now, IDLE).deeds.is_empty());
}

#[test]
fn nothing_is_done_before_everything_was_listed() {
    let now = Instant::now();
    let mut book = TemplateBook::default();
    book.hear_pod(Event::Init);
    book.hear_pod(Event::InitApply(pod(0, "gpu-8mi")));
    book.hear_pod(Event::InitDone);
    book.hear_template(Event::Init);
    assert!(book.decide(now, IDLE).deeds.is_empty());
    book.hear_template(Event::InitDone);
    assert_eq!(book.decide(now, IDLE).deeds.len(), 1);
    // A list that is read again does not empty the book meanwhile.
    settle(&mut book, now);
    book.hear_pod(Event::Init);
    assert!(book.decide(now + 2 * IDLE, IDLE).deeds.is_empty());
}

#[test]
fn a_template_that_nobody_names_is_removed_when_its_time_is_over() {
    let now = Instant::now();
    let ours = template("gpu-8mi", true, true);
    let others = [template("gpu-16mi", false, true), template("gpu-24mi", false, false)];
    let mut book = book(&[std::slice::from_ref(&ours), &others[..]].concat());
    let decision = book.decide(now, IDLE);
    assert!(decision.deeds.is_empty() && decision.next == Some(now + IDLE));
    // A pod that comes in between begins the time again.
    book.hear_pod(Event::Apply(pod(0, "gpu-8mi")));
    assert!(book.decide(now + IDLE, IDLE).deeds.is_empty());
    book.hear_pod(Event::Delete(pod(0, "gpu-8mi")));
    assert!(book.decide(now + 2 * IDLE, IDLE).deeds.is_empty());
    assert_eq!(book.decide(now + 3 * IDLE, IDLE).deeds, [TemplateDeed::Remove(ours.clone())]);
    // The holder of the lease has changed: its time begins again.
    book.start_anew();
    assert!(book.decide(now + 3 * IDLE, IDLE).deeds.is_empty());
    book.failed(&ours.place, "conflict".to_owned(), now + 4 * IDLE);
    let decision = book.decide(now + 4 * IDLE, IDLE);
    assert!(decision.deeds.is_empty() && decision.next.unwrap() > now + 4 * IDLE);
    settle(&mut book, now + 5 * IDLE);
    assert!(book.decide(now + 9 * IDLE, IDLE).deeds.is_empty(), "others' are left");
}

#[test]
fn the_sixty_fifth_is_told_and_not_made() {
    let now = Instant::now();
    let mut book = book(&[]);
    for number in 0..=MOST_TEMPLATES {
        book.hear_pod(Event::Apply(pod(number, &format!("gpu-{}mi", 256 * (number + 1)))));
    }
    let told = settle(&mut book, now);
    assert!(matches!(&told[..], [(_, TemplateTrouble::TooMany)]), "{told:?}");
    assert!(settle(&mut book, now).is_empty(), "told once");
    assert_eq!(settle(&mut book, now + IDLE).len(), 1, "and again later");
    // One that a user makes is used.
    let name = told[0].0.template.1.clone();
    book.hear_template(Event::Apply(told_of(&template(&name, false, true))));
    assert!(settle(&mut book, now + 2 * IDLE).is_empty());
}

#[test]
fn what_cannot_be_made_is_told_in_words() {
    let now = Instant::now();
    let mut book = book(&[template("gpu-8mi", false, false)]);
    book.hear_pod(Event::Apply(pod(0, "gpu-8mi")));
    book.hear_pod(Event::Apply(pod(1, "gpu-0x-8mi")));
    book.hear_pod(Event::Apply(pod(2, "gpu-16mi")));
    book.failed(&place("gpu-16mi"), "quota".to_owned(), now);
    let decision = book.decide(now, IDLE);
    assert!(decision.deeds.is_empty());
    let troubles: Vec<_> = decision.told.into_iter().map(|(_, trouble)| trouble).collect();
    let refused = TemplateTrouble::Refused("quota".to_owned());
    assert_eq!(troubles, [TemplateTrouble::NoName, refused, TemplateTrouble::Another]);
    assert_eq!(book.decide(now + IDLE, IDLE).deeds.len(), 1, "tried again");
}

#[test]
fn a_template_is_ours_until_somebody_else_writes_to_it() {
    let ask = Ask::of_name("gpu-2x-8192mi-30c-burst").unwrap();
    let mut made = object::template(&ask, "team").unwrap();
    assert_eq!(object::says_its_name(&made), Some(true));
    assert!(!object::is_ours(&made), "before the API server says who wrote it");
    let writers = |names: &[&str]| {
        let writer = |name: &&str| json!({ "manager": name, "operation": "Update" });
        serde_json::from_value(names.iter().map(writer).collect()).unwrap()
    };
    made.metadata.managed_fields = writers(&["divvy-controller"]);
    assert!(object::is_ours(&made));
    made.metadata.managed_fields = writers(&["divvy-controller", "kubectl-label"]);
    assert!(!object::is_ours(&made));
    made.metadata.managed_fields = writers(&["divvy-controller"]);
    made.metadata.labels = None;
    assert!(!object::is_ours(&made));
}

#[test]
fn amounts_are_the_same_however_they_are_written() {
    let ask = Ask::of_name("gpu-8192mi-30c").unwrap();
    let made = serde_json::to_value(object::template(&ask, "team").unwrap()).unwrap();
    let amounts = "/spec/spec/devices/requests/0/exactly/capacity/requests";
    for (memory, cores, same) in
        [("8Gi", "30", true), ("8589934592", "30", true), ("8G", "30", false), ("8Gi", "31", false)]
    {
        let mut found = made.clone();
        *found.pointer_mut(amounts).unwrap() = json!({ "memory": memory, "cores": cores });
        let found = serde_json::from_value(found).unwrap();
        assert_eq!(object::says_its_name(&found), Some(same), "{memory} {cores}");
    }
    let mut other = made.clone();
    other["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = json!(2);
    assert_eq!(object::says_its_name(&serde_json::from_value(other).unwrap()), Some(false));
    let mut other = made;
    other["metadata"]["name"] = json!("mine");
    assert_eq!(object::says_its_name(&serde_json::from_value(other).unwrap()), None);
}

proptest! {
    /// Pods come and go: never more than there may be, never one of others, and in the end what is named is there.
    #[test]
    fn a_namespace_has_what_its_pods_name(
        steps in proptest::collection::vec((0..200_usize, 0..90_u64, any::<bool>(), 0..900_u64), 1..300),
        foreign in proptest::collection::btree_set(1..90_u64, 0..20),
    ) {
        let name = |size: u64| format!("gpu-{size}mi");
        let others: Vec<_> = foreign.iter().map(|size| template(&name(*size), false, true)).collect();
        let mut book = book(&others);
        let mut now = Instant::now();
        let mut pods = std::collections::BTreeMap::new();
        let mut ours = BTreeSet::new();
        for (number, size, comes, seconds) in steps {
            now += Duration::from_secs(seconds);
            if comes {
                pods.insert(number, name(size));
                book.hear_pod(Event::Apply(pod(number, &name(size))));
            } else {
                pods.remove(&number);
                book.hear_pod(Event::Delete(pod(number, "")));
            }
            while let Some(deed) = book.decide(now, IDLE).deeds.into_iter().next() {
                match &deed {
                    TemplateDeed::Make(place, ask) => {
                        prop_assert!(ours.insert(place.1.clone()), "made twice");
                        prop_assert!(!others.iter().any(|other| other.place == *place));
                        prop_assert!(ours.len() <= MOST_TEMPLATES);
                        prop_assert_eq!(&Ask::of_name(&place.1).unwrap(), ask);
                        book.done(place, Some(template(&place.1, true, true)));
                    }
                    TemplateDeed::Remove(gone) => {
                        prop_assert!(ours.remove(&gone.place.1), "not ours");
                        prop_assert!(!pods.values().any(|named| *named == gone.place.1));
                        book.done(&gone.place, None);
                    }
                }
            }
            let named: BTreeSet<_> = pods.values().filter(|named| *named != "gpu-0mi").collect();
            let is_there = |named: &&&String| ours.contains(**named) || others.iter().any(|it| it.place.1 == ***named);
            let there = named.iter().filter(is_there).count();
            prop_assert!(there == named.len() || ours.len() == MOST_TEMPLATES);
        }
    }
}
