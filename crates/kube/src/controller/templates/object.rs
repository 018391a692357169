//! Template as an object: the one that is made, and what one that is found means.
//!
//! Promises: it is what `divvy kube convert` writes, with a label. One is ours where nobody else has ever written to it, which the
//! API server itself keeps account of (`managedFields`): whoever changes one takes it over.

use k8s_openapi::api::resource::v1::{ResourceClaimSpec, ResourceClaimTemplate};
use serde_json::Value;

use crate::claim::Ask;
use crate::quantity;
use crate::yaml;

/// Label of pods, whose value is the name of the template that they want.
pub(crate) const TEMPLATE_LABEL: &str = "divvy.dev/template";
/// Label of templates that are made here, and its value, by which this program writes.
pub(super) const OWNER_LABEL: &str = "app.kubernetes.io/managed-by";
pub(super) const OWNER: &str = "divvy-controller";

/// The template for `ask`, labelled.
pub(super) fn template(ask: &Ask, namespace: &str) -> Result<ResourceClaimTemplate, String> {
    let made = serde_json::from_value(yaml::json(&ask.template(namespace)));
    let mut made: ResourceClaimTemplate = made.map_err(|error| error.to_string())?;
    let label = (OWNER_LABEL.to_owned(), OWNER.to_owned());
    made.metadata.labels.get_or_insert_default().extend([label]);
    Ok(made)
}

/// Whether it was made here and nobody else has written to it.
pub(super) fn is_ours(template: &ResourceClaimTemplate) -> bool {
    let metadata = &template.metadata;
    let labels = metadata.labels.as_ref();
    let writers = metadata.managed_fields.as_deref().unwrap_or_default();
    labels.and_then(|labels| labels.get(OWNER_LABEL)).is_some_and(|owner| owner == OWNER)
        && !writers.is_empty()
        && writers.iter().all(|writer| writer.manager.as_deref() == Some(OWNER))
}

/// Whether it says what its name does; `None` where the name says nothing.
pub(super) fn says_its_name(template: &ResourceClaimTemplate) -> Option<bool> {
    let name = template.metadata.name.as_deref()?;
    let wanted = self::template(&Ask::of_name(name)?, "").ok()?;
    Some(compared(&wanted.spec.spec) == compared(&template.spec.spec))
}

/// A claim with each amount as a number: the API server writes 8192Mi as 8Gi.
fn compared(spec: &ResourceClaimSpec) -> Value {
    let mut spec = serde_json::to_value(spec).unwrap_or_default();
    let requests = spec.pointer_mut("/devices/requests").and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        let amounts = request.pointer_mut("/exactly/capacity/requests");
        for amount in
            amounts.and_then(Value::as_object_mut).into_iter().flat_map(|it| it.values_mut())
        {
            if let Some(Ok(number)) = amount.as_str().map(quantity::whole_text) {
                *amount = Value::from(number);
            }
        }
    }
    spec
}
