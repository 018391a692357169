//! Repair of JSON that Go takes and `serde_json` does not. Pure.
//!
//! ```text
//! "\ud800"           ->  "\ufffd"                      half of a surrogate pair, as Go itself reads it
//! a byte of no UTF-8 ->  U+FFFD, in a text             likewise
//! the 101st level    ->  "divvy: nested too deep"      a text where an array or an object was
//! ```
//!
//! Promises: bytes may come in any pieces; what needs no repair comes out as it went in; what comes out of valid JSON is valid
//! JSON. Does not check: bytes that were no JSON before are no JSON afterwards.

/// Levels that are kept. The reader takes 127.
pub(super) const MOST_LEVELS: usize = 100;
/// Text that stands where more levels were.
const TOO_DEEP: &[u8] = b"\"divvy: nested too deep\"";
/// The character that Go reads where the bytes are no character.
const UNKNOWN: &[u8] = "\u{fffd}".as_bytes();
/// That character, escaped.
const UNKNOWN_ESCAPED: &[u8] = b"\\ufffd";

/// Place in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Between values.
    #[default]
    Between,
    /// In a string.
    Text,
    /// Behind a backslash.
    Escape,
    /// In the digits of `\u`, of which so many have come.
    Digits([u8; 4], usize),
}

/// A repair that goes on.
#[derive(Debug, Default)]
pub(super) struct Mender {
    place: Place,
    /// Levels that are open; those beyond [`MOST_LEVELS`] are left out.
    levels: usize,
    /// Bytes of a character that is not complete.
    part: Vec<u8>,
    /// The first half of a pair, whose second has not come.
    half: Option<[u8; 4]>,
}

impl Mender {
    /// Takes the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve(bytes.len());
        for &byte in bytes {
            match self.place {
                Place::Between => self.between(byte, out),
                Place::Text => self.text(byte, out),
                Place::Escape => self.escape(byte, out),
                Place::Digits(digits, count) => self.digit(byte, digits, count, out),
            }
        }
    }

    /// There are no more.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.end_part(out);
        self.end_half(out);
        match std::mem::take(&mut self.place) {
            Place::Between | Place::Text => {}
            Place::Escape => self.put(b"\\", out),
            Place::Digits(digits, count) => {
                self.put(b"\\u", out);
                self.put(digits.get(..count).unwrap_or_default(), out);
            }
        }
    }

    fn put(&self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.levels <= MOST_LEVELS {
            out.extend_from_slice(bytes);
        }
    }

    fn between(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'[' | b'{' => {
                if self.levels == MOST_LEVELS {
                    self.put(TOO_DEEP, out);
                }
                self.levels = self.levels.saturating_add(1);
                self.put(&[byte], out);
            }
            b']' | b'}' => {
                self.put(&[byte], out);
                self.levels = self.levels.saturating_sub(1);
            }
            b'"' => {
                self.put(&[byte], out);
                self.place = Place::Text;
            }
            _ => self.put(&[byte], out),
        }
    }

    fn text(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte >= 0x80 {
            self.end_half(out);
            self.part.push(byte);
            return self.settle_part(out);
        }
        self.end_part(out);
        match byte {
            b'\\' => self.place = Place::Escape,
            b'"' => {
                self.end_half(out);
                self.put(&[byte], out);
                self.place = Place::Between;
            }
            _ => {
                self.end_half(out);
                self.put(&[byte], out);
            }
        }
    }

    fn escape(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte == b'u' {
            self.place = Place::Digits([0; 4], 0);
            return;
        }
        self.end_half(out);
        self.put(&[b'\\', byte], out);
        self.place = Place::Text;
    }

    fn digit(&mut self, byte: u8, mut digits: [u8; 4], count: usize, out: &mut Vec<u8>) {
        if let Some(digit) = digits.get_mut(count) {
            *digit = byte;
        }
        if count < 3 && byte.is_ascii_hexdigit() {
            self.place = Place::Digits(digits, count + 1);
            return;
        }
        self.place = Place::Text;
        let text = std::str::from_utf8(&digits).unwrap_or_default();
        match u16::from_str_radix(text, 16) {
            Ok(0xd800..=0xdbff) if count == 3 => {
                self.end_half(out);
                self.half = Some(digits);
            }
            Ok(0xdc00..=0xdfff) if count == 3 => match self.half.take() {
                Some(first) => {
                    self.put(b"\\u", out);
                    self.put(&first, out);
                    self.put(b"\\u", out);
                    self.put(&digits, out);
                }
                None => self.put(UNKNOWN_ESCAPED, out),
            },
            // Without digits it is no JSON, and stays so. The byte that ends them is read as part of the text.
            _ => {
                self.end_half(out);
                self.put(b"\\u", out);
                let is_whole = count == 3 && byte.is_ascii_hexdigit();
                let kept = if is_whole { 4 } else { count };
                self.put(digits.get(..kept).unwrap_or_default(), out);
                if !is_whole {
                    self.text(byte, out);
                }
            }
        }
    }

    /// The first half of a pair has no second.
    fn end_half(&mut self, out: &mut Vec<u8>) {
        if self.half.take().is_some() {
            self.put(UNKNOWN_ESCAPED, out);
        }
    }

    /// A character that was not complete never will be.
    fn end_part(&mut self, out: &mut Vec<u8>) {
        if !self.part.is_empty() {
            self.part.clear();
            self.put(UNKNOWN, out);
        }
    }

    /// Passes on bytes that complete a character, or can never be one.
    fn settle_part(&mut self, out: &mut Vec<u8>) {
        while !self.part.is_empty() {
            let bad = match std::str::from_utf8(&self.part) {
                Ok(_) => {
                    let whole = std::mem::take(&mut self.part);
                    return self.put(&whole, out);
                }
                Err(error) => error.error_len(),
            };
            // More bytes may complete it.
            let Some(bad) = bad else { return };
            self.put(UNKNOWN, out);
            self.part.drain(..bad.min(self.part.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::mended;
    use super::*;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(mended(bytes)).unwrap()
    }

    #[test]
    fn what_go_takes_is_read() {
        for (written, read) in [
            (&br#"{"a": "\ud800"}"#[..], r#"{"a": "\ufffd"}"#),
            (br#"["\ud800\ud800\udc00x"]"#, r#"["\ufffd\ud800\udc00x"]"#),
            (br#"["\udc00\ud83d\n"]"#, r#"["\ufffd\ufffd\n"]"#),
            (br#"["\ud83d\ude00 \\ud800 \u00e9"]"#, r#"["\ud83d\ude00 \\ud800 \u00e9"]"#),
            (b"[\"\\ud800\xc3\xa4\"]", "[\"\\ufffd\u{e4}\"]"),
            (
                b"[\"\xff\xc3(\xf0\x9f\x98\x80\xf0\x9f\"]",
                "[\"\u{fffd}\u{fffd}(\u{1f600}\u{fffd}\"]",
            ),
        ] {
            assert_eq!(text(written), read);
            assert!(serde_json::from_str::<Value>(read).is_ok(), "{read}");
        }
        let deep = format!("{{\"x\":{}1{},\"y\":2}}\n", "[".repeat(5000), "]".repeat(5000));
        let read: Value = serde_json::from_str(&text(deep.as_bytes())).unwrap();
        assert_eq!(read["y"], 2);
        let pretty = "{\"a\":".repeat(100) + "[\"]}\\\"\"]" + &"}".repeat(100);
        let read = text(pretty.as_bytes());
        assert_eq!(read, "{\"a\":".repeat(100) + "\"divvy: nested too deep\"" + &"}".repeat(100));
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for bytes in ["\"\\u12\"", "\"\\u12g4\"", "]]}}", "\"\\", "\"\\ud8", "{\"a\""] {
            assert!(serde_json::from_str::<Value>(&text(bytes.as_bytes())).is_err(), "{bytes}");
        }
        assert_eq!(text(b"\"\\u12g4\""), "\"\\u12g4\"");
    }

    proptest! {
        #[test]
        fn pieces_are_no_difference(bytes in poisoned(), cuts in prop::collection::vec(0..64_usize, 0..8)) {
            let (mut mender, mut out, mut rest) = (Mender::default(), Vec::new(), &bytes[..]);
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                mender.feed(piece, &mut out);
                rest = after;
            }
            mender.feed(rest, &mut out);
            mender.end(&mut out);
            prop_assert_eq!(&out, &mended(&bytes));
            prop_assert_eq!(mended(&out), out);
        }

        #[test]
        fn valid_json_comes_through(texts in prop::collection::vec(any::<String>(), 0..5)) {
            let written = serde_json::to_vec(&texts).unwrap();
            prop_assert_eq!(mended(&written), written);
        }
    }

    /// Pieces of JSON and of what breaks it, in any order.
    fn poisoned() -> impl Strategy<Value = Vec<u8>> {
        const PIECES: [&[u8]; 17] = [
            b"\"", b"\\", b"\\u", b"\\ud800", b"\\udc00", b"\\\"", b"d8", b"\xc3", b"\xa4",
            b"\xff", b"[", b"]", b"{\"a\":", b"}", b",", b"12", b"\n",
        ];
        let piece = prop::sample::select(&PIECES[..]);
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }
}
