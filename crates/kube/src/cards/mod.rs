//! Cards of the node: which there are and how they are, as the daemon tells.
//!
//! [`CardWatch`] asks the daemon's socket again and again, and hands on a [`CardBook`]. Promises: while the daemon is away, or
//! the driver does not answer it, the last book stays and the health of all in it is unknown, in words; what was never told is
//! not taken for "no cards". A daemon that comes back is found within [`PERIOD`].
//!
//! **A device is named after its card's UUID.** An index would be another card's when one is taken out, and claims that are
//! allocated name their device. So a name says which card it is.
//!
//! Does not speak to a kubelet or an API server, nor to a driver.

mod answer;
mod book;
mod health;
mod terms;
mod watch;

pub use self::book::{BookedDevice, CardBook, DeviceKind, name_of};
pub use self::health::{CardHealth, NodeCard, NodeCards};
pub use self::terms::{ALL_OF_A_CARD, CardTerms, SLOTS};
pub use self::watch::{CardWatch, PERIOD};
