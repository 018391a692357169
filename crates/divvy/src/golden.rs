//! Tables of the documentation that are made from the code, for tests.
//!
//! A test compares the table of a page with the one that its module makes. With `DIVVY_GOLDEN=write` in
//! the environment the page is written instead, and the test passes.

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
    if std::env::var_os("DIVVY_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, format!("{}{table}{}", &text[..at], &text[end..])).unwrap();
        return;
    }
    assert_eq!(&text[at..end], table, "{page}: DIVVY_GOLDEN=write writes it again");
}
