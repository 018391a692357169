//! The size grammar: what `8GiB`, `3000m`, `1.5g` or `50%` mean, and what they do not.
//!
//! ```text
//! size    = number unit | percent | "0" unit
//! number  = digits without a leading zero, optionally "." digits
//! unit    = "" | B | K M G T, each also as KB or KiB or Ki; letters in either case, all binary (1024)
//! percent = number "%", at most four decimals, above 0 and at most 100
//! ```
//!
//! Promises: a zero without a fraction and without `%` is "no limit" (device plugins write `0` and
//! `0m`); everything that is not in the grammar is an error that names the text; nothing is trimmed,
//! guessed or clamped, so a typing error can never become "unlimited". Where a person writes
//! ([`parse_written`]) a number without a unit that is below [`MIN_PLAIN_BYTES`] is an error too: `8` is
//! `8GiB` with its unit forgotten, not eight bytes. No allocation, no panic.
//!
//! Does not: know any card. A percentage stays one until [`Limit::resolve`] is given the card's size.

use core::fmt;

/// The largest size that can be written: 64 TiB, which the ledger's words can count.
pub const MAX_BYTES: u64 = 1 << 46;

/// The smallest number of bytes that may be written without a unit where a person writes.
pub const MIN_PLAIN_BYTES: u64 = 1 << 20;

/// A whole, in millionths.
const PPM: u64 = 1_000_000;

/// A limit as written, before the card is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No limit: the text was `0`, `0m` or alike.
    Unlimited,
    /// So many bytes.
    Bytes(u64),
    /// So many millionths of the card, 1 to 1,000,000.
    Ppm(u32),
}

impl Limit {
    /// The limit in bytes on a card of `card_bytes`, or `None` for no limit.
    ///
    /// A percentage is rounded down to whole bytes; bytes are not clamped to the card.
    pub fn resolve(self, card_bytes: u64) -> Option<u64> {
        match self {
            Limit::Unlimited => None,
            Limit::Bytes(bytes) => Some(bytes),
            Limit::Ppm(ppm) => {
                // By parts, which is as exact as in 128 bits.
                let (millions, rest, ppm) = (card_bytes / PPM, card_bytes % PPM, u64::from(ppm));
                Some(millions.saturating_mul(ppm).saturating_add(rest.saturating_mul(ppm) / PPM))
            }
        }
    }
}

/// Why a text is not a size. `Display` names the text and the fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeError<'a> {
    /// The text as it was given.
    pub text: &'a str,
    /// The fault in it.
    pub reason: SizeReason,
}

/// A fault in the text of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeReason {
    /// Nothing was written.
    Empty,
    /// It does not begin with a digit: a sign, a space, a letter.
    NotANumber,
    /// A number of several digits begins with 0, which other tools read as octal.
    LeadingZero,
    /// A point without digits after it, or more digits than can be exact.
    BadFraction,
    /// The letters after the number are no known unit.
    UnknownUnit,
    /// A fraction of a byte.
    FractionOfByte,
    /// More than [`MAX_BYTES`].
    TooLarge,
    /// Above 0 yet less than one byte, or a zero written with a fraction.
    TooSmall,
    /// A percentage that is 0, above 100, or finer than a millionth of the card.
    BadPercent,
    /// A number without a unit, and too small to be meant in bytes.
    NoUnit,
}

impl fmt::Display for SizeError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not a size: ", self.text)?;
        f.write_str(match self.reason {
            SizeReason::Empty => "it is empty; write for example 8GiB, 3000m or 50%",
            SizeReason::NotANumber => "it must begin with a digit; write for example 8GiB or 50%",
            SizeReason::LeadingZero => "drop the leading zero",
            SizeReason::BadFraction => "write 1 to 9 digits after the point, as in 1.5g",
            SizeReason::UnknownUnit => "the unit must be B, K, M, G, T (also KB, Ki, KiB) or %",
            SizeReason::FractionOfByte => "bytes have no fraction; add a unit, as in 1.5g",
            SizeReason::TooLarge => "it is above 64T",
            SizeReason::TooSmall => "it is less than one byte; for no limit write 0",
            SizeReason::BadPercent => {
                "a percentage must be above 0%, at most 100%, with at most four decimals; for no limit write 0"
            }
            SizeReason::NoUnit => {
                let text = self.text;
                return write!(
                    f,
                    "a number alone is bytes, and so few hold nothing; write {text}GiB or {text}MiB"
                );
            }
        })
    }
}

impl core::error::Error for SizeError<'_> {}

/// Reads one size.
///
/// # Errors
/// [`SizeError`] for everything outside the grammar in the module's head.
pub fn parse(text: &str) -> Result<Limit, SizeError<'_>> {
    parse_inner(text).map_err(|reason| SizeError { text, reason })
}

/// Reads one size where a person writes it: [`parse`], but for a number without a unit that is too small
/// to be meant in bytes. HAMi-core's variables are read by [`parse`] alone, since programs write them.
///
/// # Errors
/// As [`parse`], and [`SizeReason::NoUnit`].
pub fn parse_written(text: &str) -> Result<Limit, SizeError<'_>> {
    match parse(text) {
        Ok(Limit::Bytes(..MIN_PLAIN_BYTES)) if is_plain(text) => {
            Err(SizeError { text, reason: SizeReason::NoUnit })
        }
        parsed => parsed,
    }
}

/// Whether `text` is digits and nothing else.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn parse_inner(text: &str) -> Result<Limit, SizeReason> {
    let bytes = text.as_bytes();
    let Some(first) = bytes.first() else { return Err(SizeReason::Empty) };
    if !first.is_ascii_digit() {
        return Err(SizeReason::NotANumber);
    }
    let (whole_text, rest) = split_digits(text);
    if whole_text.len() > 1 && *first == b'0' {
        return Err(SizeReason::LeadingZero);
    }
    let whole = digits_to_u64(whole_text).ok_or(SizeReason::TooLarge)?;
    let (fraction, rest) = match rest.strip_prefix('.') {
        None => (None, rest),
        Some(after) => {
            let (digits, rest) = split_digits(after);
            if digits.is_empty() || digits.len() > 9 {
                return Err(SizeReason::BadFraction);
            }
            (Some(Fraction::new(digits).ok_or(SizeReason::BadFraction)?), rest)
        }
    };
    if rest == "%" {
        return percent(whole, fraction);
    }
    let shift = unit_shift(rest).ok_or(SizeReason::UnknownUnit)?;
    let bytes = whole.checked_mul(1 << shift).ok_or(SizeReason::TooLarge)?;
    let Some(fraction) = fraction else {
        return if whole == 0 { Ok(Limit::Unlimited) } else { in_range(bytes) };
    };
    if shift == 0 {
        return Err(SizeReason::FractionOfByte);
    }
    in_range(bytes.saturating_add(fraction.of_unit(shift)))
}

/// The digits after a point: `value / 10^places`.
#[derive(Clone, Copy)]
struct Fraction {
    value: u64,
    places: u32,
}

impl Fraction {
    fn new(digits: &str) -> Option<Self> {
        Some(Self { value: digits_to_u64(digits)?, places: u32::try_from(digits.len()).ok()? })
    }

    /// So much of 2^`shift`, rounded down: long division, a bit at a time.
    fn of_unit(self, shift: u32) -> u64 {
        let scale = 10_u64.saturating_pow(self.places);
        (0..shift)
            .fold((0_u64, self.value), |(quotient, rest), _| {
                let rest = rest << 1;
                let bit = u64::from(rest >= scale);
                (quotient << 1 | bit, rest - bit * scale)
            })
            .0
    }
}

fn percent(whole: u64, fraction: Option<Fraction>) -> Result<Limit, SizeReason> {
    let parts = match fraction {
        None => 0,
        Some(f) if f.places <= 4 => f.value.saturating_mul(10_u64.saturating_pow(4 - f.places)),
        Some(_) => return Err(SizeReason::BadPercent),
    };
    match u32::try_from(whole.saturating_mul(10_000).saturating_add(parts)) {
        Ok(ppm @ 1..=1_000_000) => Ok(Limit::Ppm(ppm)),
        _ => Err(SizeReason::BadPercent),
    }
}

fn in_range(bytes: u64) -> Result<Limit, SizeReason> {
    match bytes {
        0 => Err(SizeReason::TooSmall),
        1..=MAX_BYTES => Ok(Limit::Bytes(bytes)),
        _ => Err(SizeReason::TooLarge),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    // The cut is after ASCII digits only, so it is always a character border.
    text.split_at_checked(end).unwrap_or((text, ""))
}

pub(crate) fn digits_to_u64(digits: &str) -> Option<u64> {
    digits.bytes().try_fold(0u64, |value, b| {
        let digit = b.checked_sub(b'0').filter(|d| *d <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A unit as a power of two.
fn unit_shift(unit: &str) -> Option<u32> {
    const UNITS: [(&str, u32); 5] = [("", 0), ("k", 10), ("m", 20), ("g", 30), ("t", 40)];
    if unit.eq_ignore_ascii_case("b") {
        return Some(0);
    }
    UNITS.into_iter().find_map(|(letter, shift)| {
        let (head, tail) = unit.split_at_checked(letter.len())?;
        let known = ["", "b", "i", "ib"].iter().any(|t| tail.eq_ignore_ascii_case(t));
        let plain = letter.is_empty() && !tail.is_empty();
        (head.eq_ignore_ascii_case(letter) && known && !plain).then_some(shift)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_mean_what_they_say() {
        let gib = 1_u64 << 30;
        for (text, bytes) in [
            ("1", 1),
            ("512B", 512),
            ("8GiB", 8 * gib),
            ("8G", 8 * gib),
            ("8g", 8 * gib),
            ("10GB", 10 * gib),
            ("4Gi", 4 * gib),
            ("1.5g", 3 * gib / 2),
            ("0.5GiB", gib / 2),
            ("3000m", 3000 << 20),
            ("3000MB", 3000 << 20),
            ("7k", 7 << 10),
            ("64T", 1 << 46),
        ] {
            assert_eq!(parse(text), Ok(Limit::Bytes(bytes)), "{text}");
        }
        for text in ["0", "0m", "0B", "0GiB"] {
            assert_eq!(parse(text), Ok(Limit::Unlimited), "{text}");
        }
        assert_eq!(parse("50%"), Ok(Limit::Ppm(500_000)));
        assert_eq!(parse("33.3333%"), Ok(Limit::Ppm(333_333)));
        assert_eq!(parse("100%").map(|l| l.resolve(1000)), Ok(Some(1000)));
        assert_eq!(Limit::Ppm(1_000_000).resolve(u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn everything_else_is_refused_in_words() {
        use SizeReason::*;
        for (text, reason) in [
            ("", Empty),
            ("abc", NotANumber),
            ("-1", NotANumber),
            ("+1g", NotANumber),
            (" 1g", NotANumber),
            (".5g", NotANumber),
            ("%", NotANumber),
            ("010g", LeadingZero),
            ("00", LeadingZero),
            ("1.g", BadFraction),
            ("1.0000000001g", BadFraction),
            ("1 g", UnknownUnit),
            ("1g ", UnknownUnit),
            ("1x", UnknownUnit),
            ("1gg", UnknownUnit),
            ("1i", UnknownUnit),
            ("1iB", UnknownUnit),
            ("1e9", UnknownUnit),
            ("0x10", UnknownUnit),
            ("1,5g", UnknownUnit),
            ("1\u{e9}", UnknownUnit),
            ("1.5", FractionOfByte),
            ("1.5B", FractionOfByte),
            ("65T", TooLarge),
            ("99999999999999999999", TooLarge),
            ("0.0g", TooSmall),
            ("0.0001k", TooSmall),
            ("0%", BadPercent),
            ("0.0%", BadPercent),
            ("101%", BadPercent),
            ("100.0001%", BadPercent),
            ("1.00001%", BadPercent),
        ] {
            assert_eq!(parse(text), Err(SizeError { text, reason }), "{text}");
            let words = SizeError { text, reason }.to_string();
            assert!(words.contains(&format!("\"{text}\"")), "{words}");
        }
    }

    #[test]
    fn a_forgotten_unit_is_not_bytes() {
        for text in ["1", "8", "1024", "1048575"] {
            let error = parse_written(text).unwrap_err();
            assert_eq!(error.reason, SizeReason::NoUnit, "{text}");
            assert!(error.to_string().contains(&format!("write {text}GiB or")), "{error}");
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in ["0", "1048576", "2147483648", "8B", "8k", "8m", "8%", "1.5g", "0m"] {
            assert_eq!(parse_written(text), parse(text), "{text}");
        }
        assert_eq!(parse_written("x"), parse("x"));
    }
}
