//! Pages that lead through the code name what exists: each path in backticks is a file or folder, each function in a
//! walk stands in the file beside it, and the glossary explains a term once.
//!
//! A walk is a table whose second column is `function`. Outside of one, a method in backticks (`Type::name`) must stand
//! in one of the files that the page names. A function is found by `fn name` and its type by its name alone.
//! And the other way around: each stored result is named by a page or a source, or has been superseded and goes.
//!
//! Does not see whether the sentences beside them are true.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The pages, below the repository's root.
const PAGES: [&str; 2] = ["docs/architecture.md", "docs/glossary.md"];

/// Endings by which a name without a folder is a path, too.
const ENDINGS: [&str; 4] = [".rs", ".md", ".toml", ".txt"];

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Texts in backticks, outside of blocks of code.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

fn is_path(quoted: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    quoted.chars().all(is_name)
        && (quoted.contains('/') || ENDINGS.iter().any(|ending| quoted.ends_with(ending)))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `word` stands in `text` with nothing of a word on either side.
fn has_word(text: &str, word: &str) -> bool {
    let stands = |(at, _): (usize, &str)| {
        let after = text.get(at + word.len()..).unwrap_or_default();
        let before = text.get(..at).unwrap_or_default();
        !before.ends_with(is_word) && !after.starts_with(is_word)
    };
    text.match_indices(word).any(stands)
}

/// Whether a source defines `name` or `Type::name`, and names the type.
fn defines(source: &str, name: &str) -> bool {
    let mut parts = name.rsplit("::");
    let function = parts.next().unwrap_or_default();
    has_word(source, &format!("fn {function}")) && parts.all(|part| has_word(source, part))
}

/// Names of a page that do not exist; `read` gives the text of a file, empty for a folder.
fn broken(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut broken = Vec::new();
    let named: BTreeSet<&str> = quoted(page).filter(|quoted| is_path(quoted)).collect();
    let mut sources = Vec::new();
    for path in named {
        match read(path) {
            Some(source) => sources.push(source),
            None => broken.push(format!("no file or folder {path}")),
        }
    }
    let mut is_walk = false;
    for line in page.lines() {
        let Some(row) = line.strip_prefix('|') else {
            is_walk = false;
            let methods = quoted(line).filter(|quoted| is_method(quoted));
            for method in methods {
                if !sources.iter().any(|source| defines(source, method)) {
                    broken.push(format!("no file that is named has {method}"));
                }
            }
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        is_walk |= cells.get(1) == Some(&"function");
        let Some(path) = cells.first().and_then(|cell| quoted(cell).next()) else { continue };
        if !is_walk {
            continue;
        }
        let source = read(path).unwrap_or_default();
        for name in cells.get(1).into_iter().flat_map(|cell| quoted(cell)) {
            if !defines(&source, name) {
                broken.push(format!("no {name} in {path}"));
            }
        }
    }
    broken
}

/// `Type::name`: a crate's path begins with a small letter.
fn is_method(quoted: &str) -> bool {
    quoted.starts_with(|c: char| c.is_ascii_uppercase())
        && quoted.contains("::")
        && quoted.chars().all(|c| is_word(c) || c == ':')
}

/// Terms that a page explains more than once: what is bold at a row's beginning.
fn twice(page: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| **")?.split("**").next());
    rows.flat_map(|cell| cell.split(", "))
        .filter(|term| !seen.insert(*term))
        .map(|term| format!("{term} has more than one entry"))
        .collect()
}

fn read(path: &str) -> Option<String> {
    let at = root().join(path);
    if at.is_dir() { Some(String::new()) } else { fs::read_to_string(at).ok() }
}

#[test]
fn maps_name_what_exists() {
    for page in PAGES {
        let text = read(page).unwrap_or_else(|| panic!("no {page}"));
        assert!(quoted(&text).any(is_path), "{page} names no path");
        let has_walk = text.contains("| function |");
        assert!(has_walk || page != PAGES[0], "{page} has no walk");
        let broken = [broken(&text, read), twice(&text)].concat();
        assert!(broken.is_empty(), "{page}:\n{}", broken.join("\n"));
    }
}

#[test]
fn what_is_planted_and_does_not_exist_is_found() {
    let files = |path: &str| match path {
        "a/one.rs" => Some("impl Gate { pub fn open(&self) {} fn opened() {} }".to_owned()),
        "a/two.rs" => Some("fn shut() {} // Gate".to_owned()),
        "a" | "NOTES.md" => Some(String::new()),
        _ => None,
    };
    let head = "| file | function | what |\n|---|---|---|\n";
    let good = format!(
        "`NOTES.md`\n{head}| `a/one.rs` | `open`, `Gate::open` | - |\n\n`Gate::shut` `a/two.rs`"
    );
    assert_eq!(broken(&good, files), [""; 0]);
    for (planted, found) in [
        ("`a/three.rs` is a file.".to_owned(), "no file or folder a/three.rs"),
        ("`OTHER.md`".to_owned(), "no file or folder OTHER.md"),
        (format!("{head}| `a/one.rs` | `ope` | - |"), "no ope in a/one.rs"),
        (format!("{head}| `a/one.rs` | `open`, `shut` | - |"), "no shut in a/one.rs"),
        (format!("{head}| `a/one.rs` | `Door::open` | - |"), "no Door::open in a/one.rs"),
        ("`a/two.rs`: `Gate::open`".to_owned(), "no file that is named has Gate::open"),
    ] {
        assert_eq!(broken(&planted, files), [found], "{planted}");
    }
    // A table that is no walk, and a block of code, say nothing of functions.
    assert!(broken("| `a/one.rs` | `gone` |\n", files).is_empty());
    assert!(broken("```\n`b/c.rs`\n```\n", files).is_empty());
    assert!(twice("| **gate** | a |\n| **turn**, x | b |\n").is_empty());
    assert_eq!(
        twice("| **gate, door** | a |\n| **door** | b |\n"),
        ["door has more than one entry"]
    );
}

/// The texts of all files below a folder with one of these endings.
fn texts(folder: &Path, endings: &[&str], into: &mut Vec<(String, String)>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            texts(&path, endings, into);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            into.push((name, fs::read_to_string(&path).unwrap_or_default()));
        }
    }
}

/// Names of stored results that no text has; those of a soak are the latest of what its command writes.
fn unnamed<'a>(results: &'a [(String, String)], pages: &[(String, String)]) -> Vec<&'a str> {
    let is_named = |name: &str| pages.iter().any(|(_, text)| text.contains(name));
    let names = results.iter().map(|(name, _)| name.as_str());
    names.filter(|name| !name.starts_with("soak-") && !is_named(name)).collect()
}

#[test]
fn every_stored_result_is_named_somewhere() {
    let (mut results, mut pages) = (Vec::new(), Vec::new());
    texts(&root().join("bench/results"), &[""], &mut results);
    for folder in ["docs", "crates", "xtask", "tests"] {
        texts(&root().join(folder), &[".md", ".rs", ".txt", ".py"], &mut pages);
    }
    pages.push(("README.md".to_owned(), fs::read_to_string(root().join("README.md")).unwrap()));
    assert!(results.len() > 50 && pages.len() > 500, "{} and {}", results.len(), pages.len());
    assert_eq!(
        unnamed(&results, &pages),
        [""; 0],
        "superseded: remove them, or say what they show"
    );
    let planted = [("of-nobody.json".to_owned(), String::new())];
    assert_eq!(unnamed(&planted, &pages[..1]), ["of-nobody.json"]);
}
