//! Cells that the tables of `divvy ps` have in common.
//!
//! Pure. Colours are those of `divvy top`: memory near its limit, beyond it, and what was refused.

use divvy_abi::config::Rule;

use crate::output::options::Meaning;
use crate::tenants::ledger::LedgerTenant;
use crate::tenants::limits;

/// The limits of a tenant that has not called the driver yet, and so has no device: what is in the columns
/// of the device and of the limit.
pub(super) fn before_use(tenant: &LedgerTenant, rules: &[Rule]) -> Vec<(String, String)> {
    match (tenant.devices.as_slice(), rules) {
        ([], []) => vec![("-".to_owned(), "-".to_owned())],
        ([], rules) => rules.iter().map(limits::cells).collect(),
        _ => Vec::new(),
    }
}

/// Memory is near its limit from here, in hundredths.
const NEARLY_FULL_PERCENT: u64 = 90;

/// Meaning of what is held, beside its limit.
pub(super) fn fullness(held_bytes: u64, limit_bytes: Option<u64>) -> Option<Meaning> {
    let limit = limit_bytes?;
    if held_bytes > limit {
        return Some(Meaning::Bad);
    }
    let is_near = held_bytes > 0 && held_bytes / NEARLY_FULL_PERCENT >= limit / 100;
    is_near.then_some(Meaning::Noted)
}

/// Meaning of a number of refusals.
pub(super) fn refused(count: u64) -> Option<Meaning> {
    (count > 0).then_some(Meaning::Noted)
}

/// The index where it is known, else the beginning of the UUID, by which `divvy set` knows it too.
pub(super) fn gpu(index: Option<u32>, uuid: &str) -> String {
    index.map_or_else(|| limits::short(uuid), |index| index.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_the_colour_of_its_place_below_the_limit() {
        let (limit, near) = (8_u64 << 30, 8 << 30);
        assert_eq!(fullness(limit + 1, Some(limit)), Some(Meaning::Bad));
        assert_eq!(fullness(near, Some(limit)), Some(Meaning::Noted));
        assert_eq!(fullness(7 << 30, Some(limit)), None);
        assert_eq!((fullness(0, Some(0)), fullness(limit, None)), (None, None));
        assert_eq!((refused(0), refused(1)), (None, Some(Meaning::Noted)));
    }
}
