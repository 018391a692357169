//! Tests of the crate as a whole: the corpus, hostile input, what each key becomes, and the page.

mod beyond;
mod corpus;
mod foreign;
mod hostile;
mod live;
mod page;
mod policy;
mod values;

use crate::convert::{self, Converted, Options};
use crate::document::Outcome;
use crate::note::Level;

/// A pod with one container, whose limits are these lines.
fn pod(limits: &str) -> String {
    pod_with("", limits, "")
}

/// The same with annotations and more lines of the container.
fn pod_with(annotations: &str, limits: &str, container: &str) -> String {
    let lines = |text: &str, pad: &str| {
        text.lines().map(|line| format!("{pad}{line}\n")).collect::<String>()
    };
    let annotations = match annotations {
        "" => String::new(),
        some => format!("  annotations:\n{}", lines(some, "    ")),
    };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n{annotations}spec:\n  containers:\n  - name: c\n{}    resources:\n      limits:\n{}",
        lines(container, "    "),
        lines(limits, "        ")
    )
}

fn converted(text: &str) -> Converted {
    convert::file(text.as_bytes(), Options::default())
        .unwrap_or_else(|error| panic!("{error:?}: {text}"))
}

/// Text of the file that one pod becomes, which must be converted.
fn made(text: &str) -> String {
    let result = converted(text);
    assert_ne!(result.documents[0].outcome, Outcome::Refused, "{result:?}");
    result.text
}

/// Codes of what is told of the only document, and what became of it.
fn codes(text: &str) -> (Outcome, Vec<&'static str>) {
    let result = converted(text);
    let [document] = &result.documents[..] else { panic!("{result:?}") };
    let told = document.notes.iter().filter(|note| note.level != Level::Info);
    (document.outcome, told.map(|note| note.code).collect())
}
