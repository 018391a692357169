//! The tenant's limits as this process's environment states them, and where the tenant's files lie.
//!
//! `DIVVY_MEMORY[_i]` wins over `CUDA_DEVICE_MEMORY_LIMIT[_i]` as a family: where one of the first is set,
//! the second is ignored; caps of device time, and whether memory may leave the card, are read alike. A value that is not in the grammar is logged
//! once and rejects the whole: a typing error never becomes "unlimited".
//!
//! Where the library has the name of nvshare's, memory may leave the card unless a variable says otherwise, and each
//! process that no variable gives a tenant is one of its own, as each is nvshare's client.
//!
//! A tenant that is mounted into the process's container comes before all but a tenant that a variable names.
//!
//! Read once, when the process attaches. Opens no file.

use core::ffi::CStr;

use divvy_abi::config::{self, Config};
use divvy_policy::limit::Rules;
use divvy_policy::share::Environment;
use divvy_policy::size::{self, Limit};
use divvy_policy::variables::{
    BACKEND, CONTEXT, FAIL, MEMORY, NVSHARE_SINGLE, OVERSUBSCRIBE, PEER_MEMORY, PEER_OVERSUBSCRIBE,
    PEER_TENANT, TENANT,
};

use super::reason::{self, Reason};
use crate::sys::{env, mode};

/// Longest path of a tenant directory, with its end.
pub(crate) const PATH_BYTES: usize = 256;

/// A directory's path, NUL-terminated, in storage of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryPath {
    bytes: [u8; PATH_BYTES],
    length: usize,
}

impl DirectoryPath {
    const fn new() -> Self {
        Self { bytes: [0; PATH_BYTES], length: 0 }
    }

    /// Appends `part`; false, and a path that is cut, when there is no room for it and its end.
    #[inline(never)]
    fn push(&mut self, part: &[u8]) -> bool {
        let end = self.length.saturating_add(part.len());
        if end >= PATH_BYTES {
            return false;
        }
        for (to, from) in self.bytes.iter_mut().skip(self.length).zip(part) {
            *to = *from;
        }
        self.length = end;
        true
    }

    fn push_number(&mut self, number: u32) -> bool {
        let mut digits = [0_u8; 10];
        let mut rest = number;
        let mut count = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0'.wrapping_add(u8::try_from(rest % 10).unwrap_or(0));
            count += 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.push(digits.get(10_usize.saturating_sub(count)..).unwrap_or(&[]))
    }

    /// As the kernel wants it.
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    /// For people.
    pub(crate) fn as_text(&self) -> &str {
        self.as_c_str().to_str().unwrap_or("(a path that is not text)")
    }
}

/// Where the tenant's files are and who writes the limits.
#[derive(Debug)]
pub(crate) enum TenantPlace {
    /// An owner made the directory and wrote the limits.
    Owned(DirectoryPath),
    /// The first process of the tenant writes them.
    Shared(DirectoryPath),
    /// The process is to have one of its own: the first, by [`numbered`], in which nobody lives.
    Alone,
    /// The path in this variable is too long.
    TooLong(&'static str),
}

/// Finds the tenant's directory.
pub(crate) fn place() -> TenantPlace {
    let mut buffer = [0_u8; PATH_BYTES];
    let mut directory = DirectoryPath::new();
    let owned = match env_path(TENANT, &mut buffer) {
        EnvPath::Set(path) => Some(path),
        EnvPath::TooLong => return TenantPlace::TooLong(TENANT),
        EnvPath::Unset => mode::has_mounted_tenant().then(|| mode::MOUNTED_TENANT.to_bytes()),
    };
    if let Some(path) = owned {
        return match directory.push(path) {
            true => TenantPlace::Owned(directory),
            false => TenantPlace::TooLong(TENANT),
        };
    }
    let fits = match env_path(PEER_TENANT, &mut buffer) {
        EnvPath::Set(path) => beside(path, &mut directory),
        EnvPath::TooLong => false,
        EnvPath::Unset => {
            if mode::is_nvshare() {
                return TenantPlace::Alone;
            }
            push_home(&mut directory) && directory.push(b"default")
        }
    };
    match fits {
        true => TenantPlace::Shared(directory),
        false => TenantPlace::TooLong(PEER_TENANT),
    }
}

/// The directory of the user's tenants that no variable names, with the slash behind it.
fn push_home(directory: &mut DirectoryPath) -> bool {
    directory.push(b"/tmp/.divvy-")
        && directory.push_number(divvy_page::effective_uid())
        && directory.push(b"/")
}

/// The directory of the tenant with this number, of those that have one process each.
pub(crate) fn numbered(number: u32) -> DirectoryPath {
    let mut directory = DirectoryPath::new();
    // Short enough whatever the numbers are.
    let _ =
        push_home(&mut directory) && directory.push(b"nvshare-") && directory.push_number(number);
    directory
}

enum EnvPath<'a> {
    Set(&'a [u8]),
    TooLong,
    Unset,
}

fn env_path<'a>(name: &str, buffer: &'a mut [u8; PATH_BYTES]) -> EnvPath<'a> {
    let mut state = None;
    env::for_each(|key, value| {
        if state.is_none() && key == name.as_bytes() && !value.is_empty() {
            for (to, from) in buffer.iter_mut().zip(value) {
                *to = *from;
            }
            state = Some((value.len() < PATH_BYTES).then_some(value.len()));
        }
    });
    match state {
        None => EnvPath::Unset,
        Some(None) => EnvPath::TooLong,
        Some(Some(length)) => EnvPath::Set(buffer.get(..length).unwrap_or(&[])),
    }
}

/// `<parent of path>/.divvy/<its name without extension>`: beside the file that HAMi's monitor
/// opens, and never of its name.
fn beside(path: &[u8], directory: &mut DirectoryPath) -> bool {
    let cut = path.iter().rposition(|byte| *byte == b'/');
    let (parent, name) = match cut {
        None => (&b"."[..], path),
        Some(at) => {
            (path.get(..at).unwrap_or(&[]), path.get(at.saturating_add(1)..).unwrap_or(&[]))
        }
    };
    let stem = match name.iter().rposition(|byte| *byte == b'.') {
        Some(at) if at > 0 => name.get(..at).unwrap_or(name),
        _ => name,
    };
    let stem = if stem.is_empty() { b"default" } else { stem };
    directory.push(parent) && directory.push(b"/.divvy/") && directory.push(stem)
}

/// The limits of the environment as a config; `None` when one of them cannot be understood, which
/// has been said then.
pub(crate) fn from_environment() -> Option<Config> {
    let own = env::any(|name, _| env::is_of(name, MEMORY));
    let base = if own { MEMORY } else { PEER_MEMORY };
    let mut rules = Rules::new();
    let mut understood = true;
    env::for_each(|name, value| {
        if !env::is_of(name, base) {
            return;
        }
        let (Ok(name), Ok(value)) = (str::from_utf8(name), str::from_utf8(value)) else {
            understood = false;
            reason::tell(Reason::BadLimit, format_args!("{base}…: the value is not text"));
            return;
        };
        if let Err(error) = rules.push_env(base, name, value) {
            understood = false;
            reason::tell(Reason::BadLimit, format_args!("{name}: {error}"));
        }
    });
    if !understood {
        return None;
    }
    let mut config = Config::default();
    for (to, rule) in config.rules.iter_mut().zip(rules.as_slice()) {
        *to = *rule;
    }
    config.rule_count = u32::try_from(rules.as_slice().len()).unwrap_or(0);
    config.context_bytes = context_bytes()?;
    if fails_open() {
        config.flags |= config::FLAG_FAIL_OPEN;
    }
    if oversubscribes()? {
        config.flags |= config::FLAG_OVERSUBSCRIBE;
        if mode::is_nvshare() && env::is_set(NVSHARE_SINGLE) {
            config.flags |= config::FLAG_BEYOND_CARD;
        }
    }
    config.flags |= backend()?;
    let mut found = Environment::new();
    env::for_each(|name, value| {
        let (Ok(name), Ok(value)) = (str::from_utf8(name), str::from_utf8(value)) else { return };
        if let Err(error) = found.push(name, value) {
            understood = false;
            reason::tell(Reason::BadLimit, format_args!("{name}: {error}"));
        }
    });
    found.apply(&mut config);
    understood.then_some(config)
}

/// Whether memory may leave the card: by [`OVERSUBSCRIBE`], or by [`PEER_OVERSUBSCRIBE`] where that is not set, or by the
/// library's own name. `None`, logged once, for a word that is neither.
fn oversubscribes() -> Option<bool> {
    for name in [OVERSUBSCRIBE, PEER_OVERSUBSCRIBE] {
        if let Some(read) = word(name, |value| yes_or_no(name, value)) {
            return read;
        }
    }
    Some(mode::is_nvshare())
}

/// A variable's value as `read` takes it; none where the variable is not set, or empty.
fn word<T>(name: &str, mut read: impl FnMut(&[u8]) -> T) -> Option<T> {
    let mut found = None;
    env::any(|key, value| {
        let is_it = key == name.as_bytes() && !value.is_empty();
        if is_it {
            found = Some(read(value));
        }
        is_it
    });
    found
}

/// The word of a variable that is true or false. `None`, logged once, for another.
fn yes_or_no(name: &str, value: &[u8]) -> Option<bool> {
    match value {
        b"true" | b"1" => Some(true),
        b"false" | b"0" => Some(false),
        other => {
            let value = str::from_utf8(other).unwrap_or("(not text)");
            reason::tell(
                Reason::BadLimit,
                format_args!("{name}: \"{value}\" is neither true nor false"),
            );
            None
        }
    }
}

/// Flags for how memory leaves the card, by [`BACKEND`]. `None`, logged once, for another word.
fn backend() -> Option<u32> {
    let read = |value: &[u8]| match value {
        b"auto" => Some(0),
        b"vmm" => Some(config::FLAG_BACKEND_VMM),
        b"managed" => Some(config::FLAG_BACKEND_MANAGED),
        other => {
            let value = str::from_utf8(other).unwrap_or("(not text)");
            reason::tell(
                Reason::BadLimit,
                format_args!("{BACKEND}: \"{value}\" is none of auto, vmm and managed"),
            );
            None
        }
    };
    word(BACKEND, read).unwrap_or(Some(0))
}

/// Charge of a context by [`CONTEXT`], for cards that have not been measured; 0 leaves it to
/// the built-in table. `None`, logged once, for a value that is no size in bytes.
fn context_bytes() -> Option<u64> {
    let mut text = [0_u8; 24];
    let Some(value) = env::copy(CONTEXT.as_bytes(), &mut text) else { return Some(0) };
    let value = str::from_utf8(value).unwrap_or("(not text)");
    match size::parse_written(value) {
        Ok(Limit::Bytes(bytes)) => Some(bytes),
        Ok(Limit::Unlimited | Limit::Ppm(_)) => {
            reason::tell(
                Reason::BadLimit,
                format_args!("{CONTEXT}: \"{value}\" is no amount; write for example 500MiB"),
            );
            None
        }
        Err(error) => {
            reason::tell(Reason::BadLimit, format_args!("{CONTEXT}: {error}"));
            None
        }
    }
}

/// Whether the operator chose that the program runs unlimited when Divvy fails.
pub(crate) fn fails_open() -> bool {
    let mut open = false;
    env::for_each(|name, value| {
        if name == FAIL.as_bytes() {
            open = value == b"open";
            if !open && value != b"closed" && !value.is_empty() {
                reason::tell(
                    Reason::BadLimit,
                    format_args!("{FAIL} is neither open nor closed; closed is assumed"),
                );
            }
        }
    });
    open
}
