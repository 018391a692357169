//! `bodies/share.rs` under libFuzzer.
#![no_main]

#[path = "../bodies/share.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|text: &str| body::run(text));
