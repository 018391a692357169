//! One document: what it becomes.
//!
//! Promises: an object is converted whole or refused whole; none that is written asks for a GPU by a resource of HAMi's,
//! wherever in it that stands. A list is its items: those that are refused are left out of it.

use serde::Serialize;

use crate::claim::Templates;
use crate::key::{Fate, Key, Place};
use crate::keys;
use crate::note::{Code, Level, Note, Notes};
use crate::pod::{self, ContainerShare};
use crate::policy::{SCHEDULER, STOCK_SCHEDULER};
use crate::request::Options;
use crate::yaml::Node;
use crate::{compose, driver_claim, kinds, live, metric, unread, way};

/// Result of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Nothing in it is HAMi's; it is written as it was.
    Passed,
    /// The in-cluster policy would understand it as it is; it is converted all the same.
    Unchanged,
    /// It is converted, and had to be.
    Converted,
    /// It is not written.
    Refused,
}

/// An object that was looked at: a document, or an item of one that is a list.
#[derive(Debug)]
pub(crate) struct Judged {
    /// Its number in its list.
    pub(crate) item: Option<usize>,
    pub(crate) line: usize,
    pub(crate) outcome: Outcome,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) shares: Vec<ContainerShare>,
    pub(crate) notes: Vec<Note>,
}

impl Judged {
    /// Refuses it: what else was told of it is of what is not written.
    pub(crate) fn refuse(&mut self) {
        self.outcome = Outcome::Refused;
        self.shares.clear();
        self.notes.retain(|note| note.level == Level::Refused);
    }
}

/// A document that was looked at.
#[derive(Debug, Default)]
pub(crate) struct Becoming {
    pub(crate) objects: Vec<Judged>,
    /// Templates that come before it.
    pub(crate) templates: Vec<Node>,
    /// The document, where anything in it is another.
    pub(crate) changed: Option<Node>,
    /// Whether there is anything of it to write.
    pub(crate) is_written: bool,
}

/// Looks at one document; `templates` has nothing of what is refused.
pub(crate) fn judge(root: &Node, options: Options, templates: &mut Templates) -> Becoming {
    let items = root.get("items").map(Node::items).unwrap_or_default();
    if items.is_empty() || !kinds::is_list(root) {
        return object(root, options, templates);
    }
    let mut all = Becoming::default();
    let mut kept = Vec::new();
    for (item, number) in items.iter().zip(1..) {
        let one = object(item, options, templates);
        all.objects.extend(one.objects.into_iter().map(|it| Judged { item: Some(number), ..it }));
        all.templates.extend(one.templates);
        if one.is_written {
            kept.push(one.changed.unwrap_or_else(|| item.clone()));
        }
    }
    all.is_written = !kept.is_empty();
    if all.objects.iter().any(|it| it.outcome != Outcome::Passed) {
        let mut list = root.clone();
        if let Some(items) = list.get_mut("items") {
            *items = Node::sequence(kept);
        }
        live::strip(&mut list);
        all.changed = Some(list);
    }
    all
}

/// Looks at one object; `templates` is as it was where that is refused.
fn object(root: &Node, options: Options, templates: &mut Templates) -> Becoming {
    let count = templates.count();
    let mut work = Work {
        options,
        templates,
        notes: Notes::default(),
        shares: Vec::new(),
        made: Vec::new(),
        is_hami: false,
        is_unchanged: false,
        pods: 0,
    };
    let mut object = root.clone();
    if object.entries().is_empty() {
        let words = "the document is no object: it has no apiVersion and kind; take it out";
        work.notes.add(Code::Form, root.line, "", words);
    } else if compose::is_compose(root) {
        work.is_hami = compose::convert(&mut object, &mut work.notes);
        unread::look(&object, false, &mut work.notes);
    } else {
        work.object(&mut object);
    }
    if work.is_hami
        && let Some(line) = live::strip(&mut object)
    {
        let words = "status, and what else a cluster wrote into the object, is gone";
        work.notes.add(Code::Removed, line, "", words);
    }
    let outcome = if work.notes.refusals() > 0 {
        Outcome::Refused
    } else if !work.is_hami {
        Outcome::Passed
    } else if work.is_unchanged {
        Outcome::Unchanged
    } else {
        Outcome::Converted
    };
    way::give(root, &mut work.notes.list);
    let metadata = |key: &str| root.at(&["metadata", key]).and_then(Node::text).map(str::to_owned);
    let mut judged = Judged {
        item: None,
        line: root.line,
        outcome,
        kind: if compose::is_compose(root) { compose::KIND } else { kinds::kind(root) }.to_owned(),
        name: metadata("name").or_else(|| metadata("generateName")).unwrap_or_default(),
        namespace: metadata("namespace"),
        shares: work.shares,
        notes: work.notes.list,
    };
    if outcome == Outcome::Refused {
        work.templates.forget(count);
        judged.refuse();
        return Becoming { objects: vec![judged], ..Becoming::default() };
    }
    Becoming {
        objects: vec![judged],
        templates: work.made,
        changed: work.is_hami.then_some(object),
        is_written: true,
    }
}

#[derive(Debug)]
struct Work<'t> {
    options: Options,
    templates: &'t mut Templates,
    notes: Notes,
    shares: Vec<ContainerShare>,
    made: Vec<Node>,
    is_hami: bool,
    /// Whether every pod with a share is as the policy understands it.
    is_unchanged: bool,
    pods: u32,
}

impl Work<'_> {
    fn object(&mut self, object: &mut Node) {
        if kinds::kind(object).ends_with("List") && object.get("items").is_some() {
            if let Some(items) = object.get_mut("items") {
                items.items_mut().iter_mut().for_each(|item| self.object(item));
            }
            return;
        }
        if kinds::kind(object) == "ResourceQuota" {
            return self.quota(object);
        }
        if kinds::kind(object) == "LimitRange" {
            return self.limit_range(object);
        }
        self.is_hami |= driver_claim::look(object, &mut self.notes);
        let namespace = object.at(&["metadata", "namespace"]).and_then(Node::text);
        let namespace = namespace.map(str::to_owned);
        let ways = kinds::ways(object);
        for way in ways.unwrap_or_default() {
            kinds::pods(object, way, &mut |pod| self.pod(pod, namespace.as_deref()));
            if !way.is_empty() && self.is_hami {
                self.out_of_place(object);
            }
        }
        if kinds::group(object) == "ray.io" {
            uncounted(object, &mut self.notes);
        }
        if kinds::group(object) == "batch.volcano.sh" {
            self.volcano(object);
        }
        self.leftovers(object, ways.is_some());
        metric::monitor(object, &mut self.notes);
        let has_open = self.shares.iter().any(|share| unread::is_open(&share.ask));
        unread::look(object, has_open, &mut self.notes);
    }

    fn pod(&mut self, pod: &mut Node, namespace: Option<&str>) {
        let found = pod::convert(pod, namespace, self.options, self.templates, &mut self.notes);
        self.is_hami |= found.is_hami;
        if found.is_hami {
            self.is_unchanged = found.is_unchanged && (self.pods == 0 || self.is_unchanged);
            self.pods += 1;
        }
        self.shares.extend(found.shares);
        self.made.extend(found.templates);
    }

    /// Annotations of HAMi's at the object itself, which HAMi never read.
    fn out_of_place(&mut self, object: &Node) {
        let annotations = object.at(&["metadata", "annotations"]);
        for entry in annotations.map(Node::entries).unwrap_or_default() {
            let name = &*entry.key.text;
            if keys::find(Place::Annotation, name).is_some() {
                let words = format!(
                    "{name} stands at the object, where HAMi does not read it; it stays, without effect"
                );
                self.notes.add(Code::OutOfPlace, entry.line, name, words);
            }
        }
    }

    /// The scheduler of a Job of Volcano's, which its pods have that name none: Volcano's own unless the Job says another.
    fn volcano(&mut self, object: &mut Node) {
        let Some(spec) = object.get_mut("spec") else { return };
        let tasks = spec.get("tasks").map(Node::items).unwrap_or_default();
        let is_placed = |task: &Node| {
            let pod = task.at(&["template", "spec"]);
            pod.is_some_and(|it| {
                it.get("resourceClaims").is_some() && it.get("schedulerName").is_none()
            })
        };
        if !tasks.iter().any(is_placed) {
            return;
        }
        const KEY: &str = "schedulerName";
        let line = spec.get(KEY).map_or(spec.line, |it| it.line);
        match spec.get(KEY).and_then(Node::text).unwrap_or("volcano") {
            SCHEDULER => {
                spec.take(&[KEY]);
                spec.set(KEY, Node::plain(STOCK_SCHEDULER));
                self.is_unchanged = false;
                let words = "schedulerName: the stock scheduler places claims, and is named, since Volcano names its own else";
                self.notes.add(Code::Removed, line, KEY, words);
            }
            STOCK_SCHEDULER => {}
            name => self.notes.add(Code::OtherScheduler, line, KEY, pod::other_scheduler(name)),
        }
    }

    /// Refuses GPUs that are still asked for by a resource.
    fn leftovers(&mut self, object: &Node, is_known: bool) {
        if self.notes.refusals() > 0 {
            return;
        }
        let kind = kinds::kind(object).to_owned();
        let notes = &mut self.notes;
        kinds::resources(object, &mut |name, line| {
            let key = keys::find(Place::Resource, name);
            let words = match key.map(|key| key.fate) {
                None if !keys::is_alike(name) => return,
                Some(Fate::Kept) => return,
                Some(Fate::Refused(code)) => {
                    return notes.add(
                        code,
                        line,
                        name,
                        format!("{name}: {}", key.map_or("", Key::reason)),
                    );
                }
                _ if is_known => {
                    format!("{name} stands where no container of a {kind} is; move it to one")
                }
                _ => format!("{name} in an object of kind {kind}: {}", kinds::hint(object)),
            };
            notes.add(Code::UnknownKind, line, name, words);
        });
    }

    /// A range of limits, which Kubernetes knows of resources and not of claims.
    fn limit_range(&mut self, object: &Node) {
        let ranges = object.at(&["spec", "limits"]).map(Node::items).unwrap_or_default();
        let sides = ranges.iter().flat_map(Node::entries).map(|side| &side.value);
        for entry in sides.flat_map(Node::entries) {
            let name = &*entry.key.text;
            if keys::is_gpu(name) {
                let words = format!(
                    "{name}: no range of limits reaches claims; bound them by a ValidatingAdmissionPolicy on claim templates"
                );
                self.notes.add(Code::Quota, entry.line, name, words);
            }
        }
    }

    /// A quota: counts become counts of devices of the class; sums of memory and cores have no counterpart.
    fn quota(&mut self, object: &mut Node) {
        const COUNT: &str = "gpu.divvy.dev.deviceclass.resource.k8s.io/devices";
        let Some(hard) = object.get_mut("spec").and_then(|spec| spec.get_mut("hard")) else {
            return;
        };
        let mut kept = None;
        for entry in hard.entries().to_vec() {
            let name = &*entry.key.text;
            let bare = name.strip_prefix("limits.").or_else(|| name.strip_prefix("requests."));
            let Some(bare) = bare else {
                if keys::is_gpu(name) {
                    let words = format!(
                        "{name}: Kubernetes takes no quota of it by this name; write requests.{name}"
                    );
                    self.notes.add(Code::UnknownKey, entry.line, name, words);
                }
                continue;
            };
            match keys::find(Place::Resource, bare).map(|key| key.fate) {
                Some(Fate::Count) => {
                    let value = crate::quantity::whole(&entry.value);
                    let Ok(value) = value else {
                        let words = format!("{name} is no whole number of cards");
                        self.notes.add(Code::BadValue, entry.line, name, words);
                        continue;
                    };
                    if kept.is_some_and(|kept| kept != value) {
                        let words = format!("{name}: limits and requests differ; make them equal");
                        self.notes.add(Code::Contradiction, entry.line, name, words);
                    }
                    hard.remove(name);
                    if kept.replace(value).is_none() {
                        hard.set(COUNT, Node::quoted(value.to_string()));
                    }
                    self.is_hami = true;
                }
                Some(Fate::Kept) => {}
                Some(_) => {
                    let words = format!(
                        "{name}: no quota of Kubernetes sums memory or cores of claims; count devices by limits.nvidia.com/gpu, or use Kueue's quota for consumable capacity"
                    );
                    self.notes.add(Code::Quota, entry.line, name, words);
                }
                None if keys::is_alike(bare) => {
                    let words = format!("{name} is no resource of HAMi's; correct it");
                    self.notes.add(Code::UnknownKey, entry.line, name, words);
                }
                None => {}
            }
        }
    }
}

/// Warns of groups of Ray's whose pods have claims and which do not say how many GPUs those are.
fn uncounted(node: &Node, notes: &mut Notes) {
    let has_claims = node.at(&["template", "spec", "resourceClaims"]).is_some();
    if has_claims && node.at(&["rayStartParams", "num-gpus"]).is_none() {
        let words =
            "Ray counts GPUs by nvidia.com/gpu, which is gone; say num-gpus in rayStartParams";
        notes.add(Code::RayGpus, node.line, "rayStartParams", words);
    }
    node.entries().iter().for_each(|entry| uncounted(&entry.value, notes));
    node.items().iter().for_each(|item| uncounted(item, notes));
}

/// The name and namespace of a template that the input brings itself.
pub(crate) fn own_template(root: &Node) -> Option<(Option<String>, String)> {
    if kinds::kind(root) != "ResourceClaimTemplate" {
        return None;
    }
    let text = |key: &str| root.at(&["metadata", key]).and_then(Node::text).map(str::to_owned);
    Some((text("namespace"), text("name")?))
}
