//! Templates for the two-line syntax: those that labelled pods name and that are not there are made, and taken away when no pod
//! names them.
//!
//! [`book`] decides, [`object`] knows what is ours and what is the same, [`run`] watches and writes.

mod book;
mod object;
mod run;
#[cfg(test)]
mod tests;

pub(super) use self::run::{TemplateTask, TemplateTimes};
