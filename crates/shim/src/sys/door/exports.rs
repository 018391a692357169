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

use crate::gate::submit;
use crate::residence::state;
use crate::sys::attribute::{OutAttribute, OutAttributes};
use crate::sys::image::Image;
use crate::sys::layout::List;
use crate::sys::pointer::{In, Opaque, Out, OutArray, OutFunction, OutHandle};
use crate::sys::tables::index;
use crate::sys::{absent, mode, real, resolve};
use divvy_driver_api::nvml_types::*;
use divvy_driver_api::types::*;
use divvy_driver_api::{nvml_sig, sig};

include!(concat!(env!("OUT_DIR"), "/exports.rs"));
