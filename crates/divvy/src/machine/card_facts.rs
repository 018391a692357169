//! Facts about the machine's cards, for whoever offers them to others: what they are, where they are, how they are.
//!
//! NVML tells most of it, in a process of its own as for [`super::cards`]; the kernel's list says which cards there should
//! be, and sysfs where they are on the bus. Promises: a card that the kernel module knows and NVML does not is told of, as one
//! that nobody should use; sysfs is believed of a device of NVIDIA's alone, for a simulated card has an address that may be
//! another device's.
//!
//! Does not decide how often to ask: that is `crate::daemon::card_desk`'s.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::alarm;
use nvml_wrapper::enums::device::{DeviceArchitecture, SampleValue};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING,
};
use nvml_wrapper::{Device, Nvml};

use super::cards::{DriverChoice, ListArgs, asker};
use super::gpus::{self, Gpu};
use crate::output::json;
use crate::wire::cards::{CardInstance, CardList, CardReport, DeviceHealth};

/// How long NVML may take, in seconds. Cards that sleep take a second each.
const PATIENCE_S: u32 = 20;
/// Devices of the bus.
const PCI: &str = "/sys/bus/pci/devices";
/// NVIDIA's number on the bus, as sysfs writes it.
const VENDOR: &str = "0x10de";

/// The cards of the machine. Cost: a process, and as long as NVML takes, which may be for ever where the driver hangs.
pub(crate) fn ask() -> CardList {
    let known = gpus::list(Path::new(gpus::PROC));
    match told() {
        Ok(list) => with_missing(list, &known),
        Err(error) => of_kernel(&known, &format!("{error:#}")),
    }
}

fn told() -> Result<CardList> {
    let mut asker = asker(&DriverChoice::default())?;
    let output = asker.arg("--facts").output().context("no process can be started")?;
    ensure!(output.status.success(), "NVML cannot be used");
    serde_json::from_slice(&output.stdout).context("NVML's answer cannot be read")
}

/// The cards that the kernel module knows, where NVML could not be asked.
pub(crate) fn of_kernel(known: &[Gpu], why: &str) -> CardList {
    let unknown = |gpu| report_of(gpu, DeviceHealth::Unknown, why);
    CardList {
        driver: gpus::module_version(Path::new(gpus::PROC)),
        detail: Some(why.to_owned()),
        cards: known.iter().map(unknown).collect(),
    }
}

fn report_of(gpu: &Gpu, health: DeviceHealth, why: &str) -> CardReport {
    let mut card = CardReport {
        uuid: gpu.uuid.clone(),
        name: gpu.name.clone(),
        health,
        detail: Some(why.to_owned()),
        ..CardReport::default()
    };
    place(&mut card, Path::new(PCI), &gpu.bus);
    card
}

fn with_missing(mut list: CardList, known: &[Gpu]) -> CardList {
    for gpu in known {
        if !list.cards.iter().any(|card| card.uuid.eq_ignore_ascii_case(&gpu.uuid)) {
            let why = "the kernel module knows the card, the driver's library does not: see dmesg";
            list.cards.push(report_of(gpu, DeviceHealth::Unhealthy, why));
        }
    }
    list
}

/// The other half of [`ask`]: what the process of its own tells.
///
/// # Errors
/// When NVML cannot be used.
pub(crate) fn answer(args: &ListArgs) -> Result<u8> {
    // Where these fail the process ends later, or by itself.
    let _ = alarm::set(PATIENCE_S);
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let nvml = Nvml::builder().lib_path(args.library.as_os_str()).init();
    json::bare(&of(&nvml.context("NVML cannot be loaded")?)?)?;
    Ok(0)
}

fn of(nvml: &Nvml) -> Result<CardList> {
    let count = nvml.device_count().context("NVML does not count the devices")?;
    // One that NVML cannot name is told of by the kernel's list.
    let devices = (0..count).filter_map(|index| nvml.device_by_index(index).ok());
    Ok(CardList {
        driver: nvml.sys_driver_version().ok(),
        detail: None,
        cards: devices.filter_map(|device| card(&device)).collect(),
    })
}

fn card(device: &Device<'_>) -> Option<CardReport> {
    let memory = device.memory_info();
    let capability = device.cuda_compute_capability().ok();
    let architecture = device.architecture().ok();
    let is_known = |architecture: &DeviceArchitecture| *architecture != DeviceArchitecture::Unknown;
    let (health, detail) = health(device, memory.as_ref().err());
    let mut card = CardReport {
        uuid: device.uuid().ok()?,
        name: device.name().unwrap_or_default(),
        memory_bytes: memory.map_or(0, |memory| memory.total),
        compute_capability: capability.map(|it| format!("{}.{}", it.major, it.minor)),
        architecture: architecture.filter(is_known).map(|it| format!("{it:?}")),
        mig: device.mig_mode().is_ok_and(|mode| mode.current != 0),
        health,
        detail,
        ..CardReport::default()
    };
    if card.mig {
        let count = device.mig_device_count().unwrap_or(0);
        let instances = (0..count).filter_map(|at| device.mig_device_by_index(at).ok());
        card.instances = instances.filter_map(|instance| self::instance(&instance)).collect();
    }
    if let Ok(pci) = device.pci_info() {
        place(&mut card, Path::new(PCI), &pci.bus_id);
    }
    Some(card)
}

fn instance(device: &Device<'_>) -> Option<CardInstance> {
    Some(CardInstance {
        uuid: device.uuid().ok()?,
        profile: device.name().ok().as_deref().and_then(profile).map(str::to_owned),
        memory_bytes: device.memory_info().map_or(0, |memory| memory.total),
    })
}

/// `1g.18gb` of `NVIDIA H200 MIG 1g.18gb`.
fn profile(name: &str) -> Option<&str> {
    name.rsplit_once(" MIG ").map(|(_, profile)| profile.trim()).filter(|it| !it.is_empty())
}

fn health(device: &Device<'_>, memory: Option<&NvmlError>) -> (DeviceHealth, Option<String>) {
    let unhealthy = |why: String| (DeviceHealth::Unhealthy, Some(why));
    match memory {
        Some(NvmlError::GpuLost) => {
            return unhealthy(
                "the card has fallen off the bus: the machine needs a restart".to_owned(),
            );
        }
        Some(error) => return unhealthy(format!("the driver does not tell its memory: {error}")),
        None => {}
    }
    // Rows of memory that could not be replaced stay bad until the card is replaced; those that wait for a reset do not.
    if counts(device, NVML_FI_DEV_REMAPPED_FAILURE) {
        return unhealthy(
            "a bad row of its memory could not be replaced: replace the card".to_owned(),
        );
    }
    let waits = counts(device, NVML_FI_DEV_REMAPPED_PENDING);
    let words = "a bad row of its memory is replaced at the card's next reset";
    (DeviceHealth::Healthy, waits.then(|| words.to_owned()))
}

/// Whether a field is there and is not 0.
fn counts(device: &Device<'_>, field: u32) -> bool {
    let values = device.field_values_for(&[FieldId(field)]).unwrap_or_default();
    values.into_iter().flatten().filter_map(|sample| sample.value.ok()).any(|value| match value {
        SampleValue::U32(count) => count != 0,
        SampleValue::U64(count) => count != 0,
        SampleValue::I64(count) => count != 0,
        SampleValue::F64(_) => false,
    })
}

/// Writes down where the card is on the bus, and what sysfs under `pci` says about that.
fn place(card: &mut CardReport, pci: &Path, bus: &str) {
    let bus = sysfs_name(bus);
    let device = pci.join(&bus);
    let read = |name: &str| std::fs::read_to_string(device.join(name)).ok();
    if read("vendor").is_some_and(|vendor| vendor.trim() == VENDOR) {
        let real = device.canonicalize().unwrap_or_default();
        let mut parts = real.iter().filter_map(|part| part.to_str());
        card.pcie_root = parts.find(|part| is_root(part)).map(str::to_owned);
        // -1 where the machine has no such nodes.
        card.numa_node = read("numa_node").and_then(|node| node.trim().parse().ok());
    }
    card.pci_bus_id = Some(bus);
}

/// As sysfs names it: NVML writes eight digits of the domain, in upper case.
fn sysfs_name(bus: &str) -> String {
    let bus = bus.to_ascii_lowercase();
    match bus.split_once(':') {
        Some((domain, rest)) if domain.len() > 4 => {
            let (over, domain) = domain.split_at(domain.len() - 4);
            let is_zero = over.bytes().all(|digit| digit == b'0');
            if is_zero { format!("{domain}:{rest}") } else { bus }
        }
        _ => bus,
    }
}

/// Whether a part of a path is a root of the bus, such as `pci0000:17`.
fn is_root(part: &str) -> bool {
    let Some((domain, bus)) = part.strip_prefix("pci").and_then(|rest| rest.split_once(':')) else {
        return false;
    };
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    domain.len() >= 4 && hex(domain) && bus.len() == 2 && hex(bus)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-0aaaaaaa-0000-0000-0000-000000000001";

    fn gpu() -> Gpu {
        let bus = "ffff:17:00.0".to_owned();
        Gpu { uuid: UUID.to_owned(), name: "NVIDIA H200".to_owned(), bus }
    }

    #[test]
    fn a_card_that_only_the_kernel_knows_is_told_of_and_not_to_be_used() {
        let card = |uuid: &str| CardReport { uuid: uuid.to_owned(), ..CardReport::default() };
        let list = |uuid: &str| CardList { cards: vec![card(uuid)], ..CardList::default() };
        let same = with_missing(list(&UUID.to_ascii_uppercase()), &[gpu()]);
        assert_eq!(same.cards.len(), 1);
        let more = with_missing(list("GPU-x"), &[gpu()]);
        assert_eq!((more.cards.len(), more.cards[1].health), (2, DeviceHealth::Unhealthy));
        let kernels = of_kernel(&[gpu()], "NVML cannot be used");
        assert_eq!(kernels.cards[0].health, DeviceHealth::Unknown);
        assert_eq!(kernels.cards[0].detail.as_deref(), Some("NVML cannot be used"));
        assert_eq!((kernels.cards[0].memory_bytes, kernels.cards[0].numa_node), (0, None));
    }

    #[test]
    fn sysfs_is_believed_of_nvidias_devices_alone() {
        let base = std::env::temp_dir().join(format!("divvy-pci-{}", std::process::id()));
        let real = base.join("devices/pci0000:16/0000:16:01.0/0000:17:00.0");
        std::fs::create_dir_all(&real).unwrap();
        std::fs::write(real.join("numa_node"), "1\n").unwrap();
        let pci = base.join("bus");
        std::fs::create_dir_all(&pci).unwrap();
        std::os::unix::fs::symlink(&real, pci.join("0000:17:00.0")).unwrap();
        for (vendor, root, node) in
            [("0x10de\n", Some("pci0000:16"), Some(1)), ("0x1af4\n", None, None)]
        {
            std::fs::write(real.join("vendor"), vendor).unwrap();
            let mut card = CardReport::default();
            place(&mut card, &pci, "00000000:17:00.0");
            assert_eq!((card.pcie_root.as_deref(), card.numa_node), (root, node));
            assert_eq!(card.pci_bus_id.as_deref(), Some("0000:17:00.0"));
        }
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(profile("NVIDIA H200 MIG 1g.18gb"), Some("1g.18gb"));
        assert_eq!(profile("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb"), Some("1c.3g.20gb"));
        assert_eq!((profile("NVIDIA H200"), profile("x MIG ")), (None, None));
        assert_eq!(sysfs_name("00000000:3F:00.0"), "0000:3f:00.0");
        assert_eq!(sysfs_name("00010000:3F:00.0"), "00010000:3f:00.0");
        assert_eq!(sysfs_name("0000:00:06.0"), "0000:00:06.0");
        assert!(is_root("pci0000:17") && is_root("pci10000:e1"));
        assert!(!is_root("pci") && !is_root("pci0000") && !is_root("0000:17:00.0"));
    }
}
