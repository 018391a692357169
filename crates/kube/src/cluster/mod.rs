//! Cluster: what the agent asks of the API server.
//!
//! Promises: claims are got one by one, each when the kubelet names it; nothing lists or watches claims or pods.

mod claims;

pub use self::claims::{ClaimSource, KubeClaims, allocated};
