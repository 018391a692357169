//! The exported functions: what the dynamic linker and `dlsym` give to a program.
//!
//! Each finds the driver's function of its own name, and calls either that or the hook. Made by the
//! build; a symbol is exported if and only if the table gives it an effect that needs a
//! hook. Costs two loads and two branches before the hook or the driver.

#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    clippy::multiple_unsafe_ops_per_block,
    reason = "generated: named as the driver's symbols, with their argument lists, whose pointers \
              share one promise"
)]

use super::pointer::{In, Opaque, Out};
use super::tables::{HOOKED, index};
use super::{absent, mode, real, resolve};
use crate::gate::submit;
use divvy_driver_api::nvml_types::*;
use divvy_driver_api::types::*;
use divvy_driver_api::{nvml_sig, sig};

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

unsafe extern "C" {
    /// Distances of the hooks from this table itself.
    static divvy_hook_offsets: [i32; HOOKED];
}

/// The address of hook `number`.
pub(super) fn address(number: usize) -> Option<usize> {
    // SAFETY: the table is ours, read-only and has `HOOKED` entries.
    let table = unsafe { &divvy_hook_offsets };
    let offset = isize::try_from(*table.get(number)?).ok()?;
    Some(table.as_ptr().addr().wrapping_add_signed(offset))
}

/// Whether a hook lies at `address`.
#[cold]
pub(super) fn has(address: usize) -> bool {
    (0..HOOKED).any(|number| self::address(number) == Some(address))
}
