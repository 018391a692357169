//! One way to print JSON: indented, one object, to standard output.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::output::{out, plain};

/// Prints `value`.
///
/// # Errors
/// [`out::Lost`] when standard output cannot be written.
pub fn print(value: &impl serde::Serialize) -> anyhow::Result<()> {
    out::text(&format!("{}\n", exact(&serde_json::to_string_pretty(value)?)))
}

/// `text`, which is JSON, with the characters by number that a terminal would obey: it means the same.
pub(crate) fn exact(text: &str) -> Cow<'_, str> {
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
    fn every_text_means_what_it_meant_and_none_is_obeyed() {
        let value = ["a\x1b[31m\u{9b}\u{7f}\n", "\u{202e}\u{e0041}é", "\\u009b"];
        for text in [serde_json::to_string(&value), serde_json::to_string_pretty(&value)] {
            let safe = exact(text.as_ref().unwrap()).into_owned();
            assert!(safe.chars().all(|c| c == '\n' || plain::is_shown(c)), "{safe:?}");
            assert_eq!(serde_json::from_str::<[String; 3]>(&safe).unwrap(), value);
        }
    }
}
