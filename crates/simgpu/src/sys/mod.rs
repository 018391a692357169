//! All of simgpu's `unsafe`: the program's pointers and functions, memory mappings, the word a fork
//! wipes, descriptors a program names by number.
//!
//! Each module wraps one system facility in a type that is safe to use from outside.
#![allow(
    unsafe_code,
    reason = "mappings and raw descriptors have no safe form; everything else uses rustix's"
)]

pub mod descriptor;
pub mod driver;
pub mod driver_functions;
pub mod driver_given;
pub mod driver_process;
pub mod driver_untyped;
pub mod fork;
pub mod mapping;
pub mod nvml;
