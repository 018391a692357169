//! `bodies/size.rs` under libFuzzer.
#![no_main]

#[path = "../bodies/size.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|text: &str| body::run(text));
