//! How settings and NVML write durations, sizes and UUIDs.
//!
//! Promises: what is not written in full as described is read as nothing. Does not know what a value is for.

use std::time::Duration;

/// A whole number with `ns`, `us`, `ms` or `s`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let unit_ns: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit_ns).map(Duration::from_nanos)
}

/// A decimal number, perhaps with a fraction, and a binary unit: `B`, or K, M, G, T alone or followed
/// by `B` or `iB`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at_checked(end)?;
    let shift = match unit {
        "" | "B" => 0,
        "K" | "KB" | "KiB" => 10,
        "M" | "MB" | "MiB" => 20,
        "G" | "GB" | "GiB" => 30,
        "T" | "TB" | "TiB" => 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut bytes = u128::from(whole) << shift;
    if !fraction.is_empty() {
        let digits = fraction.get(..fraction.len().min(12))?;
        let numerator: u128 = digits.parse().ok()?;
        let denominator = 10u128.pow(u32::try_from(digits.len()).ok()?);
        bytes += (numerator << shift) / denominator;
    }
    u64::try_from(bytes).ok().filter(|bytes| *bytes < 1 << 50)
}

/// A UUID as NVML prints it, of a card or an instance; the prefix and the dashes may be missing.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let bare = text.strip_prefix("GPU-").or_else(|| text.strip_prefix("MIG-"));
    let digits: Vec<u8> = bare.unwrap_or(text).bytes().filter(|byte| *byte != b'-').collect();
    let mut uuid = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(uuid)
}

/// A UUID as NVML prints it, of a card or an instance.
pub fn uuid_text(is_instance: bool, uuid: &[u8; 16]) -> String {
    let mut text = String::from(if is_instance { "MIG-" } else { "GPU-" });
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("5ms"), Some(Duration::from_millis(5)));
        assert_eq!(parse_duration("5"), None);
        assert_eq!(parse_duration("ms"), None);
        assert_eq!(parse_duration("99999999999999s"), None);
    }
}
