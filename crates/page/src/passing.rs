//! Descriptors of memory, passed from one process of a tenant to another over a socket in the tenant's directory.
//!
//! The socket has its process's slot in its name, so that there are no more of them than slots: whoever gets the slot next
//! puts its own in the place of what a killed one left. Only this user's processes and root's are listened to.
//!
//! Promises: whoever asks has an answer or an error within five seconds, whatever the other side does; who answers is
//! held up by one that says nothing for one. Does not know what is asked for, nor what a descriptor is of.

use core::mem::MaybeUninit;

use crate::errno::Errno;
use crate::kernel::{self, Descriptor};
use crate::meet;
use crate::sys::{self, Fd, as_arg, call};
use crate::tenant::Tenant;

/// The socket's name from the directory on: four characters, `@` to `O`, stand for digits of the slot.
const NAME: [u8; 12] = *b"/socket.@@@@";
/// Room for a path in a socket's address, and for the end of it.
const PATH_BYTES: usize = 108;
/// How long the one that asks waits for a place in the queue, and for each answer; and in all, for several answers.
const CONNECT_MS: u64 = 1500;
const ANSWER_MS: u64 = 3000;
/// How long the one that answers waits for the question.
const QUESTION_MS: u64 = 1000;
/// Processes whose questions wait.
const QUEUE: usize = 64;
/// Before another attempt where the process has no descriptor left.
const RETRY_NS: u32 = 20_000_000;

/// Words of one message, beside its descriptor.
pub type Words = [u64; 2];

#[repr(C)]
struct Address {
    family: u16,
    path: [u8; PATH_BYTES],
    /// Of the path, so far; nothing of the kernel's.
    bytes: usize,
}

/// Bytes of it that are the kernel's.
const ADDRESS_BYTES: usize = 2 + PATH_BYTES;

/// One descriptor beside a message: a `struct cmsghdr` and its data.
#[repr(C)]
struct Control {
    bytes: usize,
    level: i32,
    kind: i32,
    number: i32,
    _rest: i32,
}

/// Bytes of [`Control`] with one descriptor, behind which no second one has room.
const CONTROL_BYTES: usize = 20;

/// A socket that others ask at.
#[derive(Debug)]
pub struct Listener {
    fd: Fd,
    inode: u64,
}

/// A connection to one other process.
#[derive(Debug)]
pub struct Passing {
    fd: Fd,
    until_ns: u64,
}

impl Tenant {
    /// A number that the tenant's processes have alike and two tenants never, and this process's slot; none where it can
    /// get no slot.
    pub fn own_place(&self) -> Option<Words> {
        let slot = self.me().ok()?;
        Some([meet::identity(self.file), slot as u64])
    }

    /// Listens for others of the tenant.
    ///
    /// # Errors
    /// The kernel's: a directory that this process may not write to, or no descriptors left.
    pub fn listen(&self) -> Result<Listener, Errno> {
        let slot = self.me().map_err(|_| Errno(libc::ENOLCK))?;
        self.at_socket(slot as u64, |address| {
            let fd = socket()?;
            // The mode of its name, less the umask.
            sys::chmod(&fd, 0o600)?;
            // A process that had the slot before may have left its own.
            let path = address.path.as_ptr().expose_provenance();
            // SAFETY: a NUL-terminated string that lives through the call.
            let _ = unsafe { call(libc::SYS_unlinkat, [as_arg(libc::AT_FDCWD), path, 0, 0, 0, 0]) };
            with_address(libc::SYS_bind, &fd, address)?;
            // SAFETY: numbers only.
            unsafe { call(libc::SYS_listen, [fd.arg(), QUEUE, 0, 0, 0, 0]) }?;
            let inode = sys::stat(&fd)?.inode;
            Ok(Listener { fd, inode })
        })
    }

    /// Connects to the process in `slot`.
    ///
    /// # Errors
    /// `ECONNREFUSED` or `ENOENT` where it has ended or never listened, `EAGAIN` where it does not answer.
    pub fn connect(&self, slot: u64) -> Result<Passing, Errno> {
        self.at_socket(slot, |address| {
            let fd = socket()?;
            wait_for(&fd, libc::SO_SNDTIMEO, CONNECT_MS)?;
            wait_for(&fd, libc::SO_RCVTIMEO, ANSWER_MS)?;
            let until_ns = sys::now_ns().saturating_add((CONNECT_MS + ANSWER_MS) * 1_000_000);
            loop {
                match with_address(libc::SYS_connect, &fd, address) {
                    Err(Errno(libc::EINTR)) if sys::now_ns() < until_ns => {}
                    connected => break connected?,
                }
            }
            Ok(Passing { fd, until_ns })
        })
    }

    /// Runs `act` with the address of the socket of `slot`.
    fn at_socket<T>(
        &self,
        slot: u64,
        act: impl FnOnce(&Address) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut name = NAME;
        let mut left = slot;
        for to in name.iter_mut().rev().take(4) {
            *to |= (left & 15) as u8;
            left >>= 4;
        }
        let mut address = Address { family: libc::AF_UNIX as u16, path: [0; PATH_BYTES], bytes: 0 };
        let path = self.usage_path().with_end::<{ b"/usage".len() }>(&name);
        let path = path.as_c_str();
        // A long path is gone past by the directory's descriptor.
        let mut directory = None;
        if path.count_bytes() < PATH_BYTES {
            address.push(path.to_bytes());
        } else {
            let directory_path = self.usage_path().with_end::<{ b"/usage".len() }>(&[0; 6]);
            let flags = libc::O_PATH | libc::O_DIRECTORY;
            let fd = kernel::open(None, directory_path.as_c_str(), flags, 0)?;
            address.push(b"/proc/self/fd/");
            address.push_number(fd.number().unsigned_abs());
            address.push(&name);
            directory = Some(fd);
        }
        let result = act(&address);
        drop(directory);
        result
    }
}

impl Address {
    /// Lengthens the path, which keeps an end.
    #[inline(never)]
    fn push(&mut self, part: &[u8]) {
        let free = self.path.iter_mut().take(PATH_BYTES - 1).skip(self.bytes);
        for (to, byte) in free.zip(part) {
            *to = *byte;
        }
        self.bytes += part.len();
    }

    fn push_number(&mut self, number: u32) {
        let mut digits = [0; 10];
        let (mut left, mut count) = (number, 0);
        for to in digits.iter_mut().rev() {
            *to = b'0' + (left % 10) as u8;
            (left, count) = (left / 10, count + 1);
            if left == 0 {
                break;
            }
        }
        self.push(digits.get(digits.len() - count..).unwrap_or_default());
    }
}

fn socket() -> Result<Fd, Errno> {
    let kind = as_arg(libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC);
    // SAFETY: numbers only.
    let fd = unsafe { call(libc::SYS_socket, [as_arg(libc::AF_UNIX), kind, 0, 0, 0, 0]) }?;
    // SAFETY: just opened, for us alone.
    Ok(unsafe { Fd::of_answer(fd) })
}

#[inline(never)]
fn with_address(number: libc::c_long, fd: &Fd, address: &Address) -> Result<(), Errno> {
    let place = (&raw const *address).expose_provenance();
    // SAFETY: the kernel reads one address of the length that is said.
    unsafe { call(number, [fd.arg(), place, ADDRESS_BYTES, 0, 0, 0]) }.map(|_| ())
}

/// Bounds what the socket waits for.
#[inline(never)]
fn wait_for(fd: &Fd, option: i32, ms: u64) -> Result<(), Errno> {
    let time = [(ms / 1000) as i64, (ms % 1000 * 1000) as i64];
    let place = time.as_ptr().expose_provenance();
    let (level, option) = (as_arg(libc::SOL_SOCKET), as_arg(option));
    let arguments = [fd.arg(), level, option, place, size_of_val(&time), 0];
    // SAFETY: the kernel reads one `struct timeval`.
    unsafe { call(libc::SYS_setsockopt, arguments) }.map(|_| ())
}

impl Listener {
    /// Waits for another process of this user or of root; none once the program has closed the descriptor.
    pub fn accept(self) -> Option<(Self, Passing)> {
        loop {
            // Its number may be another file's by now, which must not be closed for it.
            if sys::stat(&self.fd).map(|stat| stat.inode) != Ok(self.inode) {
                core::mem::forget(self);
                return None;
            }
            let flags = as_arg(libc::SOCK_CLOEXEC);
            // SAFETY: the kernel writes no address where none is asked for.
            match unsafe { call(libc::SYS_accept4, [self.fd.arg(), 0, 0, flags, 0, 0]) } {
                Ok(fd) => {
                    // SAFETY: just opened, for us alone.
                    let fd = unsafe { Fd::of_answer(fd) };
                    let is_bounded = wait_for(&fd, libc::SO_RCVTIMEO, QUESTION_MS).is_ok()
                        && wait_for(&fd, libc::SO_SNDTIMEO, QUESTION_MS).is_ok();
                    if is_bounded && is_known(&fd) {
                        return Some((self, Passing { fd, until_ns: u64::MAX }));
                    }
                }
                Err(Errno(libc::EINTR)) => {}
                Err(_) => sys::sleep_ns(RETRY_NS),
            }
        }
    }
}

/// Whether the other end is a process of this user or of root.
fn is_known(fd: &Fd) -> bool {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of::<libc::ucred>() as u32;
    let place = (&raw mut credentials).expose_provenance();
    let length = (&raw mut bytes).expose_provenance();
    let (level, option) = (as_arg(libc::SOL_SOCKET), as_arg(libc::SO_PEERCRED));
    // SAFETY: the kernel writes at most one `struct ucred`, and its length.
    let asked = unsafe { call(libc::SYS_getsockopt, [fd.arg(), level, option, place, length, 0]) };
    asked.is_ok() && (credentials.uid == sys::effective_uid() || credentials.uid == 0)
}

/// A message of two words with room for one descriptor, for `act` to send or receive: what the kernel answers, and the
/// descriptor's bytes where it has written any.
fn message(
    fd: &Fd,
    number: libc::c_long,
    flags: i32,
    words: &mut Words,
    control: &mut Control,
    control_bytes: usize,
) -> Result<(usize, libc::msghdr), Errno> {
    let mut part = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of::<Words>() };
    // SAFETY: numbers, and pointers that are null.
    let mut head = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    head.msg_iov = &raw mut part;
    head.msg_iovlen = 1;
    head.msg_control = (&raw mut *control).cast();
    head.msg_controllen = control_bytes;
    let place = (&raw mut head).expose_provenance();
    // SAFETY: the message's parts live through the call, and are as long as it says.
    let done = unsafe { call(number, [fd.arg(), place, as_arg(flags), 0, 0, 0]) }?;
    Ok((done, head))
}

impl Passing {
    /// Sends `words`, and a descriptor beside them, which stays open here.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send(&self, mut words: Words, descriptor: Option<&Descriptor>) -> Result<(), Errno> {
        let mut control = Control {
            bytes: CONTROL_BYTES,
            level: libc::SOL_SOCKET,
            kind: libc::SCM_RIGHTS,
            number: descriptor.map_or(-1, Descriptor::number),
            _rest: 0,
        };
        let bytes = if descriptor.is_some() { CONTROL_BYTES } else { 0 };
        let flags = libc::MSG_NOSIGNAL;
        message(&self.fd, libc::SYS_sendmsg, flags, &mut words, &mut control, bytes).map(|_| ())
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// The kernel's: `EAGAIN` where none comes, `ECONNRESET` where the other side has refused or ended.
    pub fn receive(&self) -> Result<(Words, Option<Descriptor>), Errno> {
        let mut words = Words::default();
        let mut control = Control { bytes: 0, level: 0, kind: 0, number: -1, _rest: 0 };
        let flags = libc::MSG_CMSG_CLOEXEC;
        loop {
            let number = libc::SYS_recvmsg;
            let got = message(&self.fd, number, flags, &mut words, &mut control, CONTROL_BYTES);
            let (got, head) = match got {
                Err(Errno(libc::EINTR)) if sys::now_ns() < self.until_ns => continue,
                got => got?,
            };
            let is_descriptor = head.msg_controllen >= CONTROL_BYTES
                && control.bytes >= CONTROL_BYTES
                && (control.level, control.kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            let descriptor = is_descriptor.then(|| {
                // SAFETY: the kernel has opened it for this message, for us alone.
                unsafe { Descriptor::of_answer(control.number.cast_unsigned() as usize) }
            });
            return match got {
                // Another size is nothing that we say.
                16 if sys::now_ns() < self.until_ns => Ok((words, descriptor)),
                16 => Err(Errno(libc::EAGAIN)),
                _ => Err(Errno(libc::ECONNRESET)),
            };
        }
    }
}
