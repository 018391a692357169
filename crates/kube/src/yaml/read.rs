//! Reads a stream of YAML documents.
//!
//! Promises: no input panics or takes memory that it did not bring: depth, size, and what aliases expand to are bounded;
//! a key that stands twice in a mapping, a directive, a tag that is not YAML's own, and a key that is no text are errors,
//! with the line. Aliases are expanded, and `<<` merges, as Kubernetes' own reader does.
//!
//! Does not judge what the documents say.

use std::collections::BTreeMap;
use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::tree::{MapEntry, Node, Scalar, Style, Value};

/// The longest stream, in bytes.
pub(crate) const MOST_BYTES: usize = 16 << 20;
/// The deepest nesting of a document.
const DEEPEST: usize = 100;
/// Most values of a stream, after aliases have been expanded.
const MOST_NODES: usize = 1_000_000;
/// The prefix of YAML's own tags.
const OWN_TAGS: &str = "tag:yaml.org,2002:";

/// One document of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The line on which it begins.
    pub(crate) line: usize,
    /// Its lines as they were, without the mark that begins it; `None` where something stands beside that mark.
    pub(crate) source: Option<String>,
    pub(crate) root: Node,
}

/// The fault of a stream that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct YamlError {
    /// 0 where it is of the whole.
    pub(crate) line: usize,
    pub(crate) words: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

fn error<T>(line: usize, words: impl Into<String>) -> Result<T, YamlError> {
    Err(YamlError { line, words: words.into() })
}

/// A collection that is being read.
#[derive(Debug)]
struct Open {
    node: Node,
    anchor: usize,
    /// The key whose value comes next.
    key: Option<(Scalar, usize)>,
    /// Keys of a mapping, each with its line.
    known: BTreeMap<String, usize>,
    /// Values of `<<`, which give way to keys that stand in the mapping.
    merges: Vec<Node>,
}

#[derive(Debug, Default)]
struct Reader {
    open: Vec<Open>,
    root: Option<Node>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
}

/// Reads all documents of a stream; those that hold nothing are left out.
///
/// # Errors
/// See the module's head.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Document>, YamlError> {
    if bytes.len() > MOST_BYTES {
        let mib = MOST_BYTES >> 20;
        return error(0, format!("more than {mib} MiB; convert it in parts"));
    }
    let text = std::str::from_utf8(bytes).or_else(|fault| {
        let line = bytes[..fault.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        let byte = bytes.get(fault.valid_up_to()).copied().unwrap_or_default();
        error(line, format!("the byte {byte:#04x} is not UTF-8; save the file as UTF-8"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.lines().collect();
    for (line, number) in lines.iter().zip(1..) {
        if line.starts_with("%YAML") || line.starts_with("%TAG") {
            return error(number, format!("the directive {line:?} is not read; take it out"));
        }
    }
    let mut documents = documents(text)?;
    let begins: Vec<usize> = documents.iter().map(|(line, ..)| *line).collect();
    let mut kept = Vec::new();
    for (at, (line, is_explicit, root)) in documents.drain(..).enumerate() {
        let end = begins.get(at + 1).map_or(lines.len(), |next| next - 1);
        let body = lines.get(line - 1..end).unwrap_or_default();
        let source = match body.split_first() {
            Some((mark, rest)) if is_explicit => (mark.trim() == "---").then_some(rest),
            _ => Some(body),
        };
        if root.scalar().is_none_or(|scalar| !scalar.is_null()) {
            kept.push(Document { line, source: source.map(|lines| lines.join("\n") + "\n"), root });
        }
    }
    Ok(kept)
}

/// The documents with the line on which each begins, and whether a mark begins it.
fn documents(text: &str) -> Result<Vec<(usize, bool, Node)>, YamlError> {
    let mut found = Vec::new();
    let mut reader = Reader::default();
    let (mut line, mut is_explicit) = (1, false);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.or_else(|fault| {
            error(fault.marker().line(), format!("it is not YAML: {}", fault.info()))
        })?;
        let at = span.start.line();
        match event {
            Event::DocumentStart(explicit) => {
                is_explicit = explicit;
                line = if explicit || !found.is_empty() { at } else { 1 };
                reader = Reader { nodes: reader.nodes, ..Reader::default() };
            }
            Event::DocumentEnd => {
                let nothing = Node::plain("");
                found.push((line, is_explicit, reader.root.take().unwrap_or(nothing)));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted => Style::Single,
                    ScalarStyle::DoubleQuoted => Style::Double,
                    ScalarStyle::Literal | ScalarStyle::Folded => Style::Literal,
                };
                let mut scalar = Scalar::new(text, style);
                let mut tag = own(tag.as_deref(), at)?;
                if tag.as_deref() == Some("!!str") {
                    tag = None;
                    scalar.style = if style == Style::Plain { Style::Double } else { style };
                }
                let node = Node { line: at, tag, value: Value::Scalar(scalar) };
                reader.put(node, anchor, at)?;
            }
            Event::SequenceStart(anchor, tag) => {
                reader.begin(Value::Sequence(Vec::new()), anchor, tag.as_deref(), at)?;
            }
            Event::MappingStart(anchor, tag) => {
                reader.begin(Value::Mapping(Vec::new()), anchor, tag.as_deref(), at)?;
            }
            Event::SequenceEnd | Event::MappingEnd => reader.end(at)?,
            Event::Alias(anchor) => {
                let Some(node) = reader.anchors.get(&anchor) else {
                    return error(at, "an alias stands within what it names");
                };
                reader.nodes += size(node);
                reader.check(at)?;
                if reader.open.len() + depth(node) > DEEPEST {
                    return error(at, format!("it is nested more than {DEEPEST} deep"));
                }
                let node = node.clone();
                reader.put(node, 0, at)?;
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd => {}
        }
    }
    Ok(found)
}

/// A tag of YAML's own.
fn own(tag: Option<&Tag>, line: usize) -> Result<Option<String>, YamlError> {
    let Some(tag) = tag else { return Ok(None) };
    match (&*tag.handle, &*tag.suffix) {
        (OWN_TAGS, suffix) => Ok(Some(format!("!!{suffix}"))),
        (handle, suffix) => error(line, format!("Kubernetes knows no tag {handle}{suffix}")),
    }
}

fn size(node: &Node) -> usize {
    1 + match &node.value {
        Value::Scalar(_) => 0,
        Value::Sequence(items) => items.iter().map(size).sum(),
        Value::Mapping(entries) => entries.iter().map(|entry| size(&entry.value)).sum(),
    }
}

fn depth(node: &Node) -> usize {
    1 + match &node.value {
        Value::Scalar(_) => 0,
        Value::Sequence(items) => items.iter().map(depth).max().unwrap_or(0),
        Value::Mapping(entries) => {
            entries.iter().map(|entry| depth(&entry.value)).max().unwrap_or(0)
        }
    }
}

impl Reader {
    fn check(&self, line: usize) -> Result<(), YamlError> {
        if self.nodes > MOST_NODES {
            return error(
                line,
                format!("more than {MOST_NODES} values, with its aliases expanded"),
            );
        }
        Ok(())
    }

    fn begin(
        &mut self,
        value: Value,
        anchor: usize,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<(), YamlError> {
        if self.open.len() >= DEEPEST {
            return error(line, format!("it is nested more than {DEEPEST} deep"));
        }
        if let Some(tag) = own(tag, line)?.filter(|tag| tag != "!!map" && tag != "!!seq") {
            return error(
                line,
                format!("{tag} is nothing that Kubernetes has; write a list or a mapping"),
            );
        }
        let node = Node { line, tag: None, value };
        self.open.push(Open {
            node,
            anchor,
            key: None,
            known: BTreeMap::new(),
            merges: Vec::new(),
        });
        Ok(())
    }

    fn end(&mut self, line: usize) -> Result<(), YamlError> {
        let Some(open) = self.open.pop() else { return error(line, "an end without a beginning") };
        let mut node = open.node;
        if let Value::Mapping(entries) = &mut node.value {
            let mut known = open.known;
            for merged in open.merges.iter().flat_map(Node::entries) {
                if known.insert(merged.key.text.clone(), merged.line).is_none() {
                    entries.push(merged.clone());
                }
            }
        }
        self.put(node, open.anchor, line)
    }

    /// Puts a value where the stream is: as a key, as the value of one, as an item, or as the root.
    fn put(&mut self, node: Node, anchor: usize, line: usize) -> Result<(), YamlError> {
        self.nodes += 1;
        self.check(line)?;
        if anchor > 0 {
            self.nodes += size(&node);
            self.check(line)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        let (value, key) = (&mut open.node.value, open.key.take());
        match (value, key) {
            (Value::Sequence(items), _) => items.push(node),
            (Value::Mapping(entries), Some((key, at))) => {
                if key.style == Style::Plain && key.text == "<<" {
                    open.merges.extend(merged(node, at)?);
                } else {
                    entries.push(MapEntry { key, line: at, value: node });
                }
            }
            (Value::Mapping(_), None) => {
                let Value::Scalar(key) = node.value else {
                    return error(line, "a key is not a text; write text: value");
                };
                if key.is_null() {
                    return error(line, "a key is empty; write text: value");
                }
                if let Some(first) = open.known.insert(key.text.clone(), line) {
                    let key = &key.text;
                    return error(
                        line,
                        format!("the key {key:?} stands twice, first in line {first}"),
                    );
                }
                open.key = Some((key, line));
            }
            (Value::Scalar(_), _) => return error(line, "a value within a text"),
        }
        Ok(())
    }
}

/// The mappings that `<<` names.
fn merged(node: Node, line: usize) -> Result<Vec<Node>, YamlError> {
    let is_mapping = |node: &Node| matches!(node.value, Value::Mapping(_));
    match node.value {
        Value::Mapping(_) => Ok(vec![node]),
        Value::Sequence(items) if items.iter().all(is_mapping) => Ok(items),
        _ => error(line, "<< merges mappings alone"),
    }
}
