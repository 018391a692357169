//! What a release's artefacts are on machines that are not this one: bare roots of Debian, an old one, another processor.
//!
//! They take the artefacts as a user has them, as files, from the folder that `DIVVY_RELEASE` names; `cargo xtask test
//! release` makes them first. A root is fetched once, by debootstrap, and never written into after that. Whatever this
//! machine lacks (root, a tool, a mirror that answers) is a skip by name.

mod artefacts;
mod packages;
mod processor;
mod roots;
mod service;
mod tarball;
