//! Header blocks of HTTP/2 (RFC 7541), as far as their `:authority` is to be made one that a server accepts.
//!
//! Promises: nothing else of a block changes, and what replaces a value has its length, so that both ends keep dynamic tables
//! of one size. Pure; no input panics, and a block that is not understood is left to the server.

use tonic::codegen::http::uri::Authority;

/// Index of `:authority` in the static table.
const AUTHORITY: usize = 1;
/// The same by its name, for who writes it out.
const AUTHORITY_NAME: &[u8] = b":authority";
/// Characters by the lengths of their codes, each list in the order of the codes. Of those that are no printable ASCII, the
/// one whose code stands between others is there.
const CODES: [(u32, &[u8]); 10] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\0$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
];

/// The block with an authority that a server accepts; `None` where it stays as it is.
pub(super) fn with_plain_authority(block: &[u8]) -> Option<Vec<u8>> {
    let mut reader = BlockReader { block, at: 0 };
    let mut out = Vec::new();
    let mut copied = 0;
    while let Some(&first) = block.get(reader.at) {
        let name_bits = match first {
            // An entry of a table, which was a literal before.
            0x80.. => {
                reader.integer(7)?;
                continue;
            }
            0x40.. => 6,
            0x20.. => {
                reader.integer(5)?;
                continue;
            }
            _ => 4,
        };
        let index = reader.integer(name_bits)?;
        let is_authority = match index {
            0 => reader.text()?.as_deref() == Some(AUTHORITY_NAME),
            _ => index == AUTHORITY,
        };
        let begins = reader.at;
        let value = reader.text()?;
        let Some(value) = value.filter(|value| is_authority && is_odd(value)) else { continue };
        out.extend_from_slice(block.get(copied..begins)?);
        write_text(&mut out, &value.iter().map(|byte| plain(*byte)).collect::<Vec<_>>());
        copied = reader.at;
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(block.get(copied..)?);
    Some(out)
}

fn is_odd(value: &[u8]) -> bool {
    !value.is_empty() && Authority::try_from(value).is_err()
}

fn plain(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() || b".-_".contains(&byte) { byte } else { b'-' }
}

/// Writes a text that is not compressed.
fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text.len();
    if rest < 0x7f {
        out.push(rest.to_le_bytes()[0]);
    } else {
        out.push(0x7f);
        rest -= 0x7f;
        while rest >= 0x80 {
            out.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        out.push(rest.to_le_bytes()[0]);
    }
    out.extend_from_slice(text);
}

/// A place in a block.
struct BlockReader<'a> {
    block: &'a [u8],
    at: usize,
}

impl BlockReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.block.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A number in the last `bits` of a byte, and in those after it where it is larger.
    fn integer(&mut self, bits: u32) -> Option<usize> {
        let most = (1_usize << bits) - 1;
        let mut value = usize::from(self.byte()?) & most;
        if value < most {
            return Some(value);
        }
        // More is no length of anything here.
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A text; the inner `None` where it holds a character that no authority has.
    fn text(&mut self) -> Option<Option<Vec<u8>>> {
        let is_huffman = self.block.get(self.at)? & 0x80 != 0;
        let length = self.integer(7)?;
        let bytes = self.block.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(if is_huffman { expand(bytes) } else { Some(bytes.to_vec()) })
    }
}

/// The text of a Huffman code.
fn expand(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    loop {
        let (mut code, mut length) = (0_usize, 0_u32);
        // First code of the length, and the length that it is of.
        let (mut first, mut of) = (0_usize, 0_u32);
        let mut found = None;
        for (bits_of, characters) in CODES {
            first <<= bits_of - of;
            of = bits_of;
            while length < bits_of {
                let Some(bit) = bits.next() else {
                    // The rest of the last byte is ones.
                    let is_rest = length < 8 && code + 1 == 1 << length;
                    return is_rest.then_some(text);
                };
                code = code << 1 | usize::from(bit);
                length += 1;
            }
            found = code.checked_sub(first).and_then(|at| characters.get(at));
            if found.is_some() {
                break;
            }
            first += characters.len();
        }
        text.push(*found?);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A text as a client writes it that compresses.
    pub(in crate::kubelet) fn huffman(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for byte in text {
            let (mut first, mut of) = (0, 0);
            for (length, characters) in CODES {
                first <<= length - of;
                of = length;
                if let Some(at) = characters.iter().position(|it| it == byte) {
                    let code = first + at;
                    bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
                }
                first += characters.len();
            }
        }
        bits.resize(bits.len().next_multiple_of(8), true);
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        let bytes: Vec<u8> = bits.chunks(8).map(byte).collect();
        let mut out = Vec::new();
        write_text(&mut out, &bytes);
        out[0] |= 0x80;
        out
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        // RFC 7541, C.4 and C.6.
        for (text, code) in [
            ("www.example.com", "8cf1e3c2e5f23a6ba0ab90f4ff"),
            ("no-cache", "86a8eb10649cbf"),
            ("custom-key", "8825a849e95ba97d7f"),
            ("https://www.example.com", "919d29ad171863c78f0b97c8e9ae82ae43d3"),
            ("Mon, 21 Oct 2013 20:13:21 GMT", "96d07abe941054d444a8200595040b8166e082a62d1bff"),
        ] {
            let written: String =
                huffman(text.as_bytes()).iter().map(|it| format!("{it:02x}")).collect();
            assert_eq!(written, code, "{text}");
            let mut reader = BlockReader { block: &huffman(text.as_bytes()), at: 0 };
            assert_eq!(reader.text(), Some(Some(text.as_bytes().to_vec())));
        }
    }

    #[test]
    fn an_odd_authority_becomes_one_of_its_length() {
        let method = [0x83, 0x86];
        let text = |text: &[u8]| {
            let mut out = Vec::new();
            write_text(&mut out, text);
            out
        };
        for (odd, made) in [
            ("/var/lib/kubelet/a.sock", "-var-lib-kubelet-a.sock"),
            ("%2Fvar%2Flib%2Fa.sock", "-2Fvar-2Flib-2Fa.sock"),
            ("a b@c:d:e", "a-b-c-d-e"),
        ] {
            for value in [text(odd.as_bytes()), huffman(odd.as_bytes())] {
                for head in
                    [&[0x41][..], &[0x01], &[0x11], &[&[0x40][..], &text(AUTHORITY_NAME)].concat()]
                {
                    let block = [&method, head, &value, &[0xbe]].concat();
                    let expected = [&method, head, &text(made.as_bytes()), &[0xbe]].concat();
                    assert_eq!(with_plain_authority(&block), Some(expected), "{odd}");
                }
                // A path is no authority.
                assert_eq!(with_plain_authority(&[&[0x44][..], &value].concat()), None);
            }
        }
        for good in ["localhost", "localhost:80", "[::1]:80", ""] {
            for value in [text(good.as_bytes()), huffman(good.as_bytes())] {
                assert_eq!(with_plain_authority(&[&[0x3f, 0x01, 0x41][..], &value].concat()), None);
            }
        }
    }

    proptest! {
        #[test]
        fn a_text_comes_back_and_no_block_panics(
            text in "[ -\\[\\]-~]{0,300}", block in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let value = huffman(text.as_bytes());
            let mut reader = BlockReader { block: &value, at: 0 };
            prop_assert_eq!(reader.text(), Some(Some(text.into_bytes())));
            let _ = with_plain_authority(&block);
        }
    }
}
