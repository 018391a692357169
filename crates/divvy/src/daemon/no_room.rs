//! Words for people about a tenant that has no room for what it holds: how much room there is, and which tenants have the rest.
//!
//! Promises: names the largest holders of memory that cannot leave, and memory of no tenant. Does not decide.

use std::fmt::Write as _;

use crate::output::sizes;

/// The library's code for it, which refuses the program's calls in the end.
pub(super) const CODE: &str = "DV214";

/// Holders that are named.
const NAMED: usize = 4;

/// Memory of one tenant that no order takes off a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unmoved {
    /// The tenant's name.
    pub(super) name: String,
    /// Its contexts, pools, handles and plain memory.
    pub(super) fixed_bytes: u64,
    /// Memory that it was told to let go, and has not.
    pub(super) kept_bytes: u64,
}

/// Says why `needed_bytes` have no room among `room_bytes`.
pub(super) fn text(
    needed_bytes: u64,
    room_bytes: u64,
    mut unmoved: Vec<Unmoved>,
    foreign_bytes: u64,
) -> String {
    let [needed, room] = [needed_bytes, room_bytes].map(sizes::text);
    let mut text = format!("{needed} must be on the card, and there is room for {room}");
    unmoved.retain(|one| one.fixed_bytes != 0 || one.kept_bytes != 0);
    unmoved.sort_by(|one, other| {
        let bytes = |one: &Unmoved| one.fixed_bytes.saturating_add(one.kept_bytes);
        bytes(other).cmp(&bytes(one)).then_with(|| one.name.cmp(&other.name))
    });
    let mut parts = Vec::new();
    for one in unmoved.iter().take(NAMED) {
        let fixed = (one.fixed_bytes > 0)
            .then(|| format!("{} that cannot move", sizes::text(one.fixed_bytes)));
        let kept = (one.kept_bytes > 0)
            .then(|| format!("{} that it does not let go", sizes::text(one.kept_bytes)));
        let words: Vec<_> = [fixed, kept].into_iter().flatten().collect();
        parts.push(format!("{} has {}", one.name, words.join(" and ")));
    }
    if unmoved.len() > NAMED {
        parts.push(format!("{} others have more", unmoved.len() - NAMED));
    }
    if foreign_bytes > 0 {
        parts.push(format!("{} are no tenant's", sizes::text(foreign_bytes)));
    }
    if !parts.is_empty() {
        let _ = write!(text, ": {}", parts.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_named_the_largest_first() {
        let one = |name: &str, fixed_mib: u64, kept_mib: u64| Unmoved {
            name: name.to_owned(),
            fixed_bytes: fixed_mib << 20,
            kept_bytes: kept_mib << 20,
        };
        let unmoved = vec![one("a", 518, 0), one("none", 0, 0), one("b", 518, 64)];
        assert_eq!(
            text(1216 << 20, 900 << 20, unmoved, 34 << 20),
            "1.19 GiB must be on the card, and there is room for 900 MiB: b has 518 MiB that cannot move and 64 MiB that it \
             does not let go, a has 518 MiB that cannot move, 34 MiB are no tenant's"
        );
        let many = (0..6).map(|at| one(&at.to_string(), 1, 0)).collect();
        assert!(text(2 << 20, 1 << 20, many, 0).ends_with("2 others have more"));
        assert!(!text(2, 1, Vec::new(), 0).contains(':'));
    }
}
