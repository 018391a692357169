//! Ways to places of an object, for reports:
//! `spec.containers[0].resources.limits["nvidia.com/gpumem"]`.
//!
//! Promises: one walk finds the ways of all notes.
//!
//! Does not find what has no line.

use std::collections::BTreeMap;

use crate::note::Note;
use crate::yaml::{Node, Value};

/// Gives each note the way to its key, where that is found: a key of a mapping, or a named item, on
/// the note's line.
pub(crate) fn give(root: &Node, notes: &mut [Note]) {
    let mut wanted: BTreeMap<(usize, String), Option<String>> = BTreeMap::new();
    for note in &*notes {
        if let Some(key) = &note.key {
            wanted.insert((note.line, key.clone()), None);
        }
    }
    if wanted.is_empty() {
        return;
    }
    walk(root, &mut String::new(), &mut wanted);
    for note in notes {
        let Some(key) = &note.key else { continue };
        note.path = wanted.get(&(note.line, key.clone())).cloned().flatten();
    }
}

fn walk(node: &Node, way: &mut String, wanted: &mut BTreeMap<(usize, String), Option<String>>) {
    let length = way.len();
    match &node.value {
        Value::Scalar(_) => {}
        Value::Sequence(items) => {
            for (at, item) in items.iter().enumerate() {
                way.push_str(&format!("[{at}]"));
                if let Some(name) = item.get("name").and_then(Node::text) {
                    found(name, item.line, way, wanted);
                }
                walk(item, way, wanted);
                way.truncate(length);
            }
        }
        Value::Mapping(entries) => {
            for entry in entries {
                let key = &*entry.key.text;
                let is_word = !key.is_empty()
                    && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
                match (is_word, way.is_empty()) {
                    (true, true) => way.push_str(key),
                    (true, false) => way.push_str(&format!(".{key}")),
                    (false, _) => way.push_str(&format!("[{key:?}]")),
                }
                found(key, entry.line, way, wanted);
                walk(&entry.value, way, wanted);
                way.truncate(length);
            }
        }
    }
}

fn found(
    key: &str,
    line: usize,
    way: &str,
    wanted: &mut BTreeMap<(usize, String), Option<String>>,
) {
    if let Some(place) = wanted.get_mut(&(line, key.to_owned())) {
        place.get_or_insert_with(|| way.to_owned());
    }
}
