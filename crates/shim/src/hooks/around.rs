//! Hooks that are one expression around the driver's call.
//!
//! Made by the build from `around.txt`, where the expressions stand and why they are so; each is a function as the other
//! hooks' are, and so are the promises. Holds no hook of several steps.

use divvy_driver_api::nvml_types::*;
use divvy_driver_api::types::*;
use divvy_policy::gate::Waited;

use crate::account::{
    allocation, answers, array, block, context, graph, holdings, image, ipc, library, listing,
    module, multicast, nodes, own, pool, primary, stream, vmm,
};
use crate::gate::copies;
use crate::gate::submit::{self, NULL_STREAM, kernel_key, volume, work};
use crate::residence::{peer_access, state};
use crate::sys::image::Image;
use crate::sys::{In, Opaque, Out, OutArray, driver, real};

include!(concat!(env!("OUT_DIR"), "/around.rs"));
