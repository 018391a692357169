//! Files of manifests, as files of claims: the text that is written, and the report.
//!
//! Promises: the same input makes the same bytes; an object that is refused is left out whole; a file that is no YAML
//! makes no text at all. Documents in which nothing is HAMi's are written as they were, comments included; of others
//! comments and anchors are lost.
//!
//! Does no I/O.

use serde::Serialize;

use crate::claim::Templates;
use crate::document::{Becoming, Judged, Outcome, judge, own_template};
use crate::names;
pub use crate::names::ResourceName;
use crate::note::{Code, Note};
use crate::pod::ContainerShare;
pub use crate::request::Options;
use crate::yaml::{self, Document};

/// One document, or one item of a list, for the report.
#[derive(Clone, Debug, Serialize)]
pub struct DocumentReport {
    document: usize,
    /// Its number in the list that the document is.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<usize>,
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
        let item = self.item.map_or(String::new(), |item| format!(" item {item},"));
        format!("document {},{item} {kind} {name}", self.document)
    }
}

/// One file's result.
#[derive(Clone, Debug)]
pub struct Converted {
    /// Text to write.
    pub text: String,
    /// One entry for each document that holds something, and for each item of a list.
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

/// The way round for a chart's template, which is YAML only when its actions have run.
const RENDER: &str =
    "; it has {{, as a template of Helm's: render it first: helm template … | divvy kube convert";

fn is_template(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"{{")
}

/// Converts one file, which stands for itself: it has every template that it names.
///
/// # Errors
/// Where it is no stream of YAML documents that can be read.
pub fn file(bytes: &[u8], options: Options) -> Result<Converted, Unreadable> {
    renamed(bytes, options, &[])
}

/// Converts a file whose resources have names of their own.
///
/// # Errors
/// As [`file()`].
pub fn renamed(
    bytes: &[u8],
    options: Options,
    names: &[ResourceName],
) -> Result<Converted, Unreadable> {
    let mut documents = yaml::read(bytes).map_err(|error| {
        let words = if is_template(bytes) { error.words + RENDER } else { error.words };
        Unreadable { line: error.line, words }
    })?;
    documents.iter_mut().for_each(|document| names::known(&mut document.root, names));
    let mut templates = Templates::default();
    for (namespace, name) in documents.iter().filter_map(|it| own_template(&it.root)) {
        templates.reserve(namespace.as_deref(), &name);
    }
    let mut converted = Converted { text: String::new(), documents: Vec::new() };
    for (document, number) in documents.iter().zip(1..) {
        let (reports, parts) = one(document, number, options, &mut templates);
        for part in parts {
            if !converted.text.is_empty() {
                converted.text.push_str("---\n");
            }
            converted.text.push_str(&part);
        }
        converted.documents.extend(reports);
    }
    Ok(converted)
}

/// Converts one document to documents.
fn one(
    document: &Document,
    number: usize,
    options: Options,
    templates: &mut Templates,
) -> (Vec<DocumentReport>, Vec<String>) {
    let count = templates.count();
    let mut becoming = judge(&document.root, options, templates);
    let parts = written(document, &becoming).unwrap_or_else(|words| {
        templates.forget(count);
        for object in &mut becoming.objects {
            object.refuse();
            object.notes.push(Note {
                level: Code::Form.level(),
                code: Code::Form.name(),
                line: object.line,
                container: None,
                key: None,
                path: None,
                message: words.clone(),
            });
        }
        Vec::new()
    });
    let report = |object: Judged| DocumentReport {
        document: number,
        item: object.item,
        line: if object.item.is_some() { object.line } else { document.line },
        kind: object.kind,
        name: object.name,
        namespace: object.namespace,
        outcome: object.outcome,
        containers: object.shares,
        notes: object.notes,
    };
    (becoming.objects.into_iter().map(report).collect(), parts)
}

fn written(document: &Document, becoming: &Becoming) -> Result<Vec<String>, String> {
    if !becoming.is_written {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    for template in &becoming.templates {
        parts.push(yaml::write(template)?);
    }
    parts.push(match (&becoming.changed, &document.source) {
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
