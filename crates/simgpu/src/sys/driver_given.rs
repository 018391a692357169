//! Structures that a program passed, with what the pointers and unions in them mean.
//!
//! Promises: a [`Given`] is read from the program's memory and cannot be made or changed, so the
//! pointers in it are the program's, for as long as the call lasts, and every byte of a union in it was
//! written. Each member that is read here is plain data for which any bytes are a value.
//! Where another member of a union could be more than a wrong number, the field beside the union is asked
//! which one counts.
#![allow(unsafe_code, reason = "follows pointers in structures of C, and reads their unions")]

use super::descriptor::Handed;
use super::driver::{Answer, In, InArray, Out, Pass};
use super::driver_untyped::Arguments;
use core::marker::PhantomData;
use core::ops::Deref;
use divvy_driver_api::types::*;

/// A structure as the program passed it.
#[derive(Debug)]
pub struct Given<'a, T> {
    value: T,
    call: PhantomData<&'a T>,
}

impl<T> Deref for Given<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'a, T: Copy> In<'a, T> {
    /// Reads a structure; null is an invalid value.
    pub fn given(self) -> Answer<Given<'a, T>> {
        Ok(Given { value: self.get()?, call: PhantomData })
    }
}

impl<'a> Pass<Given<'a, CUmemLocation>> for CUmemLocation {
    unsafe fn pass(self) -> Given<'a, CUmemLocation> {
        Given { value: self, call: PhantomData }
    }
}

impl<'a, T: Copy> Out<'a, T> {
    /// Reads the structure that the call completes.
    pub fn given(self) -> Answer<Given<'a, T>> {
        self.input().given()
    }
}

impl<'a, T: Copy> InArray<'a, T> {
    /// Reads all structures; a null array of any is an invalid value.
    pub fn given(self) -> Answer<Vec<Given<'a, T>>> {
        (0..self.length()).map(|index| self.at(index).given()).collect()
    }
}

impl<'a, T> Given<'a, T> {
    /// A part of it.
    fn part<U>(&self, value: U) -> Given<'a, U> {
        Given { value, call: PhantomData }
    }
}

macro_rules! with_arguments {
    ($($params:ident: $extra:expr;)*) => {$(
        impl<'a> Given<'a, $params> {
            /// The arguments of the kernel that it names.
            pub fn arguments(&self) -> Arguments<'a> {
                let extra: fn(&$params) -> *mut *mut core::ffi::c_void = $extra;
                // SAFETY: the structure is the program's own, which keeps the conditions with it.
                unsafe { (self.kernelParams, extra(self)).pass() }
            }
        }
    )*};
}

with_arguments! {
    CUDA_KERNEL_NODE_PARAMS_v1: |params| params.extra;
    CUDA_KERNEL_NODE_PARAMS: |params| params.extra;
    CUDA_KERNEL_NODE_PARAMS_v3: |params| params.extra;
    CUDA_LAUNCH_PARAMS: |_| core::ptr::null_mut();
}

impl<'a> Given<'a, CUDA_BATCH_MEM_OP_NODE_PARAMS> {
    /// The operations of the batch.
    pub fn operations(&self) -> InArray<'a, CUstreamBatchMemOpParams> {
        // SAFETY: the structure is the program's own, which keeps the conditions with it.
        unsafe { (self.paramArray, self.count).pass() }
    }
}

macro_rules! with_location {
    ($($params:ident: $location:expr;)*) => {$(
        impl Given<'_, $params> {
            /// The id of the location that it names.
            pub fn location_id(&self) -> i32 {
                let location: fn(&$params) -> CUmemLocation = $location;
                // SAFETY: a plain integer.
                unsafe { location(self).__bindgen_anon_1.id }
            }
        }
    )*};
}

with_location! {
    CUmemLocation: |location| *location;
    CUmemAccessDesc: |description| description.location;
    CUmemAllocationProp: |properties| properties.location;
    CUmemPoolProps: |properties| properties.location;
    CUDA_MEM_ALLOC_NODE_PARAMS: |params| params.poolProps.location;
    CUDA_MEM_ALLOC_NODE_PARAMS_v2: |params| params.poolProps.location;
}

/// A location of a type and id.
pub fn location(type_: CUmemLocationType, id: i32) -> CUmemLocation {
    CUmemLocation { type_, __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id } }
}

impl Given<'_, CUdevResource> {
    /// How many multiprocessors a resource of the SM type holds.
    pub fn sm_count(&self) -> u32 {
        // SAFETY: plain integers.
        unsafe { self.__bindgen_anon_1.sm.smCount }
    }
}

/// The parameters of a node of the type that they name.
#[expect(missing_debug_implementations, reason = "nor have the generated structures")]
pub enum NodeParams<'a> {
    /// A kernel and its arguments.
    Kernel(Given<'a, CUDA_KERNEL_NODE_PARAMS_v3>),
    /// A copy.
    Copy(CUDA_MEMCPY_NODE_PARAMS),
    /// A fill.
    Fill(CUDA_MEMSET_NODE_PARAMS_v2),
    /// A function of the program's.
    Host(Given<'a, CUDA_HOST_NODE_PARAMS_v2>),
    /// A child graph.
    Child(CUgraph),
    /// Nothing.
    Empty,
    /// An event to wait for.
    Await(CUevent),
    /// An event to record.
    Record(CUevent),
    /// An allocation.
    Allocate(Given<'a, CUDA_MEM_ALLOC_NODE_PARAMS_v2>),
    /// An address to free.
    Free(CUdeviceptr),
    /// A value to look at, and bodies.
    Conditional(CUDA_CONDITIONAL_NODE_PARAMS),
    /// A type that is none of these.
    Other,
}

macro_rules! node_params {
    ($($type_:ident: $node:ident = $($member:ident).+ $(, $part:ident)?;)*) => {
        impl<'a> Given<'a, CUgraphNodeParams> {
            /// The member of the node's type.
            pub fn node(&self) -> NodeParams<'a> {
                match self.type_ {
                    $(CUgraphNodeType::$type_ => {
                        // SAFETY: plain data, and in a host node a nullable function: the member that the
                        // type says.
                        let member = unsafe { self.__bindgen_anon_1.$($member).+ };
                        $(let member = self.$part(member);)?
                        NodeParams::$node(member)
                    })*
                    CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY => NodeParams::Empty,
                    _ => NodeParams::Other,
                }
            }
        }
    };
}

node_params! {
    CU_GRAPH_NODE_TYPE_KERNEL: Kernel = kernel, part;
    CU_GRAPH_NODE_TYPE_MEMCPY: Copy = memcpy;
    CU_GRAPH_NODE_TYPE_MEMSET: Fill = memset;
    CU_GRAPH_NODE_TYPE_HOST: Host = host, part;
    CU_GRAPH_NODE_TYPE_GRAPH: Child = graph.graph;
    CU_GRAPH_NODE_TYPE_WAIT_EVENT: Await = eventWait.event;
    CU_GRAPH_NODE_TYPE_EVENT_RECORD: Record = eventRecord.event;
    CU_GRAPH_NODE_TYPE_MEM_ALLOC: Allocate = alloc, part;
    CU_GRAPH_NODE_TYPE_MEM_FREE: Free = free.dptr;
    CU_GRAPH_NODE_TYPE_CONDITIONAL: Conditional = conditional;
}

impl Given<'_, CUgraphNodeParams> {
    /// The same with the address that an allocation node got.
    pub fn with_alloc(&self, alloc: CUDA_MEM_ALLOC_NODE_PARAMS_v2) -> CUgraphNodeParams {
        let mut params = self.value;
        params.__bindgen_anon_1.alloc = alloc;
        params
    }

    /// The same with the bodies that a conditional node got.
    pub fn with_conditional(&self, conditional: CUDA_CONDITIONAL_NODE_PARAMS) -> CUgraphNodeParams {
        let mut params = self.value;
        params.__bindgen_anon_1.conditional = conditional;
        params
    }
}

impl Given<'_, CUstreamBatchMemOpParams> {
    /// The operation's kind, address, value (64 bits) and flags.
    pub fn operation(&self) -> (u32, u64, u64, u32) {
        // SAFETY: plain integers; wait and write share the layout operation, address, value, flags.
        let wait = unsafe { self.waitValue };
        // SAFETY: plain integers.
        let value = unsafe { wait.__bindgen_anon_1.value64 };
        (wait.operation.0, wait.address, value, wait.flags)
    }
}

impl Given<'_, CUstreamAttrValue> {
    /// The bytes of an attribute's value.
    pub fn bytes(&self) -> [core::ffi::c_char; 64] {
        // SAFETY: the member that spans the whole union, plain bytes.
        unsafe { self.pad }
    }
}

/// External memory that a program hands over with a call: not to be copied, as its descriptor is one.
#[expect(missing_debug_implementations, reason = "nor has the generated structure")]
pub struct ExternalMemory<'a>(In<'a, CUDA_EXTERNAL_MEMORY_HANDLE_DESC>);

impl<'a> Pass<ExternalMemory<'a>> for *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
    unsafe fn pass(self) -> ExternalMemory<'a> {
        // SAFETY: this function's own conditions.
        ExternalMemory(unsafe { self.pass() })
    }
}

impl<'a> ExternalMemory<'a> {
    /// Its description, and the descriptor of its handle; null is an invalid value, and no other handle
    /// is supported.
    pub fn read(self) -> Answer<(Given<'a, CUDA_EXTERNAL_MEMORY_HANDLE_DESC>, Handed)> {
        let given = self.0.given()?;
        if given.type_ != CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        // SAFETY: a plain integer.
        let number = unsafe { given.handle.fd };
        // SAFETY: a successful import takes the descriptor over, as its documentation says, and this value
        // of the one call goes with it.
        Ok((given, unsafe { Handed::new(number) }))
    }
}

impl Given<'_, CUarrayMapInfo> {
    /// The array a sparse mapping names, where in it (level, layer, offsets), and the memory; none for a
    /// mipmap or its tail.
    pub fn sparse_place(&self) -> Option<(CUarray, [u32; 5], u64)> {
        let is_level = CUarraySparseSubresourceType::CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
        if self.resourceType != CUresourcetype::CU_RESOURCE_TYPE_ARRAY
            || self.subresourceType != is_level
        {
            return None;
        }
        // SAFETY: a handle.
        let array = unsafe { self.resource.array };
        // SAFETY: plain integers.
        let level = unsafe { self.subresource.sparseLevel };
        // SAFETY: a plain integer.
        let handle = unsafe { self.memHandle.memHandle };
        let place = [level.level, level.layer, level.offsetX, level.offsetY, level.offsetZ];
        Some((array, place, handle))
    }
}
