//! A tree that this program made, as JSON for the API server.
//!
//! Promises: a text with quotes is a text. Without them it is a truth or a whole number where it is written as one, and a text else.
//!
//! Does not read other people's YAML, in which more words have a meaning.

use serde_json::Value as Json;

use super::tree::{Node, Style, Value};

/// The tree as JSON.
pub(crate) fn json(node: &Node) -> Json {
    match &node.value {
        Value::Sequence(items) => items.iter().map(json).collect(),
        Value::Mapping(entries) => {
            entries.iter().map(|entry| (entry.key.text.clone(), json(&entry.value))).collect()
        }
        Value::Scalar(scalar) if scalar.style == Style::Plain => match &*scalar.text {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            text => match text.parse::<u64>() {
                Ok(number) if number.to_string() == text => Json::from(number),
                _ => Json::from(text),
            },
        },
        Value::Scalar(scalar) => Json::from(&*scalar.text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quotes_say_what_is_a_text() {
        let tree = Node::mapping([
            ("count", Node::plain("2")),
            ("cores", Node::quoted("30")),
            ("memory", Node::plain("8192Mi")),
            ("odd", Node::plain("007")),
            ("is", Node::plain("true")),
            ("all", Node::sequence([Node::single("true")])),
        ]);
        let wanted = json!({ "count": 2, "cores": "30", "memory": "8192Mi", "odd": "007", "is": true, "all": ["true"] });
        assert_eq!(super::json(&tree), wanted);
    }
}
