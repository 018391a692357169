//! The searcher's tests have no tolerances of their own: those are formulas in `crates/searcher/src/oracle.rs`.
//!
//! Promises: a number that could be one is found. No test has a fraction but what a stored result says (`stored(43.0)`), zero
//! and a hundred percent, and no `assert!` compares with so many nanoseconds written out. That a row is judged by what the
//! oracle gives, not by an integer either, the type of its argument sees to.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Fractions that are no tolerance.
const PLAIN: [&str; 2] = ["0.0", "100.0"];
/// Function that gives the figure of a stored result.
const STORED: &str = "stored";
/// Units of nanoseconds.
const UNITS: [&str; 3] = ["US", "MS", "SECOND"];

fn is_fraction(token: &TokenTree) -> bool {
    let TokenTree::Literal(literal) = token else { return false };
    let text = literal.to_string();
    let is_number = text.starts_with(|first: char| first.is_ascii_digit());
    let is_float = text.contains('.') || text.ends_with("f64") || text.ends_with("f32");
    is_number && is_float && !PLAIN.contains(&text.as_str())
}

fn is_word(token: Option<&TokenTree>, words: &[&str]) -> bool {
    matches!(token, Some(TokenTree::Ident(word)) if words.iter().any(|one| word == one))
}

fn is_sign(token: Option<&TokenTree>, signs: &[char]) -> bool {
    matches!(token, Some(TokenTree::Punct(sign)) if signs.contains(&sign.as_char()))
}

/// The lines, counted from 1, in which a tolerance is written.
fn written(text: &str) -> Vec<usize> {
    let tokens: TokenStream = text.parse().expect("a source file is made of tokens");
    let mut lines = Vec::new();
    look(tokens, &mut lines);
    lines
}

fn look(tokens: TokenStream, lines: &mut Vec<usize>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
        // `pair.0.1` is two fields.
        if is_fraction(token) && !is_sign(before(1), &['.']) {
            lines.push(token.span().start().line);
        }
        let TokenTree::Group(group) = token else { continue };
        let is_call = group.delimiter() == Delimiter::Parenthesis;
        if is_call && is_word(before(1), &[STORED]) {
            continue;
        }
        if is_call && is_sign(before(1), &['!']) && is_word(before(2), &["assert"]) {
            lines.extend(times(group));
        }
        look(group.stream(), lines);
    }
}

/// Lines of what an `assert!` compares with a time that is written out: `ns < 8 * MS`.
fn times(asserted: &Group) -> Vec<usize> {
    let tokens: Vec<_> = asserted.stream().into_iter().collect();
    if !tokens.iter().any(|token| is_sign(Some(token), &['<', '>'])) {
        return Vec::new();
    }
    let is_time = |of: &&[TokenTree]| {
        let [first, sign, unit] = of else { return false };
        matches!(first, TokenTree::Literal(_))
            && is_sign(Some(sign), &['*'])
            && is_word(Some(unit), &UNITS)
    };
    tokens.windows(3).filter(is_time).map(|of| of[0].span().start().line).collect()
}

/// The searcher's tests, and the modules beside them.
fn tests(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the searcher has tests") {
        let path = entry.expect("a folder that is read").path();
        if path.is_dir() {
            tests(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn no_test_of_the_searcher_has_a_tolerance_of_its_own() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/searcher/tests");
    let mut files = Vec::new();
    tests(&folder, &mut files);
    assert!(files.len() > 20, "{files:?}");
    let mut broken = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source file");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        broken.extend(written(&text).iter().map(|line| format!("{name}:{line}")));
    }
    assert!(broken.is_empty(), "tolerances that are none of oracle.rs's:\n{}", broken.join("\n"));
}

#[test]
fn a_planted_tolerance_is_found() {
    let found = |line: &str| written(&format!("fn planted() {{\n    {line}\n}}\n")) == [2];
    for planted in [
        "const POINTS: f64 = 2.3;",
        "assert!((had - due).abs() < 1.5);",
        "if had < 0.94 * alone { wrong.push(row); }",
        "for (cap, within) in [(30, 1.0)] {}",
        "judge(&programs, 2.);",
        "judge(&programs, 2_f64);",
        "assert!(charged_ns.abs_diff(had_ns) < 100 * MS, \"{row}\");",
        "assert!(had > 43.0, \"{had:.1}\");",
    ] {
        assert!(found(planted), "not found: {planted}");
    }
    for plain in [
        "rows.row(what, 30, oracle::share(), 100.0 * had / wall); // 1.5",
        "let all: f64 = each.iter().copied().fold(0.0, f64::max);",
        "rows.add(\"1.5 of it\", stored(43.0), reached);",
        "let due = pair.0.1 + tenants[0..2].len() as f64;",
        "assert!(longest_ns <= oracle::wait_ns(), \"{} of 8.5\", longest_ns / MS);",
    ] {
        assert_eq!(written(plain), [0_usize; 0], "{plain}");
    }
}
