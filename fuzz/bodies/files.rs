//! Any bytes as a tenant's files: the reader and the limits' resolution neither panic nor loop, and
//! what they show is safe to print.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use divvy_abi::usage;
use divvy_abi::{MAX_DEVICES, config};
use divvy_page::Directory;
use divvy_page::reader::{self, UsageFile};
use divvy_policy::{limit, share};

/// One input, as the files of a tenant in `directory`; panics where it must not.
pub(crate) fn run(directory: &Path, data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let path = CString::new(directory.as_os_str().as_bytes()).expect("no NUL");
    // With a good head, so that most inputs get past it; or as they are.
    let with_head = |magic: [u8; 8], bytes: usize| {
        let mut file = magic.to_vec();
        file.extend(divvy_abi::ABI_VERSION.to_ne_bytes());
        file.extend_from_slice(data);
        file.resize(bytes, 0);
        file
    };
    let (config, usage) = match choice % 3 {
        0 => (with_head(config::MAGIC, config::CONFIG_BYTES), data.to_vec()),
        1 => (data.to_vec(), with_head(usage::MAGIC, usage::USAGE_BYTES)),
        _ => (data.to_vec(), data.to_vec()),
    };
    std::fs::write(directory.join("config"), config).expect("written");
    std::fs::write(directory.join("usage"), usage).expect("written");
    let opened = Directory::open(&path).expect("a directory");
    match reader::read_config(&opened) {
        Ok(Some(config)) => {
            let _ = limit::resolve(config.rules(), Some(0), &[1; 16], 1 << 36);
            let _ = share::resolve(config.compute_rules(), Some(0), &[1; 16]);
            let _ = share::needs_gate(&config);
        }
        Ok(None) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(Some(file)) = UsageFile::open(&path) {
        for row in 0..MAX_DEVICES {
            if let Some(device) = file.device(row) {
                assert!(device.name.to_string().chars().all(reader::is_shown));
                let _ = (file.totals(row), file.line(row, 1));
                let _ = (file.gate_sum(row), file.gate(row, 1), file.cap(row));
            }
        }
        for slot in 1..file.slots_high().min(8) {
            if let Some(slot) = file.slot(slot) {
                assert!(slot.comm.to_string().chars().all(reader::is_shown));
            }
        }
    }
}
