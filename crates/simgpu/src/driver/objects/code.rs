//! Code that programs load: modules and their functions, libraries and their kernels, text to link.

use std::collections::HashMap;
use std::sync::Arc;

use super::launch::Body;
use crate::driver::ptx::{Image, PtxEntry};

/// A loaded module.
pub(crate) struct Module {
    pub(crate) context: u64,
    pub(crate) image: Arc<Image>,
    pub(crate) globals: HashMap<String, (u64, u64)>,
    pub(crate) functions: HashMap<String, u64>,
    /// Made by a library; cannot be unloaded by itself.
    pub(crate) of_library: u64,
}

/// A function of a module.
pub(crate) struct Function {
    pub(crate) context: u64,
    pub(crate) module: u64,
    pub(crate) entry: Arc<PtxEntry>,
    pub(crate) body: Option<Body>,
    pub(crate) max_dynamic_shared: i32,
    pub(crate) settings: HashMap<u32, i32>,
    pub(crate) name: std::ffi::CString,
    /// Block, shared bytes and parameters of the launches of CUDA 1.
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) buffer: Vec<u8>,
}

/// A library.
pub(crate) struct Library {
    pub(crate) image: Arc<Image>,
    /// The module that stands for it in each context that used it.
    pub(crate) loaded: HashMap<u64, u64>,
    pub(crate) kernels: HashMap<String, u64>,
}

/// A kernel of a library.
pub(crate) struct Kernel {
    pub(crate) library: u64,
    pub(crate) name: std::ffi::CString,
    pub(crate) entry: Arc<PtxEntry>,
    pub(crate) settings: HashMap<u32, i32>,
    pub(crate) max_dynamic_shared: i32,
}

/// Text being linked.
#[derive(Default)]
pub(crate) struct Link {
    pub(crate) text: Vec<u8>,
}
