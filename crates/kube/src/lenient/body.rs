//! Body of an answer, whose bytes are mended as they come: a watch is one without an end.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use kube::client::DynBody;

use super::mend::Mender;

/// A body that is mended.
pub(super) struct MendedBody {
    inner: Box<DynBody>,
    mender: Mender,
    is_ended: bool,
}

impl MendedBody {
    pub(super) fn new(inner: Box<DynBody>) -> Self {
        Self { inner, mender: Mender::default(), is_ended: false }
    }
}

impl Body for MendedBody {
    type Data = Bytes;
    type Error = tower::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        let this = &mut *self;
        let next = std::task::ready!(Pin::new(&mut *this.inner).poll_frame(context));
        let mut mended = Vec::new();
        Poll::Ready(match next {
            Some(Ok(frame)) => Some(Ok(match frame.into_data() {
                Ok(bytes) => {
                    this.mender.feed(&bytes, &mut mended);
                    Frame::data(Bytes::from(mended))
                }
                Err(frame) => frame,
            })),
            Some(Err(error)) => Some(Err(error)),
            None => {
                this.is_ended = true;
                this.mender.end(&mut mended);
                (!mended.is_empty()).then(|| Ok(Frame::data(Bytes::from(mended))))
            }
        })
    }
}
