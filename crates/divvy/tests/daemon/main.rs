//! The daemon as tenants and users meet it: real processes, real files, tenants made by hand.

mod by_id;
#[path = "../calls/mod.rs"]
mod calls;
mod cards;
mod fake;
mod hostile;
mod life;
mod prepare;
mod set;
