//! Prepare core: makes a node ready for the containers of an allocated claim, and takes that back.
//!
//! A claim comes as [`AllocatedClaim`]; the answer is the ids of devices that the kubelet hands to the container runtime. In
//! between stand one tenant of the daemon for the shares of each request, one file of the Container Device Interface
//! that mounts it, and one line of a checkpoint. [`PrepareCore`] does that in this order:
//!
//! 1. The checkpoint names all that may come to be, before any of it is made. So whatever a killed instance leaves has a name.
//! 2. The tenant: `create`, and `set` where that says `differs`. Its id is made of the claim's UID, the request and the shares'
//!    ids, never of names.
//! 3. The file: written aside, synchronised, renamed.
//!
//! **Nothing is believed to be done.** The kubelet forgets what it has prepared, and a reboot empties `/var/run/cdi`: each call
//! makes all of it again, whatever the checkpoint says. That therefore holds no word "done", only what may be there, and
//! what is to be removed. What cannot be finished while the daemon is away is finished by the next call of any kind.
//!
//! **The checkpoint can be lost.** Ids carry the UID of their claim, so that the files and the daemon's list say all that it
//! says. One that is cut, garbled or missing is made again of these, and the old one kept beside it; one of another boot says
//! what to remove, since nothing of that boot runs; one of a newer version is an error, for its instance still runs and is asked
//! again. Two instances share it, one after the other, under a lock that ends with its process.
//!
//! **Shares of one request are one tenant.** A container is given all of them or none, and a process can be in one tenant; the
//! limits of that tenant are by card. A container that takes two requests of ours is in the tenant of the last, and has
//! memory of the other's card to the size of a byte: too little, never too much.
//!
//! **A card that was given away twice is full.** The shares of all claims on the node are counted before another is prepared, whoever
//! allocated it; one that is there already stays.
//!
//! **A share may have another size than it has claimed**, while its programs run: [`PrepareCore::resize`]. The checkpoint has it, so that
//! making all of it again does not undo it.
//!
//! Promises: one claim's failure is not another's; every failure has a [`PrepareReason`], whose word is stable; nothing waits
//! for a process, and for a lock or a daemon a few seconds at most.
//!
//! Does not speak to the kubelet, nor to an API server; does not look whether the runtime knows CDI.

mod allocated;
mod back;
mod checkpoint;
mod core;
mod daemon;
mod disk;
mod held;
mod idle;
mod ids;
mod lock;
mod mark;
mod plan;
mod reason;
mod resize;
mod room;
mod selinux;
mod settings;
mod size;
mod socket;
mod spec;
mod taken;
#[cfg(test)]
pub(crate) mod tests;

pub use self::allocated::{AllocatedClaim, AllocatedShare, CardOffer, DriverConfig, ParametersOf};
pub use self::back::Unprepared;
pub use self::core::{PrepareCore, PreparedClaim, PreparedShare};
pub use self::daemon::{CardLimits, CreatedTenant, DaemonError, NodeDaemon, NodeTenantLimits};
pub use self::disk::{HostDisk, NodeDisk};
pub use self::held::{HeldClaim, HeldTenant};
pub(crate) use self::ids::tenant_of_device;
pub use self::mark::CheckpointMark;
pub use self::reason::{PrepareError, PrepareReason};
pub use self::resize::{ResizeFailure, ResizedClaim};
pub use self::selinux::selinux_enforces;
pub use self::size::{ClaimSize, LEAST_MEMORY_BYTES};
pub use self::socket::DaemonSocket;
pub use self::spec::{ContainerEdits, ContainerMount, PreparePlaces, boot_id};
