//! API server of the tests: slices of a node, the node itself, events, claims and sizes, over a real socket.
//!
//! It lists, watches, makes, replaces and removes as the real one does as far as the agent can tell: versions, conflicts,
//! preconditions, dry runs, and a history that a watch may have fallen out of. It can be told to fail.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::answers::{Body, line, status, whole};
use super::size_api::SizeShelf;

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// Failure of the next requests of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiFault {
    /// This code, and nothing is done.
    Code(u16),
    /// Done, but never answered.
    Unanswered,
}

#[derive(Debug, Default)]
pub(super) struct ApiWorld {
    pub(super) slices: BTreeMap<String, Value>,
    pub(super) node: Value,
    pub(super) events: Vec<Value>,
    /// Method and path of each request; dry runs have their own word.
    pub(super) requests: Vec<String>,
    /// Failures of the next writes, and of the next watches.
    pub(super) write_faults: VecDeque<ApiFault>,
    pub(super) watch_faults: VecDeque<ApiFault>,
    /// Whether no event is taken.
    pub(super) refuses_events: bool,
    /// Claims by namespace and name, and sizes.
    pub(super) claims: BTreeMap<String, Value>,
    pub(super) sizes: SizeShelf,
    /// Whether it is one without the feature gate.
    pub(super) drops_shares: bool,
    version: u64,
    /// Versions that watches have fallen out of.
    forgotten: u64,
    history: Vec<(u64, Value)>,
    watches: Vec<mpsc::UnboundedSender<Bytes>>,
}

impl ApiWorld {
    fn tell(&mut self, kind: &str, object: &Value) {
        let event = json!({ "type": kind, "object": object });
        self.history.push((self.version, event.clone()));
        self.watches.retain(|watch| watch.send(line(&event)).is_ok());
    }

    pub(super) fn put(&mut self, mut slice: Value) -> Value {
        self.version += 1;
        let name = slice["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = if self.slices.contains_key(&name) { "MODIFIED" } else { "ADDED" };
        slice["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if slice["metadata"]["uid"].is_null() {
            slice["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        self.slices.insert(name, slice.clone());
        self.tell(kind, &slice);
        slice
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Value> {
        let mut slice = self.slices.remove(name)?;
        self.version += 1;
        slice["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell("DELETED", &slice);
        Some(slice)
    }

    /// Drops every watch.
    pub(super) fn drop_watches(&mut self) {
        self.watches.clear();
    }

    /// Forgets what was, so that watches cannot go on.
    pub(super) fn forget_history(&mut self) {
        self.version += 1;
        self.forgotten = self.version;
        self.history.clear();
    }
}

/// The server. It ends with the test's runtime.
#[derive(Clone, Debug)]
pub(super) struct FakeApi {
    world: Arc<Mutex<ApiWorld>>,
    url: String,
}

impl FakeApi {
    pub(super) async fn start(node: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let api =
            Self { world: Arc::new(Mutex::new(ApiWorld { node, ..ApiWorld::default() })), url };
        let serving = api.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let api = serving.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let api = api.clone();
                        async move { Ok::<_, Infallible>(api.answer(request).await) }
                    });
                    let served = hyper::server::conn::http1::Builder::new();
                    let _ = served.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        api
    }

    pub(super) fn client(&self) -> kube::Client {
        crate::lenient::client(kube::Config::new(self.url.parse().unwrap())).unwrap()
    }

    pub(super) fn world(&self) -> MutexGuard<'_, ApiWorld> {
        self.world.lock().unwrap()
    }

    /// How many requests begin with this.
    pub(super) fn count(&self, beginning: &str) -> usize {
        self.world().requests.iter().filter(|request| request.starts_with(beginning)).count()
    }

    /// Writes of slices that were asked for.
    pub(super) fn writes(&self) -> usize {
        ["POST", "PUT", "DELETE"].iter().map(|verb| self.count(&format!("{verb} {SLICES}"))).sum()
    }

    /// Reasons of the events, by their time.
    pub(super) fn reasons(&self) -> Vec<String> {
        let world = self.world();
        let reasons = world.events.iter().filter_map(|event| event["reason"].as_str());
        reasons.map(str::to_owned).collect()
    }

    /// The slice of this name; null where there is none.
    pub(super) fn slice(&self, name: &str) -> Value {
        self.world().slices.get(name).cloned().unwrap_or_default()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or("").to_owned());
        let is_dry = query.contains("dryRun=All");
        let dry = if is_dry { "DRY " } else { "" };
        let is_watch = query.contains("watch=true");
        let verb = if is_watch { "WATCH" } else { head.method.as_str() };
        self.world().requests.push(format!("{dry}{verb} {path}"));
        if path.starts_with("/api/v1/nodes/") {
            return whole(200, &self.world().node);
        }
        if path == EVENTS && self.world().refuses_events {
            return status(403, "no right to make events");
        }
        if path == EVENTS {
            self.world().events.push(body.clone());
            return whole(201, &body);
        }
        if let Some(place) = path.strip_prefix("/apis/divvy.dev/v1/") {
            return self.world().sizes.answer(&head.method, place, &query, &body);
        }
        if let Some(place) = path.strip_prefix(CLAIMS) {
            let key = place.replace("/resourceclaims/", "/");
            return match self.world().claims.get(&key) {
                Some(code) if code.is_u64() => status(503, "as the test wants"),
                Some(claim) => whole(200, claim),
                None => status(404, "not found"),
            };
        }
        let Some(name) = path.strip_prefix(SLICES) else { return status(404, "no such path") };
        let name = name.trim_start_matches('/');
        if is_watch {
            return self.watch(&query);
        }
        let is_write = head.method != Method::GET && !is_dry;
        let fault = if is_write { self.world().write_faults.pop_front() } else { None };
        if let Some(ApiFault::Code(code)) = fault {
            return status(code, "as the test wants");
        }
        let answer = self.world().slices(&head.method, name, body, is_dry);
        if fault == Some(ApiFault::Unanswered) {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        answer
    }

    fn watch(&self, query: &str) -> Response<Body> {
        let mut world = self.world();
        if let Some(ApiFault::Code(code)) = world.watch_faults.pop_front() {
            return status(code, "as the test wants");
        }
        let parameter = |name: &str| query.split('&').find_map(|it| it.strip_prefix(name));
        let since: u64 = parameter("resourceVersion=").and_then(|it| it.parse().ok()).unwrap_or(0);
        let (sender, receiver) = mpsc::unbounded_channel();
        if since < world.forgotten {
            let gone = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
                "message": "too old resource version", "reason": "Expired", "code": 410 });
            let _ = sender.send(line(&json!({ "type": "ERROR", "object": gone })));
        } else {
            for (_, event) in world.history.iter().filter(|(version, _)| *version > since) {
                let _ = sender.send(line(event));
            }
            world.watches.push(sender);
        }
        let frames = UnboundedReceiverStream::new(receiver).map(|it| Ok(Frame::data(it)));
        Response::new(BodyExt::boxed(StreamBody::new(frames)))
    }
}

impl ApiWorld {
    fn slices(&mut self, method: &Method, name: &str, body: Value, is_dry: bool) -> Response<Body> {
        let found = self.slices.get(name).cloned();
        let kept = if self.drops_shares { without_shares(body.clone()) } else { body.clone() };
        match (method, name, found) {
            (&Method::GET, "", _) => whole(
                200,
                &json!({ "kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1",
                    "metadata": { "resourceVersion": self.version.to_string() },
                    "items": self.slices.values().collect::<Vec<_>>() }),
            ),
            (&Method::POST, ..) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                match self.slices.contains_key(name) {
                    true => status(409, "already exists"),
                    false if is_dry => whole(201, &kept),
                    false => whole(201, &self.put(kept)),
                }
            }
            (_, _, None) => status(404, "not found"),
            (&Method::GET, _, Some(found)) => whole(200, &found),
            (&Method::PUT, _, Some(found)) => {
                let version = |slice: &Value| slice["metadata"]["resourceVersion"].clone();
                match version(&body) == version(&found) {
                    false => status(409, "the object has been modified"),
                    true if is_dry => whole(200, &kept),
                    true => whole(200, &self.put(kept)),
                }
            }
            (&Method::DELETE, name, Some(found)) => {
                let wanted = &body["preconditions"]["resourceVersion"];
                if !wanted.is_null() && *wanted != found["metadata"]["resourceVersion"] {
                    return status(409, "the object has been modified");
                }
                whole(200, &self.remove(name).unwrap())
            }
            _ => status(405, "no such verb"),
        }
    }
}

/// As an API server without DRAConsumableCapacity keeps it.
fn without_shares(mut slice: Value) -> Value {
    for device in slice["spec"]["devices"].as_array_mut().into_iter().flatten() {
        device.as_object_mut().unwrap().remove("allowMultipleAllocations");
        for (_, capacity) in device["capacity"].as_object_mut().into_iter().flatten() {
            capacity.as_object_mut().unwrap().remove("requestPolicy");
        }
    }
    slice
}
