//! The unpacker of LZ4 blocks.

#[path = "../src/account/lz4.rs"]
mod lz4;

fn unpacked(from: &[u8], room: usize) -> Vec<u8> {
    let mut to = vec![0; room];
    let length = lz4::unpack(from, &mut to);
    to.truncate(length);
    to
}

#[test]
fn literals_and_matches() {
    assert_eq!(unpacked(b"\x50hello", 64), b"hello");
    // Three literals, then nine bytes from three back, then one literal.
    assert_eq!(unpacked(b"\x35abc\x03\x00\x10!", 64), b"abcabcabcabc!");
    // Lengths of fifteen and more go on: 15 + 3 literals, a match of 4 + 15 + 255 + 1.
    let mut from = vec![0xff, 3];
    from.extend_from_slice(b"0123456789abcdefgh");
    from.extend_from_slice(&[1, 0, 255, 1, 0x10, b'.']);
    let mut wanted = b"0123456789abcdefgh".to_vec();
    wanted.extend(std::iter::repeat_n(b'h', 4 + 15 + 255 + 1));
    wanted.push(b'.');
    assert_eq!(unpacked(&from, 4096), wanted);
}

#[test]
fn nonsense_stays_inside() {
    assert_eq!(unpacked(b"\x50hello", 3), b"hel");
    assert_eq!(unpacked(b"\x01\x09\x00", 64), b"");
    assert_eq!(unpacked(b"\x10a\x00\x00", 8), b"aaaaa");
    let mut seed = 1_u64;
    for _ in 0..2_000 {
        let mut noise = [0_u8; 64];
        for byte in &mut noise {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            *byte = u8::try_from(seed & 0xff).unwrap_or(0);
        }
        assert!(unpacked(&noise, 300).len() <= 300);
    }
}
