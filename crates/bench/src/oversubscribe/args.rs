//! Command line of `divvy bench oversubscribe`.

use crate::Common;
use crate::room::{WrittenSize, bytes};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,

    /// Copies of the program; may be several numbers with commas between
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_values_t = [2, 4],
        value_parser = clap::value_parser!(u32).range(2..=16)
    )]
    pub(super) copies: Vec<u32>,

    /// Ways to run all copies at once beside peers; may be several with commas between
    #[arg(long, value_enum, value_delimiter = ',', default_value = "vmm,managed,fits")]
    pub(super) rows: Vec<RowKind>,

    /// Memory of each copy's matrices; by default so much that all together exceed the card by a half
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(super) bytes: Option<WrittenSize>,

    /// Memory that a card has for Divvy, as in `divvy daemon --capacity`; by default the card's own
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(super) capacity: Option<WrittenSize>,

    /// Let peers take more memory than the card has free, and fill what it has beyond --capacity beside them, since they know
    /// none. A peer whose memory is managed may disturb others then, on a card that is shared
    #[arg(long)]
    pub(super) peer_pressure: bool,

    /// Part of its time for which a copy that is alone uses the card; it rests between two phases
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = part)]
    pub(super) busy: f64,

    /// How long a copy that is alone uses the card between two rests, such as 15s or 500ms
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = seconds)]
    pub(super) phase: f64,

    /// Seconds for which one copy uses the card when it is alone
    #[arg(long, default_value_t = 60.0, value_parser = crate::seconds)]
    pub(super) seconds: f64,

    /// Copies that are measured alone, one after the other; by default all. The others are taken to be like them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(super) alone: Option<u32>,

    /// A second for each copy: shows that everything works, and little else
    #[arg(long)]
    pub(super) quick: bool,
}

/// A way to run all copies at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RowKind {
    /// Memory leaves by virtual memory management
    Vmm,
    /// Memory leaves as managed memory, where all of it together fits what the card has free
    Managed,
    /// Copies so small that all fit, with --oversubscribe and without
    Fits,
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse::<f64>().map_err(|error| error.to_string())?;
    match (0.05..=1.0).contains(&part) {
        true => Ok(part),
        false => Err("write a part from 0.05 to 1".to_owned()),
    }
}

/// Seconds in `15s` or `500ms`.
fn seconds(text: &str) -> Result<f64, String> {
    let (number, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return Err("write a time such as 15s or 500ms".to_owned()),
    };
    let seconds = number.parse::<f64>().map_err(|error| error.to_string())? * factor;
    match (0.01..=600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("write a time from 10ms to 600s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_parts_are_read() {
        assert_eq!(seconds("15s"), Ok(15.0));
        assert_eq!(seconds("500ms"), Ok(0.5));
        assert_eq!(part("0.5"), Ok(0.5));
        for bad in ["15", "s", "0s", "1h", "601s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert!(part("0").is_err() && part("1.5").is_err());
    }
}
