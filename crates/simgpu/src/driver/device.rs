//! Start, version, and what a device says about itself.
//!
//! Promises: attributes are the H200's as measured. Which devices a program sees says [`super::visible`].

use core::ffi::{c_char, c_int, c_uint};

use divvy_driver_api::types::*;

use super::call::Call;
use super::error::*;
use super::local::Local;
use super::machine::{DeviceInfo, Machine};
use super::objects::arena::GraphMemory;
use super::objects::context::{Context, Origin};
use super::objects::device::Device;
use super::objects::pool::Pool;
use super::state::{State, begin_free, driver, start};
use super::visible::choose;
use crate::partition::{Partition, multiprocessors};
use crate::sys::driver::{Answer, Out, OutArray, Text};
use crate::sys::driver_process::{Life, begin as begin_life, life};

/// Answer of `cuDriverGetVersion`: the CUDA version of driver 580.
pub(crate) const DRIVER_VERSION: i32 = 13000;

/// Number of the attribute that counts multiprocessors.
const MULTIPROCESSORS: u32 = 16;

/// Values of the attributes 1, 2, …, as an H200 under driver 580 gives them.
const ATTRIBUTES: [c_int; 147] = [
    1024,
    1024,
    1024,
    64,
    2_147_483_647,
    65_535,
    65_535,
    49_152,
    65_536,
    32,
    2_147_483_647,
    65_536,
    1_980_000,
    512,
    1,
    132,
    0,
    0,
    1,
    0,
    131_072,
    131_072,
    65_536,
    16_384,
    16_384,
    16_384,
    32_768,
    32_768,
    2048,
    512,
    1,
    1,
    0,
    6,
    0,
    3_201_000,
    6016,
    62_914_560,
    2048,
    3,
    1,
    32_768,
    2048,
    1,
    32_768,
    32_768,
    8192,
    8192,
    32_768,
    0,
    32,
    32_768,
    32_768,
    2046,
    32_768,
    131_072,
    65_536,
    16_384,
    16_384,
    16_384,
    32_768,
    2048,
    32_768,
    32_768,
    2048,
    32_768,
    32_768,
    2046,
    268_435_456,
    131_072,
    65_000,
    2_097_120,
    32_768,
    32_768,
    9,
    0,
    32_768,
    1,
    1,
    1,
    233_472,
    65_536,
    1,
    0,
    0,
    0,
    2,
    0,
    1,
    1,
    1,
    0,
    0,
    0,
    1,
    1,
    232_448,
    0,
    1,
    0,
    0,
    1,
    1,
    0,
    0,
    32,
    1,
    39_321_600,
    134_217_728,
    1,
    1024,
    1,
    1,
    1,
    1,
    1,
    1,
    100,
    9,
    1,
    1,
    1,
    1,
    1,
    1,
    4,
    1,
    1,
    1,
    0,
    -1,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    590_680_286,
    415_174_878,
    1,
    1,
    0,
    1,
    1,
    0,
    0,
];

pub fn cuInit(call: Call, flags: c_uint) -> Answer {
    match life() {
        Life::Ready => return if flags == 0 { Ok(()) } else { Err(INVALID_VALUE) },
        Life::Forked => return Err(NOT_INITIALIZED),
        Life::Ended => return Err(DEINITIALIZED),
        Life::New => {}
    }
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    let machine = machine()?;
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let order = std::env::var("CUDA_DEVICE_ORDER").ok();
    let chosen = choose(machine.devices(), visible.as_deref(), order.as_deref());
    if chosen.is_empty() {
        return Err(NO_DEVICE);
    }
    start(|| {
        let mut state = State::default();
        state.space.program = Some(call.program);
        for (index, machine_index) in chosen.into_iter().enumerate() {
            add_device(&mut state, index, machine_index, machine.devices()[machine_index].clone());
        }
        (machine, state)
    });
    begin_life();
    Ok(())
}

pub(crate) fn add_device(state: &mut State, index: usize, machine_index: usize, info: DeviceInfo) {
    let ordinal = i32::try_from(index).unwrap_or(i32::MAX);
    let primary = state.contexts.insert(Context::new(ordinal, Origin::Primary));
    let default_pool = state.pools.insert(Pool::new(ordinal, u64::MAX, true));
    state.devices.push(Device {
        info,
        machine_index,
        primary,
        primary_flags: 0,
        retained: 0,
        default_pool,
        pool: default_pool,
        graphs: GraphMemory::default(),
    });
}

fn machine() -> Answer<Box<dyn Machine>> {
    match std::env::var("SIMGPU_MODE").as_deref() {
        Ok("local") => Ok(Box::new(Local::from_environment())),
        _ => Ok(Box::new(super::remote::Remote::connect()?)),
    }
}

pub fn cuDriverGetVersion(_: Call, version: Out<c_int>) -> Answer {
    version.put(DRIVER_VERSION)
}

pub fn cuDeviceGetCount(_: Call, count: Out<c_int>) -> Answer {
    let (_, state) = begin_free()?;
    count.put(c_int::try_from(state.devices.len()).unwrap_or(c_int::MAX))
}

pub fn cuDeviceGet(_: Call, device: Out<CUdevice>, ordinal: c_int) -> Answer {
    let (_, state) = begin_free()?;
    device.check()?;
    state.device(ordinal)?;
    device.put(ordinal)
}

pub fn cuDeviceGetName(_: Call, name: OutArray<c_char>, length: c_int, device: CUdevice) -> Answer {
    let (_, state) = begin_free()?;
    if length < 0 {
        return Err(INVALID_VALUE);
    }
    name.put_text(&state.device(device)?.info.name)
}

fn put_uuid(out: Out<CUuuid>, uuid: [u8; 16]) -> Answer {
    out.put(CUuuid { bytes: uuid.map(|byte| c_char::from_ne_bytes([byte])) })
}

/// The card's UUID, of an instance too.
pub fn cuDeviceGetUuid(_: Call, uuid: Out<CUuuid>, device: CUdevice) -> Answer {
    let (driver, state) = begin_free()?;
    let info = &state.device(device)?.info;
    let card = match info.partition {
        Partition::Instance { card, .. } => driver.machine.devices().get(card as usize),
        _ => None,
    };
    put_uuid(uuid, card.unwrap_or(info).uuid)
}

/// The device's own UUID.
pub fn cuDeviceGetUuid_v2(_: Call, uuid: Out<CUuuid>, device: CUdevice) -> Answer {
    let (_, state) = begin_free()?;
    put_uuid(uuid, state.device(device)?.info.uuid)
}

pub fn cuDeviceTotalMem_v2(_: Call, bytes: Out<usize>, device: CUdevice) -> Answer {
    let (_, state) = begin_free()?;
    bytes.put(usize::try_from(state.device(device)?.info.total_bytes).unwrap_or(usize::MAX))
}

pub fn cuDeviceTotalMem(_: Call, bytes: Out<c_uint>, device: CUdevice) -> Answer {
    let (_, state) = begin_free()?;
    bytes.put(c_uint::try_from(state.device(device)?.info.total_bytes).unwrap_or(c_uint::MAX))
}

/// The value of an attribute number on a device.
pub(crate) fn attribute(info: &DeviceInfo, number: u32) -> Answer<c_int> {
    if let (MULTIPROCESSORS, Partition::Instance { slices, .. }) = (number, info.partition) {
        return Ok(multiprocessors(slices).and_then(|it| c_int::try_from(it).ok()).unwrap_or(0));
    }
    match number {
        13 => Ok(ATTRIBUTES[12] / 100 * c_int::try_from(info.speed_percent).unwrap_or(100)),
        33 => Ok(c_int::try_from(info.pci_bus).unwrap_or(0)),
        34 => Ok(c_int::try_from(info.pci_device).unwrap_or(0)),
        50 => Ok(c_int::try_from(info.pci_domain).unwrap_or(0)),
        number => (number as usize)
            .checked_sub(1)
            .and_then(|index| ATTRIBUTES.get(index).copied())
            .ok_or(INVALID_VALUE),
    }
}

pub fn cuDeviceGetAttribute(
    _: Call,
    value: Out<c_int>,
    attribute_id: CUdevice_attribute,
    device: CUdevice,
) -> Answer {
    let (_, state) = begin_free()?;
    value.check()?;
    let found = attribute(&state.device(device)?.info, attribute_id.0)?;
    value.put(found)
}

pub fn cuDeviceComputeCapability(
    _: Call,
    major: Out<c_int>,
    minor: Out<c_int>,
    device: CUdevice,
) -> Answer {
    let (_, state) = begin_free()?;
    state.device(device)?;
    major.put(9)?;
    minor.put(0)
}

pub fn cuDeviceGetProperties(_: Call, properties: Out<CUdevprop>, device: CUdevice) -> Answer {
    let (_, state) = begin_free()?;
    let info = &state.device(device)?.info;
    let number = |id| attribute(info, id).unwrap_or(0);
    properties.put(CUdevprop {
        maxThreadsPerBlock: number(1),
        maxThreadsDim: [number(2), number(3), number(4)],
        maxGridSize: [number(5), number(6), number(7)],
        sharedMemPerBlock: number(8),
        totalConstantMemory: number(9),
        SIMDWidth: number(10),
        memPitch: number(11),
        regsPerBlock: number(12),
        clockRate: number(13),
        textureAlign: number(14),
    })
}

fn pci_text(info: &DeviceInfo) -> String {
    format!("{:04X}:{:02X}:{:02X}.0", info.pci_domain, info.pci_bus, info.pci_device)
}

pub fn cuDeviceGetPCIBusId(
    _: Call,
    text: OutArray<c_char>,
    length: c_int,
    device: CUdevice,
) -> Answer {
    let (_, state) = begin_free()?;
    if length < 0 {
        return Err(INVALID_VALUE);
    }
    text.put_text(&pci_text(&state.device(device)?.info))
}

pub fn cuDeviceGetByPCIBusId(_: Call, device: Out<CUdevice>, text: Text) -> Answer {
    let (_, state) = begin_free()?;
    device.check()?;
    let wanted = text.read()?.to_uppercase();
    let same = |info: &DeviceInfo| {
        let full = pci_text(info);
        full == wanted || full.trim_end_matches(".0") == wanted || full[5..] == wanted
    };
    let index = state.devices.iter().position(|d| same(&d.info)).ok_or(INVALID_DEVICE)?;
    device.put(c_int::try_from(index).unwrap_or(c_int::MAX))
}

pub fn cuDeviceGetTexture1DLinearMaxWidth(
    _: Call,
    elements: Out<usize>,
    _format: CUarray_format,
    _channels: c_uint,
    device: CUdevice,
) -> Answer {
    let (_, state) = begin_free()?;
    state.device(device)?;
    elements.put(1 << 28)
}

pub fn cuDeviceGetExecAffinitySupport(
    _: Call,
    supported: Out<c_int>,
    _kind: CUexecAffinityType,
    device: CUdevice,
) -> Answer {
    let (_, state) = begin_free()?;
    state.device(device)?;
    supported.put(0)
}

pub fn cuDeviceCanAccessPeer(_: Call, can: Out<c_int>, device: CUdevice, peer: CUdevice) -> Answer {
    let (_, state) = begin_free()?;
    state.device(device)?;
    state.device(peer)?;
    can.put(c_int::from(device != peer))
}

pub fn cuDeviceGetP2PAttribute(
    _: Call,
    value: Out<c_int>,
    attribute_id: CUdevice_P2PAttribute,
    from: CUdevice,
    to: CUdevice,
) -> Answer {
    let (_, state) = begin_free()?;
    state.device(from)?;
    state.device(to)?;
    if from == to {
        return Err(INVALID_DEVICE);
    }
    value.put(c_int::from(attribute_id.0 != 1))
}

pub fn cuDeviceGetLuid(_: Call, _: Out<c_char>, _: Out<c_uint>, _: CUdevice) -> Answer {
    driver()?;
    // As the driver on Linux.
    Err(NOT_SUPPORTED)
}

pub fn cuFlushGPUDirectRDMAWrites(
    _: Call,
    _: CUflushGPUDirectRDMAWritesTarget,
    _: CUflushGPUDirectRDMAWritesScope,
) -> Answer {
    super::state::begin().map(|_| ())
}

pub fn cuProfilerStart(_: Call) -> Answer {
    super::state::begin().map(|_| ())
}

pub fn cuProfilerStop(_: Call) -> Answer {
    super::state::begin().map(|_| ())
}
