//! The command `divvy`: all of it is the library's, of which the benchmarks' program uses a part.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    divvy_command::main()
}
