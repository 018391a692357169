//! Which implementation stands behind each exported symbol.
//!
//! An implementation is named as the symbol it stands behind, and lies in the file of its family; what
//! is not simulated is refused (`refused`). Promises: every entry point that driver 580 exports is here
//! exactly once, as the library does not compile with one that is missing or here twice. The forms for
//! per-thread default streams share the implementation of their base, which learns from its
//! [`Call`](super::call::Call) whose default stream is meant.

pub use super::array::*;
pub use super::capture_calls::*;
pub use super::conditional::*;
pub use super::context::*;
pub use super::context_calls::*;
pub use super::copy::*;
pub use super::device::*;
pub use super::error_text::*;
pub use super::event::*;
pub use super::exec::*;
pub use super::external::*;
pub use super::function::*;
pub use super::graph::*;
pub use super::graph_node::*;
pub use super::graph_query::*;
pub use super::green::*;
pub use super::ipc::*;
pub use super::launch::*;
pub use super::library::*;
pub use super::linker::*;
pub use super::managed_calls::*;
pub use super::memory::*;
pub use super::memset::*;
pub use super::module::*;
pub use super::multicast::*;
pub use super::pointer::*;
pub use super::pool_calls::*;
pub use super::proc_address::{cuGetExportTable, cuGetProcAddress, cuGetProcAddress_v2};
pub use super::refused::*;
pub use super::stream::*;
pub use super::vmm::*;
