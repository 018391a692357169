//! Claims and templates of claims for other drivers of GPUs: those of HAMi's driver become ours, others are told of.
//!
//! Promises: a class is changed only where all that its requests say has the same meaning here.
//!
//! Does not read other kinds.

use crate::driver::DRIVER;
use crate::kinds;
use crate::note::{Code, Notes};
use crate::yaml::{Node, Value};

/// Class of HAMi's driver for claims, whose capacities are `memory` and `cores`, as ours.
const HAMI: &str = "hami-core-gpu.project-hami.io";
const KEY: &str = "deviceClassName";

/// Looks at an object; whether anything in it was changed.
pub(crate) fn look(object: &mut Node, notes: &mut Notes) -> bool {
    let is_claim = ["ResourceClaim", "ResourceClaimTemplate"].contains(&kinds::kind(object));
    if !is_claim || kinds::group(object) != "resource.k8s.io" {
        return false;
    }
    let mut is_changed = false;
    if let Some(spec) = object.get_mut("spec") {
        let has_more = has_any(spec, &["selectors", "config", "constraints"]);
        requests(spec, has_more, &mut is_changed, notes);
    }
    is_changed
}

fn has_any(node: &Node, keys: &[&str]) -> bool {
    node.entries().iter().any(|entry| {
        keys.contains(&&*entry.key.text) && !entry.value.is_empty() || has_any(&entry.value, keys)
    }) || node.items().iter().any(|item| has_any(item, keys))
}

/// Walks to each class that is named.
fn requests(node: &mut Node, has_more: bool, is_changed: &mut bool, notes: &mut Notes) {
    let named = node.get(KEY).and_then(|class| Some((class.text()?.to_owned(), class.line)));
    if let Some((name, line)) = named {
        let is_same = name == HAMI && !has_more;
        if is_same {
            if let Some(class) = node.get_mut(KEY) {
                class.value = Node::plain(DRIVER).value;
            }
            *is_changed = true;
            let words = format!("{KEY}: {name} became {DRIVER}, with the same capacities");
            notes.add(Code::Foreign, line, KEY, words);
        } else if name.contains("hami.io") {
            let words = format!(
                "{KEY}: {name} stays: its selectors or configuration are for HAMi's driver; write them for {DRIVER} by hand"
            );
            notes.add(Code::OtherDriver, line, KEY, words);
        } else if name.contains("nvidia.com") && !name.starts_with("compute-domain") {
            let words = format!(
                "{KEY}: {name} stays, a claim of NVIDIA's driver, which must not serve the same cards; for a share write {DRIVER} with capacity memory and cores"
            );
            notes.add(Code::OtherDriver, line, KEY, words);
        }
    }
    match &mut node.value {
        Value::Sequence(items) => {
            items.iter_mut().for_each(|item| requests(item, has_more, is_changed, notes));
        }
        Value::Mapping(entries) => {
            for entry in entries {
                requests(&mut entry.value, has_more, is_changed, notes);
            }
        }
        Value::Scalar(_) => {}
    }
}
