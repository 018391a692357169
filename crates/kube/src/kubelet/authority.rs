//! Stream of a kubelet whose `:authority` is the path of a socket, which the server takes for an error of the protocol.
//!
//! Kubelets before 1.34, and the health stream of 1.34, send the path or its `%2F` form; those after them send `localhost`.
//! Nothing reads the authority here: one that is no authority is replaced in the frames, as [`super::hpack`] says.
//!
//! Promises: every other byte passes as it came. What is no HTTP/2 is left to the server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::{Connected, UdsConnectInfo};

use super::hpack::with_plain_authority;

/// Bytes before the first frame.
const PREFACE_BYTES: usize = 24;
/// Bytes of a frame's head: length, type, flags, stream.
const HEAD_BYTES: usize = 9;
/// The longest frame that a server takes which asks for no longer ones.
const MOST_FRAME_BYTES: usize = 1 << 14;
/// The longest block: one that is longer passes as it came.
const MOST_BLOCK_BYTES: usize = 1 << 16;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Bytes of a priority before the block.
const PRIORITY_BYTES: usize = 5;

/// Frames that come, and what becomes of them.
#[derive(Debug, Default)]
struct FrameFilter {
    /// Bytes of a frame's head, or of frames with a block, that are not complete.
    held: Vec<u8>,
    /// Bytes that pass before the next head.
    passing: usize,
    /// Place in `held` of the frame that is being read; those before it are of the same block.
    frame: usize,
    out: Vec<u8>,
    given: usize,
}

impl FrameFilter {
    fn new() -> Self {
        Self { passing: PREFACE_BYTES, ..Self::default() }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        if self.given == self.out.len() {
            self.out.clear();
            self.given = 0;
        }
        while !bytes.is_empty() {
            let wanted = match self.passing {
                0 => self.missing(),
                passing => passing,
            };
            let (now, later) = bytes.split_at(wanted.min(bytes.len()));
            bytes = later;
            if self.passing > 0 {
                self.passing -= now.len();
                self.out.extend_from_slice(now);
                continue;
            }
            self.held.extend_from_slice(now);
            if self.missing() == 0 {
                self.complete();
            }
        }
    }

    /// Length, type and flags of the frame that is being read, once its head is there.
    fn head(&self) -> Option<(usize, u8, u8)> {
        let head = self.held.get(self.frame..self.frame + HEAD_BYTES)?;
        let &[high, middle, low, kind, flags, ..] = head else { return None };
        let length = u32::from_be_bytes([0, high, middle, low]);
        Some((usize::try_from(length).unwrap_or(usize::MAX), kind, flags))
    }

    /// Bytes until the head is complete, or the frame where it is held.
    fn missing(&self) -> usize {
        let has = self.held.len() - self.frame;
        let whole = match self.head() {
            Some((length, ..)) if self.is_held() => HEAD_BYTES + length,
            _ => HEAD_BYTES,
        };
        whole.saturating_sub(has)
    }

    /// Whether the frame is one of a block, and not too long.
    fn is_held(&self) -> bool {
        let Some((length, kind, _)) = self.head() else { return true };
        let kind_wanted = if self.frame == 0 { HEADERS } else { CONTINUATION };
        kind == kind_wanted && length <= MOST_FRAME_BYTES && self.frame + length <= MOST_BLOCK_BYTES
    }

    /// Goes on from a head or a frame that is complete.
    fn complete(&mut self) {
        let Some((length, _, flags)) = self.head() else { return };
        if !self.is_held() {
            self.passing = length;
            self.release();
        } else if flags & END_HEADERS != 0 {
            if let Some(frames) = rewritten(&self.held) {
                self.held = frames;
            }
            self.release();
        } else {
            self.frame = self.held.len();
        }
    }

    fn release(&mut self) {
        self.out.append(&mut self.held);
        self.frame = 0;
    }
}

/// The frames of a block, with another authority.
fn rewritten(frames: &[u8]) -> Option<Vec<u8>> {
    let (mut block, mut rest) = (Vec::new(), frames);
    let (&flags, stream) = (frames.get(4)?, frames.get(5..HEAD_BYTES)?);
    let mut priority: &[u8] = &[];
    while !rest.is_empty() {
        let length = u32::from_be_bytes([0, *rest.first()?, *rest.get(1)?, *rest.get(2)?]);
        let end = HEAD_BYTES + usize::try_from(length).ok()?;
        let mut payload = rest.get(HEAD_BYTES..end)?;
        if rest.get(3) == Some(&HEADERS) {
            if flags & PADDED != 0 {
                let (&padding, padded) = payload.split_first()?;
                payload = padded.get(..padded.len().checked_sub(usize::from(padding))?)?;
            }
            if flags & PRIORITY != 0 {
                (priority, payload) = payload.split_at_checked(PRIORITY_BYTES)?;
            }
        }
        block.extend_from_slice(payload);
        rest = rest.get(end..)?;
    }
    let block = [priority, &with_plain_authority(&block)?].concat();
    let mut chunks = block.chunks(MOST_FRAME_BYTES).peekable();
    let mut out = Vec::new();
    let mut kind = HEADERS;
    let mut flags = flags & !(PADDED | END_HEADERS);
    while let Some(chunk) = chunks.next() {
        if chunks.peek().is_none() {
            flags |= END_HEADERS;
        }
        out.extend_from_slice(&u32::try_from(chunk.len()).ok()?.to_be_bytes()[1..]);
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(stream);
        out.extend_from_slice(chunk);
        (kind, flags) = (CONTINUATION, 0);
    }
    Some(out)
}

/// A connection whose authority is one.
#[derive(Debug)]
pub(super) struct AuthorityStream {
    inner: UnixStream,
    filter: FrameFilter,
}

impl AuthorityStream {
    pub(super) fn new(inner: UnixStream) -> Self {
        Self { inner, filter: FrameFilter::new() }
    }
}

impl Connected for AuthorityStream {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.inner.connect_info()
    }
}

impl AsyncRead for AuthorityStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { inner, filter } = self.get_mut();
        loop {
            let ready = filter.out.get(filter.given..).unwrap_or_default();
            if !ready.is_empty() {
                let now = ready.len().min(into.remaining());
                into.put_slice(ready.get(..now).unwrap_or_default());
                filter.given += now;
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut *inner).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                // A frame that was cut is an end like any other.
                return Poll::Ready(Ok(()));
            }
            filter.feed(buffer.filled());
        }
    }
}

impl AsyncWrite for AuthorityStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Fed in pieces of `step` bytes, after a preface.
    fn filtered(frames: &[u8], step: usize) -> Vec<u8> {
        let mut filter = FrameFilter::new();
        let all = [&[b'P'; PREFACE_BYTES][..], frames].concat();
        let mut out = Vec::new();
        for piece in all.chunks(step.max(1)) {
            filter.feed(piece);
            out.extend_from_slice(&filter.out[filter.given..]);
            filter.given = filter.out.len();
        }
        out.split_off(PREFACE_BYTES)
    }

    const ODD: &[u8] = b"\x83\x41\x04/a/b\x86";
    const MADE: &[u8] = b"\x83\x41\x04-a-b\x86";

    #[test]
    fn a_block_is_made_of_its_frames_and_all_else_passes() {
        let data = frame(0, 1, b"\x41\x04/a/b");
        let settings = frame(4, 0, b"");
        let expected = [&*settings, &frame(HEADERS, END_HEADERS, MADE), &data].concat();
        let cut = [
            frame(HEADERS, 0, &ODD[..4]),
            frame(CONTINUATION, 0, &ODD[4..5]),
            frame(CONTINUATION, END_HEADERS, &ODD[5..]),
        ];
        let padded = [&[2], ODD, &[0, 0]].concat();
        for step in [1, 2, 7, 1000] {
            for block in [
                frame(HEADERS, END_HEADERS, ODD),
                cut.concat(),
                frame(HEADERS, END_HEADERS | PADDED, &padded),
            ] {
                let all = [&*settings, &block, &data].concat();
                assert_eq!(filtered(&all, step), expected, "{block:x?}");
            }
            let weighed = [&[0, 0, 0, 0, 15][..], ODD].concat();
            let made = [&[0, 0, 0, 0, 15][..], MADE].concat();
            assert_eq!(
                filtered(&frame(HEADERS, END_HEADERS | PRIORITY | 1, &weighed), step),
                frame(HEADERS, END_HEADERS | PRIORITY | 1, &made)
            );
            // One that is good, and what is none.
            let good = cut.concat().replace_slash();
            assert_eq!(filtered(&good, step), good);
            let wrong =
                [frame(HEADERS, 0, ODD), frame(0, 0, ODD), frame(HEADERS, 4, MADE)].concat();
            assert_eq!(filtered(&wrong, step), wrong);
        }
    }

    trait ReplaceSlash {
        fn replace_slash(self) -> Vec<u8>;
    }

    impl ReplaceSlash for Vec<u8> {
        fn replace_slash(self) -> Vec<u8> {
            self.into_iter().map(|byte| if byte == b'/' { b'-' } else { byte }).collect()
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_passes_or_is_held(bytes in prop::collection::vec(any::<u8>(), 0..300), step in 1_usize..50) {
            let out = filtered(&bytes, step);
            prop_assert!(out.len() <= bytes.len() + HEAD_BYTES);
            prop_assert_eq!(out, filtered(&bytes, 1000));
        }
    }
}
