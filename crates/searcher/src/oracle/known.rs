//! A row that is known to miss its goal: its name, by how much, whether always, and why.
//!
//! Promises: a name is matched letter by letter. Does not list them: the table is in [`super`].

/// A row that is known to miss its goal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Known {
    /// Its name; `*` is any text, `?` any letter.
    pub(crate) row: &'static str,
    /// By how much it may miss what is due: above it, or below where this is negative.
    pub(crate) points: f64,
    /// It does so in every run, not now and then.
    pub(crate) is_always: bool,
    pub(crate) cause: &'static str,
}

/// One that misses it in every run.
pub(super) const fn always(row: &'static str, points: f64, cause: &'static str) -> Known {
    Known { row, points, is_always: true, cause }
}

/// One that does now and then, as what is changed elsewhere falls.
pub(super) const fn at_times(row: &'static str, points: f64, cause: &'static str) -> Known {
    Known { row, points, is_always: false, cause }
}

impl Known {
    /// Whether it is that row's.
    pub(crate) fn names(&self, row: &str) -> bool {
        is_like(self.row.as_bytes(), row.as_bytes())
    }

    /// Whether it may be so far off.
    pub(crate) fn allows(&self, due: f64, reached: f64) -> bool {
        (0.0..=1.0).contains(&((reached - due) / self.points))
    }
}

/// Whether a name is of that form.
fn is_like(form: &[u8], name: &[u8]) -> bool {
    match (form.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), None) => is_like(rest, name),
        (Some((b'*', rest)), Some((_, less))) => is_like(rest, name) || is_like(form, less),
        (Some((b'?', rest)), Some((_, less))) => is_like(rest, less),
        (Some((one, rest)), Some((other, less))) => one == other && is_like(rest, less),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_of_names() {
        let is_of = |form, name: &str| always(form, 1.0, "").names(name);
        assert!(is_of("a * of ?0", "a b c of 20") && is_of("*", "") && is_of("a*", "a"));
        assert!(!is_of("a * of ?0", "a b of 0") && !is_of("a", "ab") && !is_of("ab", "a"));
    }

    #[test]
    fn a_miss_is_to_one_side_and_so_far() {
        let allows = |points, reached| always("", points, "").allows(40.0, reached);
        assert!(allows(1.5, 41.5) && !allows(1.5, 41.6) && !allows(1.5, 39.9));
        assert!(allows(-1.5, 38.5) && !allows(-1.5, 38.4) && !allows(-1.5, 40.1));
    }
}
