//! The driver's records of the objects a program makes: data, and functions of one object alone.
//!
//! Promises: nothing here knows of the tables the objects are kept in ([`super::state`]) or of another
//! thread; whatever concerns several objects is done above.

pub(crate) mod advice;
pub(crate) mod arena;
pub(crate) mod code;
pub(crate) mod condition;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod graph;
pub(crate) mod launch;
pub(crate) mod managed;
pub(crate) mod memory;
pub(crate) mod pool;
pub(crate) mod runs;
pub(crate) mod stream;
pub(crate) mod task;
