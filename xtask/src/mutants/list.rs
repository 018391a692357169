//! The list of mutants: cargo-mutants' own.
//!
//! Promises: the same source gives the same numbers, in the order in which cargo-mutants names them; what only tests
//! are made of is not among them. Does not
//! decide which of them can be switched at run time: that is `switch`'s.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::scope::Scope;
use crate::command::output;
use crate::workspace::cargo;

/// Kind of change that a mutant makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Genre {
    /// A function returns something at once.
    Function,
    /// One operator is another.
    Binary,
    /// `!` or `-` is left out.
    Unary,
    /// A match has one arm less.
    Arm,
    /// An arm's guard always holds, or never.
    Guard,
    /// A field of a struct expression is its base's.
    Field,
    /// A fault of `faults`, which is none of cargo-mutants'.
    Planted,
}

/// One mutant.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    /// From 1 on.
    pub(super) number: u32,
    /// As cargo-mutants names it: place, change, function.
    pub(super) name: String,
    /// Its file, from the workspace's root.
    pub(super) file: String,
    pub(super) genre: Genre,
    /// Where what it changes begins, both from 1.
    pub(super) line: usize,
    pub(super) column: usize,
    /// Its replacement.
    pub(super) replacement: String,
    /// Of a planted fault: the bytes of its file that it replaces.
    pub(super) bytes: Option<Range<usize>>,
}

/// Asks cargo-mutants.
pub(super) fn all(scope: Scope) -> Result<Vec<Mutant>> {
    let mut command = cargo();
    command.args(["mutants", "--list", "--json"]);
    for changed in scope.changed() {
        command.args(["--package", changed.package]);
    }
    for file in scope.files() {
        command.args(["--file", file]);
    }
    let text = output(&mut command).context(
        "cargo-mutants lists the mutants; `cargo install cargo-mutants --locked` installs it",
    )?;
    let mut mutants = parse(&text)?;
    // A module of tests behind more than `cfg(test)` is none to cargo-mutants.
    mutants.retain(|mutant| !mutant.name.contains(" tests::"));
    Ok(mutants)
}

fn parse(text: &str) -> Result<Vec<Mutant>> {
    let list: Vec<Value> = serde_json::from_str(text).context("the list of cargo-mutants")?;
    list.iter().zip(1..).map(|(value, number)| one(value, number)).collect()
}

fn one(value: &Value, number: u32) -> Result<Mutant> {
    let field = |name: &str| {
        let text = value.get(name).and_then(Value::as_str);
        text.with_context(|| format!("a mutant without a {name}: {value}"))
    };
    let start = |name: &str| {
        let place = value.pointer(&format!("/span/start/{name}")).and_then(Value::as_u64);
        let place = place.with_context(|| format!("a mutant without a {name}: {value}"))?;
        Ok::<usize, anyhow::Error>(usize::try_from(place)?)
    };
    let genre = match field("genre")? {
        "FnValue" => Genre::Function,
        "BinaryOperator" => Genre::Binary,
        "UnaryOperator" => Genre::Unary,
        "MatchArm" => Genre::Arm,
        "MatchArmGuard" => Genre::Guard,
        "StructField" => Genre::Field,
        other => {
            bail!("cargo-mutants has mutants of the genre {other}, which no switch is known for")
        }
    };
    Ok(Mutant {
        number,
        name: field("name")?.to_owned(),
        file: field("file")?.to_owned(),
        genre,
        line: start("line")?,
        column: start("column")?,
        replacement: field("replacement")?.to_owned(),
        bytes: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_an_unknown_genre_is_named() {
        let text = r#"[{"file": "a.rs", "genre": "BinaryOperator", "name": "a.rs:3:7: replace + with -",
            "replacement": "-", "span": {"start": {"line": 3, "column": 7}}}]"#;
        let list = parse(text).expect("a list");
        assert_eq!((list[0].number, list[0].line, list[0].column), (1, 3, 7));
        assert_eq!((list[0].genre, list[0].replacement.as_str()), (Genre::Binary, "-"));
        let error = parse(&text.replace("BinaryOperator", "Else")).expect_err("unknown");
        assert!(error.to_string().contains("Else"));
    }
}
