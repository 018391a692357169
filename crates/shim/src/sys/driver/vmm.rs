//! Virtual memory management: addresses, physical memory, and what joins them; and copies of whole pieces.

use core::mem::MaybeUninit;

use divvy_driver_api::types::*;
use divvy_page::kernel::Descriptor;

use super::call::ask;
use super::event::{ctx_record_event, event_create, event_record};
use super::memory::mem_release;

/// Takes addresses of the device, a multiple of `align_bytes`.
pub(crate) fn address_reserve(bytes: u64, align_bytes: u64) -> Result<CUdeviceptr, CUresult> {
    let mut address = 0;
    ask!(cuMemAddressReserve(&mut address, bytes as usize, align_bytes as usize, 0, 0))?;
    Ok(address)
}

/// Gives addresses back, all that were taken at once.
pub(crate) fn address_free(address: CUdeviceptr, bytes: u64) -> Result<(), CUresult> {
    ask!(cuMemAddressFree(address, bytes as usize))
}

/// Kind of handle that is a descriptor.
const DESCRIPTOR: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Takes physical memory of a device, which reads as zeroes; a descriptor can be made of it if it `is_passed` on.
pub(crate) fn mem_create(
    device: CUdevice,
    bytes: u64,
    is_passed: bool,
) -> Result<CUmemGenericAllocationHandle, CUresult> {
    let mut place = MaybeUninit::<CUmemAllocationProp>::zeroed();
    // SAFETY: zeroes are a value of each of its members: numbers, and a pointer that is null.
    let properties = unsafe { place.assume_init_mut() };
    properties.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.__bindgen_anon_1.id = device;
    if is_passed {
        properties.requestedHandleTypes = DESCRIPTOR;
    }
    let mut handle = 0;
    ask!(cuMemCreate(&mut handle, bytes as usize, place.as_ptr(), 0))?;
    Ok(handle)
}

/// A descriptor of the memory that is mapped at `address`.
pub(crate) fn mem_export(address: CUdeviceptr) -> Result<Descriptor, CUresult> {
    let place = core::ptr::with_exposed_provenance_mut(address as usize);
    let (mut handle, mut number) = (0, -1_i32);
    ask!(cuMemRetainAllocationHandle(&mut handle, place))?;
    let exported =
        ask!(cuMemExportToShareableHandle((&raw mut number).cast(), handle, DESCRIPTOR, 0));
    mem_drop(0, 0, handle);
    exported?;
    // SAFETY: the driver has opened it for this call, for us alone.
    Ok(unsafe { Descriptor::of_answer(number.cast_unsigned() as usize) })
}

/// A handle of the memory that another process has exported as a descriptor.
pub(crate) fn mem_import(
    descriptor: &Descriptor,
) -> Result<CUmemGenericAllocationHandle, CUresult> {
    // It is passed as the pointer's value.
    let place = core::ptr::without_provenance_mut(descriptor.arg());
    let mut handle = 0;
    ask!(cuMemImportFromShareableHandle(&mut handle, place, DESCRIPTOR))?;
    Ok(handle)
}

/// Puts a handle's memory behind addresses.
pub(crate) fn mem_map(
    address: CUdeviceptr,
    bytes: u64,
    handle: CUmemGenericAllocationHandle,
) -> Result<(), CUresult> {
    ask!(cuMemMap(address, bytes as usize, 0, handle, 0))
}

/// Lets a device read and write what lies behind addresses.
pub(crate) fn mem_allow(
    address: CUdeviceptr,
    bytes: u64,
    device: CUdevice,
) -> Result<(), CUresult> {
    let mut place = MaybeUninit::<CUmemAccessDesc>::zeroed();
    // SAFETY: zeroes are a value of each of its members, which are numbers.
    let access = unsafe { place.assume_init_mut() };
    access.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.__bindgen_anon_1.id = device;
    access.flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ask!(cuMemSetAccess(address, bytes as usize, place.as_ptr(), 1))
}

/// Takes memory from behind addresses, whether or not work uses it.
pub(crate) fn mem_unmap(address: CUdeviceptr, bytes: u64) -> Result<(), CUresult> {
    ask!(cuMemUnmap(address, bytes as usize))
}

/// The same, again where that fails, and lets go of its handle where there is one: nobody is told.
#[inline(never)]
pub(crate) fn mem_drop(address: CUdeviceptr, bytes: u64, handle: CUmemGenericAllocationHandle) {
    if bytes != 0 {
        let _ = again(|| mem_unmap(address, bytes));
    }
    if handle != 0 {
        let _ = again(|| mem_release(handle));
    }
}

/// Lets the link reach memory of the host at its full speed, from all contexts.
pub(crate) fn host_register(address: usize, bytes: usize) -> Result<(), CUresult> {
    /// `CU_MEMHOSTREGISTER_PORTABLE`.
    const PORTABLE: u32 = 1;
    let place = core::ptr::with_exposed_provenance_mut(address);
    ask!(cuMemHostRegister_v2(place, bytes, PORTABLE))
}

/// Takes that back.
pub(crate) fn host_unregister(address: usize) -> Result<(), CUresult> {
    ask!(cuMemHostUnregister(core::ptr::with_exposed_provenance_mut(address)))
}

/// Copies device memory to the host, in the order of a stream. `to` stays until the stream has done it.
pub(crate) fn copy_out(
    to: usize,
    from: CUdeviceptr,
    bytes: u64,
    stream: CUstream,
) -> Result<(), CUresult> {
    let to = core::ptr::with_exposed_provenance_mut(to);
    ask!(cuMemcpyDtoHAsync_v2(to, from, bytes as usize, stream))
}

/// The other way.
pub(crate) fn copy_in(
    to: CUdeviceptr,
    from: usize,
    bytes: u64,
    stream: CUstream,
) -> Result<(), CUresult> {
    let from = core::ptr::with_exposed_provenance(from);
    ask!(cuMemcpyHtoDAsync_v2(to, from, bytes as usize, stream))
}

/// A stream of the current context that waits for no other.
pub(crate) fn stream_create() -> Result<CUstream, CUresult> {
    let mut stream = CUstream(core::ptr::null_mut());
    ask!(cuStreamCreate(&mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING.0))?;
    Ok(stream)
}

/// Takes it back.
pub(crate) fn stream_destroy(stream: CUstream) -> Result<(), CUresult> {
    ask!(cuStreamDestroy_v2(stream))
}

/// Waits until a stream has done all it was given.
pub(crate) fn stream_wait(stream: CUstream) -> Result<(), CUresult> {
    ask!(cuStreamSynchronize(stream))
}

/// Takes an event of the current context back.
pub(crate) fn event_destroy(event: CUevent) -> Result<(), CUresult> {
    ask!(cuEventDestroy_v2(event))
}

/// An event behind all work that `context`, which is current, and its `greens` have been given. It breaks captures of
/// theirs.
///
/// # Errors
/// The driver's: not found of one before 12.5.
pub(crate) fn event_behind(
    context: CUcontext,
    greens: impl Iterator<Item = u64>,
) -> Result<CUevent, CUresult> {
    let event = event_create()?;
    let recorded = ctx_record_event(context, event).and_then(|()| {
        // Of a stream that waits for all of them in turn.
        let mut stream = None;
        for green in greens {
            let on = stream.map_or_else(stream_create, Ok)?;
            if stream.replace(on).is_none() {
                stream_wait_event(on, event)?;
            }
            let green = CUgreenCtx(core::ptr::with_exposed_provenance_mut(green as usize));
            ask!(cuGreenCtxRecordEvent(green, event))?;
            stream_wait_event(on, event)?;
        }
        if let Some(stream) = stream {
            event_record(event, stream, false)?;
            stream_destroy(stream)?;
        }
        Ok(())
    });
    if let Err(code) = recorded {
        let _ = event_destroy(event);
        return Err(code);
    }
    Ok(event)
}

fn stream_wait_event(stream: CUstream, event: CUevent) -> Result<(), CUresult> {
    ask!(cuStreamWaitEvent(stream, event, 0))
}

/// Waits until the current context's work has ended, and with the primary one that of green contexts.
pub(crate) fn ctx_wait() -> Result<(), CUresult> {
    ask!(cuCtxSynchronize())
}

/// The same beside captures, which it leaves alone where the thread's mode is relaxed: the driver frees host memory once
/// no work can use it, green contexts' neither (measured, 580).
pub(crate) fn ctx_wait_beside_captures() -> Result<(), CUresult> {
    let mut page = core::ptr::null_mut();
    ask!(cuMemAllocHost_v2(&mut page, 1))?;
    ask!(cuMemFreeHost(page))
}

/// Runs `act` while `context` is current.
pub(crate) fn within<R>(
    context: CUcontext,
    act: impl FnOnce() -> Result<R, CUresult>,
) -> Result<R, CUresult> {
    push(context)?;
    let result = act();
    pop()?;
    result
}

#[inline(never)]
fn push(context: CUcontext) -> Result<(), CUresult> {
    ask!(cuCtxPushCurrent_v2(context))
}

/// The thread may be the program's, whose own context is to be current again.
#[inline(never)]
fn pop() -> Result<(), CUresult> {
    let mut popped = CUcontext(core::ptr::null_mut());
    again(|| ask!(cuCtxPopCurrent_v2(&mut popped)))
}

/// Attempts at a call that must not fail half-way.
const ATTEMPTS: usize = 3;

/// Makes a call again that failed.
pub(crate) fn again(mut call: impl FnMut() -> Result<(), CUresult>) -> Result<(), CUresult> {
    let mut result = call();
    for _ in 1..ATTEMPTS {
        if result.is_ok() {
            break;
        }
        result = call();
    }
    result
}
