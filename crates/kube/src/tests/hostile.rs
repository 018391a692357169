//! Input that no person writes: it ends in an error with its line, or in what a reader of Kubernetes' would take it for.

use proptest::prelude::*;

use super::pod;
use crate::convert::{self, Options};
use crate::yaml::{self, Node, Style, Value};

fn error(bytes: &[u8]) -> (usize, String) {
    match convert::file(bytes, Options::default()) {
        Err(error) => (error.line, error.words),
        Ok(result) => panic!("{result:?}"),
    }
}

#[test]
fn what_is_no_yaml_is_named_with_its_line() {
    for (text, line, words) in [
        ("a: b\n\tc: d\n", 1, "it is not YAML"),
        ("a: [b\n", 2, "it is not YAML"),
        ("a: 1\nb: 2\na: 3\n", 3, "the key \"a\" stands twice, first in line 1"),
        ("a: {b: 1, 'b': 2}\n", 1, "the key \"b\" stands twice"),
        ("a: *nothing\n", 1, "it is not YAML"),
        ("a: &a [*a]\n", 1, "it is not YAML"),
        ("? [a]\n: b\n", 1, "a key is not a text"),
        (": b\n", 1, "a key is empty"),
        ("a: !include b\n", 1, "no tag !include"),
        ("a: !!set {b}\n", 1, "!!set"),
        ("%YAML 1.1\n---\na: b\n", 1, "directive"),
        ("<<: text\n", 1, "<< merges mappings alone"),
    ] {
        let (at, said) = error(text.as_bytes());
        let is_self = text.contains("&a [*a]") && said.contains("within what it names");
        assert!(at == line && (said.contains(words) || is_self), "{text:?}: line {at}: {said}");
    }
    let (line, said) = error(b"a: b\nc: \xff\xfe\n");
    assert!(line == 2 && said.contains("0xff") && said.contains("UTF-8"), "{said}");
    let (_, said) = error(
        &"a: b\n".encode_utf16().flat_map(u16::to_le_bytes).chain([0xd8]).collect::<Vec<_>>(),
    );
    assert!(said.contains("UTF-8") || said.contains("not YAML"), "{said}");
}

#[test]
fn bombs_are_refused_before_they_are_large() {
    let mut laughs = String::from("a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        laughs.push_str(&format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(", ")));
    }
    let (_, said) = error(laughs.as_bytes());
    assert!(said.contains("aliases expanded"), "{said}");
    let mut merges = String::from("a0: &a0 {x: y}\n");
    for level in 1..200 {
        merges.push_str(&format!("a{level}: &a{level} {{k: *a{}}}\n", level - 1));
    }
    assert!(error(merges.as_bytes()).1.contains("deep"));
}

#[test]
fn depth_and_size_are_bounded() {
    for text in ["- ".repeat(5000) + "x", "[".repeat(5000), "{a: ".repeat(5000), "? ".repeat(5000)]
    {
        let (_, said) = error(text.as_bytes());
        assert!(said.contains("deep") || said.contains("not YAML"), "{said}");
    }
    let nested: String = (0..3000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(error(nested.as_bytes()).1.contains("deep"));
    let huge = vec![b'#'; (16 << 20) + 1];
    assert!(error(&huge).1.contains("more than 16 MiB"));
}

#[test]
fn a_mapping_with_many_keys_is_read_in_time() {
    let many: String = (0..30_000).map(|key| format!("k{key}: v\n")).collect();
    let text = format!("apiVersion: v1\nkind: ConfigMap\ndata:\n{}", many.replace('k', "  k"));
    assert!(convert::file(text.as_bytes(), Options::default()).is_ok());
}

#[test]
fn documents_that_hold_nothing_are_nothing() {
    for text in [
        "",
        "\n",
        "# a comment\n",
        "---\n---\n",
        "---\n# nothing\n---\n...\n",
        "null\n",
        "\u{feff}",
    ] {
        let result = convert::file(text.as_bytes(), Options::default()).unwrap();
        assert!(result.documents.is_empty() && result.text.is_empty(), "{text:?}: {result:?}");
    }
    let text = format!("---\n---\n{}---\n", pod("nvidia.com/gpu: 1"));
    assert_eq!(convert::file(text.as_bytes(), Options::default()).unwrap().documents.len(), 1);
}

#[test]
fn ends_of_lines_and_marks_of_order_are_no_matter() {
    let text = pod("nvidia.com/gpu: 1\nnvidia.com/gpumem: 4096");
    let of = |text: String| convert::file(text.as_bytes(), Options::default()).unwrap().text;
    let plain = of(text.clone());
    assert_eq!(of(text.replace('\n', "\r\n")), plain);
    assert_eq!(of(format!("\u{feff}{text}")), plain);
    assert_eq!(of(format!("---\n{text}...\n")), plain);
}

#[test]
fn documents_are_told_apart_whatever_ends_their_lines() {
    for text in [
        "a: 1\n...\nb: 2\n",
        "a: 1\r---\rb: 2\r",
        "--- {a: 1}\n--- # two\nb: 2",
        "a: 1\r\n---\r\nb: 2",
    ] {
        let text = text
            .replace('a', "{kind: x, a")
            .replace('1', "1}")
            .replace("{{kind: x, a: 1}}", "{kind: x, a: 1}");
        let result = convert::file(text.as_bytes(), Options::default()).unwrap();
        let read = yaml::read(result.text.as_bytes()).unwrap();
        assert_eq!((result.documents.len(), read.len()), (2, 2), "{text:?}: {:?}", result.text);
    }
}

#[test]
fn scalars_stay_as_they_were_written() {
    let text = "kind: X\na: 0644\nb: yes\nc: 1e3\nd: \"1\"\ne: '2'\nf: ~\ng:\nh: 0x1f\ni: 1_000\nj: 12:30:45\n\
                k: \"a\\tb\\u0007\"\nl: |-\n  one\n\n    two\nm: >\n  three\n  four\nn: ''\no: []\np: {}\nq: 'it''s'\n\
                \"r: s\": t\nu: !!str 5\nv: \"\\u2028\\\\\"\n";
    let [document] = &yaml::read(text.as_bytes()).unwrap()[..] else { panic!("one") };
    let written = yaml::write(&document.root).unwrap();
    for line in [
        "a: 0644",
        "b: yes",
        "c: 1e3",
        "d: \"1\"",
        "e: '2'",
        "f: ~",
        "h: 0x1f",
        "i: 1_000",
        "j: 12:30:45",
        "u: \"5\"",
    ] {
        assert!(written.lines().any(|it| it == line), "{line}: {written}");
    }
    assert_eq!(yaml::read(written.as_bytes()).unwrap()[0].root, document.root);
    assert!(
        written.contains("l: |-\n  one\n\n    two\n") && written.contains("m: |\n  three four\n"),
        "{written}"
    );
}

/// Any tree of few levels with scalars of any text.
fn tree() -> impl Strategy<Value = Node> {
    let text = prop_oneof![
        "[a-z]{1,6}",
        "[ -~]{0,12}",
        "[a-z \\n\\t#:'\"|>-]{0,16}",
        any::<String>(),
        Just(String::from("  lead\ntail \n\n")),
    ];
    let style = prop_oneof![Just(Style::Single), Just(Style::Double), Just(Style::Literal)];
    let leaf = (text, style).prop_map(|(text, style)| {
        let mut node = Node::quoted(text);
        if let Value::Scalar(scalar) = &mut node.value {
            scalar.style = style;
        }
        node
    });
    leaf.prop_recursive(4, 24, 4, |inner| {
        let mapping = proptest::collection::vec(inner.clone(), 0..4).prop_map(|values| {
            let keys = ["a", "b: c", "- d", "e#"];
            let mut node = Node::mapping([]);
            for (key, value) in keys.into_iter().zip(values) {
                node.set(key, value);
            }
            if let Value::Mapping(entries) = &mut node.value {
                entries.iter_mut().for_each(|entry| entry.key.style = Style::Double);
            }
            node
        });
        prop_oneof![proptest::collection::vec(inner, 0..4).prop_map(Node::sequence), mapping]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(tree in tree()) {
        let written = yaml::write(&tree);
        prop_assert!(written.is_ok(), "{:?}: {:?}", written, tree);
        let read = yaml::read(written.unwrap().as_bytes()).unwrap();
        prop_assert_eq!(&read[0].root, &tree);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = convert::file(&bytes, Options::default());
    }

    #[test]
    fn no_value_goes_through_without_a_claim(value in "[-+0-9a-zA-Z.\"' _]{0,12}", key in "(gpu|gpumem|gpucores|gpumem-percentage|[a-z]{1,9})") {
        let text = pod(&format!("nvidia.com/gpu: 1\nnvidia.com/{key}x: 1").replace("x: 1", &format!(": {value}")));
        if let Ok(result) = convert::file(text.as_bytes(), Options::default()) {
            let is_written = !result.text.is_empty();
            prop_assert!(!is_written || result.text.contains("resourceClaimTemplateName"), "{}", text);
            prop_assert!(!result.text.contains("nvidia.com/"), "{}", result.text);
        }
    }
}
