//! Keys of a file of defaults: their names, the forms of their values, who judges them.
//!
//! [`KEYS`] is the one list: files are read by it, and a test compares `docs/guide/config.md` with it.

use divvy_policy::limit::Rules;
use divvy_policy::share::ShareError;
use divvy_policy::{share, variables};

use super::values;

/// Form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A text in quotes.
    Text,
    /// A text, or a list of them.
    Texts,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Switch,
}

impl Form {
    /// The form, in words.
    pub(crate) const fn wanted(self) -> &'static str {
        match self {
            Self::Text => "a text in quotes",
            Self::Texts => "a text in quotes, or a list of them",
            Self::Number => "a whole number",
            Self::Switch => "true or false",
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Section and name, with a dot between.
    pub(crate) name: &'static str,
    /// The variable that comes before it.
    pub(crate) variable: Option<&'static str>,
    /// Whether that has a number for each device.
    pub(crate) per_device: bool,
    /// Form of its value.
    pub(crate) form: Form,
    /// The judge of each word.
    pub(crate) judge: fn(&str) -> Result<(), String>,
    /// An example of a value, as it is written.
    pub(crate) example: &'static str,
    /// Its meaning, in Markdown, for the page.
    #[cfg_attr(not(test), allow(dead_code, reason = "the page is compared by a test"))]
    pub(crate) meaning: &'static str,
}

/// A key without a variable, of one text.
const PLAIN: Key = Key {
    name: "",
    variable: None,
    per_device: false,
    form: Form::Text,
    judge: |_| Ok(()),
    example: "",
    meaning: "",
};

/// All of them.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "run.memory",
        variable: Some(variables::MEMORY),
        per_device: true,
        form: Form::Texts,
        judge: |text| Rules::new().parse_into(text).map_err(|error| error.to_string()),
        example: "\"8GiB\"",
        meaning: "`--memory`; UUIDs are written in full",
    },
    Key {
        name: "run.compute",
        variable: Some(variables::COMPUTE),
        per_device: true,
        form: Form::Texts,
        judge: |text| share::parse_into(&mut Rules::new(), text).map_err(|error| error.to_string()),
        example: "\"30%\"",
        meaning: "`--compute`; UUIDs are written in full",
    },
    Key {
        name: "run.weight",
        variable: Some(variables::WEIGHT),
        form: Form::Number,
        judge: |text| judged(share::parse_weight(text)),
        example: "2",
        meaning: "`--weight`",
        ..PLAIN
    },
    Key {
        name: "run.priority",
        variable: Some(variables::PRIORITY),
        judge: |text| judged(share::parse_priority(text)),
        example: "\"high\"",
        meaning: "`--priority`",
        ..PLAIN
    },
    Key {
        name: "run.class",
        variable: Some(variables::CLASS),
        judge: |text| judged(share::parse_class(text)),
        example: "\"latency\"",
        meaning: "`--class`",
        ..PLAIN
    },
    Key {
        name: "run.oversubscribe",
        variable: Some(variables::OVERSUBSCRIBE),
        form: Form::Switch,
        example: "true",
        meaning: "`--oversubscribe`; `--oversubscribe=off` lifts it for one program",
        ..PLAIN
    },
    Key {
        name: "run.backend",
        variable: Some(variables::BACKEND),
        judge: values::backend,
        example: "\"vmm\"",
        meaning: "`--backend`, where memory may leave",
        ..PLAIN
    },
    Key {
        name: "daemon.root",
        variable: Some(variables::TENANT_ROOT),
        form: Form::Texts,
        judge: values::absolute,
        example: "[\"/srv/tenants\"]",
        meaning: "`--root`: whole paths",
        ..PLAIN
    },
    Key {
        name: "daemon.metrics",
        judge: |text| values::address(text).map(|_| ()),
        example: "\"127.0.0.1:19437\"",
        meaning: "`--metrics`; not of daemons that `divvy run` starts, of which a machine may have several",
        ..PLAIN
    },
    Key {
        name: "daemon.capacity",
        judge: values::size,
        example: "\"24GiB\"",
        meaning: "`--capacity`",
        ..PLAIN
    },
    Key {
        name: "daemon.managed-limit",
        judge: values::size,
        example: "\"24GiB\"",
        meaning: "`--managed-limit`",
        ..PLAIN
    },
    Key {
        name: "daemon.host-memory",
        judge: values::size,
        example: "\"200GiB\"",
        meaning: "`--host-memory`",
        ..PLAIN
    },
    Key {
        name: "daemon.floor",
        judge: |text| values::floor(text).map(|_| ()),
        example: "\"2%\"",
        meaning: "`--floor`",
        ..PLAIN
    },
    Key {
        name: "daemon.linger",
        form: Form::Number,
        judge: values::seconds,
        example: "60",
        meaning: "`--linger`, in seconds",
        ..PLAIN
    },
];

/// The key that is called `name`, one of [`KEYS`].
pub(super) fn find(name: &str) -> &'static Key {
    let known = KEYS.iter().find(|key| key.name == name);
    known.unwrap_or(&PLAIN)
}

/// A verdict in words.
fn judged<T>(read: Result<T, ShareError<'_>>) -> Result<(), String> {
    read.map(|_| ()).map_err(|error| error.to_string())
}
