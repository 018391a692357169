//! Looks at the cluster: one pod and what decides on it, by the rights of whoever asks.
//!
//! Promises: only reads, and waits for each answer [`PATIENCE`] at most. If the API server refuses an answer, its words are kept,
//! with the right that is missing, and the answer is unknown, not empty; only the pod itself must be read. An object that is not
//! understood is told in words too, and its list goes on.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::{Event, Pod, PodResourceClaim};
use k8s_openapi::api::resource::v1::{
    DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use kube::api::{Api, ListParams};
use kube::config::{Config, KubeConfigOptions};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::args::ExplainArgs;
use crate::cluster::{bounded, chain};
use crate::driver::DRIVER;
use crate::lenient::{self, Item};

/// Time that the API server has for each answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// ClusterRole that has all the rights.
const ROLE: &str = "divvy-explain";
/// Objects of a page of a list.
const PAGE: u32 = 500;

/// Claim that a pod refers to, as far as it was found.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedClaim {
    /// Name of the claim in the pod.
    pub(super) name: String,
    /// The template that it is made of.
    pub(super) template: Option<String>,
    /// Whether that template is there; none where nobody knows.
    pub(super) has_template: Option<bool>,
    /// Name of the claim's object, once there is one.
    pub(super) object: Option<String>,
    /// The claim, where it is there.
    pub(super) claim: Option<ResourceClaim>,
    /// Whether the claim could not be read, so that it may be there.
    pub(super) is_unread: bool,
}

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub(super) struct PodScene {
    pub(super) pod: Pod,
    pub(super) claims: Vec<NamedClaim>,
    pub(super) classes: Vec<DeviceClass>,
    /// Names of classes that are not there.
    pub(super) no_classes: Vec<String>,
    /// Slices of our driver; none where they may not be read.
    pub(super) slices: Option<Vec<ResourceSlice>>,
    /// Claims of all namespaces; none where they may not be read.
    pub(super) others: Option<Vec<ResourceClaim>>,
    /// Events of the pod and of its claims.
    pub(super) events: Vec<Event>,
    /// Whether there may be more of these, which could not be read.
    pub(super) has_more_events: bool,
    /// Events of agents about their nodes.
    pub(super) node_events: Vec<Event>,
    /// Failures to read something, in words.
    pub(super) unread: Vec<String>,
}

/// An answer of the API server within the time.
async fn within<T>(what: &str, answer: impl Future<Output = kube::Result<T>>) -> Result<T> {
    match timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| anyhow!("{what} cannot be read: {}", words(&error))),
        Err(_) => bail!("{what} was not told of within {PATIENCE:?}; is the API server there?"),
    }
}

/// A failure in words for people, with the way out where it is a right that is missing.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("{}; ask for the ClusterRole {ROLE}", status.message)
        }
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => chain(other),
    }
}

/// Objects, and words about those that were not understood.
struct Listed<K> {
    items: Vec<K>,
    odd: Vec<String>,
}

async fn list<K>(what: &str, api: &Api<Item<K>>, params: ListParams) -> Result<Listed<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    let mut all = Listed { items: Vec::new(), odd: Vec::new() };
    loop {
        let page = within(what, api.list(&params)).await?;
        for item in page.items {
            match item.read() {
                Ok(it) => all.items.push(it),
                Err(words) => all.odd.push(format!("of {what}: {words}")),
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

/// Connects, and reads.
pub(super) async fn look(args: &ExplainArgs) -> Result<PodScene> {
    let config = match &args.context {
        Some(context) => {
            let options = KubeConfigOptions {
                context: Some(context.clone()),
                ..KubeConfigOptions::default()
            };
            let config = Config::from_kubeconfig(&options).await;
            config.with_context(|| format!("--context {context}"))?
        }
        None => Config::infer().await.context("no API server is configured; set KUBECONFIG")?,
    };
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = lenient::client(bounded(config)).context("a client cannot be made")?;
    Looker { client, namespace, scene: PodScene::default() }.look(&args.pod).await
}

struct Looker {
    client: kube::Client,
    namespace: String,
    scene: PodScene,
}

impl Looker {
    async fn look(mut self, name: &str) -> Result<PodScene> {
        let pods = Api::<Item<Pod>>::namespaced(self.client.clone(), &self.namespace);
        let what = format!("pod {}/{name}", self.namespace);
        self.scene.pod = within(&what, pods.get(name)).await?.read().map_err(|why| anyhow!(why))?;
        let spec = self.scene.pod.spec.clone().unwrap_or_default();
        for reference in spec.resource_claims.iter().flatten() {
            let named = self.named(reference).await;
            self.scene.claims.push(named);
        }
        self.classes().await;
        let slices = Api::<Item<ResourceSlice>>::all(self.client.clone());
        let of_driver = ListParams::default().fields(&format!("spec.driver={DRIVER}"));
        let slices = list("the cards (resourceslices)", &slices, of_driver).await;
        self.scene.slices = self.all_or_say(slices);
        let claims = Api::<Item<ResourceClaim>>::all(self.client.clone());
        let claims = list("claims of all namespaces", &claims, ListParams::default()).await;
        self.scene.others = self.all_or_say(claims);
        self.events().await;
        Ok(self.scene)
    }

    /// Value that was read; none, and its words kept, where that failed.
    fn or_say<T>(&mut self, read: Result<T>) -> Option<T> {
        read.map_err(|error| self.scene.unread.push(format!("{error:#}"))).ok()
    }

    /// Objects that were read. Those that were not understood are left out, with words about them.
    fn all_or_say<K>(&mut self, read: Result<Listed<K>>) -> Option<Vec<K>> {
        let Listed { items, odd } = self.or_say(read)?;
        self.scene.unread.extend(odd);
        Some(items)
    }

    async fn named(&mut self, reference: &PodResourceClaim) -> NamedClaim {
        let status = self.scene.pod.status.as_ref();
        let made = status.and_then(|status| status.resource_claim_statuses.as_ref());
        let made = made.into_iter().flatten().find(|it| it.name == reference.name);
        let object = reference
            .resource_claim_name
            .clone()
            .or_else(|| made.and_then(|made| made.resource_claim_name.clone()));
        let template = reference.resource_claim_template_name.clone();
        let mut named =
            NamedClaim { name: reference.name.clone(), template, object, ..NamedClaim::default() };
        if let Some(template) = &named.template
            && named.object.is_none()
        {
            let templates = Api::<Item<ResourceClaimTemplate>>::namespaced(
                self.client.clone(),
                &self.namespace,
            );
            let read = within(&format!("template {template}"), templates.get_opt(template)).await;
            named.has_template = self.or_say(read).map(|template| template.is_some());
        }
        if let Some(object) = &named.object {
            let claims =
                Api::<Item<ResourceClaim>>::namespaced(self.client.clone(), &self.namespace);
            let read = within(&format!("claim {object}"), claims.get_opt(object)).await;
            let read =
                read.and_then(|it| it.map(Item::read).transpose().map_err(|why| anyhow!(why)));
            let read = self.or_say(read);
            named.is_unread = read.is_none();
            named.claim = read.flatten();
        }
        named
    }

    async fn classes(&mut self) {
        let claims = self.scene.claims.iter().filter_map(|named| named.claim.as_ref());
        let mut names: Vec<String> = claims.flat_map(class_names).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let classes = Api::<Item<DeviceClass>>::all(self.client.clone());
            let read = within(&format!("class {name}"), classes.get_opt(&name)).await;
            let read =
                read.and_then(|it| it.map(Item::read).transpose().map_err(|why| anyhow!(why)));
            match self.or_say(read) {
                Some(Some(class)) => self.scene.classes.push(class),
                Some(None) => self.scene.no_classes.push(name),
                None => {}
            }
        }
    }

    async fn events(&mut self) {
        let claims = self.scene.claims.iter().filter_map(|named| named.claim.as_ref());
        let objects = [&self.scene.pod.metadata].into_iter();
        let objects = objects.chain(claims.map(|claim| &claim.metadata));
        let uids: Vec<_> = objects.filter_map(|metadata| metadata.uid.clone()).collect();
        let events = Api::<Item<Event>>::namespaced(self.client.clone(), &self.namespace);
        for uid in uids {
            let of_it = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
            let read = list("events of the pod", &events, of_it).await;
            match self.all_or_say(read) {
                Some(read) => self.scene.events.extend(read),
                None => {
                    self.scene.has_more_events = true;
                    break;
                }
            }
        }
        // Events of objects without a namespace are in this one.
        let events = Api::<Item<Event>>::namespaced(self.client.clone(), "default");
        let of_agents = format!("involvedObject.kind=Node,reportingComponent={DRIVER}");
        let of_agents = ListParams::default().fields(&of_agents);
        let read = list("events of nodes", &events, of_agents).await;
        self.scene.node_events = self.all_or_say(read).unwrap_or_default();
    }
}

/// Classes that a claim names.
pub(super) fn class_names(claim: &ResourceClaim) -> Vec<String> {
    let requests = claim.spec.devices.as_ref().and_then(|devices| devices.requests.as_ref());
    let mut names = Vec::new();
    for request in requests.into_iter().flatten() {
        names.extend(request.exactly.iter().map(|it| it.device_class_name.clone()));
        let first = request.first_available.iter().flatten();
        names.extend(first.map(|it| it.device_class_name.clone()));
    }
    names
}
