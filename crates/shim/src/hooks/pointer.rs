//! Questions about pointers into memory that may leave the card: they are answered as for a block that the driver made.
//!
//! Such a block lies in a piece of memory that it may share with others, of which the driver tells. What is asked of
//! other pointers is the driver's to say. A question waits until the memory is on the card: the driver knows
//! nothing of what is away.

use core::ffi::c_uint;

use divvy_driver_api::types::{CUdeviceptr, CUpointer_attribute as Attribute, CUresult};

use crate::account::{block::context_of, ipc};
use crate::residence::backed::{Block, block, is_ours, whole};
use crate::residence::state;
use crate::sys::attribute::{OutAttribute, OutAttributes};
use crate::sys::driver::SUCCESS;
use crate::sys::{Out, real};

/// The driver's answer to a question for the block around an address at which none lies, and for an attribute of it.
const NOT_FOUND: CUresult = CUresult::CUDA_ERROR_NOT_FOUND;
const UNKNOWN: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
/// An address of no memory: no system maps its first page for programs.
const NOBODYS: CUdeviceptr = 8;

/// Start and size of the block that a pointer leads into.
pub(crate) fn cuMemGetAddressRange_v2(
    real: real::cuMemGetAddressRange_v2,
    base: Out<'_, CUdeviceptr>,
    bytes: Out<'_, usize>,
    pointer: CUdeviceptr,
) -> CUresult {
    let Some(found) = block(pointer) else {
        return if is_ours(pointer) { NOT_FOUND } else { real.call(base, bytes, pointer) };
    };
    base.set(found.base);
    bytes.set(usize::try_from(found.bytes).unwrap_or(usize::MAX));
    SUCCESS
}

/// One attribute.
pub(crate) fn cuPointerGetAttribute(
    real: real::cuPointerGetAttribute,
    data: OutAttribute<'_>,
    attribute: Attribute,
    pointer: CUdeviceptr,
) -> CUresult {
    let Some(found) = block(pointer) else {
        return if is_ours(pointer) { UNKNOWN } else { real.call(data, attribute, pointer) };
    };
    // The driver's own blocks are not for the host.
    if attribute == Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER {
        return UNKNOWN;
    }
    let _inside = state::enter();
    let result = real.call(data, attribute, pointer);
    if result == SUCCESS {
        correct(data, found);
    }
    result
}

/// Several attributes.
pub(crate) fn cuPointerGetAttributes(
    real: real::cuPointerGetAttributes,
    count: c_uint,
    attributes: Out<'_, Attribute>,
    data: &OutAttributes<'_>,
    pointer: CUdeviceptr,
) -> CUresult {
    let Some(found) = block(pointer) else {
        // Where no block lies it is what the driver says of an address that nothing has.
        let asked = if is_ours(pointer) { NOBODYS } else { pointer };
        return real.call(count, attributes, data, asked);
    };
    let _inside = state::enter();
    let result = real.call(count, attributes, data, pointer);
    if result == SUCCESS {
        data.for_each(|place| correct(place, found));
    }
    result
}

/// Writes over what the driver says of the memory behind a block.
fn correct(place: OutAttribute<'_>, of: Block) {
    match place.which() {
        Attribute::CU_POINTER_ATTRIBUTE_CONTEXT => {
            if let Some(context) = context_of(of.base).or_else(|| ipc::context_of(of.base)) {
                place.set_word(context);
            }
        }
        Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID => place.set_word(of.number),
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR => place.set_word(of.base),
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE => place.set_word(of.bytes),
        // Of memory that the driver manages it says what a program must not see.
        Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER => place.set_word(0),
        Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED => place.set_truth(false),
        // By us, where the driver could not.
        Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => {
            place.set_truth(whole(of.base).is_some());
        }
        _ => {}
    }
}
