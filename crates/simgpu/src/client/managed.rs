//! Managed memory of a client: making it, and moving its granules to a device and back.
//!
//! Promises: a run of any length is gone through, in requests of a size that keeps no other client
//! waiting; what each moved is summed up. In null mode nothing is ever on a device. Does not move bytes or
//! take time.

use super::error::ClientError;
use super::holdings::Managed;
use super::{Client, Machine};
use crate::machine::managed::{Moved, Run, pieces};
use crate::wire::{Reply, Request};

impl Client {
    /// Makes managed memory, all of it on the host.
    pub fn make_managed(&self, bytes: u64) -> Result<Managed, ClientError> {
        if let Machine::Null(_) = &self.machine {
            return Ok(Managed { id: 0 });
        }
        match self.call(&Request::MakeManaged { bytes }, None)?.0 {
            Reply::Managed { object } => Ok(Managed { id: object }),
            reply => Err(ClientError::from_reply(&reply)),
        }
    }

    /// Ends managed memory: what it has on devices is free.
    pub fn end_managed(&self, managed: Managed) -> Result<(), ClientError> {
        match &self.machine {
            Machine::Null(_) => Ok(()),
            Machine::Daemon(_) => self.done(&Request::EndManaged { object: managed.id }),
        }
    }

    /// Brings granules to a device; what finds no room stays where it is.
    pub fn bring(&self, managed: &Managed, device: u32, run: Run) -> Result<Moved, ClientError> {
        let object = managed.id;
        self.moved(run, |(first, count)| Request::Bring { object, device, first, count })
    }

    /// Brings granules back to the host.
    pub fn leave(&self, managed: &Managed, run: Run) -> Result<Moved, ClientError> {
        let object = managed.id;
        self.moved(run, |(first, count)| Request::Leave { object, first, count })
    }

    /// How many bytes of the granules are on a device.
    pub fn resident_bytes(&self, managed: &Managed, run: Run) -> Result<u64, ClientError> {
        if let Machine::Null(_) = &self.machine {
            return Ok(0);
        }
        let object = managed.id;
        pieces(run)
            .map(|(first, count)| {
                match self.call(&Request::Resident { object, first, count }, None)?.0 {
                    Reply::Resident { bytes } => Ok(bytes),
                    reply => Err(ClientError::from_reply(&reply)),
                }
            })
            .sum()
    }

    fn moved(&self, run: Run, request: impl Fn(Run) -> Request) -> Result<Moved, ClientError> {
        let mut all = Moved::default();
        if let Machine::Null(_) = &self.machine {
            return Ok(all);
        }
        for piece in pieces(run) {
            match self.call(&request(piece), None)?.0 {
                Reply::Moved { came, evicted_bytes, stayed_bytes } => {
                    all.add(Moved { came, evicted_bytes, stayed_bytes });
                }
                reply => return Err(ClientError::from_reply(&reply)),
            }
        }
        Ok(all)
    }
}
