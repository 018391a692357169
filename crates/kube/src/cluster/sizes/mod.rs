//! Sizes: objects of our own, by which people give a running claim's shares another size.
//!
//! A `ShareSize` has the name and the namespace of its claim, so that no two are about one. [`SizeTask`] watches all of them, since
//! none says which node it is for, and applies those of claims that are prepared here; what came of it is the object's status.
//! [`object`] reads one, [`verdict`] is what becomes its status, [`run`] asks and writes.
//!
//! Promises: an object of an earlier claim of the same name is not applied; one that is not understood changes nothing, and says so
//! in its status; an object that goes gives back what is claimed. At most one write of a status for each change, none where it is
//! right. Neither claims nor pods are watched: a claim is read, by its name, when its size is to change.
//!
//! Does not resize: that is the node's, by [`SizedClaims`](super::held::SizedClaims).

mod object;
mod run;
mod verdict;

pub use self::run::SizeTask;
