//! The project's own chores. `cargo xtask --help` lists them.

mod headers;
#[cfg(feature = "regen")]
mod regen;

fn main() -> anyhow::Result<()> {
    #[cfg(feature = "regen")]
    regen::run(std::path::Path::new("."))?;
    Ok(())
}
