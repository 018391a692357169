//! Lines for people, on standard error and only where asked for.
//!
//! `DIVVY_LOG` (off, error, warn, info, debug) or HAMi-core's `LIBCUDA_LOG_LEVEL` (0 nothing, 1 errors,
//! 2 warnings, 3 information, 4 everything) say how much, or nvshare's `NVSHARE_DEBUG` everything, where the library has
//! the name of nvshare's; by default only errors are told, each once.
//! A line is put together on the stack, cut at 480 bytes, written by one system call, and never
//! waited for. Not for paths that run often.

use core::fmt::{self, Write as _};
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use divvy_policy::variables::{LOG, NVSHARE_DEBUG, PEER_LOG};

use super::{env, errno, kernel, mode};

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Level {
    /// A limit that could not be kept or understood; memory refused.
    Error = 1,
    /// Something a limit does not cover.
    Warn = 2,
    /// Steps of the set-up.
    Info = 3,
}

const UNREAD: u8 = 0;
/// Levels below this one are written. Zero at first, as all our data: there is none to load.
static BELOW: AtomicU8 = AtomicU8::new(UNREAD);

/// Whether lines of `level` are written.
pub(crate) fn is_on(level: Level) -> bool {
    let mut below = BELOW.load(Relaxed);
    if below == UNREAD {
        below = read().saturating_add(1);
        BELOW.store(below, Relaxed);
    }
    (level as u8) < below
}

fn read() -> u8 {
    let mut text = [0_u8; 8];
    if let Some(word) = env::copy(LOG.as_bytes(), &mut text) {
        return match word {
            b"off" => 0,
            b"warn" => 2,
            b"info" => 3,
            b"debug" => 4,
            _ => 1,
        };
    }
    match env::copy(PEER_LOG.as_bytes(), &mut text) {
        Some(b"0") => 0,
        Some(b"2") => 2,
        Some(b"3") => 3,
        Some(b"4") => 4,
        None if env::is_set(NVSHARE_DEBUG) && mode::is_nvshare() => 4,
        _ => 1,
    }
}

/// Bytes of a line, its prefix included.
const LINE_BYTES: usize = 480;

struct Line {
    bytes: [u8; LINE_BYTES],
    length: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length = self.length.saturating_add(1);
            }
        }
        Ok(())
    }
}

/// Writes one line; [`log!`] asks [`is_on`] first.
#[cold]
#[inline(never)]
pub(crate) fn write(level: Level, text: fmt::Arguments<'_>) {
    let _errno = errno::Keep::new();
    let mut line = Line { bytes: [0; LINE_BYTES], length: 0 };
    let _ = line.write_str(match level {
        Level::Error => "divvy: ",
        Level::Warn => "divvy: warning: ",
        Level::Info => "divvy: info: ",
    });
    let _ = line.write_fmt(text);
    let end = line.length.min(LINE_BYTES.saturating_sub(1));
    if let Some(place) = line.bytes.get_mut(end) {
        *place = b'\n';
    }
    kernel::write_stderr(line.bytes.get(..end.saturating_add(1)).unwrap_or(&[]));
}

/// `log!(Error, "… {}", value)`: one line, where its [`Level`] is asked for.
macro_rules! log {
    ($level:ident, $($text:tt)*) => {
        if $crate::sys::log::is_on($crate::sys::log::Level::$level) {
            $crate::sys::log::write($crate::sys::log::Level::$level, format_args!($($text)*));
        }
    };
}

pub(crate) use log;
