//! Marks on descriptors by which memory was exported: which memory, how much, and whether it is kept.
//!
//! The driver tells nobody how large the memory behind a descriptor is, nor whether a copy of it is
//! still open. So one that is exported gets a lock on its open file description (`F_OFD_SETLK`, Linux
//! 3.15), whose first byte says which memory and whose length says how much. It goes with the
//! description through `dup`, `fork`, `execve` and sockets, and ends with its last copy. It lies beyond
//! any data, at a place drawn at random, so it meets no other lock; the driver has no use for locks. It
//! is a lock for reading, since one allocation may be exported twice, to descriptions of one file.
//!
//! A mark can be read through the descriptor itself, and asked for through any other description of the
//! same file. The driver's descriptors are all of its device files, which each process that uses the
//! driver has open. A buffer for other devices (dma-buf) is a file of its own, which nobody else has
//! open: whether its mark is held says the kernel's list of all locks.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::at;
use crate::sys::{self, Errno, Fd};

/// Marks begin here or later; nobody else locks bytes so far out.
const FIRST: u64 = 1 << 61;
/// Most granules that a mark is believed: 2 TiB.
const MOST_GRANULES: u64 = 1 << 20;
/// Descriptors looked at for one of a file: the driver opens its own when it starts.
const MOST_DESCRIPTORS: i32 = 4096;
/// Numbers of our copies begin here, where a process may have so many.
const OUT_OF_THE_WAY: usize = 512;
/// First bytes of a mark's key in the table of shared memory, unlike any handle of legacy IPC: of one that
/// can be asked for, and of one that is listed only.
const TAG: [u8; 16] = *b"vmm memory, key ";
const TAG_LISTED: [u8; 16] = *b"dma-buf of, key ";

/// Device and inode of a file.
pub type FileIdentity = (u64, u64);

/// Contents of a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorMark {
    /// Which memory, below 2^61.
    pub key: u64,
    /// Its size in granules of 2 MiB.
    pub granules: u64,
    /// The file that the descriptor is of.
    pub file: FileIdentity,
}

impl DescriptorMark {
    /// The memory's name in the tenant's table of shared memory, where its descriptors are of one file.
    pub fn handle(&self) -> [u8; 64] {
        name(TAG, [self.file.0, self.file.1, self.key])
    }

    /// Its name there where each descriptor is of a file of its own.
    pub fn listed_handle(&self) -> [u8; 64] {
        name(TAG_LISTED, [0, 0, self.key])
    }
}

fn name(tag: [u8; 16], words: [u64; 3]) -> [u8; 64] {
    let mut name = [0; 64];
    let bytes = tag.into_iter().chain(words.into_iter().flat_map(u64::to_ne_bytes));
    for (to, byte) in name.iter_mut().zip(bytes) {
        *to = byte;
    }
    name
}

/// The mark that a name in the table of shared memory speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    /// By [`DescriptorMark::handle`]: its file and key, to ask an [`Asker`].
    OfFile(FileIdentity, u64),
    /// By [`DescriptorMark::listed_handle`]: its key, to look for with [`for_each_listed`].
    Listed(u64),
}

impl Named {
    pub(crate) fn key(self) -> u64 {
        let (Self::OfFile(_, key) | Self::Listed(key)) = self;
        key
    }
}

/// The mark that keeps what has this name; none for a handle of legacy IPC.
pub(crate) fn in_handle(handle: &[u64; 8]) -> Option<Named> {
    let [tag_low, tag_high, device, inode, key, ..] = *handle;
    let is = |tag: [u8; 16]| {
        tag.as_chunks::<8>().0.iter().map(|half| u64::from_ne_bytes(*half)).eq([tag_low, tag_high])
    };
    match (is(TAG), is(TAG_LISTED)) {
        (true, _) => Some(Named::OfFile((device, inode), key)),
        (_, true) => Some(Named::Listed(key)),
        _ => None,
    }
}

/// A key that no other process has drawn; none before the kernel has enough noise.
pub fn draw_key() -> Option<u64> {
    let mut number = 0_u64;
    let place = (&raw mut number).expose_provenance();
    let flags = libc::GRND_NONBLOCK as usize;
    // SAFETY: the kernel writes at most eight bytes into `number`.
    let got = unsafe { sys::call(libc::SYS_getrandom, [place, 8, flags, 0, 0, 0]) };
    (got.ok()? == 8).then_some(number % FIRST)
}

/// Marks a descriptor's description; none where it cannot be locked.
pub fn set(descriptor: i32, key: u64, granules: u64) -> Option<DescriptorMark> {
    let file = identity(descriptor)?;
    let mark = DescriptorMark { key: key % FIRST, granules, file };
    let is_set = |kind| lock(descriptor, kind, &mark).is_ok();
    // One that can only be written to takes no lock for reading.
    let set =
        (1..=MOST_GRANULES).contains(&granules) && (is_set(libc::F_RDLCK) || is_set(libc::F_WRLCK));
    set.then_some(mark)
}

fn lock(descriptor: i32, kind: i32, mark: &DescriptorMark) -> Result<(), Errno> {
    let record = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: FIRST.saturating_add(mark.key).cast_signed(),
        l_len: mark.granules.cast_signed(),
        l_pid: 0,
    };
    let place = (&raw const record).expose_provenance();
    let arguments = [sys::as_arg(descriptor), sys::as_arg(libc::F_OFD_SETLK), place, 0, 0, 0];
    // SAFETY: the kernel reads one `struct flock`.
    unsafe { sys::call(libc::SYS_fcntl, arguments) }.map(|_| ())
}

/// The mark of a descriptor's description.
///
/// Cost: four system calls.
pub fn of(descriptor: i32) -> Option<DescriptorMark> {
    let file = identity(descriptor)?;
    let (key, granules) = read(descriptor)??;
    Some(DescriptorMark { key, granules, file })
}

/// Key and granules of a descriptor's mark, if it has one; none where the kernel does not say.
fn read(descriptor: i32) -> Option<Option<(u64, u64)>> {
    let mut path = *b"/proc/self/fdinfo/\0\0\0\0\0\0\0\0\0\0\0";
    write_number(path.get_mut(18..28)?, u32::try_from(descriptor).ok()?);
    let mut bytes = [0_u8; 1024];
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let information = at::open_any(path, libc::O_RDONLY).ok()?;
    let length = sys::read_all(&information, &mut bytes).ok()?;
    let mut lines = Lines::default();
    let mut text = bytes.get(..length)?.iter();
    Some(text.find_map(|byte| lines.mark_behind(*byte)))
}

/// Asks for marks, of one file after the other.
#[derive(Debug, Default)]
pub struct Asker {
    file: FileIdentity,
    /// A descriptor of that file, and the mark of its own description.
    through: Option<(Fd, Option<u64>)>,
}

impl Asker {
    /// Whether a copy of any descriptor with a mark is open, in whatever process or in flight; none where
    /// this process cannot tell.
    ///
    /// Cost: a system call, a dozen more for the first mark of a file.
    pub fn is_held(&mut self, file: FileIdentity, key: u64) -> Option<bool> {
        if self.file != file {
            *self = Self { file, through: open_here(file) };
        }
        let (through, own) = self.through.as_ref()?;
        // A description's own lock is not in its way.
        if *own == Some(key) {
            return Some(true);
        }
        sys::is_locked(through, FIRST.saturating_add(key)).ok()
    }
}

/// A descriptor of `file` that this process has open anyway, and its mark. It is a copy, so that its
/// number cannot become another file's meanwhile.
fn open_here(file: FileIdentity) -> Option<(Fd, Option<u64>)> {
    static LAST: AtomicI32 = AtomicI32::new(0);
    let mut candidates = core::iter::once(LAST.load(Relaxed)).chain(0..MOST_DESCRIPTORS);
    let found = candidates.find(|number| identity(*number) == Some(file))?;
    LAST.store(found, Relaxed);
    let copy = at::duplicate(found, OUT_OF_THE_WAY).or_else(|_| at::duplicate(found, 0)).ok()?;
    let number = copy.0.number();
    if identity(number) != Some(file) {
        return None;
    }
    let own = read(number)?.map(|(key, _)| key);
    Some((copy, own))
}

/// Calls `visit` with the key of each mark that anybody has, once or more often, by the kernel's list of
/// all locks: for what no [`Asker`] can be asked. False without such a list.
///
/// The list is read in pieces, by position: where a lock ends between two of them, one that stands behind
/// it moves up and is missed at the edge. So it is read again, with other edges, until two readings agree:
/// nothing ended meanwhile. On a machine where locks end all the time that may not come; there what is
/// held would have to be missed sixteen times in a row.
///
/// Cost: some five milliseconds a reading, mostly two.
pub(crate) fn for_each_listed(mut visit: impl FnMut(u64)) -> bool {
    const READINGS: usize = 16;
    let mut before = None;
    for reading in 0..READINGS {
        let piece_bytes = PIECE_BYTES.saturating_sub(40 * reading);
        let Some(now) = read_list(piece_bytes, &mut visit) else { return false };
        if before == Some(now) {
            break;
        }
        before = Some(now);
    }
    true
}

/// Bytes of the kernel's list that are read at once, at most; a line has some sixty.
const PIECE_BYTES: usize = 1024;

/// One reading of the list, in pieces of `piece_bytes`; a number that says what stood in it.
fn read_list(piece_bytes: usize, visit: &mut impl FnMut(u64)) -> Option<u64> {
    let list = at::open_any(c"/proc/locks", libc::O_RDONLY).ok()?;
    let mut lines = Lines::default();
    let mut bytes = [0_u8; PIECE_BYTES];
    let mut offset = 0_u64;
    let mut content = 0_u64;
    loop {
        let piece = bytes.get_mut(..piece_bytes)?;
        let length = sys::read_at(&list, piece, offset).ok()?;
        if length == 0 {
            return Some(content);
        }
        for byte in piece.get(..length)? {
            content = (content ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            lines.mark_behind(*byte).into_iter().for_each(|(key, _)| visit(key));
        }
        offset = offset.saturating_add(length as u64);
    }
}

fn identity(descriptor: i32) -> Option<FileIdentity> {
    sys::stat_number(descriptor).ok().map(|stat| (stat.device, stat.inode))
}

/// Looks for lines such as `lock:  1: OFDLCK ADVISORY  READ -1 00:06:12 4096 8191`: the only ones that
/// end with two numbers, of which a mark's are larger than any other.
#[derive(Default)]
struct Lines {
    start: u64,
    end: u64,
}

impl Lines {
    /// The key and the granules of the mark whose line `byte` ends.
    fn mark_behind(&mut self, byte: u8) -> Option<(u64, u64)> {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            self.end = self.end.wrapping_mul(10).wrapping_add(u64::from(digit));
            return None;
        }
        let key = self.start.wrapping_sub(FIRST);
        let granules = self.end.wrapping_sub(self.start).wrapping_add(1);
        *self = Self { start: self.end, end: 0 };
        let is_mark = byte == b'\n' && key < FIRST && (1..=MOST_GRANULES).contains(&granules);
        is_mark.then_some((key, granules))
    }
}

/// Writes a number in decimal; ten digits hold any.
fn write_number(to: &mut [u8], number: u32) {
    let digits = number.checked_ilog10().map_or(1, |log| log.saturating_add(1));
    let mut rest = number;
    for place in to.iter_mut().take(digits as usize).rev() {
        *place = b'0'.wrapping_add((rest % 10) as u8);
        rest /= 10;
    }
}
