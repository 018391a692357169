//! Tables and examples of the documentation, and screens, that are made from the code, for tests.
//!
//! A test compares the text of a page or of a file with the one that its module makes. With `DIVVY_GOLDEN=write` in
//! the environment that is written instead, and the test passes.

use std::path::{Path, PathBuf};

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares `table`, whose first line heads it, with the table on `page` that has the same first line.
pub(crate) fn table(page: &str, table: &str) {
    let path = repository().join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let head = table.lines().next().expect("a table has a head");
    let at = text.find(head).unwrap_or_else(|| panic!("{page} has no table that begins {head}"));
    let end = text[at..].find("\n\n").map_or(text.len(), |end| at + end + 1);
    if is_written() {
        std::fs::write(&path, format!("{}{table}{}", &text[..at], &text[end..])).unwrap();
        return;
    }
    assert_eq!(&text[at..end], table, "{page}: DIVVY_GOLDEN=write writes it again");
}

fn is_written() -> bool {
    std::env::var_os("DIVVY_GOLDEN").is_some_and(|value| value == "write")
}

/// Compares `text` with the whole file at `path`.
pub(crate) fn file(path: &str, text: &str) {
    let at = repository().join(path);
    if is_written() {
        std::fs::write(&at, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&at).unwrap_or_default();
    assert_eq!(kept, text, "{path}: DIVVY_GOLDEN=write writes it again");
}

/// Compares `text` with the fenced block of `page` that begins with `head`, from there on.
pub(crate) fn fenced(page: &str, head: &str, text: &str) {
    let path = repository().join(page);
    let kept = std::fs::read_to_string(&path).unwrap();
    let begin = format!("```console\n{head}");
    let at = kept.find(&begin).unwrap_or_else(|| panic!("{page} has no block of {head}"));
    let at = at + begin.len();
    let end = kept[at..].find("```").map_or(kept.len(), |end| at + end);
    if is_written() {
        std::fs::write(&path, format!("{}{text}{}", &kept[..at], &kept[end..])).unwrap();
        return;
    }
    assert_eq!(&kept[at..end], text, "{page}: DIVVY_GOLDEN=write writes it again");
}
