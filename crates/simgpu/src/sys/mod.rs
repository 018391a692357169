//! All of simgpu's `unsafe`: memory mappings, the word a fork wipes, descriptors a program names by
//! number.
//!
//! Each module wraps one system facility in a type that is safe to use from outside.
#![allow(
    unsafe_code,
    reason = "mappings and raw descriptors have no safe form; everything else uses rustix's"
)]

pub mod descriptor;
pub mod driver;
pub mod driver_bytes;
pub mod driver_process;
pub mod driver_unions;
pub mod fork;
pub mod mapping;
