//! Quantities as Kubernetes writes them, where a whole number is asked for.
//!
//! ```text
//! quantity = digits [ "." digits ] [ suffix ]
//! suffix   = n u m | k M G T P E | Ki Mi Gi Ti Pi Ei | e or E, digits
//! ```
//!
//! Promises: the value is exact, or an error in words; nothing is rounded, clamped or guessed. A number that YAML 1.1 and a
//! quantity read differently (`010`, `0x10`, `1_000`) is an error.

use crate::yaml::{Node, Style};

/// Suffixes and what they multiply by, as a factor and a divisor.
const SUFFIXES: [(&str, u128, u128); 16] = [
    ("", 1, 1),
    ("n", 1, 1_000_000_000),
    ("u", 1, 1_000_000),
    ("m", 1, 1_000),
    ("k", 1_000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("T", 1_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000, 1),
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("Pi", 1 << 50, 1),
    ("Ei", 1 << 60, 1),
];
/// Suffixes of what is written, from the largest on, and their bits.
const WRITTEN: [(&str, u32); 6] =
    [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
/// More digits than any quantity needs.
const MOST_DIGITS: usize = 18;
/// Digits of what the scheduler has counted, which are billionths perhaps.
const MOST_COUNTED_DIGITS: usize = 28;

/// The whole number that a value of a manifest stands for.
///
/// # Errors
/// The reason, in words that go on behind the value.
pub(crate) fn whole(node: &Node) -> Result<u64, &'static str> {
    let Some(scalar) = node.scalar() else { return Err("is no number") };
    if scalar.is_null() {
        return Err("is empty");
    }
    if node.tag.is_some() {
        return Err("has a tag; write the number alone");
    }
    if scalar.style == Style::Literal {
        return Err("is a block of text; write the number alone");
    }
    whole_text(&scalar.text)
}

/// # Errors
/// As [`whole`].
pub(crate) fn whole_text(text: &str) -> Result<u64, &'static str> {
    let (value, over) = ratio(text, MOST_DIGITS)?;
    if value % over != 0 {
        return Err("is no whole number");
    }
    u64::try_from(value / over).map_err(|_| "is more than can be counted")
}

/// The whole number in an amount that the scheduler has given. Its fraction is left out, so that the parts of a card are never
/// more than the card.
///
/// # Errors
/// Those of [`whole`], except that a fraction is no error.
pub(crate) fn given(text: &str) -> Result<u64, &'static str> {
    let (value, over) = ratio(text, MOST_COUNTED_DIGITS)?;
    u64::try_from(value / over).map_err(|_| "is more than can be counted")
}

/// The number in thousandths, rounded up: processors are asked for in these.
///
/// # Errors
/// Those of [`whole`], except that a fraction is rounded.
pub(crate) fn thousandths(text: &str) -> Result<u128, &'static str> {
    let (value, over) = ratio(text, MOST_DIGITS)?;
    Ok(value.checked_mul(1000).ok_or("is more than can be counted")?.div_ceil(over))
}

/// The number in millionths, rounded down.
///
/// # Errors
/// As [`whole`], but for what is rounded.
pub(crate) fn millionths(text: &str) -> Result<u64, &'static str> {
    let (value, over) = ratio(text, MOST_DIGITS)?;
    let all = value.checked_mul(1_000_000).ok_or("is more than can be counted")?;
    u64::try_from(all / over).map_err(|_| "is more than can be counted")
}

/// The number as a fraction.
fn ratio(text: &str, most_digits: usize) -> Result<(u128, u128), &'static str> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text.starts_with('-') {
        return Err("is negative");
    }
    let is_digit = |c: char| c.is_ascii_digit();
    let digits = text.len() - text.trim_start_matches(is_digit).len();
    let (number, rest) = text.split_at(digits);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.len() - rest.trim_start_matches(is_digit).len()),
        None => ("", rest),
    };
    if number.is_empty() {
        return Err("is no number");
    }
    if number.len() > 1 && number.starts_with('0') {
        return Err("begins with a zero, which some readers take as octal; write it without");
    }
    if number.len() + fraction.len() > most_digits {
        return Err("has more digits than any card can count");
    }
    let (times, over) = factor(suffix)?;
    let over = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0)) * over;
    let all = format!("{number}{fraction}").parse::<u128>().map_err(|_| "is no number")?;
    let value = all.checked_mul(times).ok_or("is more than can be counted")?;
    Ok((value, over))
}

fn factor(suffix: &str) -> Result<(u128, u128), &'static str> {
    if let Some((_, times, over)) = SUFFIXES.iter().find(|(name, ..)| *name == suffix) {
        return Ok((*times, *over));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|digits| digits.parse::<u32>().ok());
    match exponent {
        Some(exponent @ 0..=18) => Ok((10_u128.pow(exponent), 1)),
        Some(_) => Err("is more than can be counted"),
        None => Err("has a unit that no quantity has"),
    }
}

/// A number of bytes as the API server writes it.
pub(crate) fn binary(count: u64) -> String {
    let fits = |(_, bits): &&(&str, u32)| count > 0 && count.trailing_zeros() >= *bits;
    match WRITTEN.iter().find(fits) {
        Some((suffix, bits)) => format!("{}{suffix}", count >> bits),
        None => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_exact_or_refused() {
        for (text, value) in [
            ("0", 0),
            ("1", 1),
            ("+3", 3),
            ("8192", 8192),
            ("8k", 8000),
            ("8Ki", 8192),
            ("2000m", 2),
            ("1.5k", 1500),
            ("2.0", 2),
            ("3e3", 3000),
            ("1Gi", 1 << 30),
        ] {
            assert_eq!(whole_text(text), Ok(value), "{text}");
        }
        for text in [
            "",
            "-1",
            "-0",
            "1.5",
            "500m",
            "0x10",
            "0o10",
            "010",
            "1_000",
            "1:30",
            "8GiB",
            "8 Gi",
            "1e99",
            "1e-3",
            "9999999999999999999",
            "yes",
            "NaN",
            ".5",
            "½",
            "１",
        ] {
            assert!(whole_text(text).is_err(), "{text}");
        }
        for (text, value) in
            [("500m", 500), ("1", 1000), ("1.5", 1500), ("0.0001", 1), ("1Ki", 1_024_000)]
        {
            assert_eq!(thousandths(text), Ok(value), "{text}");
        }
        assert!(thousandths("-1").is_err() && thousandths("999Ei").is_ok());
        assert!(whole(&Node::plain("")).is_err() && whole(&Node::plain("null")).is_err());
        assert!(whole(&Node::sequence([])).is_err());
        assert_eq!(whole(&Node::quoted("30")), Ok(30));
    }

    #[test]
    fn a_fraction_of_what_was_given_is_left() {
        for (text, value) in [
            ("8Gi", 8 << 30),
            ("30500m", 30),
            ("1n", 0),
            ("68719476736000000001n", 68_719_476_736),
            ("33333u", 0),
            ("33.9", 33),
        ] {
            assert_eq!(given(text), Ok(value), "{text}");
        }
        assert!(given("-9223372036854775808").is_err() && given("1e99").is_err());
        assert!(
            given(&"9".repeat(28)).is_err() && given(&format!("0.{}n", "9".repeat(27))).is_ok()
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = (whole_text(&text), thousandths(&text), given(&text));
        }

        #[test]
        fn plain_numbers_are_themselves(value in 0..1_u64 << 50) {
            prop_assert_eq!(whole_text(&value.to_string()), Ok(value));
            prop_assert_eq!(whole_text(&binary(value)), Ok(value));
        }
    }
}
