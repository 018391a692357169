//! The scripts under `tests/gpu` that run without a card: their own tests, by Python's unittest.
//!
//! Promises: fails when one of them fails or none is found. Runs nothing that needs a card or PyTorch.

use std::path::Path;
use std::process::Command;

#[test]
fn the_scripts_pass_their_own_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/gpu");
    let done = Command::new("python3")
        .args(["-m", "unittest", "discover", "-s", ".", "-p", "test_*.py"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(folder)
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&done.stderr);
    let ran = said.contains("\nRan ") && !said.contains("\nRan 0 tests");
    assert!(done.status.success() && ran, "{said}");
}
