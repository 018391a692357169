//! `bodies/rules.rs` under libFuzzer.
#![no_main]

#[path = "../bodies/rules.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|text: &str| body::run(text));
