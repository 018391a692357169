//! Description of the simulated machine: the environment of the first client, read strictly.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SIMGPU_DIR` | the machine: its socket, lock and logs | `/tmp/simgpu-<uid>` |
//! | `SIMGPU_MODE` | `calibrated`, `fast` (no delay), `null` (no daemon, no bytes) | `calibrated` |
//! | `SIMGPU_TIME_SCALE` | how many times slower than the hardware a calibrated machine is, 1 to 1000: every kernel, copy, slice and switch takes that much longer, so that the delays of a busy host are small against it | 1 |
//! | `SIMGPU_DEVICES` | how many devices, 1 to 8 | 1 |
//! | `SIMGPU_MEMORY` | memory of each as NVML shows it; a comma-separated list gives each its own | 143771MiB |
//! | `SIMGPU_NAME` | name of each | NVIDIA H200 |
//! | `SIMGPU_SPEED` | clock rate of each in percent of an H200's, 1 to 1000; a comma-separated list gives each its own. CUDA numbers devices by it; work takes as long on each | 100 |
//! | `SIMGPU_SEED` | text that UUIDs are made of, so that devices of two machines differ; 0 gives those of the machine in `/tmp` | `SIMGPU_DIR` |
//! | `SIMGPU_UUID_<i>` | UUID of device i, `GPU-` and 32 hexadecimal digits with or without dashes | made of the seed and the index |
//! | `SIMGPU_MIG_<i>` | device i is partitioned: profiles of its instances, as `1g.18gb,3g.71gb`; empty is MIG without instances | not partitioned |
//! | `SIMGPU_NVSWITCH` | whether the devices lie behind an NVSwitch, which multicast needs: 0 or 1 | 0 |
//! | `SIMGPU_NEIGHBOURS` | processes on device 0 that are no clients: see [`super::neighbours`] | none |
//! | `SIMGPU_LINGER` | how long the machine outlives its last client: `0`, `100ms`, `2s`, `forever` | 0 |
//!
//! A value that cannot be understood is an error that names it; nothing is guessed.

use super::neighbours::{self, Neighbour};
use super::notation::{parse_duration, parse_size, parse_uuid, uuid_text};
use crate::calibration;
use crate::partition::{self, Partition};
use std::path::PathBuf;
use std::time::Duration;

/// The most devices a machine can have.
pub const MAX_DEVICES: usize = 8;

/// How the machine spends time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Kernels and copies take the time they take on the hardware.
    Calibrated,
    /// Nothing waits for simulated time.
    Fast,
    /// Everything within the process: no daemon, no bytes behind memory.
    Null,
}

/// One simulated device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name, as the driver and NVML answer it.
    pub name: String,
    /// UUID, as `cuDeviceGetUuid` answers it.
    pub uuid: [u8; 16],
    /// Memory of the card as NVML reports it.
    pub nvml_total_bytes: u64,
    /// Memory of the card as `cuDeviceTotalMem` reports it: what can be allocated.
    pub total_bytes: u64,
    /// Clock rate in percent of an H200's.
    pub speed_percent: u32,
    /// How it stands to partitions.
    pub partition: Partition,
}

impl Device {
    /// Index of its card, where its own is `index`.
    pub fn card(&self, index: u32) -> u32 {
        match self.partition {
            Partition::Instance { card, .. } => card,
            _ => index,
        }
    }

    /// Whether it is a card, and no instance of one.
    pub fn is_card(&self) -> bool {
        !matches!(self.partition, Partition::Instance { .. })
    }

    /// Its UUID as NVML prints it.
    pub fn uuid_text(&self) -> String {
        uuid_text(!self.is_card(), &self.uuid)
    }

    /// Memory of the card that a context takes. A card whose size was given keeps its figures round: there it
    /// shows in NVML's process list alone.
    pub fn context_bytes(&self) -> u64 {
        if self.nvml_total_bytes == calibration::NVML_TOTAL_BYTES {
            calibration::CONTEXT_BYTES + calibration::CONTEXT_UNLISTED_BYTES
        } else {
            calibration::CONTEXT_BYTES
        }
    }
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The cards, by index, and behind them their instances.
    pub devices: Vec<Device>,
    /// How time is spent.
    pub mode: Mode,
    /// How many times slower than the hardware it is.
    pub time_scale: u32,
    /// Whether the devices lie behind an NVSwitch.
    pub has_nvswitch: bool,
    /// Processes on device 0 that are no clients.
    pub neighbours: Vec<Neighbour>,
}

/// A setting of the environment that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: {problem}")]
pub struct BadSetting {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Its fault, and a value that would be right.
    pub problem: &'static str,
}

fn bad(name: &str, value: &str, problem: &'static str) -> BadSetting {
    BadSetting { name: name.into(), value: value.into(), problem }
}

/// Where settings come from: the environment, or a table in a test.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Every variable that describes a machine, its directory apart.
pub fn variables() -> Vec<String> {
    let mut names: Vec<String> =
        "MODE TIME_SCALE DEVICES MEMORY NAME SPEED SEED NVSWITCH NEIGHBOURS LINGER"
            .split(' ')
            .map(|name| format!("SIMGPU_{name}"))
            .collect();
    for index in 0..MAX_DEVICES {
        names.extend([format!("SIMGPU_UUID_{index}"), format!("SIMGPU_MIG_{index}")]);
    }
    names
}

/// Looks a variable up in the environment; one that is not UTF-8 counts as its lossy form, which no
/// grammar here accepts.
pub fn from_environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

impl Description {
    /// Reads the machine's description.
    pub fn read(lookup: Lookup<'_>) -> Result<Self, BadSetting> {
        let mode = mode(lookup)?;
        let time_scale = time_scale(lookup)?;
        let count = match lookup("SIMGPU_DEVICES") {
            None => 1,
            Some(text) => match text.parse::<usize>() {
                Ok(count) if (1..=MAX_DEVICES).contains(&count) => count,
                _ => return Err(bad("SIMGPU_DEVICES", &text, "give a number from 1 to 8")),
            },
        };
        let memory_bytes = memory(lookup, count)?;
        let speeds = speeds(lookup, count)?;
        let name = lookup("SIMGPU_NAME").unwrap_or_else(|| String::from(calibration::DEVICE_NAME));
        if name.is_empty() || name.len() > 95 || name.contains('\0') {
            return Err(bad("SIMGPU_NAME", &name, "give a name of 1 to 95 bytes"));
        }
        let seed = lookup("SIMGPU_SEED").or_else(|| lookup("SIMGPU_DIR")).unwrap_or_default();
        let mut devices = Vec::with_capacity(count);
        for (index, (nvml_total_bytes, speed_percent)) in
            memory_bytes.into_iter().zip(speeds).enumerate()
        {
            let variable = format!("SIMGPU_UUID_{index}");
            let uuid = match lookup(&variable) {
                None => default_uuid(index, &seed),
                Some(text) => parse_uuid(&text)
                    .ok_or_else(|| bad(&variable, &text, "give GPU- and 32 hexadecimal digits"))?,
            };
            devices.push(Device {
                name: name.clone(),
                uuid,
                nvml_total_bytes,
                total_bytes: allocatable(nvml_total_bytes),
                speed_percent,
                partition: Partition::Whole,
            });
        }
        for index in 0..count {
            let variable = format!("SIMGPU_MIG_{index}");
            if let Some(text) = lookup(&variable) {
                let profiles = partition::parse(&text).ok_or_else(|| {
                    bad(&variable, &text, "give profiles that fit a card, such as 1g.18gb,3g.71gb")
                })?;
                part(&mut devices, index, &profiles);
            }
        }
        let has_nvswitch = match lookup("SIMGPU_NVSWITCH").as_deref() {
            None | Some("" | "0") => false,
            Some("1") => true,
            Some(other) => return Err(bad("SIMGPU_NVSWITCH", other, "give 0 or 1")),
        };
        let neighbours = match lookup("SIMGPU_NEIGHBOURS") {
            None => Vec::new(),
            Some(text) => neighbours::parse(&text, devices[0].total_bytes)
                .ok_or_else(|| bad("SIMGPU_NEIGHBOURS", &text, neighbours::HINT))?,
        };
        Ok(Self { devices, mode, time_scale, has_nvswitch, neighbours })
    }
}

/// Partitions a card.
fn part(devices: &mut Vec<Device>, index: usize, profiles: &[partition::Profile]) {
    devices[index].partition = Partition::Parted;
    let card = devices[index].clone();
    let numbered = (0..).zip(profiles);
    devices.extend(numbered.map(|(number, profile)| {
        let bytes = allocatable(profile.bytes(card.total_bytes));
        let mut uuid = card.uuid;
        uuid[14] = u8::try_from(number + 1).unwrap_or(u8::MAX);
        let card_index = u32::try_from(index).unwrap_or(u32::MAX);
        Device {
            name: format!("{} MIG {}", card.name, profile.name),
            uuid,
            nvml_total_bytes: bytes,
            total_bytes: bytes,
            speed_percent: card.speed_percent,
            partition: Partition::Instance { card: card_index, number, slices: profile.slices },
        }
    }));
}

/// Part of a card's memory that a program can allocate.
///
/// The default card keeps the driver's own reserve; a card whose size was given is small for a test's
/// sake and is allocatable in full, so that its figures stay round.
fn allocatable(nvml_total_bytes: u64) -> u64 {
    let rounded = nvml_total_bytes / calibration::GRANULE_BYTES * calibration::GRANULE_BYTES;
    if nvml_total_bytes == calibration::NVML_TOTAL_BYTES {
        nvml_total_bytes - calibration::DRIVER_RESERVED_BYTES
    } else {
        rounded
    }
}

/// How time is spent.
pub fn mode(lookup: Lookup<'_>) -> Result<Mode, BadSetting> {
    match lookup("SIMGPU_MODE").as_deref() {
        None | Some("" | "calibrated") => Ok(Mode::Calibrated),
        Some("fast") => Ok(Mode::Fast),
        Some("null") => Ok(Mode::Null),
        Some(other) => Err(bad("SIMGPU_MODE", other, "give calibrated, fast or null")),
    }
}

fn time_scale(lookup: Lookup<'_>) -> Result<u32, BadSetting> {
    let Some(text) = lookup("SIMGPU_TIME_SCALE").filter(|text| !text.is_empty()) else {
        return Ok(1);
    };
    match text.parse() {
        Ok(scale) if (1..=1000).contains(&scale) => Ok(scale),
        _ => Err(bad("SIMGPU_TIME_SCALE", &text, "give a number from 1 to 1000")),
    }
}

/// The machine's directory.
pub fn directory(lookup: Lookup<'_>) -> PathBuf {
    match lookup("SIMGPU_DIR") {
        Some(text) if !text.is_empty() => PathBuf::from(text),
        _ => PathBuf::from(format!("/tmp/simgpu-{}", rustix::process::geteuid().as_raw())),
    }
}

/// How long the machine outlives its last client; `None` is for ever.
pub fn linger(lookup: Lookup<'_>) -> Result<Option<Duration>, BadSetting> {
    match lookup("SIMGPU_LINGER").as_deref() {
        None | Some("" | "0") => Ok(Some(Duration::ZERO)),
        Some("forever") => Ok(None),
        Some(text) => parse_duration(text).map(Some).ok_or_else(|| {
            bad("SIMGPU_LINGER", text, "give 0, forever or a number with ns, us, ms or s")
        }),
    }
}

fn memory(lookup: Lookup<'_>, count: usize) -> Result<Vec<u64>, BadSetting> {
    const HINT: &str = "give sizes such as 139.8GiB, one for all devices or a list with one for each, at least 2MiB";
    let Some(text) = lookup("SIMGPU_MEMORY") else {
        return Ok(vec![calibration::NVML_TOTAL_BYTES; count]);
    };
    let sizes: Option<Vec<u64>> = text.split(',').map(parse_size).collect();
    match sizes {
        Some(sizes) if sizes.iter().any(|bytes| *bytes < calibration::GRANULE_BYTES) => {
            Err(bad("SIMGPU_MEMORY", &text, HINT))
        }
        Some(sizes) if sizes.len() == 1 => Ok(vec![sizes[0]; count]),
        Some(sizes) if sizes.len() == count => Ok(sizes),
        _ => Err(bad("SIMGPU_MEMORY", &text, HINT)),
    }
}

fn speeds(lookup: Lookup<'_>, count: usize) -> Result<Vec<u32>, BadSetting> {
    const HINT: &str =
        "give percentages such as 100, one for all devices or a list with one for each, 1 to 1000";
    let Some(text) = lookup("SIMGPU_SPEED") else { return Ok(vec![100; count]) };
    let one = |part: &str| part.parse().ok().filter(|speed| (1..=1000).contains(speed));
    let speeds: Option<Vec<u32>> = text.split(',').map(one).collect();
    match speeds {
        Some(speeds) if speeds.len() == 1 => Ok(vec![speeds[0]; count]),
        Some(speeds) if speeds.len() == count => Ok(speeds),
        _ => Err(bad("SIMGPU_SPEED", &text, HINT)),
    }
}

fn default_uuid(index: usize, seed: &str) -> [u8; 16] {
    let mut uuid = *b"\x51\x3d\x9a\x0b\x7e\x42\x4c\x11\x9f\x20\xd1\x77\xe5\x00\x00\x00";
    if !matches!(seed, "" | "0") {
        let sum = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        for (byte, with) in uuid.iter_mut().zip(sum.to_ne_bytes()) {
            *byte ^= with;
        }
        // It stays a random one by its version.
        uuid[6] = 0x40 | (uuid[6] & 0x0f);
    }
    uuid[15] = u8::try_from(index).unwrap_or(u8::MAX);
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_two_machines_have_two_uuids() {
        let uuids = |pairs: &[(&str, &str)]| -> Vec<String> {
            let two = [&[("SIMGPU_DEVICES", "2")], pairs].concat();
            with(&two).unwrap().devices.iter().map(Device::uuid_text).collect()
        };
        let fixed = uuids(&[]);
        assert_eq!(fixed[1], "GPU-513d9a0b-7e42-4c11-9f20-d177e5000001");
        let (one, other) = (uuids(&[("SIMGPU_DIR", "/one")]), uuids(&[("SIMGPU_DIR", "/other")]));
        assert_eq!(one, uuids(&[("SIMGPU_DIR", "/one")]));
        let all: std::collections::BTreeSet<_> = fixed.iter().chain(&one).chain(&other).collect();
        assert_eq!(all.len(), 6, "{all:?}");
        assert_eq!(uuids(&[("SIMGPU_DIR", "/one"), ("SIMGPU_SEED", "0")]), fixed);
        assert_eq!(uuids(&[("SIMGPU_SEED", "/one")]), one);
    }

    fn with(pairs: &[(&str, &str)]) -> Result<Description, BadSetting> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Description::read(&|name| {
            pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.clone())
        })
    }

    #[test]
    fn an_empty_environment_is_one_h200() {
        let machine = with(&[]).unwrap();
        assert_eq!(machine.devices.len(), 1);
        assert_eq!(machine.mode, Mode::Calibrated);
        assert_eq!(machine.time_scale, 1);
        assert_eq!(machine.devices[0].nvml_total_bytes, 143_771 << 20);
    }

    #[test]
    fn sizes_and_uuids_are_per_device() {
        let machine = with(&[
            ("SIMGPU_DEVICES", "2"),
            ("SIMGPU_MEMORY", "1GiB,1.5g"),
            ("SIMGPU_UUID_1", "GPU-00112233-4455-6677-8899-aabbccddeeff"),
        ]);
        assert_eq!(machine.unwrap_err().name, "SIMGPU_MEMORY");
        let machine = with(&[
            ("SIMGPU_DEVICES", "2"),
            ("SIMGPU_MEMORY", "1GiB,1.5G"),
            ("SIMGPU_UUID_1", "GPU-00112233-4455-6677-8899-aabbccddeeff"),
        ])
        .unwrap();
        assert_eq!(machine.devices[0].total_bytes, 1 << 30);
        assert_eq!(machine.devices[1].total_bytes, 3 << 29);
        assert_eq!(machine.devices[1].uuid_text(), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn instances_stand_behind_the_cards() {
        let machine = with(&[
            ("SIMGPU_DEVICES", "2"),
            ("SIMGPU_MEMORY", "16GiB"),
            ("SIMGPU_MIG_1", "1g.2gb,3g.8gb"),
        ]);
        let devices = machine.unwrap().devices;
        let partitions: Vec<_> = devices.iter().map(|device| device.partition).collect();
        let instance = |number, slices| Partition::Instance { card: 1, number, slices };
        assert_eq!(
            partitions,
            [Partition::Whole, Partition::Parted, instance(0, 1), instance(1, 3)]
        );
        assert_eq!([devices[2].total_bytes, devices[3].total_bytes], [2 << 30, 8 << 30]);
        assert_eq!(devices[2].uuid_text(), "MIG-513d9a0b-7e42-4c11-9f20-d177e5000101");
        assert_eq!(devices[3].name, "NVIDIA H200 MIG 3g.8gb");
    }

    #[test]
    fn nothing_is_guessed() {
        for (name, value) in [
            ("SIMGPU_DEVICES", "0"),
            ("SIMGPU_DEVICES", "9"),
            ("SIMGPU_DEVICES", "two"),
            ("SIMGPU_MEMORY", "-1"),
            ("SIMGPU_MEMORY", "1MiB"),
            ("SIMGPU_MEMORY", "1GiB,2GiB"),
            ("SIMGPU_SPEED", "0"),
            ("SIMGPU_SPEED", "50,100"),
            ("SIMGPU_SPEED", "fast"),
            ("SIMGPU_MODE", "quick"),
            ("SIMGPU_TIME_SCALE", "0"),
            ("SIMGPU_TIME_SCALE", "1.5"),
            ("SIMGPU_UUID_0", "GPU-1"),
            ("SIMGPU_NAME", ""),
            ("SIMGPU_NVSWITCH", "yes"),
            ("SIMGPU_MIG_0", "9g.9gb"),
            ("SIMGPU_MIG_0", "7g.16gb,1g.2gb"),
            ("SIMGPU_NEIGHBOURS", "graphics"),
        ] {
            let refusal = with(&[(name, value)]).unwrap_err();
            assert_eq!((refusal.name.as_str(), refusal.value.as_str()), (name, value));
        }
    }
}
