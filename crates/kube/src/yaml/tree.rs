//! A YAML document as a tree in which every scalar stays as it was written.
//!
//! Kubernetes reads YAML 1.1, in which `0644` is octal and `yes` a truth; what reads 1.2 would write both back as
//! something else. So a scalar here is its text and whether it had quotes, and is never a number.
//! Promises: order of keys is kept; two trees are equal where no reader sees a difference.
//!
//! Does not keep comments, anchors, or which kind of quotes a text had where that is of no consequence.

/// How a scalar was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Without quotes: it may be a number, a truth, or nothing.
    Plain,
    Single,
    Double,
    /// A block of lines.
    Literal,
}

/// A scalar: its text, without quotes and escapes.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    pub(crate) key: Scalar,
    /// The line on which the key stands; 0 for what was not read.
    pub(crate) line: usize,
    pub(crate) value: Node,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    Mapping(Vec<MapEntry>),
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The line on which it begins; 0 for what was not read.
    pub(crate) line: usize,
    /// A tag of YAML's own, such as `!!str`.
    pub(crate) tag: Option<String>,
    pub(crate) value: Value,
}

impl PartialEq for Scalar {
    /// The same to a reader: quotes of one kind are as good as those of another.
    fn eq(&self, other: &Self) -> bool {
        let is_plain = |it: &Self| it.style == Style::Plain;
        self.text == other.text && is_plain(self) == is_plain(other)
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.value, &other.value) {
            (Value::Scalar(one), Value::Scalar(two)) => one == two,
            (Value::Sequence(one), Value::Sequence(two)) => one == two,
            (Value::Mapping(one), Value::Mapping(two)) => {
                one.len() == two.len()
                    && one.iter().zip(two).all(|(a, b)| a.key == b.key && a.value == b.value)
            }
            _ => false,
        };
        same && self.tag == other.tag
    }
}

impl Scalar {
    pub(super) fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    /// Whether it stands for nothing.
    pub(crate) fn is_null(&self) -> bool {
        self.style == Style::Plain && ["", "~", "null", "Null", "NULL"].contains(&&*self.text)
    }
}

impl Node {
    fn made(value: Value) -> Self {
        Self { line: 0, tag: None, value }
    }

    /// A text without quotes, which must be one that no reader takes for something else.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::made(Value::Scalar(Scalar::new(text, Style::Plain)))
    }

    pub(crate) fn quoted(text: impl Into<String>) -> Self {
        Self::made(Value::Scalar(Scalar::new(text, Style::Double)))
    }

    /// A text in which quotes may stand.
    pub(crate) fn single(text: impl Into<String>) -> Self {
        Self::made(Value::Scalar(Scalar::new(text, Style::Single)))
    }

    /// A name: without quotes where no reader takes it for something else.
    pub(crate) fn word(text: &str) -> Self {
        const NO_NAMES: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name =
            text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_part);
        if is_name && !NO_NAMES.contains(&text) { Self::plain(text) } else { Self::quoted(text) }
    }

    pub(crate) fn sequence(items: impl IntoIterator<Item = Self>) -> Self {
        Self::made(Value::Sequence(items.into_iter().collect()))
    }

    pub(crate) fn mapping(entries: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let entry = |(key, value)| MapEntry { key: Scalar::new(key, Style::Plain), line: 0, value };
        Self::made(Value::Mapping(entries.into_iter().map(entry).collect()))
    }

    /// The scalar, where it is one.
    pub(crate) fn scalar(&self) -> Option<&Scalar> {
        if let Value::Scalar(scalar) = &self.value { Some(scalar) } else { None }
    }

    /// The text of a scalar that stands for something.
    pub(crate) fn text(&self) -> Option<&str> {
        self.scalar().filter(|scalar| !scalar.is_null()).map(|scalar| &*scalar.text)
    }

    pub(crate) fn entries(&self) -> &[MapEntry] {
        if let Value::Mapping(entries) = &self.value { entries } else { &[] }
    }

    pub(crate) fn items(&self) -> &[Self] {
        if let Value::Sequence(items) = &self.value { items } else { &[] }
    }

    pub(crate) fn items_mut(&mut self) -> &mut [Self] {
        if let Value::Sequence(items) = &mut self.value { items } else { &mut [] }
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        let entries =
            if let Value::Mapping(entries) = &mut self.value { &mut entries[..] } else { &mut [] };
        entries.iter_mut().map(|entry| &mut entry.value)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key.text == key).map(|entry| &entry.value)
    }

    /// The value at the end of a way of keys.
    pub(crate) fn at(&self, way: &[&str]) -> Option<&Self> {
        way.iter().try_fold(self, |node, key| node.get(key))
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Value::Mapping(entries) = &mut self.value else { return None };
        entries.iter_mut().find(|entry| entry.key.text == key).map(|entry| &mut entry.value)
    }

    /// Takes out a key with its value.
    pub(crate) fn remove(&mut self, key: &str) {
        if let Value::Mapping(entries) = &mut self.value {
            entries.retain(|entry| entry.key.text != key);
        }
    }

    /// Takes out the entry at the end of a way of keys, and every mapping on the way that this leaves empty.
    pub(crate) fn take(&mut self, way: &[&str]) -> Option<MapEntry> {
        let (first, rest) = way.split_first()?;
        if !rest.is_empty() {
            let inner = self.get_mut(first)?;
            let taken = inner.take(rest)?;
            if inner.is_empty() {
                self.remove(first);
            }
            return Some(taken);
        }
        let Value::Mapping(entries) = &mut self.value else { return None };
        let at = entries.iter().position(|entry| entry.key.text == *first)?;
        Some(entries.remove(at))
    }

    /// Adds `item` to the sequence at `key`, which is made where there is none.
    pub(crate) fn push_within(&mut self, key: &'static str, item: Self) {
        if let Some(Value::Sequence(items)) = self.get_mut(key).map(|node| &mut node.value) {
            items.push(item);
            return;
        }
        self.remove(key);
        self.set(key, Self::sequence([item]));
    }

    /// Adds a key that is not there, at the end.
    pub(crate) fn set(&mut self, key: &'static str, value: Self) {
        if let Value::Mapping(entries) = &mut self.value {
            entries.push(MapEntry { key: Scalar::new(key, Style::Plain), line: 0, value });
        }
    }

    /// Whether it is nothing, or holds nothing.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.value {
            Value::Scalar(scalar) => scalar.is_null(),
            Value::Sequence(items) => items.is_empty(),
            Value::Mapping(entries) => entries.is_empty(),
        }
    }
}
