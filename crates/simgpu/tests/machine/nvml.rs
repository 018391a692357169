//! NVML's view of other processes.

use crate::support::{Machine, eventually};
use divvy_driver_api::nvml_types::*;
use simgpu::nvml::{LIBRARY, surface};
use simgpu::sys::driver::{Out, OutArray};
use std::ptr::null_mut;

/// Everything NVML tells of device 0: `used pid:bytes …`, in the versions 2 of memory and 3 of lists.
pub(crate) fn list() -> String {
    assert_eq!(surface::nvmlInit_v2(&LIBRARY).0, 0);
    let mut device = null_mut();
    assert_eq!(surface::nvmlDeviceGetHandleByIndex_v2(&LIBRARY, 0, Out::to(&mut device)).0, 0);
    let mut memory =
        nvmlMemory_v2_t { version: 40 | 2 << 24, total: 0, reserved: 0, free: 0, used: 0 };
    assert_eq!(surface::nvmlDeviceGetMemoryInfo_v2(&LIBRARY, device, Out::to(&mut memory)).0, 0);
    let list = |count: &mut u32, rows| {
        let count = Out::to(count);
        surface::nvmlDeviceGetComputeRunningProcesses_v3(&LIBRARY, device, count, rows).0
    };
    let mut count = 0;
    assert_eq!(list(&mut count, OutArray::null()), if count == 0 { 0 } else { 7 });
    let empty =
        nvmlProcessInfo_t { pid: 0, usedGpuMemory: 0, gpuInstanceId: 0, computeInstanceId: 0 };
    let mut rows = vec![empty; count as usize];
    assert_eq!(list(&mut count, OutArray::to(&mut rows)), 0);
    assert_eq!(surface::nvmlShutdown(&LIBRARY).0, 0);
    let rows: Vec<String> =
        rows.iter().map(|row| format!("{}:{}", row.pid, row.usedGpuMemory >> 20)).collect();
    format!("{} {}", memory.used >> 20, rows.join(" "))
}

#[test]
fn every_process_is_listed_with_its_bytes_while_it_lives() {
    let machine = Machine::new(&[("SIMGPU_MEMORY", "4GiB"), ("SIMGPU_MODE", "fast")]);
    let mut watcher = machine.process();
    let (mut one, mut two) = (machine.process(), machine.process());
    assert_eq!(watcher.tell("nvml"), "0");
    for process in [&mut one, &mut two] {
        assert_eq!(process.tell("context"), "ok");
    }
    assert_eq!(two.tell("allocate 100"), "ok");
    let mut expected = [format!("{}:518", one.pid()), format!("{}:618", two.pid())];
    expected.sort_by_key(|row| row.split(':').next().and_then(|pid| pid.parse::<u32>().ok()));
    assert_eq!(watcher.tell("nvml"), format!("1136 {}", expected.join(" ")));
    let rest = format!("518 {}:518", one.pid());
    two.kill();
    let witness = machine.client();
    eventually("death frees", || machine.free_bytes(&witness) == (4096 - 518) << 20);
    assert_eq!(watcher.tell("nvml"), rest);
}
