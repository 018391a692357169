//! Forms of JSON: which fields there are, and of which kind, whatever their values; and the examples of `docs/json.md`.
//!
//! Used by the tests of the commands here, and end to end by those of the commands that need a driver.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Fields whose own fields are names of a table: each may have others.
const TABLES: [&str; 5] = ["by_kind", "samples", "medians", "failures", "refusals"];

/// Fields that depend on the machine.
const MACHINES: [&str; 1] = [".oversubscription"];

/// Every field as a path and a kind; elements of a list count together. A field that may be null has no kind where it is.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<(String, &'static str)>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(elements) => {
            elements.iter().for_each(|element| fields(element, &format!("{path}[]"), found));
            "list"
        }
        Value::Object(members) => {
            for (name, member) in
                members.iter().filter(|_| !TABLES.iter().any(|t| path.ends_with(t)))
            {
                fields(member, &format!("{path}.{name}"), found);
            }
            "object"
        }
    };
    found.insert((path.to_owned(), kind));
}

/// Differences between an example and what a command printed, in words.
fn differences(example: &Value, printed: &Value) -> Vec<String> {
    let of = |value: &Value| {
        let mut found = BTreeSet::new();
        fields(value, "", &mut found);
        found
    };
    let (example, printed) = (of(example), of(printed));
    let one_way = |from: &BTreeSet<(String, &'static str)>,
                   to: &BTreeSet<(String, &'static str)>,
                   words: &str| {
        let is_in = |(path, kind): &&(String, &'static str)| {
            let mut same = to.iter().filter(|(other, _)| other == path).peekable();
            // Below a null, or in an empty list, nothing is known.
            let is_unknown = || {
                to.iter().any(|(other, kind)| {
                    *kind == "null" && path.starts_with(other.as_str()) && other != path
                }) || path
                    .match_indices("[]")
                    .any(|(at, _)| !to.iter().any(|(other, _)| other.starts_with(&path[..at + 2])))
            };
            match same.peek() {
                None => is_unknown(),
                Some(_) => {
                    *kind == "null" || same.any(|(_, other)| other == kind || *other == "null")
                }
            }
        };
        from.iter()
            .filter(|one| !is_in(one) && !MACHINES.iter().any(|field| one.0.starts_with(field)))
            .map(|(path, kind)| format!("{path} ({kind}) is {words}"))
            .collect::<Vec<_>>()
    };
    let mut all = one_way(&printed, &example, "not in the example");
    all.extend(one_way(&example, &printed, "in the example and not printed"));
    all
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("docs/json.md"))
        .find(|path| path.is_file())
        .expect("docs/json.md")
}

/// Compares the example in the section of `docs/json.md` with this head with what was printed. With `DIVVY_GOLDEN=write`
/// the example is written, where it differs in form; `replace` are texts of this machine, and what stands for them.
pub(crate) fn compare(head: &str, printed_text: &str, replace: &[(&str, &str)]) {
    let printed: Value = serde_json::from_str(printed_text)
        .unwrap_or_else(|error| panic!("{head}: {error}: {printed_text}"));
    assert_eq!(printed["schema"], 1, "{head}: {printed}");
    let path = page();
    let text = std::fs::read_to_string(&path).unwrap();
    let section = format!("\n## {head}\n");
    let at = text.find(&section).unwrap_or_else(|| panic!("docs/json.md has no section {head}"));
    let begin = text[at..].find("```json\n").map(|more| at + more + 8).expect("an example");
    let end = begin + text[begin..].find("```").expect("its end");
    let example: Value = serde_json::from_str(&text[begin..end]).unwrap_or_default();
    let differences = match example {
        Value::Object(_) => differences(&example, &printed),
        _ => vec!["there is no example".to_owned()],
    };
    if differences.is_empty() {
        return;
    }
    if std::env::var_os("DIVVY_GOLDEN").is_some_and(|value| value == "write") {
        // In the order in which it was printed, where it was printed on several lines.
        let mut new = match printed_text.contains("\n ") {
            true => printed_text.to_owned(),
            false => serde_json::to_string_pretty(&printed).unwrap() + "\n",
        };
        for (from, to) in replace {
            new = new.replace(from, to);
        }
        std::fs::write(&path, format!("{}{new}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    panic!("docs/json.md, {head}: {differences:#?}\nDIVVY_GOLDEN=write writes it again");
}
