//! A stream on which all must be through by a deadline, however small the pieces.
//!
//! A time-out for each reading bounds nothing: whoever sends a byte in each lasts for ever.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection, of either kind.
pub(crate) trait Socket: Send + Sync + 'static {
    /// Reads, waiting `patience` at most.
    fn read_within(&self, into: &mut [u8], patience: Duration) -> Result<usize>;
    /// Writes, waiting `patience` at most.
    fn write_within(&self, from: &[u8], patience: Duration) -> Result<usize>;
    /// Ends it, for whoever reads or writes as well.
    fn close(&self);
}

macro_rules! stream {
    ($type:ty) => {
        impl Socket for $type {
            fn read_within(&self, into: &mut [u8], patience: Duration) -> Result<usize> {
                self.set_read_timeout(Some(patience))?;
                (&mut &*self).read(into)
            }

            fn write_within(&self, from: &[u8], patience: Duration) -> Result<usize> {
                self.set_write_timeout(Some(patience))?;
                (&mut &*self).write(from)
            }

            fn close(&self) {
                // One that is closed already is what is wanted.
                let _ = self.shutdown(Shutdown::Both);
            }
        }
    };
}

stream!(UnixStream);
stream!(TcpStream);

/// A stream with its deadline.
#[derive(Debug)]
pub(crate) struct Timed<'a, S> {
    stream: &'a S,
    deadline: Instant,
    /// Time left once a first byte has come, if that is less.
    once_begun: Option<Duration>,
}

impl<'a, S: Socket> Timed<'a, S> {
    /// All that is read and written must be through by `deadline`.
    pub(crate) fn until(stream: &'a S, deadline: Instant) -> Self {
        Self { stream, deadline, once_begun: None }
    }

    /// Something must come within `silence`; from then on there is `patience`.
    pub(crate) fn quiet(stream: &'a S, silence: Duration, patience: Duration) -> Self {
        Self { stream, deadline: Instant::now() + silence, once_begun: Some(patience) }
    }

    fn left(&self) -> Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl<S: Socket> Read for Timed<'_, S> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let bytes = self.stream.read_within(into, self.left()?)?;
        if let Some(patience) = self.once_begun.take() {
            self.deadline = Instant::now() + patience;
        }
        Ok(bytes)
    }
}

impl<S: Socket> Write for Timed<'_, S> {
    fn write(&mut self, from: &[u8]) -> Result<usize> {
        self.stream.write_within(from, self.left()?)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_have_one_deadline() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut late = Timed::until(&ours, Instant::now());
        assert!(late.read(&mut [0; 1]).is_err() && late.write(&[0]).is_err());
        (&theirs).write_all(&[1, 2, 3]).unwrap();
        let mut begun = Timed::quiet(&ours, Duration::from_secs(600), Duration::from_secs(60));
        assert_eq!(begun.read(&mut [0; 1]).unwrap(), 1);
        let deadline = begun.deadline;
        assert!(deadline <= Instant::now() + Duration::from_secs(60));
        assert_eq!(begun.read(&mut [0; 1]).unwrap(), 1);
        assert_eq!(begun.deadline, deadline, "no piece moves it");
    }

    #[test]
    fn a_closed_stream_ends_whoever_reads() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let far = Instant::now() + Duration::from_secs(60);
                Timed::until(&ours, far).read(&mut [0; 1])
            });
            ours.close();
            assert_eq!(reader.join().unwrap().unwrap(), 0);
        });
    }
}
