//! The driver's own functions, as hooks call them.
//!
//! One type per hooked entry point, made by the build from the table. A value stands for exactly the
//! function behind the symbol that the program called, its default-stream variant included.
//!
//! Their `call` is safe, though a driver believes its callers. Pointers are of types that cannot be misused
//! ([`super::pointer`]); for the rest a hook keeps a contract that no type holds:
//! 1. Handles, addresses of the device, sizes and counts are those of the program's call under way, each in its place.
//! 2. A count in a place of the program's, by which the driver measures an array, is written after the call alone.
//!
//! So the driver does with them what it would without this library.

#![expect(
    dead_code,
    reason = "generated: types of symbols without a hook of their own, and variants nobody asks about"
)]
#![allow(
    non_camel_case_types,
    non_snake_case,
    unused_lifetimes,
    missing_debug_implementations,
    clippy::too_many_arguments,
    reason = "generated: named as the driver's symbols, with their argument lists"
)]

use super::attribute::{OutAttribute, OutAttributes};
use super::image::Image;
use super::layout::List;
use super::pointer::{In, Opaque, Out, OutArray, OutFunction, OutHandle};
use divvy_driver_api::nvml_types::*;
use divvy_driver_api::types::*;
use divvy_driver_api::{nvml_sig, sig};

include!(concat!(env!("OUT_DIR"), "/real.rs"));
