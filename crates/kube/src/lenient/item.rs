//! Object of a list or a watch, read by itself.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object, or why it is not understood. Its list goes on.
#[derive(Clone, Debug)]
pub(crate) struct Item<K> {
    metadata: ObjectMeta,
    object: Result<K, String>,
}

impl<K> Item<K> {
    /// The object.
    ///
    /// # Errors
    /// In words, which name it.
    pub(crate) fn read(self) -> Result<K, String> {
        let ObjectMeta { namespace, name, .. } = &self.metadata;
        let place = [namespace, name].into_iter().flatten().cloned().collect::<Vec<_>>().join("/");
        self.object.map_err(|why| format!("{place} is not understood: {why}"))
    }

    /// Its metadata, as far as they are understood.
    pub(crate) fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Item<K> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(reader)?;
        if let Ok(object) = K::deserialize(&value) {
            return Ok(Self { metadata: metadata(&value), object: Ok(object) });
        }
        // These may be written with the object, by times that no calendar has; a template whose writers are not understood is
        // somebody else's.
        let fields = value.pointer_mut("/metadata").and_then(Value::as_object_mut);
        fields.map(|fields| fields.remove("managedFields"));
        let object = K::deserialize(&value).map_err(|error| error.to_string());
        Ok(Self { metadata: metadata(&value), object })
    }
}

fn metadata(value: &Value) -> ObjectMeta {
    let metadata = value.get("metadata").unwrap_or(&Value::Null);
    ObjectMeta::deserialize(metadata).unwrap_or_else(|_| {
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).map(str::to_owned);
        ObjectMeta {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        }
    })
}

impl<K: kube::Resource> kube::Resource for Item<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &K::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &K::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &K::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &K::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// This event, with the part that is looked at.
pub(crate) fn mapped<T, U>(event: Event<T>, of: impl FnOnce(T) -> U) -> Event<U> {
    match event {
        Event::Apply(it) => Event::Apply(of(it)),
        Event::Delete(it) => Event::Delete(of(it)),
        Event::Init => Event::Init,
        Event::InitApply(it) => Event::InitApply(of(it)),
        Event::InitDone => Event::InitDone,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::resource::v1::ResourceClaim;
    use kube::core::ObjectList;
    use serde_json::json;

    use super::*;

    #[test]
    fn one_that_is_not_understood_is_one_item() {
        let item = |name: &str, more: Value| {
            let mut item = json!({ "metadata": { "namespace": "team", "name": name, "uid": name },
                "spec": { "devices": {} } });
            item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            item
        };
        let times = json!({ "metadata": { "namespace": "team", "name": "b", "uid": "b",
            "managedFields": [{ "time": "10000-01-01T00:00:00Z" }] } });
        let list = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimList", "metadata": {},
            "items": [item("a", json!({})), item("b", times), item("c", json!({ "status": [] }))] });
        let list: ObjectList<Item<ResourceClaim>> = serde_json::from_value(list).unwrap();
        let read: Vec<_> = list.items.into_iter().map(Item::read).collect();
        assert!(read[0].is_ok() && read[1].is_ok(), "{read:?}");
        assert!(
            read[2].as_ref().unwrap_err().starts_with("team/c is not understood: "),
            "{read:?}"
        );
    }
}
