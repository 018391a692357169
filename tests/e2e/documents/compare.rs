//! Whether a command printed what its page shows, by the rule of `docs/testing.md`.
//!
//! Lines and their words must be the same, however much room is between words; but of what a page shows
//!
//! - `…` stands for any part of a word, any words where it stands alone, any lines where it is a line;
//! - a time, a rate, and a percentage with a fraction stand for any other;
//! - a number of two digits and more without a unit stands for any number: pids, and how often something happened.
//!
//! So sizes, whole percentages, names, and numbers of one digit are what the page says. [`Numbers::Any`] is for pages that
//! show a card's figures: there every number stands for any, and for a UUID.

/// Which numbers of a page stand for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Those that no two runs have in common.
    Volatile,
    /// All.
    Any,
}

/// What stands for anything.
const ANYTHING: char = '…';

const OF_TIME: [&str; 6] = ["ns", "us", "ms", "s", "min", "h"];
const OF_RATE: [&str; 2] = ["MB/s", "GB/s"];
const OF_SIZE: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "bytes"];

/// Whether `printed` is what the page shows as `shown`.
pub(crate) fn is_shown(shown: &[String], printed: &[String], numbers: Numbers) -> bool {
    let (shown, printed) = (without_ends(shown), without_ends(printed));
    let is_any = |line: &String| line.trim() == "…";
    sequence(shown, printed, &is_any, &|shown: &String, printed: &String| {
        line(shown, printed, numbers)
    })
}

/// Lines without empty ones at the ends.
fn without_ends(lines: &[String]) -> &[String] {
    let is_full = |line: &String| !line.trim().is_empty();
    let from = lines.iter().position(is_full).unwrap_or(lines.len());
    let to = lines.iter().rposition(is_full).map_or(from, |at| at + 1);
    lines.get(from..to).unwrap_or_default()
}

fn line(shown: &str, printed: &str, numbers: Numbers) -> bool {
    let shown: Vec<&str> = shown.split_whitespace().collect();
    let printed: Vec<&str> = printed.split_whitespace().collect();
    let shown: Vec<Word<'_>> = words(&shown, numbers);
    let printed: Vec<Word<'_>> = words(&printed, numbers);
    let is_any = |word: &Word<'_>| *word == Word::Plain("…");
    sequence(&shown, &printed, &is_any, &|shown: &Word<'_>, printed: &Word<'_>| {
        shown.stands_for(printed)
    })
}

/// Whether each of `shown` stands for one of `printed`, or, where it stands for any number of them, for some.
fn sequence<T>(
    shown: &[T],
    printed: &[T],
    is_any: &impl Fn(&T) -> bool,
    one: &impl Fn(&T, &T) -> bool,
) -> bool {
    let Some((first, rest)) = shown.split_first() else { return printed.is_empty() };
    if is_any(first) {
        let mut tails = (0..=printed.len()).filter_map(|at| printed.get(at..));
        return tails.any(|tail| sequence(rest, tail, is_any, one));
    }
    let Some((its, others)) = printed.split_first() else { return false };
    one(first, its) && sequence(rest, others, is_any, one)
}

/// A word of a line, with its unit where that is a word of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word<'t> {
    Plain(&'t str),
    /// A number by itself, as it is written.
    Number(&'t str),
    Time,
    Rate,
    /// A percentage, as it is written.
    Percent(&'t str),
    Size(&'t str, &'t str),
    /// Any number with any unit, where all numbers are alike.
    Amount,
}

fn words<'t>(line: &[&'t str], numbers: Numbers) -> Vec<Word<'t>> {
    let mut rest = line;
    let mut words = Vec::new();
    while let Some((word, others)) = rest.split_first() {
        let (bare, ending) = bare(word);
        let next = others.first().map(|unit| self::bare(unit));
        let (kind, taken) = match next {
            _ if bare.is_empty() => (Word::Plain(word), 1),
            // A device is called by its index where the kernel module tells of it.
            _ if numbers == Numbers::Any && bare.starts_with("GPU-") => (Word::Amount, 1),
            _ if bare.ends_with('%') && is_number(bare.trim_end_matches('%')) => {
                (Word::Percent(bare), 1)
            }
            _ if !is_number(bare) => (Word::Plain(word), 1),
            Some((unit, _)) if ending.is_empty() && OF_TIME.contains(&unit) => (Word::Time, 2),
            Some((unit, _)) if ending.is_empty() && OF_RATE.contains(&unit) => (Word::Rate, 2),
            Some((unit, _)) if ending.is_empty() && OF_SIZE.contains(&unit) => {
                (Word::Size(bare, unit), 2)
            }
            Some(("%", _)) if ending.is_empty() => (Word::Percent(bare), 2),
            _ => (Word::Number(bare), 1),
        };
        let is_plain = matches!(kind, Word::Plain(_));
        words.push(if numbers == Numbers::Any && !is_plain { Word::Amount } else { kind });
        rest = rest.get(taken..).unwrap_or_default();
    }
    words
}

/// A word without the mark that ends a clause.
fn bare(word: &str) -> (&str, &str) {
    let bare = word.trim_end_matches([',', ';', ':', '.']);
    word.split_at(bare.len())
}

/// Whether it is a number, perhaps with a fraction or commas between thousands.
fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',')
        && word.matches('.').count() < 2
}

impl Word<'_> {
    fn stands_for(&self, printed: &Word<'_>) -> bool {
        match (self, printed) {
            (Word::Plain(shown), Word::Plain(printed)) => part(shown, printed),
            (Word::Number(shown), Word::Number(printed)) => shown.len() > 1 || shown == printed,
            (Word::Percent(shown), Word::Percent(printed)) => {
                shown.contains('.') || shown == printed
            }
            (Word::Plain(shown), _) => *shown == "…",
            (shown, printed) => shown == printed,
        }
    }
}

/// Whether a word is what is shown, in which [`ANYTHING`] may stand for a part.
fn part(shown: &str, printed: &str) -> bool {
    let Some((head, tail)) = shown.split_once(ANYTHING) else { return shown == printed };
    let Some(rest) = printed.strip_prefix(head) else { return false };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| part(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(shown: &str, printed: &str) -> bool {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        is_shown(&lines(shown), &lines(printed), Numbers::Volatile)
    }

    #[test]
    fn what_differs_from_run_to_run_may_differ() {
        for (shown, printed) in [
            ("a  4711  python   1.0 s", "a   9  python 12.25 ms"),
            ("busy for 30.6 % of the time", "busy for 4 % of the time"),
            ("0   30.6%", "0 5%"),
            ("8,317 kernels, 14.5 GB/s", "7 kernels, 1 GB/s"),
            ("a\n…\nz", "a\nb\nc\nz"),
            ("device GPU-513d9a0b-…: 6 GiB", "device GPU-513d9a0b-7e42: 6 GiB"),
            ("gate …  end", "gate 0.4 ms end"),
            ("…", ""),
            ("\na\n\n", "a"),
        ] {
            assert!(is(shown, printed), "{shown:?} {printed:?}");
        }
    }

    #[test]
    fn everything_else_may_not() {
        for (shown, printed) in [
            ("holds 3 GiB", "holds 4 GiB"),
            ("holds 3.51 GiB", "holds 3.52 GiB"),
            ("compute 30%", "compute 31%"),
            ("refused with error 2", "refused with error 3"),
            ("a\nb", "a\nb\nc"),
            ("a b", "a"),
            ("DV201", "DV202"),
            ("1.0 s", "1.0 GiB"),
            ("GPU-51…: x", "GPU-52ab: x"),
            ("GPU 21", "GPU -"),
        ] {
            assert!(!is(shown, printed), "{shown:?} {printed:?}");
        }
        let lines = |text: &str| vec![text.to_owned()];
        assert!(is_shown(&lines("held 1.5 GiB, 30%"), &lines("held 600 MiB, 4%"), Numbers::Any));
    }
}
