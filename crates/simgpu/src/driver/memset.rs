//! Fills of device memory, in every width and order.

use core::ffi::{c_uchar, c_uint, c_ushort};

use divvy_driver_api::types::*;

use super::call::Call;
use super::copy::{default_stream, named};
use super::error::*;
use super::objects::task::{FillShape, Task};
use super::queue::is_all_idle;
use super::state::{State, is_null};
use super::stream::resolved;
use super::submit::{enqueue, run_now};
use crate::sys::driver::{Answer, Handle};

/// Checks that the driver knows the memory.
pub(crate) fn check(state: &State, shape: &FillShape) -> Answer {
    let element = u64::from(shape.element_bytes);
    let waits_for_graph = state.space.find(shape.at).is_none() && state.is_graph_memory(shape.at);
    if shape.width > 0 && shape.height > 0 && !waits_for_graph && !is_null() {
        let range = state.space.find(shape.at).ok_or(INVALID_VALUE)?;
        let row = shape.width.checked_mul(element).ok_or(INVALID_VALUE)?;
        let end = shape.at.checked_add(row).ok_or(INVALID_VALUE)?;
        let is_single = range.chunks.is_empty() && range.kind != super::space::Kind::Mapped;
        if !shape.at.is_multiple_of(element) || (is_single && end > range.end()) {
            return Err(INVALID_VALUE);
        }
    }
    Ok(())
}

/// A fill with elements of the value's size.
fn shape<V: Into<u32>>(at: u64, pitch: u64, value: V, width: u64, height: u64) -> FillShape {
    let element_bytes = size_of::<V>() as u32;
    FillShape { at, pitch, value: value.into(), element_bytes, width, height }
}

fn fill(call: Call, stream: Option<CUstream>, shape: FillShape) -> Answer {
    let stream = stream.unwrap_or_else(default_stream);
    let is_default = stream.key() == 0;
    let (driver, mut state, key) = resolved(call, stream)?;
    check(&state, &shape)?;
    // A fill that has the device to itself is over before anybody looks, as on the card.
    if is_default && state.captures.is_empty() && is_all_idle(&state) {
        return run_now(driver, state, key, Task::Fill(shape));
    }
    enqueue(driver, &mut state, key, Task::Fill(shape))
}

/// A call that fills a row, and one that fills rows with a pitch.
macro_rules! fills {
    ($($row:ident, $rows:ident: $at:ty, $value:ty, $count:ty $(, $stream:ident)?;)*) => {$(
        pub fn $row(
            call: Call,
            at: $at,
            value: $value,
            count: $count
            $(, $stream: CUstream)?
        ) -> Answer {
            fill(call, named!($($stream)?), shape(u64::from(at), 0, value, count as u64, 1))
        }

        pub fn $rows(
            call: Call,
            at: $at,
            pitch: $count,
            value: $value,
            width: $count,
            height: $count
            $(, $stream: CUstream)?
        ) -> Answer {
            let (pitch, width, height) = (pitch as u64, width as u64, height as u64);
            fill(call, named!($($stream)?), shape(u64::from(at), pitch, value, width, height))
        }
    )*};
}

fills! {
    cuMemsetD8, cuMemsetD2D8: CUdeviceptr_v1, c_uchar, c_uint;
    cuMemsetD8_v2, cuMemsetD2D8_v2: CUdeviceptr, c_uchar, usize;
    cuMemsetD8Async, cuMemsetD2D8Async: CUdeviceptr, c_uchar, usize, stream;
    cuMemsetD16, cuMemsetD2D16: CUdeviceptr_v1, c_ushort, c_uint;
    cuMemsetD16_v2, cuMemsetD2D16_v2: CUdeviceptr, c_ushort, usize;
    cuMemsetD16Async, cuMemsetD2D16Async: CUdeviceptr, c_ushort, usize, stream;
    cuMemsetD32, cuMemsetD2D32: CUdeviceptr_v1, c_uint, c_uint;
    cuMemsetD32_v2, cuMemsetD2D32_v2: CUdeviceptr, c_uint, usize;
    cuMemsetD32Async, cuMemsetD2D32Async: CUdeviceptr, c_uint, usize, stream;
}
