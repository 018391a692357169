//! A command as a shell at a terminal starts it: with no signal ignored.
//!
//! What a process ignores its children ignore too, and a shell cannot even trap it: under `nohup` that is
//! SIGHUP, and of whatever a script starts with `&` it is SIGINT and SIGQUIT. Neither is what a test of
//! signals is about.

use std::process::{Command, Stdio};

/// The same command, environment included, with nothing on its standard input.
pub(crate) fn as_typed(command: &Command) -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => env.env(name, value),
            None => env.env_remove(name),
        };
    }
    env.stdin(Stdio::null());
    env
}
