//! Changes of a text by place, which may lie inside each other, and where each change went.
//!
//! Promises: what lies inside another change's text stays inside it; a compiler's place in the result is traced back
//! to the innermost change around it. Knows nothing of the language.

use std::ops::Range;

/// Changes that belong together: the two ends of a switch, and what lies between.
#[derive(Debug)]
pub(super) struct Site {
    /// The mutants that it switches.
    pub(super) numbers: Vec<u32>,
    /// Its range in the result.
    pub(super) range: Range<usize>,
}

/// When changes at one place come: what ends there, what begins there, what is replaced there.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Order {
    /// The innermost first: those in the most others.
    Ends(std::cmp::Reverse<usize>),
    /// The outermost first.
    Begins(usize),
    Replaced,
}

#[derive(Debug)]
struct Edit {
    from: usize,
    to: usize,
    order: Order,
    text: String,
    site: Option<usize>,
}

/// The changes of one text.
#[derive(Default, Debug)]
pub(super) struct Edits {
    edits: Vec<Edit>,
    sites: Vec<Vec<u32>>,
}

impl Edits {
    /// A new site, for those below.
    pub(super) fn site(&mut self, numbers: Vec<u32>) -> usize {
        self.sites.push(numbers);
        self.sites.len() - 1
    }

    /// Puts a text where something begins that lies in so many others.
    pub(super) fn begin(&mut self, site: usize, at: usize, depth: usize, text: String) {
        self.push(at..at, Order::Begins(depth), text, Some(site));
    }

    /// The same where something ends.
    pub(super) fn end(&mut self, site: usize, at: usize, depth: usize, text: String) {
        self.push(at..at, Order::Ends(std::cmp::Reverse(depth)), text, Some(site));
    }

    /// Replaces what is in no other change: an operator, a word.
    pub(super) fn replace(&mut self, site: Option<usize>, range: Range<usize>, text: &str) {
        self.push(range, Order::Replaced, text.to_owned(), site);
    }

    fn push(&mut self, range: Range<usize>, order: Order, text: String, site: Option<usize>) {
        self.edits.push(Edit { from: range.start, to: range.end, order, text, site });
    }

    /// The text with all changes made, and its sites.
    pub(super) fn apply(mut self, text: &str) -> (String, Vec<Site>) {
        self.edits.sort_by(|a, b| (a.from, &a.order).cmp(&(b.from, &b.order)));
        let mut ranges: Vec<Option<Range<usize>>> = vec![None; self.sites.len()];
        let (mut result, mut done) = (String::with_capacity(2 * text.len()), 0);
        for edit in self.edits {
            result.push_str(&text[done..edit.from]);
            let from = result.len();
            result.push_str(&edit.text);
            done = edit.to;
            if let Some(site) = edit.site {
                ranges[site].get_or_insert(from..from).end = result.len();
            }
        }
        result.push_str(&text[done..]);
        let sites = self.sites.into_iter().zip(ranges);
        let sites =
            sites.map(|(numbers, range)| Site { numbers, range: range.unwrap_or_default() });
        (result, sites.collect())
    }
}

/// The innermost site around a place of the result.
pub(super) fn around(sites: &[Site], place: &Range<usize>) -> Option<usize> {
    let holds = |site: &Site| site.range.start <= place.start && place.end <= site.range.end;
    let around = sites.iter().enumerate().filter(|(_, site)| holds(site));
    around.min_by_key(|(_, site)| site.range.len()).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_inside_each_other_stay_so_and_are_found() {
        let text = "a + b + c";
        let mut edits = Edits::default();
        let outer = edits.site(vec![1]);
        edits.begin(outer, 0, 1, "[".to_owned());
        edits.replace(Some(outer), 6..7, ",");
        edits.end(outer, 9, 1, "]".to_owned());
        let inner = edits.site(vec![2, 3]);
        edits.begin(inner, 0, 2, "(".to_owned());
        edits.replace(Some(inner), 2..3, ";");
        edits.end(inner, 5, 2, ")".to_owned());
        let (result, sites) = edits.apply(text);
        assert_eq!(result, "[(a ; b) , c]");
        assert_eq!(around(&sites, &(2..3)), Some(inner));
        assert_eq!(around(&sites, &(11..12)), Some(outer));
        assert_eq!(around(&sites, &(13..14)), None);
    }
}
