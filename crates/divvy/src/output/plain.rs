//! Texts from elsewhere, made fit for a terminal.
//!
//! A tenant's name, its command, a directory's name, a daemon's words: whoever made them may have put in
//! characters that a terminal obeys, or that change how what stands beside them is read. Whatever is
//! printed for people goes through here, cell by cell ([`crate::output::table`]) or line by line; JSON keeps every
//! text as it is, and writes such characters by their numbers ([`crate::output::json`]).

use std::borrow::Cow;

pub(crate) use divvy_page::reader::is_shown;

/// `text` as a part of one line: `?` for every character that is not shown, a newline included.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    replace(text, |_| false)
}

/// `text` as one or more lines. A further line is ours where it is indented, as all such lines are here.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    replace(text, |rest| rest.starts_with("\n  "))
}

/// Puts a `?` for what is not shown and what `stays` does not keep, given the text from there on.
fn replace(text: &str, stays: impl Fn(&str) -> bool) -> Cow<'_, str> {
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let shown = |(at, c): (usize, char)| {
        let keep = is_shown(c) || stays(text.get(at..).unwrap_or_default());
        if keep { c } else { '?' }
    };
    Cow::Owned(text.char_indices().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_a_question_mark() {
        for (text, safe) in [
            ("train-é 漢字 \u{1f600}", "train-é 漢字 \u{1f600}"),
            ("a\x1b[31mb\x07", "a?[31mb?"),
            ("a\u{9b}31m\u{7f}\r\tb", "a?31m???b"),
            ("\u{202e}evil\u{2066}\u{200b}\u{feff}\u{e0041}", "?evil????"),
            ("one\ntwo", "one?two"),
        ] {
            assert_eq!(line(text), safe);
        }
        assert_eq!(lines("list:\n  a\x1b\n  b\nforged"), "list:\n  a?\n  b?forged");
    }
}
