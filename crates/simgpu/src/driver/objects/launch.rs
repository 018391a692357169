//! A kernel with its arguments: which computation it is and how much of the device it occupies.
//!
//! The computations are in [`crate::driver::kernels`].

use crate::calibration::{KERNEL_BYTES_PER_NS, KERNEL_FLOPS_PER_NS, KERNEL_NS};
use crate::driver::machine::Load;
use crate::driver::ptx::PtxEntry;

/// Which computation an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    Nothing,
    Trap,
    VectorAdd,
    Add32,
    Fill,
    Checksum,
    MatrixProduct,
    FixedWork,
    ShareWork,
    Spin,
    CountDown,
    Deep,
}

impl Body {
    /// Recognises an entry.
    pub(crate) fn of(entry: &PtxEntry) -> Option<Self> {
        Some(match (entry.name.as_str(), entry.parameters.as_slice()) {
            ("vector_add", [8, 8, 8, 4]) => Self::VectorAdd,
            ("add32", [8, 8, 8, 4]) => Self::Add32,
            ("fill_u32", [8, 4, 8]) | ("fill32", [8, 4, 4]) => Self::Fill,
            ("checksum", [8, 8, 8]) => Self::Checksum,
            ("matmul", [8, 8, 8, 4]) => Self::MatrixProduct,
            ("fixed_work", [8, 8]) => Self::FixedWork,
            ("share_work", [8, 8]) => Self::ShareWork,
            ("spin_ns", [8]) => Self::Spin,
            ("count_down", [8, 8, 4, 8]) => Self::CountDown,
            ("deep", [8]) => Self::Deep,
            _ if entry.traps => Self::Trap,
            _ if entry.is_empty => Self::Nothing,
            _ => return None,
        })
    }
}

/// A kernel with its arguments, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) function: u64,
    pub(crate) body: Body,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

impl Launch {
    /// An argument as a number.
    pub(crate) fn number(&self, index: usize) -> u64 {
        let mut value = [0; 8];
        if let Some(argument) = self.arguments.get(index) {
            let length = argument.len().min(8);
            value[..length].copy_from_slice(&argument[..length]);
        }
        u64::from_le_bytes(value)
    }

    /// The memory that the kernel reads and writes: addresses with lengths in bytes.
    pub(crate) fn touched(&self) -> Vec<(u64, u64)> {
        let n = |index| self.number(index);
        let words = |index| n(index).saturating_mul(4);
        let square = || n(3).saturating_mul(n(3)).saturating_mul(4);
        let mut touched = match self.body {
            Body::Nothing | Body::Trap | Body::Spin => Vec::new(),
            Body::VectorAdd | Body::Add32 => [0, 1, 2].map(|index| (n(index), words(3))).to_vec(),
            Body::Fill => vec![(n(0), words(2))],
            Body::Checksum => vec![(n(0), words(1)), (n(2), 8)],
            Body::MatrixProduct => [0, 1, 2].map(|index| (n(index), square())).to_vec(),
            Body::FixedWork => vec![(n(1), 8)],
            Body::ShareWork => vec![(n(0), 8)],
            Body::CountDown => vec![(n(1), 4)],
            Body::Deep => vec![(n(0), 4)],
        };
        touched.retain(|(at, bytes)| *at != 0 && *bytes != 0);
        touched
    }

    /// How much of what the kernel occupies.
    pub(crate) fn load(&self) -> (Load, u64) {
        let n = |index| self.number(index);
        let moved = |bytes: u64| KERNEL_NS + bytes / KERNEL_BYTES_PER_NS;
        match self.body {
            Body::Nothing | Body::Trap | Body::Deep => (Load::Work, KERNEL_NS),
            Body::VectorAdd | Body::Add32 => (Load::Work, moved(n(3).saturating_mul(12))),
            Body::Fill => (Load::Work, moved(n(2).saturating_mul(4))),
            Body::Checksum => (Load::Work, moved(n(1).saturating_mul(4))),
            Body::MatrixProduct => (
                Load::Work,
                KERNEL_NS + n(3).saturating_pow(3).saturating_mul(2) / KERNEL_FLOPS_PER_NS,
            ),
            Body::FixedWork => (Load::Work, n(0)),
            Body::ShareWork => (Load::Work, n(1).max(KERNEL_NS)),
            Body::Spin => (Load::Wall, n(0)),
            Body::CountDown => (Load::Work, n(3).max(KERNEL_NS)),
        }
    }
}
