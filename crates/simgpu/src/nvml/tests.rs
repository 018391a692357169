//! The library against a machine of null mode, through what its exports call.

use super::*;
use crate::client::Client;
use crate::sys::driver::{Out, OutArray, Text};
use divvy_driver_api::nvml_types::*;
use std::ffi::{CString, c_char};

/// A library with a client on the described machine.
fn connected(settings: &'static [(&str, &str)]) -> Library {
    let lookup = |name: &str| {
        let all = settings.iter().chain(&[("SIMGPU_MODE", "null")]);
        all.into_iter().find(|(known, _)| *known == name).map(|(_, value)| String::from(*value))
    };
    let client = Client::connect_with(&lookup).unwrap();
    Library::with_client(client)
}

fn text(of: impl Fn(OutArray<c_char>, u32) -> nvmlReturn_t) -> String {
    let mut buffer = [0; 96];
    assert_eq!(of(OutArray::to(&mut buffer), 96).0, 0);
    let bytes: Vec<u8> =
        buffer.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn nothing_answers_before_initialisation_and_after_shutdown() {
    let library = Library::new();
    let mut count = 9;
    assert_eq!(surface::nvmlDeviceGetCount_v2(&library, Out::to(&mut count)).0, 1);
    assert_eq!(surface::nvmlShutdown(&library).0, 1);
    let library = connected(&[]);
    assert_eq!(surface::nvmlDeviceGetCount_v2(&library, Out::to(&mut count)).0, 0);
    assert_eq!(count, 1);
    assert_eq!(surface::nvmlShutdown(&library).0, 0);
    assert_eq!(surface::nvmlDeviceGetCount_v2(&library, Out::to(&mut count)).0, 1);
}

#[test]
fn a_device_is_found_by_each_of_its_names() {
    let library = connected(&[("SIMGPU_DEVICES", "3")]);
    let mut second = std::ptr::null_mut();
    assert_eq!(surface::nvmlDeviceGetHandleByIndex_v2(&library, 1, Out::to(&mut second)).0, 0);
    assert_eq!(surface::nvmlDeviceGetHandleByIndex_v2(&library, 3, Out::to(&mut second)).0, 2);
    let uuid =
        CString::new(text(|at, n| surface::nvmlDeviceGetUUID(&library, second, at, n))).unwrap();
    assert_eq!(uuid.as_bytes().len(), 40);
    let mut found = std::ptr::null_mut();
    assert_eq!(
        surface::nvmlDeviceGetHandleByUUID(&library, Text::of(&uuid), Out::to(&mut found)).0,
        0
    );
    assert_eq!(found, second);
    for bus in [c"00000000:00:07.0", c"0000:00:07.0", c"00:07"] {
        found = std::ptr::null_mut();
        assert_eq!(
            surface::nvmlDeviceGetHandleByPciBusId_v2(&library, Text::of(bus), Out::to(&mut found))
                .0,
            0
        );
        assert_eq!(found, second, "{bus:?}");
    }
    assert_eq!(
        surface::nvmlDeviceGetHandleByUUID(&library, Text::of(c"GPU-0"), Out::to(&mut found)).0,
        6
    );
    assert_eq!(
        surface::nvmlDeviceGetHandleByUUID(&library, Text::null(), Out::to(&mut found)).0,
        2
    );
}

#[test]
fn a_name_needs_room_and_a_handle_must_be_one() {
    let library = connected(&[]);
    let mut device = std::ptr::null_mut();
    assert_eq!(surface::nvmlDeviceGetHandleByIndex(&library, 0, Out::to(&mut device)).0, 0);
    assert_eq!(text(|at, n| surface::nvmlDeviceGetName(&library, device, at, n)), "NVIDIA H200");
    let mut short = [0; 3];
    assert_eq!(surface::nvmlDeviceGetName(&library, device, OutArray::to(&mut short), 3).0, 7);
    assert_eq!(
        surface::nvmlDeviceGetName(&library, std::ptr::null_mut(), OutArray::to(&mut short), 3).0,
        2
    );
    assert_eq!(surface::nvmlDeviceGetName(&library, device, OutArray::null(), 64).0, 2);
}

#[test]
fn memory_tells_one_story_in_both_versions() {
    let library = connected(&[]);
    let mut device = std::ptr::null_mut();
    assert_eq!(surface::nvmlDeviceGetHandleByIndex(&library, 0, Out::to(&mut device)).0, 0);
    let mut one = nvmlMemory_t { total: 0, free: 0, used: 0 };
    assert_eq!(surface::nvmlDeviceGetMemoryInfo(&library, device, Out::to(&mut one)).0, 0);
    // As read from an idle H200.
    assert_eq!((one.total, one.free, one.used), (150_754_820_096, 150_109_880_320, 644_939_776));
    let version = device::version_of::<nvmlMemory_v2_t>(2);
    let mut two = nvmlMemory_v2_t { version, total: 0, reserved: 0, free: 0, used: 0 };
    assert_eq!(surface::nvmlDeviceGetMemoryInfo_v2(&library, device, Out::to(&mut two)).0, 0);
    assert_eq!((two.total, two.reserved, two.used), (one.total, 644_939_776, 0));
    two.version = 1;
    assert_eq!(surface::nvmlDeviceGetMemoryInfo_v2(&library, device, Out::to(&mut two)).0, 25);
}

#[test]
fn process_utilisation_wants_its_room() {
    let library = connected(&[]);
    let mut device = std::ptr::null_mut();
    assert_eq!(surface::nvmlDeviceGetHandleByIndex(&library, 0, Out::to(&mut device)).0, 0);
    let mut count = 10;
    let nowhere = OutArray::null();
    assert_eq!(
        surface::nvmlDeviceGetProcessUtilization(&library, device, nowhere, Out::to(&mut count), 0)
            .0,
        7
    );
    assert_eq!(count, 72);
}

#[test]
fn error_texts_are_the_known_ones() {
    let text = |code| super::system::error_text(nvmlReturn_t(code)).to_str().unwrap();
    assert_eq!(text(7), "Insufficient Size");
    assert_eq!(text(500), "Unknown Error");
    assert_eq!(text(0), "Success");
}

#[test]
fn a_partitioned_card_has_handles_of_its_instances() {
    let settings: &[_] =
        &[("SIMGPU_DEVICES", "2"), ("SIMGPU_MEMORY", "16GiB"), ("SIMGPU_MIG_1", "1g.2gb,3g.8gb")];
    let library = connected(settings);
    let mut count = 9;
    assert_eq!(surface::nvmlDeviceGetCount_v2(&library, Out::to(&mut count)).0, 0);
    assert_eq!(count, 2);
    let handle = |index| {
        let mut device = std::ptr::null_mut();
        let code = surface::nvmlDeviceGetHandleByIndex_v2(&library, index, Out::to(&mut device)).0;
        (code, device)
    };
    let ((_, whole), (_, parted)) = (handle(0), handle(1));
    assert_eq!(handle(2).0, 2, "an instance is no card");
    let mode = |device| {
        let (mut now, mut later) = (9, 9);
        let (now_out, later_out) = (Out::to(&mut now), Out::to(&mut later));
        assert_eq!(surface::nvmlDeviceGetMigMode(&library, device, now_out, later_out).0, 0);
        (now, later)
    };
    assert_eq!([mode(whole), mode(parted)], [(0, 0), (1, 1)]);
    let instance = |card, index| {
        let mut device = std::ptr::null_mut();
        let out = Out::to(&mut device);
        let code = surface::nvmlDeviceGetMigDeviceHandleByIndex(&library, card, index, out).0;
        (code, device)
    };
    assert_eq!([instance(whole, 0).0, instance(parted, 2).0], [3, 6]);
    let ((_, small), (_, large)) = (instance(parted, 0), instance(parted, 1));
    let uuid = text(|at, n| surface::nvmlDeviceGetUUID(&library, small, at, n));
    assert_eq!(uuid, "MIG-513d9a0b-7e42-4c11-9f20-d177e5000101");
    let name = text(|at, n| surface::nvmlDeviceGetName(&library, large, at, n));
    assert_eq!(name, "NVIDIA H200 MIG 3g.8gb");
    let wanted = CString::new(uuid).unwrap();
    let mut found = std::ptr::null_mut();
    let code = surface::nvmlDeviceGetHandleByUUID(&library, Text::of(&wanted), Out::to(&mut found));
    assert_eq!((code.0, found), (0, small));
    let parent =
        surface::nvmlDeviceGetDeviceHandleFromMigDeviceHandle(&library, large, Out::to(&mut found));
    assert_eq!((parent.0, found), (0, parted));
    let mut most = 9;
    assert_eq!(surface::nvmlDeviceGetMaxMigDeviceCount(&library, parted, Out::to(&mut most)).0, 0);
    assert_eq!(most, 7);
    let number = |of: &dyn Fn(Out<'_, u32>) -> nvmlReturn_t| {
        let mut value = 9;
        (of(Out::to(&mut value)).0, value)
    };
    assert_eq!(number(&|out| surface::nvmlDeviceIsMigDeviceHandle(&library, large, out)), (0, 1));
    assert_eq!(number(&|out| surface::nvmlDeviceIsMigDeviceHandle(&library, parted, out)), (0, 0));
    assert_eq!(number(&|out| surface::nvmlDeviceGetIndex(&library, large, out)), (0, 1));
    assert_eq!(number(&|out| surface::nvmlDeviceGetGpuInstanceId(&library, large, out)), (0, 2));
    assert_eq!(number(&|out| surface::nvmlDeviceGetGpuInstanceId(&library, whole, out)).0, 3);
    let mut memory = nvmlMemory_t { total: 0, free: 0, used: 0 };
    assert_eq!(surface::nvmlDeviceGetMemoryInfo(&library, large, Out::to(&mut memory)).0, 0);
    assert_eq!((memory.total, memory.used), (8 << 30, 0));
}
