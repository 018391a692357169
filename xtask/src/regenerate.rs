//! `cargo xtask regen`: finds libclang, then runs the generator.
//!
//! The generator needs bindgen, which nothing else here does, so it is behind the feature `regen`;
//! without it this binary starts cargo once more with the feature on. libclang comes from
//! `LIBCLANG_PATH`, or with pip into the target directory.

use anyhow::Result;

#[cfg(feature = "regen")]
pub(crate) fn chore() -> Result<()> {
    crate::regen::run(crate::workspace::root())
}

#[cfg(not(feature = "regen"))]
pub(crate) fn chore() -> Result<()> {
    let mut again = crate::workspace::cargo();
    again.args(["run", "--quiet", "--package", "xtask", "--features", "regen", "--", "regen"]);
    if std::env::var_os("LIBCLANG_PATH").is_none() {
        again.env("LIBCLANG_PATH", libclang()?);
    }
    crate::command::run(&mut again)
}

/// The directory that holds libclang.so, fetched when it is not there yet.
#[cfg(not(feature = "regen"))]
fn libclang() -> Result<std::path::PathBuf> {
    let package = crate::workspace::target().join("libclang");
    let folder = package.join("clang/native");
    if !folder.join("libclang.so").exists() {
        eprintln!("fetching libclang");
        crate::command::run(
            std::process::Command::new("python3")
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .args(["--root-user-action=ignore", "--only-binary=:all:", "--target"])
                .arg(&package)
                .arg("libclang"),
        )?;
    }
    Ok(folder)
}
