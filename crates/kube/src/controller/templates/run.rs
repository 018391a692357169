//! Loop of the templates: hears two watches, and does what the book says, one write after another, while the lease is held.
//!
//! One that is not understood is passed over by itself. Promises: of pods only the metadata is asked for. Two requests that write at most for each template; an event for each pod that
//! is left without. A template is removed in the version that was judged, or not at all.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_stream::StreamExt;

use super::book::{
    LabelledPod, MOST_TEMPLATES, SeenTemplate, TemplateBook, TemplateDeed, TemplatePlace,
    TemplateTrouble,
};
use super::object::{self, OWNER, TEMPLATE_LABEL};
use crate::cluster::{ClusterEvent, EventObject, EventQueue};
use crate::controller::lease::Leadership;
use crate::event::EventLog;
use crate::lenient::{Item, mapped};

/// Objects of a page of a list.
const PAGE: u32 = 500;

/// Times of the templates.
#[derive(Clone, Copy, Debug)]
pub(in crate::controller) struct TemplateTimes {
    /// How long a template may be named by no pod.
    pub(in crate::controller) idle: Duration,
}

/// Task of the templates.
pub(in crate::controller) struct TemplateTask {
    pub(in crate::controller) client: kube::Client,
    pub(in crate::controller) leadership: Leadership,
    pub(in crate::controller) events: EventQueue,
    pub(in crate::controller) log: EventLog,
    pub(in crate::controller) times: TemplateTimes,
}

impl TemplateTask {
    /// Runs until `ending` says so; a write that has begun is ended first.
    pub(in crate::controller) async fn run(mut self, mut ending: watch::Receiver<bool>) {
        let config = watcher::Config::default().page_size(PAGE);
        let pods = Api::<Item<PartialObjectMeta<Pod>>>::all(self.client.clone());
        let pods = watcher(pods, config.clone().labels(TEMPLATE_LABEL)).default_backoff();
        let templates = Api::<Item<ResourceClaimTemplate>>::all(self.client.clone());
        let templates = watcher(templates, config).default_backoff();
        let (mut pods, mut templates) = (Box::pin(pods), Box::pin(templates));
        let mut book = TemplateBook::default();
        let mut was_held = false;
        loop {
            let is_held = self.leadership.patience().is_some();
            if is_held && !was_held {
                book.start_anew();
            }
            was_held = is_held;
            let mut until = None;
            if is_held {
                let decision = book.decide(Instant::now(), self.times.idle);
                for (pod, trouble) in decision.told {
                    self.say(&pod, &trouble);
                }
                // Each is decided by what is known when its turn comes.
                if let Some(deed) = decision.deeds.first() {
                    self.act(&mut book, deed).await;
                    until = Some(Instant::now());
                } else {
                    until = decision.next;
                }
            }
            let until = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(60));
            tokio::select! {
                biased;
                _ = ending.wait_for(|is_ending| *is_ending) => return,
                event = pods.next() => match event {
                    Some(Ok(event)) => book.hear_pod(of_pod(event)),
                    Some(Err(error)) => self.failed("pods cannot be watched", &error),
                    None => return,
                },
                event = templates.next() => match event {
                    Some(Ok(event)) => book.hear_template(of_template(event)),
                    Some(Err(error)) => self.failed("templates cannot be watched", &error),
                    None => return,
                },
                () = self.leadership.changed() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    fn failed(&self, what: &str, error: &watcher::Error) {
        self.log.tell("watch-failed", &format!("{what}: {error}"));
    }

    async fn act(&self, book: &mut TemplateBook, deed: &TemplateDeed) {
        let Some(patience) = self.leadership.patience() else { return };
        let (namespace, name) = deed.place();
        let api = Api::<ResourceClaimTemplate>::namespaced(self.client.clone(), namespace);
        let done = timeout(patience, async {
            match deed {
                TemplateDeed::Make(_, ask) => {
                    let template = object::template(ask, namespace)?;
                    let params = PostParams {
                        field_manager: Some(OWNER.to_owned()),
                        ..PostParams::default()
                    };
                    let made = api.create(&params, &template).await;
                    made.map(|made| seen(&made)).map_err(|error| words(&error))
                }
                TemplateDeed::Remove(template) => {
                    let preconditions = Preconditions {
                        uid: Some(template.uid.clone()),
                        resource_version: Some(template.version.clone()),
                    };
                    let params = DeleteParams {
                        preconditions: Some(preconditions),
                        ..DeleteParams::default()
                    };
                    match api.delete(name, &params).await {
                        Ok(_) => Ok(None),
                        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                        Err(error) => Err(words(&error)),
                    }
                }
            }
        });
        let done = done.await.unwrap_or_else(|_| Err(format!("no answer within {patience:?}")));
        let (verb, event) = match deed {
            TemplateDeed::Make(..) => ("made", "template-made"),
            TemplateDeed::Remove(_) => ("removed", "template-removed"),
        };
        match done {
            Ok(made) => {
                book.done(deed.place(), made);
                self.log.tell(event, &format!("template {namespace}/{name} was {verb}"));
            }
            Err(words) => {
                let line = format!("template {namespace}/{name} was not {verb}: {words}");
                self.log.tell("template-refused", &line);
                book.failed(deed.place(), words, Instant::now());
            }
        }
    }

    /// Tells of a template that a pod waits for.
    fn say(&self, pod: &LabelledPod, trouble: &TemplateTrouble) {
        let (namespace, name) = &pod.template;
        let (reason, note) = match trouble {
            TemplateTrouble::NoName => (
                "DivvyTemplateUnknown",
                format!(
                    "template {name} is not made: the name stands for no claim; write gpu-8192mi-30c, or make a template and take \
                     the label {TEMPLATE_LABEL} off the pod"
                ),
            ),
            TemplateTrouble::Another => (
                "DivvyTemplateInTheWay",
                format!(
                    "template {name} is there and asks for something else than its name says: it is left as it is, and this pod \
                     gets what it asks for"
                ),
            ),
            TemplateTrouble::TooMany => (
                "DivvyTooManyTemplates",
                format!(
                    "template {name} is not made: namespace {namespace} has {MOST_TEMPLATES} that were made for its pods; use a size \
                     that is there, make the template yourself, or remove pods of other sizes"
                ),
            ),
            TemplateTrouble::Refused(words) => {
                ("DivvyTemplateRefused", format!("template {name} cannot be made: {words}"))
            }
        };
        self.log.tell("pod-without-template", &format!("pod {namespace}/{}: {note}", pod.name));
        let about = EventObject::Pod {
            namespace: namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        };
        self.events.say(ClusterEvent { about, is_warning: true, reason: reason.to_owned(), note });
    }
}

fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

fn of_pod(event: Event<Item<PartialObjectMeta<Pod>>>) -> Event<(String, Option<LabelledPod>)> {
    mapped(event, |pod| {
        let metadata = pod.metadata().clone();
        let label = metadata.labels.and_then(|mut labels| labels.remove(TEMPLATE_LABEL));
        let namespace = metadata.namespace.unwrap_or_default();
        let (uid, name) = (metadata.uid.unwrap_or_default(), metadata.name.unwrap_or_default());
        let pod = label.map(|template| LabelledPod {
            name,
            uid: uid.clone(),
            template: (namespace, template),
        });
        (uid, pod)
    })
}

fn of_template(
    event: Event<Item<ResourceClaimTemplate>>,
) -> Event<(TemplatePlace, Option<SeenTemplate>)> {
    mapped(event, |template| {
        let metadata = template.metadata();
        let place = (
            metadata.namespace.clone().unwrap_or_default(),
            metadata.name.clone().unwrap_or_default(),
        );
        // A template that is not understood is not ours, and asks for something else than its name says.
        let not_understood = ResourceClaimTemplate {
            metadata: metadata.clone(),
            ..ResourceClaimTemplate::default()
        };
        (place, seen(&template.read().unwrap_or(not_understood)))
    })
}

fn seen(template: &ResourceClaimTemplate) -> Option<SeenTemplate> {
    let metadata = &template.metadata;
    Some(SeenTemplate {
        is_as_named: object::says_its_name(template)?,
        is_ours: object::is_ours(template),
        place: (metadata.namespace.clone()?, metadata.name.clone()?),
        uid: metadata.uid.clone()?,
        version: metadata.resource_version.clone()?,
    })
}
