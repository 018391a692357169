//! The end-to-end tests: the library as shipped, a simulated driver, real processes.
//!
//! Each module is one topic, each test is named after what it proves. Clients are C programs that
//! know nothing of Divvy; see `clients/`. `coverage.rs` says which test proves which hook.

mod harness;

mod blocks;
mod pools;
mod vmm;
