//! `divvy-kube`: the program, which is the crate's `main`.

use std::process::ExitCode;

fn main() -> ExitCode {
    divvy_kube::main()
}
