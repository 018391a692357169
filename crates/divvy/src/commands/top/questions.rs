//! Questions before a change, and answers of what has changed.
//!
//! Pure.

use super::cells::gpu_name;
use super::model::TenantRow;
use crate::output::sizes;
use crate::tenants::limits;
use crate::wire::LimitChange;

/// Line that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Compute,
    Memory,
    Weight,
}

impl Field {
    /// The change to `words`.
    pub(super) fn change(self, words: String) -> LimitChange {
        match self {
            Self::Compute => LimitChange { compute: vec![words], ..LimitChange::default() },
            Self::Memory => LimitChange { memory: vec![words], ..LimitChange::default() },
            Self::Weight => LimitChange { weight: Some(words), ..LimitChange::default() },
        }
    }

    /// Words that ask the user to write something.
    pub(super) fn prompt(self) -> &'static str {
        match self {
            Self::Compute => "cap (30%, 0 for none, or default)",
            Self::Memory => "memory limit (8GiB, 50%, 0 for none, or default)",
            Self::Weight => "weight (1 is one part, or default)",
        }
    }
}

/// Limits of a tenant on one device, before a change or after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LimitsHeld {
    pub(super) share_ppm: Option<u32>,
    pub(super) limit_bytes: Option<u64>,
    pub(super) weight: u32,
    pub(super) paused: bool,
}

impl LimitsHeld {
    pub(super) fn of(row: &TenantRow) -> Self {
        Self {
            share_ppm: row.share_ppm,
            limit_bytes: row.limit_bytes,
            weight: row.weight,
            paused: row.paused,
        }
    }

    /// Differences to `before`, in words.
    fn changes(&self, before: &Self) -> Vec<String> {
        let mut words = Vec::new();
        if self.share_ppm != before.share_ppm {
            words.push(format!("cap {} -> {}", cap(before.share_ppm), cap(self.share_ppm)));
        }
        if self.limit_bytes != before.limit_bytes {
            let [from, to] = [before.limit_bytes, self.limit_bytes].map(memory);
            words.push(format!("memory limit {from} -> {to}"));
        }
        if self.weight != before.weight {
            words.push(format!("weight {} -> {}", weight(before.weight), weight(self.weight)));
        }
        if self.paused != before.paused {
            words.push(if self.paused { "paused" } else { "resumed" }.to_owned());
        }
        words
    }
}

/// Answer that says what a change of the row's tenant came to on its device.
pub(super) fn told(row: &TenantRow, now: &LimitsHeld, notes: &[String]) -> String {
    let changes = now.changes(&LimitsHeld::of(row));
    let words = match changes.as_slice() {
        [] => "unchanged".to_owned(),
        changes => changes.join(", "),
    };
    let all = [format!("{}: {words}", named(row))];
    all.iter().chain(notes).map(String::as_str).collect::<Vec<_>>().join("; ")
}

/// Question about a limit that was written.
pub(super) fn of_field(row: &TenantRow, field: Field, text: &str) -> String {
    let (what, before) = match field {
        Field::Compute => ("cap", cap(row.share_ppm)),
        Field::Memory => ("memory limit", memory(row.limit_bytes)),
        Field::Weight => ("weight", weight(row.weight)),
    };
    match text.contains('=') {
        true => format!("{}: {what} {text}", row.tenant),
        false => format!(
            "{}: {what} {before} -> {}",
            named(row),
            if text == "0" { "none" } else { text }
        ),
    }
}

/// Question about stopping a tenant.
pub(super) fn of_pause(row: &TenantRow) -> String {
    let many = match row.processes {
        1 => "its process submits".to_owned(),
        count => format!("its {count} processes submit"),
    };
    format!("{}: pause; {many} nothing until p resumes it", row.tenant)
}

/// Answer to a step that changes nothing.
pub(super) fn of_no_step(row: &TenantRow) -> String {
    match row.share_ppm {
        None => format!("{}: unchanged, already without a cap", named(row)),
        Some(ppm) => {
            let cap = limits::percent(u64::from(ppm));
            format!("{}: unchanged, {cap} is as far as this key goes; e writes another", named(row))
        }
    }
}

fn named(row: &TenantRow) -> String {
    format!("{} on GPU {}", row.tenant, gpu_name(row.index, &row.gpu))
}

fn cap(ppm: Option<u32>) -> String {
    ppm.map_or_else(|| "none".to_owned(), |ppm| limits::percent(u64::from(ppm)))
}

fn memory(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "none".to_owned(), sizes::text)
}

fn weight(weight: u32) -> String {
    if weight == 0 { "default".to_owned() } else { weight.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> TenantRow {
        TenantRow {
            tenant: "train".to_owned(),
            index: Some(0),
            processes: 2,
            share_ppm: Some(300_000),
            ..TenantRow::default()
        }
    }

    #[test]
    fn an_answer_names_what_is_different() {
        let row = row();
        let mut now = LimitsHeld::of(&row);
        let nothing = "train on GPU 0: unchanged";
        assert_eq!(told(&row, &now, &[]), nothing);
        now.share_ppm = Some(350_000);
        now.paused = true;
        let both = "train on GPU 0: cap 30% -> 35%, paused; a note";
        assert_eq!(told(&row, &now, &["a note".to_owned()]), both);
        let other = LimitsHeld { limit_bytes: Some(8 << 30), weight: 3, ..LimitsHeld::default() };
        let words =
            "train on GPU 0: cap 30% -> none, memory limit none -> 8 GiB, weight default -> 3";
        assert_eq!(told(&row, &other, &[]), words);
    }

    #[test]
    fn a_question_names_what_would_change() {
        let row = row();
        assert_eq!(of_field(&row, Field::Compute, "12%"), "train on GPU 0: cap 30% -> 12%");
        assert_eq!(of_field(&row, Field::Memory, "1=8GiB"), "train: memory limit 1=8GiB");
        assert_eq!(of_field(&row, Field::Weight, "5"), "train on GPU 0: weight default -> 5");
        let pause = "train: pause; its 2 processes submit nothing until p resumes it";
        assert_eq!(of_pause(&row), pause);
    }
}
