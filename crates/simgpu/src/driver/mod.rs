//! The driver half that lives in each process: what `libcuda.so.1` does.
//!
//! Every exported symbol has an implementation in [`api`] or is named in [`NOT_SIMULATED`]; both are
//! checked when this is compiled. An implementation receives its [`call::Call`] (which symbol, whose
//! default stream) and typed arguments, and answers a `Result`; it is safe code. One lock guards the
//! state of a process (`state`); physical memory and time come from a [`machine`]; work runs in
//! one thread per stream (`queue`, `submit`, `worker`).
//!
//! Files use only what is below them: what an object is (`objects`), the tables of all of them
//! (`state`), what is done to them, and the calls on top.
//!
//! Not simulated, and refused as such: graphics interoperability, textures and surfaces, external
//! semaphores, checkpoints, core dumps, tensor maps, interprocess events.
#![allow(non_snake_case, reason = "implementations are named as the symbols they stand behind")]
#![allow(missing_docs, reason = "the driver's calls are documented by their vendor")]
#![allow(elided_lifetimes_in_paths, reason = "that of a call's pointers is always the call's")]

pub mod api;
pub mod call;
pub mod eviction;
pub mod machine;
pub mod proc_address;

mod array;
mod capture;
mod capture_calls;
mod conditional;
mod context;
mod context_calls;
mod copy;
mod device;
mod error;
mod error_text;
mod event;

mod exec;
mod external;
mod flat;
mod function;
mod graph;
mod graph_memory;
mod graph_node;
mod graph_query;
mod green;
mod host_clock;
mod host_memory;
mod ipc;
mod kernels;
mod launch;
mod library;
mod linker;
mod local;
mod managed;
mod managed_calls;
mod memory;
mod memset;
mod module;
mod multicast;
mod objects;
mod pointer;
mod pool;
mod pool_calls;
mod ptx;
mod queue;
mod refused;
mod remote;
mod space;
mod state;
mod stream;
mod submit;
mod table;
mod track;
mod transfer;
mod visible;
mod vmm;
mod worker;

#[cfg(test)]
mod tests;

pub use api::NOT_SIMULATED;
