//! One way to print JSON: one object with the version of its schema, to standard output.
//!
//! Promises: every object that a command prints for its users comes from here and begins with `"schema"`; fields are only
//! ever added to a schema. `docs/json.md` describes each object.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::output::{out, plain};

/// Version of all objects: it rises when a field of any of them goes or gets another meaning.
pub const SCHEMA: u32 = 1;

/// An object that says which version of the schema it is of.
#[derive(serde::Serialize)]
struct Versioned<'a, T> {
    schema: u32,
    #[serde(flatten)]
    value: &'a T,
}

/// Prints `value`, an object, indented.
///
/// # Errors
/// [`out::Lost`] when standard output cannot be written.
pub fn print(value: &impl serde::Serialize) -> anyhow::Result<()> {
    bare(&Versioned { schema: SCHEMA, value })
}

/// The same on one line, as text.
///
/// # Errors
/// When it is no object.
pub(crate) fn line(value: &impl serde::Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string(&Versioned { schema: SCHEMA, value })?;
    Ok(exact(&text).into_owned())
}

/// Prints `value` as it is, for another process of the same binary.
///
/// # Errors
/// [`out::Lost`] when standard output cannot be written.
pub(crate) fn bare(value: &impl serde::Serialize) -> anyhow::Result<()> {
    out::text(&format!("{}\n", exact(&serde_json::to_string_pretty(value)?)))
}

/// `text`, which is JSON, with the characters by number that a terminal would obey: it means the same.
fn exact(text: &str) -> Cow<'_, str> {
    // A newline stands between values only; in a text it is a number already.
    let stays = |c: char| c == '\n' || plain::is_shown(c);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if stays(c) {
            safe.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing into a String cannot fail.
            let _ = write!(safe, "\\u{unit:04x}");
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_says_its_schema_first() {
        let value = serde_json::json!({ "b": 1, "a": [2] });
        assert_eq!(line(&value).unwrap(), "{\"schema\":1,\"a\":[2],\"b\":1}");
        assert!(line(&[1]).is_err(), "a list has no place for it");
    }

    #[test]
    fn every_text_means_what_it_meant_and_none_is_obeyed() {
        let value = ["a\x1b[31m\u{9b}\u{7f}\n", "\u{202e}\u{e0041}é", "\\u009b"];
        for text in [serde_json::to_string(&value), serde_json::to_string_pretty(&value)] {
            let safe = exact(text.as_ref().unwrap()).into_owned();
            assert!(safe.chars().all(|c| c == '\n' || plain::is_shown(c)), "{safe:?}");
            assert_eq!(serde_json::from_str::<[String; 3]>(&safe).unwrap(), value);
        }
    }
}
