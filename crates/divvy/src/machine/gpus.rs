//! The GPUs the kernel module knows, from `/proc/driver/nvidia`: no driver call, no library.

use std::path::Path;
use std::sync::OnceLock;

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Gpu {
    /// As `GPU-…`.
    pub(crate) uuid: String,
    /// The card's name.
    pub(crate) name: String,
    /// Its place on the bus.
    pub(crate) bus: String,
}

/// Where the kernel module speaks.
pub(crate) const PROC: &str = "/proc/driver/nvidia";

/// The GPUs under `root`, by bus address; empty where there is no NVIDIA kernel module.
pub(crate) fn list(root: &Path) -> Vec<Gpu> {
    let mut gpus: Vec<Gpu> = std::fs::read_dir(root.join("gpus"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.path().join("information")).ok()?;
            parse(&text, &entry.file_name().to_string_lossy())
        })
        .collect();
    gpus.sort_by(|a, b| a.bus.cmp(&b.bus));
    gpus
}

/// The index of the GPU with this UUID: NVML numbers by bus address.
pub(crate) fn index_of(uuid: &str) -> Option<u32> {
    known(uuid).map(|(index, _)| index)
}

/// The GPU with this UUID, and its index. Cost: a list that is read once there is a kernel module, which may come
/// after a daemon.
pub(crate) fn known(uuid: &str) -> Option<(u32, &'static Gpu)> {
    static GPUS: OnceLock<Vec<Gpu>> = OnceLock::new();
    let gpus = match GPUS.get() {
        Some(gpus) => gpus,
        None => {
            let gpus = list(Path::new(PROC));
            if gpus.is_empty() {
                return None;
            }
            GPUS.get_or_init(|| gpus)
        }
    };
    let mut numbered = gpus.iter().enumerate();
    let (at, gpu) = numbered.find(|(_, gpu)| gpu.uuid.eq_ignore_ascii_case(uuid))?;
    Some((u32::try_from(at).ok()?, gpu))
}

fn parse(text: &str, bus: &str) -> Option<Gpu> {
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    Some(Gpu {
        uuid: field("GPU UUID")?,
        name: field("Model").unwrap_or_default(),
        bus: bus.to_owned(),
    })
}

/// The version of the kernel module, such as `580.159.04`.
pub(crate) fn module_version(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join("version")).ok()?;
    text.lines().next()?.split_whitespace().find(|word| is_version(word)).map(str::to_owned)
}

/// Whether `word` looks like `580.159.04`.
pub(crate) fn is_version(word: &str) -> bool {
    word.contains('.')
        && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_read_from_the_kernel_modules_words() {
        let text = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 38\nGPU UUID: \t GPU-0123\n";
        let gpu = parse(text, "0000:00:07.0").unwrap();
        assert_eq!((gpu.uuid.as_str(), gpu.name.as_str()), ("GPU-0123", "NVIDIA H200"));
        assert_eq!(parse("Model: x\n", "b"), None);
        assert!(is_version("580.159.04") && !is_version("x86_64") && !is_version("."));
    }
}
