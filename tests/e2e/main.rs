//! The end-to-end tests: the library as shipped, a simulated driver, real processes.
//!
//! Each module is one topic, each test is named after what it proves. Clients are C programs that
//! know nothing of Divvy; see `clients/`. `coverage.rs` says which test proves which hook.

mod harness;

mod answers;
mod arrays;
mod audit;
mod beginnings;
mod bench;
mod blocks;
mod by_id;
mod conformance;
mod containers;
mod context_cost;
mod contexts;
mod coverage;
mod daemon;
mod deliveries;
mod documents;
mod ends;
mod escapes;
mod faults;
mod gate;
mod graphs;
mod groups;
mod hami;
mod handovers;
mod hostile;
mod json;
mod kill;
mod lasting;
mod leave;
mod leftovers;
mod lent;
mod life;
mod limits;
mod log;
mod managed;
mod managed_backend;
mod modules;
mod mps;
mod narrow;
mod no_room;
mod numbered;
mod nvshare;
mod old;
mod output;
mod pace;
mod pages;
mod pods;
mod pools;
mod reach;
mod reviews;
mod settle;
mod sharing;
mod startup;
mod switches;
mod system;
mod threads;
mod turns;
mod turns_on_two;
mod turns_shown;
mod upgrade;
mod vmm;
mod workers;
