//! Object of kind `ShareSize`, as far as it matters here. Pure.
//!
//! Promises: whatever is in an object, it is read; a wish that is not understood is words that name the field. What the API server
//! has checked by the definition of the kind is checked again: another definition may be installed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cluster::objects::KeptObject;
use crate::prepare::ClaimSize;
use crate::quantity;

/// Characters of a value that is told back.
const MOST_SHOWN_CHARS: usize = 40;
/// The longest name of a request, `request/subrequest`.
const MOST_REQUEST_BYTES: usize = 127;

/// The kind, as the API server knows it.
pub(super) fn kind() -> ApiResource {
    ApiResource {
        group: "divvy.dev".to_owned(),
        version: "v1".to_owned(),
        api_version: "divvy.dev/v1".to_owned(),
        kind: "ShareSize".to_owned(),
        plural: "sharesizes".to_owned(),
    }
}

/// Key of the object about a claim.
pub(super) fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SizeObject {
    /// Its namespace, and that of its claim.
    pub(super) namespace: String,
    /// Its name, and that of its claim.
    pub(super) name: String,
    /// Its UID.
    pub(super) uid: String,
    version: Option<u64>,
    /// Time at which it was made.
    pub(super) created: Option<Timestamp>,
    /// Number of the wish.
    pub(super) generation: i64,
    /// The wish, or why it is none.
    pub(super) wish: Result<ClaimSize, String>,
    /// Its status; one that is not understood is none.
    pub(super) status: SizeStatus,
}

/// Status of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SizeStatus {
    pub(super) observed_generation: Option<i64>,
    /// The node whose agent speaks; empty where none does.
    pub(super) node: Option<String>,
    /// UID of the claim that it was applied to.
    #[serde(rename = "claimUID")]
    pub(super) claim_uid: Option<String>,
    /// Size of each share; none where they differ.
    pub(super) memory: Option<String>,
    pub(super) cores: Option<String>,
    pub(super) conditions: Vec<Condition>,
}

impl KeptObject for SizeObject {
    fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }

    fn version(&self) -> Option<u64> {
        self.version
    }
}

impl SizeObject {
    pub(super) fn of(object: &DynamicObject) -> Self {
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        let DynamicObject { metadata, data, .. } = object;
        let status = data.get("status").map(SizeStatus::deserialize);
        Self {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
            version: metadata.resource_version.as_ref().and_then(|version| version.parse().ok()),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            generation: metadata.generation.unwrap_or_default(),
            wish: wish(data.get("spec").unwrap_or(&Value::Null)),
            status: status.and_then(Result::ok).unwrap_or_default(),
        }
    }

    /// Whether the wish is the same, of the same object.
    pub(super) fn wishes_as(&self, other: &Self) -> bool {
        (&self.uid, self.generation, &self.wish) == (&other.uid, other.generation, &other.wish)
    }
}

/// A value as it is told back.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MOST_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn wish(spec: &Value) -> Result<ClaimSize, String> {
    let fields = spec.as_object().ok_or("spec is missing: give memory, cores, or both")?;
    let mut size = ClaimSize::default();
    for (name, value) in fields {
        let cannot =
            |why: &str, fix: &str| Err(format!("spec.{name} {} {why}: {fix}", shown(value)));
        match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("request", Value::String(text)) if text.len() <= MOST_REQUEST_BYTES => {
                size.request = Some(text.clone());
            }
            ("request", _) => return cannot("is no request's name", "give one of the claim's"),
            ("memory", value) => match whole(value) {
                Ok(bytes) => size.memory_bytes = Some(bytes),
                Err(why) => return cannot(why, "give bytes, such as 4Gi"),
            },
            ("cores", value) => match whole(value).map(u32::try_from) {
                Ok(Ok(percent)) => size.cores_percent = Some(percent),
                Ok(Err(_)) => return cannot("is no percentage", "give 1 to 100"),
                Err(why) => return cannot(why, "give 1 to 100"),
            },
            ("above", Value::Bool(above)) => size.above = *above,
            ("above", _) => return cannot("is neither true nor false", "give one of them"),
            // It may be a limit that a newer agent knows.
            (name, _) => {
                let name = shown(&Value::String(name.to_owned()));
                return Err(format!("spec has the field {name}, which this agent does not know"));
            }
        }
    }
    if size.memory_bytes.is_none() && size.cores_percent.is_none() {
        return Err("spec has neither memory nor cores: give one, or both".to_owned());
    }
    Ok(size)
}

/// A whole number, written as a text or as a number.
fn whole(value: &Value) -> Result<u64, &'static str> {
    match value {
        Value::String(text) => quantity::whole_text(text),
        Value::Number(number) => quantity::whole_text(&number.to_string()),
        _ => Err("is no number"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(spec: Value) -> Result<ClaimSize, String> {
        let object = json!({ "apiVersion": "divvy.dev/v1", "kind": "ShareSize", "spec": spec,
            "metadata": { "namespace": "team", "name": "train" } });
        SizeObject::of(&serde_json::from_value(object).unwrap()).wish
    }

    #[test]
    fn a_wish_is_read_however_its_numbers_are_written() {
        let wish = read(json!({ "request": "gpu", "memory": "4Gi", "cores": "20", "above": true }));
        let size = ClaimSize {
            request: Some("gpu".to_owned()),
            memory_bytes: Some(4 << 30),
            cores_percent: Some(20),
            above: true,
        };
        assert_eq!(wish, Ok(size));
        let wish = read(json!({ "memory": 4_294_967_296_u64, "cores": 20 })).unwrap();
        assert_eq!((wish.memory_bytes, wish.cores_percent), (Some(4 << 30), Some(20)));
    }

    #[test]
    fn what_is_no_wish_is_words_that_name_the_field() {
        let long = "9".repeat(5000);
        for (spec, part) in [
            (json!(null), "spec is missing"),
            (json!("4Gi"), "spec is missing"),
            (json!({}), "neither memory nor cores"),
            (json!({ "above": true, "memory": null }), "neither memory nor cores"),
            (json!({ "memory": "-4Gi" }), "spec.memory \"-4Gi\" is negative"),
            (json!({ "memory": -1 }), "spec.memory -1 is negative"),
            (json!({ "memory": "4GiB" }), "a unit that no quantity has"),
            (json!({ "memory": 1.5 }), "no whole number"),
            (json!({ "memory": 1e300 }), "spec.memory"),
            (json!({ "memory": long }), "99…"),
            (json!({ "memory": ["4Gi"] }), "is no number"),
            (json!({ "cores": "thirty" }), "spec.cores \"thirty\" is no number"),
            (json!({ "cores": u64::MAX }), "give 1 to 100"),
            (json!({ "cores": "99999999999" }), "is no percentage"),
            (json!({ "cores": 1, "above": "yes" }), "spec.above \"yes\""),
            (json!({ "cores": 1, "request": 7 }), "spec.request 7"),
            (json!({ "cores": 1, "request": "r".repeat(200) }), "spec.request"),
            (json!({ "cores": 1, "least": "1Gi" }), "the field \"least\""),
        ] {
            let words = read(spec.clone()).unwrap_err();
            assert!(words.contains(part) && words.len() < 300, "{spec}: {words}");
        }
    }

    #[test]
    fn a_status_that_is_not_understood_is_none() {
        for status in
            [json!(null), json!(7), json!({ "conditions": "none" }), json!({ "node": [] })]
        {
            let object = json!({ "metadata": { "name": "train" }, "spec": {}, "status": status });
            let object = SizeObject::of(&serde_json::from_value(object).unwrap());
            assert_eq!(object.status, SizeStatus::default());
        }
    }

    proptest! {
        #[test]
        fn no_spec_panics(memory in any::<String>(), cores in any::<f64>(), name in any::<String>()) {
            let _ = (read(json!({ "memory": memory, "cores": cores })), read(json!({ name: cores })));
        }
    }
}
