//! The daemon and its clients as real processes: life, death, memory and time.

mod lifecycle;
mod managed;
mod memory;
mod nvml;
mod support;
mod time;
