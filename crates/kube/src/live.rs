//! Fields of an object that was read from a cluster beyond its manifest: those that the API server and its controllers wrote.
//!
//! Promises: what is left is taken by `kubectl create`, `apply` and `replace` as a manifest is: it names no version of the object,
//! and brings no note of what was applied before, in which HAMi's resources would stand.
//!
//! Does not take out what a cluster only filled in, such as defaults: those do no harm.

use crate::kinds;
use crate::yaml::Node;

const METADATA: [&str; 6] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Takes those fields out of an object, and of the items where it is a list. The line of the first, where there was any.
/// Objects without a kind are left: they may consist of such fields.
pub(crate) fn strip(object: &mut Node) -> Option<usize> {
    if kinds::kind(object).is_empty() {
        return None;
    }
    let of_metadata = METADATA.iter().map(|key| vec!["metadata", *key]);
    let ways = of_metadata.chain([vec!["metadata", "annotations", APPLIED], vec!["status"]]);
    let lines = ways.filter_map(|way| object.take(&way).map(|entry| entry.line));
    let first = lines.min();
    if kinds::is_list(object)
        && let Some(items) = object.get_mut("items")
    {
        for item in items.items_mut() {
            strip(item);
        }
    }
    first
}
