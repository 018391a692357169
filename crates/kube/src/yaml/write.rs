//! Writes a tree in YAML's block style, as `kubectl` does: a sequence below its key has the key's indentation.
//!
//! Promises: what is written is read as the same tree, or is not written.
//!
//! Does not break lines.

use std::fmt::Write as _;

use super::read::read;
use super::tree::{Node, Scalar, Style, Value};

/// The tree as a document, without a mark before it.
///
/// # Errors
/// Where it would be read as another tree: in words.
pub(crate) fn write(node: &Node) -> Result<String, String> {
    let mut out = String::new();
    match &node.value {
        Value::Scalar(scalar) => {
            out.push_str(&flat(scalar));
            out.push('\n');
        }
        _ if node.is_empty() => inline(&mut out, node),
        Value::Sequence(_) | Value::Mapping(_) => block(&mut out, node, 0),
    }
    match read(out.as_bytes()) {
        Ok(documents) if documents.len() == 1 && documents[0].root == *node => Ok(out),
        Ok(_) => Err("it cannot be written so that it is read as the same".to_owned()),
        Err(error) => Err(format!("it cannot be written: {error}")),
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A collection that is not empty, each entry on lines of its own.
fn block(out: &mut String, node: &Node, indent: usize) {
    match &node.value {
        Value::Mapping(entries) => {
            for (at, entry) in entries.iter().enumerate() {
                if at > 0 {
                    pad(out, indent);
                }
                out.push_str(&key(&entry.key));
                out.push(':');
                let is_sequence = matches!(entry.value.value, Value::Sequence(_));
                below(out, &entry.value, if is_sequence { indent } else { indent + 2 }, indent + 2);
            }
        }
        Value::Sequence(items) => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    pad(out, indent);
                }
                out.push('-');
                let is_block = !item.is_empty() && item.scalar().is_none() && item.tag.is_none();
                if is_block {
                    out.push(' ');
                    block(out, item, indent + 2);
                } else {
                    below(out, item, indent + 2, indent + 2);
                }
            }
        }
        Value::Scalar(_) => {}
    }
}

/// The value of a key or of an item, behind its mark.
fn below(out: &mut String, node: &Node, indent: usize, text_indent: usize) {
    if let Some(tag) = &node.tag {
        out.push(' ');
        out.push_str(tag);
    }
    match &node.value {
        Value::Scalar(scalar) => value(out, scalar, text_indent),
        _ if node.is_empty() => {
            out.push(' ');
            inline(out, node);
        }
        _ => {
            out.push('\n');
            pad(out, indent);
            block(out, node, indent);
        }
    }
}

fn inline(out: &mut String, node: &Node) {
    out.push_str(if matches!(node.value, Value::Sequence(_)) { "[]\n" } else { "{}\n" });
}

fn value(out: &mut String, scalar: &Scalar, indent: usize) {
    if scalar.style == Style::Literal && is_literal(&scalar.text) {
        let text = &scalar.text;
        let chomped = text.trim_end_matches('\n');
        let mark = match text.len() - chomped.len() {
            0 => "-",
            1 => "",
            _ => "+",
        };
        out.push_str(" |");
        out.push_str(mark);
        out.push('\n');
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            if !line.is_empty() {
                pad(out, indent);
                out.push_str(line);
            }
            out.push('\n');
        }
        return;
    }
    let text = flat(scalar);
    if !text.is_empty() {
        out.push(' ');
        out.push_str(&text);
    }
    out.push('\n');
}

/// Whether a block of lines can hold it without marks of its own.
fn is_literal(text: &str) -> bool {
    let is_plain = |c: char| c == '\n' || c == '\t' || is_printable(c);
    !text.trim().is_empty()
        && !text.starts_with([' ', '\t', '\n'])
        && text.chars().all(is_plain)
        && !text.split('\n').any(|line| !line.is_empty() && line.trim().is_empty())
}

fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
}

fn key(scalar: &Scalar) -> String {
    flat(scalar)
}

/// A scalar on one line.
fn flat(scalar: &Scalar) -> String {
    let text = &scalar.text;
    let is_line = text.chars().all(is_printable);
    match scalar.style {
        Style::Plain if !text.contains('\n') => text.clone(),
        Style::Single if is_line => format!("'{}'", text.replace('\'', "''")),
        _ => double(text),
    }
}

fn double(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_printable(c) => out.push(c),
            // A `String` takes all that is written to it.
            c => drop(write!(out, "\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
    out
}
