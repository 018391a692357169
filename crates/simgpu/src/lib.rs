//! The simulated NVIDIA driver: everything Divvy needs of a GPU, on a machine that has none.
//!
//! It has two halves, as the driver has. The client libraries (`libcuda.so.1`, `libnvidia-ml.so.1`)
//! live in each process; `simgpud`, one process per simulated machine, owns device memory, engines and
//! the list of processes. They meet in [`wire`]; [`client`] is the near end, [`machine`] the far one.
//! Every figure of the hardware is in [`calibration`].
//!
//! It knows nothing of the shim: the two meet only as shared objects in one process, as in production.

pub mod calibration;
pub mod client;
pub mod clock;
pub mod driver;
pub mod engine;
pub mod fault;
pub mod machine;
pub mod nvml;
pub mod partition;
pub mod sys;
pub mod unsimulated;
pub mod wire;
