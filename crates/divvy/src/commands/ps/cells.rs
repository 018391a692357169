//! Cells that the tables of `divvy ps` have in common.
//!
//! Pure.

use divvy_abi::config::Rule;

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

/// The index where it is known, else the beginning of the UUID, by which `divvy set` knows it too.
pub(super) fn gpu(index: Option<u32>, uuid: &str) -> String {
    index.map_or_else(|| limits::short(uuid), |index| index.to_string())
}
