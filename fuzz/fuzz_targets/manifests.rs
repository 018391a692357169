//! `bodies/manifests.rs` under libFuzzer.
#![no_main]

#[path = "../bodies/manifests.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
