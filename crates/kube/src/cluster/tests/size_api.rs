//! Sizes of the tests' API server: listed, watched, and their status written, as of a kind that was defined there, or was not.

use std::collections::{BTreeMap, VecDeque};

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Method, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::answers::{Body, line, status, whole};

#[derive(Debug, Default)]
pub(super) struct SizeShelf {
    /// Objects by namespace and name.
    pub(super) objects: BTreeMap<String, Value>,
    /// Whether the kind is not defined.
    pub(super) is_missing: bool,
    /// Codes of the next writes of a status.
    pub(super) faults: VecDeque<u16>,
    /// Statuses that were written.
    pub(super) written: Vec<Value>,
    version: u64,
    history: Vec<(u64, Value)>,
    watches: Vec<mpsc::UnboundedSender<Bytes>>,
}

impl SizeShelf {
    fn tell(&mut self, kind: &str, object: &Value) {
        let event = json!({ "type": kind, "object": object });
        self.history.push((self.version, event.clone()));
        self.watches.retain(|watch| watch.send(line(&event)).is_ok());
    }

    /// Makes an object, or changes its spec.
    pub(super) fn put(&mut self, key: &str, spec: Value) {
        self.put_made_at(key, spec, "2026-01-02T00:00:00Z");
    }

    pub(super) fn put_made_at(&mut self, key: &str, spec: Value, made: &str) {
        self.version += 1;
        let (namespace, name) = key.split_once('/').unwrap();
        let before = self.objects.get(key).cloned();
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        let mut object = before.unwrap_or_else(|| {
            json!({ "apiVersion": "divvy.dev/v1", "kind": "ShareSize", "metadata": { "namespace": namespace,
                "name": name, "uid": format!("size-{}", self.version), "creationTimestamp": made, "generation": 0 } })
        });
        object["spec"] = spec;
        let metadata = &mut object["metadata"];
        metadata["generation"] = json!(metadata["generation"].as_u64().unwrap() + 1);
        self.enter(kind, key, object);
    }

    fn enter(&mut self, kind: &str, key: &str, mut object: Value) {
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(key.to_owned(), object.clone());
        self.tell(kind, &object);
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.version += 1;
        let mut object = self.objects.remove(key).unwrap();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell("DELETED", &object);
    }

    pub(super) fn drop_watches(&mut self) {
        self.watches.clear();
    }

    /// Condition of an object, as its reason; empty where there is none.
    pub(super) fn reason(&self, key: &str) -> String {
        let object = self.objects.get(key).cloned().unwrap_or_default();
        object["status"]["conditions"][0]["reason"].as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn message(&self, key: &str) -> String {
        let message = &self.objects[key]["status"]["conditions"][0]["message"];
        message.as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn answer(
        &mut self,
        method: &Method,
        place: &str,
        query: &str,
        body: &Value,
    ) -> Response<Body> {
        if self.is_missing {
            return status(404, "the server could not find the requested resource");
        }
        match (method, place) {
            (&Method::GET, "sharesizes") if query.contains("watch=true") => self.watch(query),
            (&Method::GET, "sharesizes") => whole(
                200,
                &json!({ "kind": "ShareSizeList", "apiVersion": "divvy.dev/v1",
                    "metadata": { "resourceVersion": self.version.to_string() },
                    "items": self.objects.values().collect::<Vec<_>>() }),
            ),
            (&Method::PATCH, place) if place.ends_with("/status") => {
                if let Some(code) = self.faults.pop_front() {
                    return status(code, "as the test wants");
                }
                let key = place.trim_start_matches("namespaces/").trim_end_matches("/status");
                let key = key.replace("/sharesizes/", "/");
                let Some(mut object) = self.objects.get(&key).cloned() else {
                    return status(404, "not found");
                };
                self.version += 1;
                merge(&mut object["status"], &body["status"]);
                self.written.push(object["status"].clone());
                self.enter("MODIFIED", &key, object);
                whole(200, &self.objects[&key])
            }
            _ => status(405, "no such verb"),
        }
    }

    fn watch(&mut self, query: &str) -> Response<Body> {
        let parameter = |name: &str| query.split('&').find_map(|it| it.strip_prefix(name));
        let since: u64 = parameter("resourceVersion=").and_then(|it| it.parse().ok()).unwrap_or(0);
        let (sender, receiver) = mpsc::unbounded_channel();
        for (_, event) in self.history.iter().filter(|(version, _)| *version > since) {
            let _ = sender.send(line(event));
        }
        self.watches.push(sender);
        let frames = UnboundedReceiverStream::new(receiver).map(|it| Ok(Frame::data(it)));
        Response::new(BodyExt::boxed(StreamBody::new(frames)))
    }
}

/// A merge patch, as RFC 7396 has it.
fn merge(into: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in fields {
        match value {
            Value::Null => drop(into.as_object_mut().unwrap().remove(name)),
            value => merge(&mut into[name.as_str()], value),
        }
    }
}
