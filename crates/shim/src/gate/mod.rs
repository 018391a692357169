//! Asking for device time: `divvy_policy`'s gates over this process's driver and tenant.
//!
//! [`host`] is what the gates stand on, [`submit`] what every call does that gives the device work or
//! ends a measured span of it, [`copies`] tells copies within the device from others, [`capture`] says which streams are
//! being captured. Promises: two loads where no gate of the tenant is in use. Imports the floors below, `tenant` and
//! `sys`, and knows no entry point.

pub(crate) mod capture;
pub(crate) mod copies;
mod host;
pub(crate) mod submit;

pub(crate) use host::{GATES, Retiring, beside_captures, is_capturing, relaxed, stream};
