//! Files of manifests, as files of claims: the text that is written, and the report.
//!
//! Promises: the same input makes the same bytes; a document that is refused is left out whole; a file that is no YAML
//! makes no text at all. Documents in which nothing is HAMi's are written as they were, comments included; of others
//! comments and anchors are lost.
//!
//! Does no I/O.

use serde::Serialize;

use crate::claim::Templates;
use crate::document::{Judged, Outcome, judge, own_template};
use crate::note::{Code, Note};
use crate::pod::ContainerShare;
use crate::yaml::{self, Document};

/// How files are converted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Memory of each card, for percentages.
    pub card_bytes: Option<u64>,
}

/// One document, for the report.
#[derive(Clone, Debug, Serialize)]
pub struct DocumentReport {
    document: usize,
    line: usize,
    kind: String,
    name: String,
    namespace: Option<String>,
    /// Its result.
    pub outcome: Outcome,
    containers: Vec<ContainerShare>,
    pub(crate) notes: Vec<Note>,
}

impl DocumentReport {
    /// Its place within its file, as errors say it.
    pub(crate) fn place(&self) -> String {
        let kind = if self.kind.is_empty() { "of no kind" } else { &self.kind };
        let name = if self.name.is_empty() { "without a name" } else { &self.name };
        format!("document {}, {kind} {name}", self.document)
    }
}

/// One file's result.
#[derive(Clone, Debug)]
pub struct Converted {
    /// Text to write.
    pub text: String,
    /// One entry for each document that holds something.
    pub documents: Vec<DocumentReport>,
}

/// The fault of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The line, 0 where it is of the whole.
    pub line: usize,
    /// The fault and its fix.
    pub words: String,
}

/// Converts one file, which stands for itself: it has every template that it names.
///
/// # Errors
/// Where it is no stream of YAML documents that can be read.
pub fn file(bytes: &[u8], options: Options) -> Result<Converted, Unreadable> {
    let documents =
        yaml::read(bytes).map_err(|error| Unreadable { line: error.line, words: error.words })?;
    let mut templates = Templates::default();
    for (namespace, name) in documents.iter().filter_map(|it| own_template(&it.root)) {
        templates.reserve(namespace.as_deref(), &name);
    }
    let card_mib = options.card_bytes.map(|bytes| bytes >> 20);
    let mut converted = Converted { text: String::new(), documents: Vec::new() };
    for (document, number) in documents.iter().zip(1..) {
        let (report, parts) = one(document, number, card_mib, &mut templates);
        for part in parts {
            if !converted.text.is_empty() {
                converted.text.push_str("---\n");
            }
            converted.text.push_str(&part);
        }
        converted.documents.push(report);
    }
    Ok(converted)
}

/// Converts one document to documents.
fn one(
    document: &Document,
    number: usize,
    card_mib: Option<u64>,
    templates: &mut Templates,
) -> (DocumentReport, Vec<String>) {
    let count = templates.count();
    let mut judged = judge(&document.root, card_mib, templates);
    let parts = written(document, &judged).unwrap_or_else(|words| {
        templates.forget(count);
        judged.outcome = Outcome::Refused;
        judged.notes.push(Note {
            level: Code::Form.level(),
            code: Code::Form.name(),
            line: document.line,
            container: None,
            key: None,
            message: words,
        });
        Vec::new()
    });
    let report = DocumentReport {
        document: number,
        line: document.line,
        kind: judged.kind,
        name: judged.name,
        namespace: judged.namespace,
        outcome: judged.outcome,
        containers: judged.shares,
        notes: judged.notes,
    };
    (report, parts)
}

fn written(document: &Document, judged: &Judged) -> Result<Vec<String>, String> {
    if judged.outcome == Outcome::Refused {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    for template in &judged.templates {
        parts.push(yaml::write(template)?);
    }
    parts.push(match (&judged.changed, &document.source) {
        (Some(changed), _) => yaml::write(changed)?,
        (None, Some(source)) if is_same(source, document) => source.clone(),
        (None, _) => yaml::write(&document.root)?,
    });
    Ok(parts)
}

/// Whether the lines of a document are read as that document: ends of lines that only YAML knows shift them.
fn is_same(source: &str, document: &Document) -> bool {
    let read = yaml::read(source.as_bytes());
    read.is_ok_and(|read| matches!(&read[..], [one] if one.root == document.root))
}
