//! `bodies/cluster.rs` under libFuzzer.
#![no_main]

#[path = "../bodies/cluster.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
