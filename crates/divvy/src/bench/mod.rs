//! stub
#[derive(Debug, clap::Args)]
/// Stub
///
/// Long.
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}
pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let _ = args.json;
    Ok(1)
}
