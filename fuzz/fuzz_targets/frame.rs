//! `bodies/frame.rs` under libFuzzer.
#![no_main]

#[path = "../bodies/frame.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
