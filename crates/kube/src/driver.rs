//! Name of the driver, in claims that are written, in slices that are published and at the kubelet.

/// The driver.
pub const DRIVER: &str = "gpu.divvy.dev";
