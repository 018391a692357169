//! The reader of modules' images: nothing is read behind the end that an image names, or behind a text's NUL.
//!
//! Each image lies against a page that cannot be read, so that one byte too many ends the test. The file under test is
//! compiled into it as it stands.

#![allow(dead_code, reason = "the shim's file is taken whole")]
#![allow(unsafe_code, reason = "the shim's file, and pages that cannot be read")]

#[path = "../../src/sys"]
mod sys {
    pub(crate) mod image;

    /// What an export makes of a pointer.
    pub(crate) fn of(pointer: *const u8) -> image::Image<'static> {
        // SAFETY: each test's image, which is what it seems to be and stays mapped.
        unsafe { image::Image::from_raw(pointer.cast()) }
    }
}

use sys::image::{Bytes, Contents};

const PAGE_BYTES: usize = 4096;

/// `bytes` at the end of a readable page, for ever.
fn at_an_edge(bytes: &[u8]) -> *const u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping overlaps nothing.
    let base =
        unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE_BYTES, protection, flags, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    let base = base.cast::<u8>();
    // SAFETY: the second page of the mapping, which nothing refers to.
    let closed = unsafe {
        libc::mprotect(base.wrapping_add(PAGE_BYTES).cast(), PAGE_BYTES, libc::PROT_NONE)
    };
    assert_eq!(closed, 0);
    let place = base.wrapping_add(PAGE_BYTES - bytes.len());
    // SAFETY: within the first page, which is ours and not referred to.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    place
}

/// Its length, and that no byte behind it is read.
fn is_whole(bytes: Bytes<'_>, length: u64) {
    assert_eq!(bytes.length(), length);
    assert!(bytes.read(0, &mut vec![0; usize::try_from(length).unwrap()]));
    assert!(!bytes.read(length, &mut [0]) && !bytes.read(u64::MAX, &mut [0]));
    assert!(!bytes.part(1, u64::MAX).read(length - 1, &mut [0]));
    assert!(!bytes.part(u64::MAX, 1).read(0, &mut [0]) && !bytes.part(0, 1).read(1, &mut [0]));
    assert_eq!(bytes.number(length - 1, 2), None);
}

#[test]
fn a_text_is_read_up_to_its_nul() {
    for text in [&b"\0"[..], b"/\0", b"/ab\0", b".global .b8 a[9];\0"] {
        let end = text.len() as u64 - 1;
        let begin = || match sys::of(at_an_edge(text)).contents() {
            Some(Contents::Text(text)) => text,
            other => panic!("{other:?}"),
        };
        // In order, from behind, and far beyond.
        let in_order = begin();
        let read: Vec<u8> = (0..).map_while(|at| in_order.byte(at)).collect();
        assert_eq!(read, &text[..text.len() - 1]);
        let backwards = begin();
        for at in (0..end + 2).rev() {
            let expected = usize::try_from(at).ok().filter(|_| at < end).map(|at| text[at]);
            assert_eq!(backwards.byte(at), expected);
        }
        assert_eq!(begin().byte(1 << 40), None);
    }
}

#[test]
fn binaries_are_as_long_as_their_heads_say() {
    let mut fat = vec![0_u8; 16 + 100];
    fat[..4].copy_from_slice(&0xba55_ed50_u32.to_le_bytes());
    fat[6..8].copy_from_slice(&16_u16.to_le_bytes());
    fat[8..16].copy_from_slice(&100_u64.to_le_bytes());
    let Some(Contents::Fat(bytes)) = sys::of(at_an_edge(&fat)).contents() else { panic!() };
    is_whole(bytes, 116);

    let mut elf = vec![0_u8; 64 + 3 * 64];
    elf[..4].copy_from_slice(b"\x7fELF");
    elf[0x28..0x30].copy_from_slice(&64_u64.to_le_bytes());
    elf[0x3a..0x3c].copy_from_slice(&64_u16.to_le_bytes());
    elf[0x3c..0x3e].copy_from_slice(&3_u16.to_le_bytes());
    let Some(Contents::Elf(bytes)) = sys::of(at_an_edge(&elf)).contents() else { panic!() };
    is_whole(bytes, 256);
    elf.truncate(64);
    elf[0x28..].fill(0);
    let Some(Contents::Elf(bytes)) = sys::of(at_an_edge(&elf)).contents() else { panic!() };
    is_whole(bytes, 64);

    // What is ours ends where it ends, whatever it says.
    let Contents::Fat(bytes) = Bytes::of(&fat[..20]).contents() else { panic!() };
    is_whole(bytes, 20);
}

#[test]
fn a_wrapper_is_followed_to_a_fat_binary_alone() {
    let wrap = |to: *const u8| {
        let mut wrapper = [0_u8; 16];
        wrapper[..4].copy_from_slice(&0x4662_43b1_u32.to_le_bytes());
        wrapper[8..].copy_from_slice(&(to.expose_provenance() as u64).to_le_bytes());
        wrapper
    };
    let mut fat = vec![0_u8; 16];
    fat[..4].copy_from_slice(&0xba55_ed50_u32.to_le_bytes());
    fat[6..8].copy_from_slice(&16_u16.to_le_bytes());
    let wrapper = wrap(at_an_edge(&fat));
    let Some(Contents::Fat(bytes)) = sys::of(at_an_edge(&wrapper)).contents() else { panic!() };
    is_whole(bytes, 16);
    // In a file it points nowhere.
    assert!(matches!(Bytes::of(&wrapper).contents(), Contents::Text(_)));
    for other in [std::ptr::null(), at_an_edge(b"/\0"), at_an_edge(&wrapper)] {
        assert!(sys::of(at_an_edge(&wrap(other))).contents().is_none());
    }
    assert!(sys::of(std::ptr::null()).contents().is_none());
}
