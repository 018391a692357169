//! Any bytes on the daemon's socket: reading frames neither panics nor reserves what has not come, and
//! a request that was understood reads back the same.

#[allow(dead_code, unreachable_pub, reason = "the daemon uses the rest")]
#[path = "../../crates/divvy/src/wire.rs"]
mod wire;

use wire::{FrameError, MAX_FRAME_BYTES, MAX_REQUEST_BYTES, Request};

/// One input; panics where it must not.
pub(crate) fn run(data: &[u8]) {
    let mut from = data;
    loop {
        match wire::read::<Request>(&mut from, MAX_REQUEST_BYTES) {
            Ok(request) => {
                let mut again = Vec::new();
                wire::write(&mut again, &request).expect("a request of at most 64 KiB");
                let read = wire::read::<Request>(&mut again.as_slice(), MAX_FRAME_BYTES);
                assert_eq!(read.expect("our own frame").call, request.call);
            }
            Err(FrameError::Json(error)) => assert!(!error.to_string().is_empty()),
            Err(FrameError::Closed | FrameError::Io(_) | FrameError::TooLong { .. }) => break,
        }
    }
}
