//! Values that options of the daemon and keys of a file have in common: sizes, addresses, words.
//!
//! Does not know where a value was written: its reader names that.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use divvy_policy::size::{self, Limit};
use divvy_policy::variables::BACKENDS;

/// The port of an address without one. Why this: `docs/metrics.md`.
pub(crate) const PORT: u16 = 19437;

/// The largest floor: more would make the order of priorities another.
const MOST_FLOOR_PERCENT: f64 = 50.0;

/// A part of each device for tenants of lower priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    /// In millionths.
    pub(crate) ppm: u64,
}

/// The address that `text` names.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let with_port = text.parse::<SocketAddr>().ok();
    let without = || Some(SocketAddr::new(bare.parse::<IpAddr>().ok()?, PORT));
    with_port.or_else(without).ok_or_else(|| {
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        format!("an IP address with or without a port is wanted, such as {own}, 0.0.0.0 or [::1]")
    })
}

/// The bytes of a size, such as 24GiB; `None` for what is none.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    match size::parse(text) {
        Ok(Limit::Bytes(bytes)) if bytes > 0 => Some(bytes),
        _ => None,
    }
}

/// Judges a size.
pub(super) fn size(text: &str) -> Result<(), String> {
    bytes(text).map(|_| ()).ok_or_else(|| "it is no size: give one such as 24GiB".to_owned())
}

/// Judges a word for the means by which memory leaves.
pub(super) fn backend(text: &str) -> Result<(), String> {
    let words = || format!("write one of {}", BACKENDS.join(", "));
    if BACKENDS.contains(&text) { Ok(()) } else { Err(words()) }
}

/// Judges a whole path.
pub(super) fn absolute(text: &str) -> Result<(), String> {
    let words = || "it does not begin with /: write the whole path".to_owned();
    if Path::new(text).is_absolute() { Ok(()) } else { Err(words()) }
}

/// The part of a device, in millionths, that `text` names as a percentage: 2, 2% or 0.5%.
pub(crate) fn floor(text: &str) -> Result<Floor, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let percent = number.filter(|percent| (0.0..=MOST_FLOOR_PERCENT).contains(percent));
    // At most half a million.
    let ppm = percent.map(|percent| (percent * 10_000.0).round() as u64);
    ppm.map(|ppm| Floor { ppm }).ok_or_else(|| {
        format!(
            "a percentage from 0 to {MOST_FLOOR_PERCENT} is wanted, such as 2 or 0.5%; 0 gives no floor"
        )
    })
}

/// Judges a number of seconds.
pub(super) fn seconds(text: &str) -> Result<(), String> {
    text.parse::<u64>().map(|_| ()).map_err(|_| "write seconds, from 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{address, floor};

    #[test]
    fn a_floor_is_a_percentage() {
        for (text, ppm) in
            [("0", 0), ("2", 20_000), ("2%", 20_000), ("0.5%", 5_000), ("50", 500_000)]
        {
            assert_eq!(floor(text).unwrap().ppm, ppm, "{text}");
        }
        for text in ["", "%", "-1", "51", "two", "nan", "inf", "2 %", "2%%"] {
            let words = floor(text).unwrap_err();
            assert!(words.contains("from 0 to 50"), "{text}: {words}");
        }
    }

    #[test]
    fn an_address_may_leave_its_port_out() {
        for (text, full) in [
            ("127.0.0.1", "127.0.0.1:19437"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("::1", "[::1]:19437"),
            ("[::1]", "[::1]:19437"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), full, "{text}");
        }
        for text in ["", "localhost", "127.0.0.1:", "1.2.3", "[127.0.0.1", "::1]:7", "9:9:9"] {
            let words = address(text).unwrap_err();
            assert!(words.contains("such as 127.0.0.1:19437"), "{words}");
        }
    }
}
