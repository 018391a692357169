//! Bytes in words: what tables print. Reading sizes is `divvy_policy::size`'s.

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// Three significant figures at most, binary units: `1.5 GiB`, `518 MiB`, `0`.
pub fn text(bytes: u64) -> String {
    if bytes == 0 {
        return "0".to_owned();
    }
    let Some((unit, shift)) = UNITS.iter().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes} B");
    };
    let value = bytes as f64 / (1_u64 << shift) as f64;
    let digits = if value >= 99.95 || value.fract() == 0.0 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// [`text`], with a dash for "no limit".
pub(crate) fn limit(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_well() {
        for (bytes, words) in [
            (0, "0"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (518 << 20, "518 MiB"),
            (3 << 29, "1.50 GiB"),
            (10_500 << 20, "10.3 GiB"),
            (140_000 << 20, "137 GiB"),
            (1 << 46, "64 TiB"),
        ] {
            assert_eq!(text(bytes), words);
        }
        assert_eq!(limit(None), "-");
    }
}
