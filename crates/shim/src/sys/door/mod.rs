//! The library's door: the symbols that a program finds, each a jump or a call to what stands behind it.
//!
//! The uppermost floor, in this room because all of it is unsafe: it names the hooks, the gate and the
//! tenant, and nothing imports it. What the lookup of names needs of it, where a hook lies, is found
//! without it ([`super::offsets`]).

mod dlsym;
mod exports;
mod loader;
