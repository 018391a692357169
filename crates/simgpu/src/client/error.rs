//! Why a call to the machine failed or the machine could not be started, and the driver's code for it.

use crate::machine::description::BadSetting;
use crate::wire::{Refusal, Reply};
use divvy_driver_api::types::CUresult;
use rustix::io::Errno;
use std::path::PathBuf;

/// Why a call to the machine failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The device has not that much memory left.
    #[error("the device is out of memory")]
    OutOfMemory,
    /// No such device, block, context, descriptor or handle.
    #[error("the machine knows no such device, block, context or handle")]
    Unknown,
    /// The request makes no sense.
    #[error("the machine found the request invalid")]
    Invalid,
    /// Not in this mode.
    #[error("the simulated machine does not do this in this mode")]
    NotSupported,
    /// The process is a forked child of the one that connected.
    #[error("the process was forked after the driver was initialised")]
    Forked,
    /// The daemon has ended.
    #[error("simgpud has ended")]
    Gone,
    /// The daemon speaks another language.
    #[error("simgpud and this library come from different builds")]
    Protocol,
    /// A system call of ours failed.
    #[error("the system refused: {0}")]
    System(Errno),
    /// The environment cannot be understood.
    #[error(transparent)]
    Setting(#[from] BadSetting),
    /// The machine could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why the machine could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory cannot be used.
    #[error("SIMGPU_DIR={}: {problem} ({errno})", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The attempt.
        problem: &'static str,
        /// The system's answer.
        errno: Errno,
    },
    /// No `simgpud` was found.
    #[error(
        "simgpud was not found beside the driver library or the program; set SIMGPUD to its path"
    )]
    NotFound,
    /// `simgpud` could not be executed.
    #[error("{} could not be executed: {problem}", program.display())]
    Execute {
        /// The file.
        program: PathBuf,
        /// The system's answer.
        problem: String,
    },
    /// `simgpud` said that it cannot run.
    #[error("simgpud did not start: {0}")]
    Refused(String),
}

impl ClientError {
    pub(super) fn from_reply(reply: &Reply) -> Self {
        let Reply::Refused { refusal } = reply else { return Self::Protocol };
        match Refusal::from_number(*refusal) {
            Refusal::OutOfMemory => Self::OutOfMemory,
            Refusal::Unknown => Self::Unknown,
            Refusal::Invalid => Self::Invalid,
            Refusal::Protocol => Self::Protocol,
            Refusal::Exhausted => Self::System(Errno::NFILE),
        }
    }

    /// The driver's answer to its caller.
    pub fn result(&self) -> CUresult {
        match self {
            Self::OutOfMemory => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            Self::Unknown | Self::Invalid => CUresult::CUDA_ERROR_INVALID_VALUE,
            Self::NotSupported => CUresult::CUDA_ERROR_NOT_SUPPORTED,
            Self::Forked => CUresult::CUDA_ERROR_NOT_INITIALIZED,
            Self::Gone => CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
            Self::System(_) => CUresult::CUDA_ERROR_OPERATING_SYSTEM,
            Self::Protocol => CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
            Self::Setting(_) | Self::Start(_) => CUresult::CUDA_ERROR_SYSTEM_NOT_READY,
        }
    }
}
