//! Reason codes: stable names for what Divvy finds, documented in docs/reason-codes.md.
//!
//! A code is never given another meaning. Codes from 200 are the library's refusals; a test compares
//! both lists with the page.

use std::fmt;

macro_rules! reasons {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        /// Subject of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Reason {
            $(#[doc = $meaning] $name = $code,)*
        }

        impl Reason {
            /// All of them, by code.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its meaning, in a clause.
            pub(crate) const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                }
            }
        }
    };
}

reasons! {
    KernelModule = 1, "the NVIDIA kernel module";
    DriverLibrary = 2, "the driver's library, libcuda.so.1";
    NvmlLibrary = 3, "the management library, libnvidia-ml.so.1";
    DriverVersions = 4, "the versions of the driver's library and of the kernel module";
    DeviceFiles = 5, "the device files this process may open";
    ShimLibrary = 10, "the library that is preloaded, libdivvy.so";
    ShimNeeds = 11, "what libdivvy.so itself needs in order to load";
    Preload = 12, "LD_PRELOAD and /etc/ld.so.preload";
    OtherSharer = 13, "another library that limits GPUs is preloaded";
    Auditors = 14, "LD_AUDIT, whose libraries the loader keeps apart from what is preloaded";
    StaticProgram = 20, "the program is statically linked, and nothing can be preloaded into it";
    MuslProgram = 21, "the program uses musl, and the driver and libdivvy.so need glibc";
    SetUserId = 22, "the program changes its user at start, and the loader then ignores LD_PRELOAD";
    ForeignMachine = 23, "the program is for another processor";
    Program = 24, "the program named on the command line";
    Sanitizer = 25, "the program is built with a sanitizer that wants to be loaded first";
    Launcher = 26, "a script or launcher takes away what is preloaded, or the tenant";
    Hooks = 30, "entry points of the driver that Divvy follows";
    Uncovered = 31, "entry points of the driver that this version does not know";
    NotHooked = 32, "entry points that take or give memory and are not hooked";
    ComputeShare = 33, "the share of device time, and the entry points it is kept by";
    Addresses = 34, "the addresses that the driver gives to programs that ask for entry points";
    ContextCost = 35, "what a context takes on a card";
    BackEnd = 36, "how memory of programs that oversubscribe leaves a card";
    Kernel = 40, "the Linux kernel";
    Glibc = 41, "the C library";
    TenantFiles = 42, "the directory of tenants";
    Container = 43, "the container this process runs in";
    Sandbox = 44, "a sandbox that ignores preloading";
    Mps = 45, "the CUDA Multi-Process Service";
    Mig = 46, "Multi-Instance GPU";
    HostMemory = 47, "memory of the host for device memory that is away";
    LimitVariables = 50, "limits in environment variables";
    LimitNotUnderstood = 51, "a limit in an environment variable cannot be understood";
    IgnoredVariable = 52, "an environment variable that has no effect";
    Setting = 53, "a setting in an environment variable";
    Tenant = 54, "the tenant this process belongs to";
    UnknownVariable = 55, "an environment variable that begins as Divvy's do and is none";
    DefaultsFile = 56, "files of defaults, config.toml";
    Daemon = 60, "the daemon that divides devices by turns";
    OtherDaemon = 61, "another daemon divides the device or writes the tenant's gates";
    ForeignProcesses = 62, "processes of no tenant use the device";
    DeviceLock = 63, "the lock by which one daemon divides a device cannot be used";
    GatesNotHeld = 64, "a tenant's gates cannot be written by the daemon";
    NoMeeting = 65, "tenants without a daemon have no directory to meet in";
    TooMany = 66, "a user has more tenants, or directories of tenants, than a daemon has room for";
    TenantsOwner = 67, "the file by which a tenant says who made it is none";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DV{:03}", *self as u16)
    }
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_documented_and_every_documented_code_exists() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reason-codes.md");
        let page = std::fs::read_to_string(page).unwrap();
        let documented: BTreeSet<String> = page
            .lines()
            .filter_map(|line| line.strip_prefix("## DV")?.get(..3))
            .map(|digits| format!("DV{digits}"))
            .collect();
        let ours = Reason::ALL.iter().map(ToString::to_string);
        let known: BTreeSet<String> = ours.chain(refusals()).collect();
        assert_eq!(known, documented);
        let index: BTreeSet<String> = page.lines().flat_map(range).collect();
        assert_eq!(known, index, "the index at the head of the page");
        let ours: BTreeSet<u16> = Reason::ALL.iter().map(|reason| *reason as u16).collect();
        assert!(ours.len() == Reason::ALL.len() && ours.iter().all(|code| *code < 200));
    }

    /// The codes of a row of the page's index, `| DV001 to DV005 | the driver |`: those documented in it.
    /// Each must begin and end with one.
    fn range(row: &str) -> Vec<String> {
        let number = |text: &str| text.strip_prefix("DV")?.parse::<u16>().ok();
        let Some(ends) = row.strip_prefix("| ").and_then(|row| row.split(" |").next()) else {
            return Vec::new();
        };
        let Some((Some(first), Some(last))) =
            ends.split_once(" to ").map(|(first, last)| (number(first), number(last)))
        else {
            return Vec::new();
        };
        let refusals = refusals();
        let ours = Reason::ALL.iter().map(ToString::to_string);
        let known: BTreeSet<String> = ours.chain(refusals).collect();
        for end in [first, last] {
            assert!(known.contains(&format!("DV{end:03}")), "{row}");
        }
        (first..=last)
            .map(|code| format!("DV{code:03}"))
            .filter(|code| known.contains(code))
            .collect()
    }

    /// The codes of the library's refusals: 200 and above, each on a line `Name = 201,` of its list.
    fn refusals() -> Vec<String> {
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/../shim/src/tenant/reason.rs");
        let text = std::fs::read_to_string(list).unwrap();
        let digits = text.lines().filter_map(|line| line.split_once(" = 2")?.1.strip_suffix(','));
        let codes: Vec<String> = digits.map(|digits| format!("DV2{digits}")).collect();
        assert!(codes.len() > 3, "{codes:?}");
        codes
    }
}
