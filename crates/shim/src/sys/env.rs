//! The program's environment, read where it lies.
//!
//! Not by `getenv`, which programs interpose; not by /proc, which would be a file. As with `getenv`,
//! another thread's `setenv` at the same instant is the program's own race.

use core::ffi::{CStr, c_char};

unsafe extern "C" {
    /// The C library's array of `NAME=value`, ended by null: by the name that its own functions use. A program may have an
    /// `environ` of its own.
    static __environ: *const *const c_char;
}

/// Whether the C library has set the environment up: not yet where the first constructors run.
pub(super) fn is_ready() -> bool {
    // SAFETY: a word of the C library.
    !unsafe { __environ }.is_null()
}

/// Calls `visit` with the name and the value of each variable, until it returns true; whether it did.
pub(crate) fn any(mut visit: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
    // SAFETY: a word of the C library.
    let mut entry = unsafe { __environ };
    if entry.is_null() {
        return false;
    }
    loop {
        // SAFETY: within the array that null ends.
        let text = unsafe { entry.read() };
        if text.is_null() {
            return false;
        }
        // SAFETY: an entry of the environment is a string.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        if let Some(at) = text.iter().position(|byte| *byte == b'=')
            && let (Some(name), Some(value)) = (text.get(..at), text.get(at.saturating_add(1)..))
            && visit(name, value)
        {
            return true;
        }
        entry = entry.wrapping_add(1);
    }
}

/// Calls `visit` with the name and the value of each variable.
pub(crate) fn for_each(mut visit: impl FnMut(&[u8], &[u8])) {
    any(|name, value| {
        visit(name, value);
        false
    });
}

/// Whether there is a variable of this name, whatever its value.
pub(crate) fn is_set(name: &str) -> bool {
    any(|other, _| other == name.as_bytes())
}

/// Whether a variable of this name is `base`, or `base` for one device (`_0`). What only begins as `base`
/// does is another variable.
pub(crate) fn is_of(name: &[u8], base: &str) -> bool {
    let rest = name.strip_prefix(base.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"_"))
}

/// Copies the value of `name`; none if it is not set or longer than `into`.
pub(crate) fn copy<'a>(name: &[u8], into: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut length = None;
    any(|other, value| {
        if other != name {
            return false;
        }
        if value.len() <= into.len() {
            into.iter_mut().zip(value).for_each(|(place, byte)| *place = *byte);
            length = Some(value.len());
        }
        true
    });
    into.get(..length?)
}
