//! Makes a case smaller that still fails: what is left says what the failure needs.
//!
//! Whole tenants and processes go first, then deviations and operations by ddmin, then lists are cut
//! short and numbers lowered, until a round of all of it changes nothing. Whether a case fails is the
//! caller's to say, by the oracle that found it and none other.
//!
//! Promises: what is returned fails; no step makes the case larger by its own measure, so it ends. The
//! number of tries is bounded by `tries`, which a long run needs more than a good result.
//!
//! Does not run a case.

use crate::card::CardModel;
use crate::case::{Case, Fault, Knobs};
use crate::program::{Length, Op, Ops};
use crate::{MS, US};

/// The question whether a case fails, and the number of times it may be asked.
struct Judge<'a> {
    fails: &'a dyn Fn(&Case) -> bool,
    left: usize,
}

impl Judge<'_> {
    /// Takes `smaller` if it is another case that fails as well.
    fn take(&mut self, case: &mut Case, smaller: Case) -> bool {
        if self.left == 0 || smaller == *case {
            return false;
        }
        self.left -= 1;
        let fails = (self.fails)(&smaller);
        if fails {
            *case = smaller;
        }
        fails
    }

    /// Takes parts out of a list, in halves first, as long as the case fails without them (ddmin).
    fn thin<T: Clone>(&mut self, case: &mut Case, list: impl Fn(&mut Case) -> Option<&mut Vec<T>>) {
        let length = |case: &mut Case| list(case).map_or(0, |list| list.len());
        let mut part = length(case);
        while part != 0 {
            let mut at = 0;
            while at < length(case) {
                let mut smaller = case.clone();
                if let Some(list) = list(&mut smaller) {
                    let end = (at + part).min(list.len());
                    list.drain(at..end);
                }
                if !self.take(case, smaller) {
                    at += part;
                }
            }
            part /= 2;
        }
    }
}

/// The smallest case found that fails, from one that does.
pub fn shrink(case: Case, tries: usize, fails: &dyn Fn(&Case) -> bool) -> Case {
    let mut case = case;
    let mut judge = Judge { fails, left: tries };
    loop {
        let before = case.clone();
        judge.thin(&mut case, |case| Some(&mut case.tenants));
        for tenant in 0..case.tenants.len() {
            judge.thin(&mut case, |case| {
                case.tenants.get_mut(tenant).map(|tenant| &mut tenant.processes)
            });
        }
        judge.thin(&mut case, |case| Some(&mut case.devs));
        thin_ops(&mut judge, &mut case);
        shorten(&mut judge, &mut case);
        lower(&mut judge, &mut case);
        if case == before || judge.left == 0 {
            return case;
        }
    }
}

/// Path of a list of operations: tenant, process, and the way down.
type Path = (usize, usize, Vec<usize>);

fn list_at<'a>(case: &'a mut Case, (tenant, process, way): &Path) -> Option<&'a mut Ops> {
    let process = case.tenants.get_mut(*tenant)?.processes.get_mut(*process)?;
    way.iter().try_fold(&mut process.ops, |ops, at| ops.get_mut(*at)?.inner_mut())
}

/// All lists, outer ones first.
fn lists(case: &Case) -> Vec<Path> {
    fn add(ops: &Ops, path: Path, all: &mut Vec<Path>) {
        let (tenant, process, way) = path.clone();
        all.push(path);
        for (at, op) in ops.iter().enumerate() {
            if let Some(inner) = op.inner() {
                let way = way.iter().copied().chain([at]).collect();
                add(inner, (tenant, process, way), all);
            }
        }
    }
    let mut all = Vec::new();
    for (tenant, plan) in case.tenants.iter().enumerate() {
        for (process, plan) in plan.processes.iter().enumerate() {
            add(&plan.ops, (tenant, process, Vec::new()), &mut all);
        }
    }
    all
}

fn thin_ops(judge: &mut Judge<'_>, case: &mut Case) {
    // A list that is gone has no list any more, and nothing is taken out of it.
    for path in lists(case) {
        judge.thin(case, |case| list_at(case, &path));
    }
    // The contents of a list instead of the list.
    for path in lists(case) {
        let count = list_at(case, &path).map_or(0, |list| list.len());
        for at in 0..count {
            let mut smaller = case.clone();
            let list = list_at(&mut smaller, &path);
            if let Some(list) = list
                && let Some(Op::Repeat { ops, .. } | Op::For { ops, .. }) = list.get(at).cloned()
            {
                list.splice(at..=at, ops);
            }
            judge.take(case, smaller);
        }
    }
}

/// Cuts the run and the loops.
fn shorten(judge: &mut Judge<'_>, case: &mut Case) {
    for part in [8, 4, 2] {
        loop {
            let mut smaller = case.clone();
            let run_ns = smaller.knobs.run_ns;
            smaller.knobs.run_ns -= run_ns / part * (part / 2).max(1);
            smaller.knobs.heal_ns = smaller.knobs.heal_ns.min(smaller.knobs.run_ns);
            if smaller.knobs.run_ns < MS || !judge.take(case, smaller) {
                break;
            }
        }
    }
    each_op(judge, case, |op| match op {
        Op::Repeat { times, .. } if *times > 1 => {
            let less = [1, *times / 2, *times - 1];
            less.map(|less| with_op(op, |op| set_times(op, less))).to_vec()
        }
        _ => Vec::new(),
    });
}

fn set_times(op: &mut Op, less: u32) {
    if let Op::Repeat { times, .. } = op {
        *times = less.max(1);
    }
}

fn with_op(op: &Op, change: impl FnOnce(&mut Op)) -> Op {
    let mut other = op.clone();
    change(&mut other);
    other
}

/// Tries, for each operation, what `smaller` makes of it.
fn each_op(judge: &mut Judge<'_>, case: &mut Case, smaller: impl Fn(&Op) -> Vec<Op>) {
    for path in lists(case) {
        let count = list_at(case, &path).map_or(0, |list| list.len());
        for at in 0..count {
            let op = list_at(case, &path).and_then(|list| list.get(at).cloned());
            for other in op.iter().flat_map(&smaller) {
                let mut changed = case.clone();
                if let Some(place) = list_at(&mut changed, &path).and_then(|list| list.get_mut(at))
                {
                    *place = other;
                }
                if judge.take(case, changed) {
                    break;
                }
            }
        }
    }
}

/// Lowers numbers: to nothing, to what is usual, to the half.
fn lower(judge: &mut Judge<'_>, case: &mut Case) {
    for change in [
        |knobs: &mut Knobs| knobs.card = CardModel::default(),
        |knobs: &mut Knobs| knobs.seed = 1,
        |knobs: &mut Knobs| knobs.devices = 1,
        |knobs: &mut Knobs| knobs.has_daemon = false,
        |knobs: &mut Knobs| knobs.unnoticed_ns = Knobs::default().unnoticed_ns,
        |knobs: &mut Knobs| knobs.floor_ppm = 0,
        |knobs: &mut Knobs| knobs.has_board = true,
    ] {
        let mut smaller = case.clone();
        change(&mut smaller.knobs);
        judge.take(case, smaller);
    }
    for tenant in 0..case.tenants.len() {
        for change in 0..6 {
            let mut smaller = case.clone();
            let Some(plan) = smaller.tenants.get_mut(tenant) else { continue };
            match change {
                0 => plan.share_ppm = 0,
                1 => plan.weight = 0,
                2 => plan.priority = 0,
                3 => plan.is_latency = false,
                4 => plan.processes.iter_mut().for_each(|one| one.start_ns = 0),
                _ => plan.processes.iter_mut().for_each(|one| one.is_blocking = false),
            }
            judge.take(case, smaller);
        }
    }
    each_op(judge, case, |op| match op {
        Op::Launch { length, stream, .. } | Op::Graph { length, stream, .. } => {
            let plain = plainer(length);
            let plain = plain.into_iter().map(|plain| with_op(op, |op| set_length(op, plain)));
            let first = (*stream != 0).then(|| with_op(op, set_first_stream));
            plain.chain(first).collect()
        }
        Op::Pause { ns } => less(*ns).map(|ns| Op::Pause { ns }).collect(),
        Op::Compute { ns } => less(*ns).map(|ns| Op::Compute { ns }).collect(),
        Op::For { ns, ops } => less(*ns).map(|ns| Op::For { ns, ops: ops.clone() }).collect(),
        Op::HostFunction { length_ns, stream } => less(*length_ns)
            .map(|length_ns| Op::HostFunction { length_ns, stream: *stream })
            .collect(),
        _ => Vec::new(),
    });
    for at in 0..case.devs.len() {
        let Some(dev) = case.devs.get(at).copied() else { continue };
        let nth = [dev.nth / 2, dev.nth.saturating_sub(1)].map(|nth| (nth, dev.what));
        let what = match dev.what {
            Fault::Delay(ns) => less(ns).map(|ns| (dev.nth, Fault::Delay(ns))).collect(),
            Fault::Stop(ns) => less(ns).map(|ns| (dev.nth, Fault::Stop(ns))).collect(),
            Fault::Garbage(word) if word != 0 => vec![(dev.nth, Fault::Garbage(0))],
            _ => Vec::new(),
        };
        for (nth, what) in what.into_iter().chain(nth) {
            let mut smaller = case.clone();
            if let Some(dev) = smaller.devs.get_mut(at) {
                (dev.nth, dev.what) = (nth, what);
            }
            if judge.take(case, smaller) {
                break;
            }
        }
    }
}

/// Round numbers below, the smallest first.
fn less(ns: u64) -> impl Iterator<Item = u64> {
    [0, US, 10 * US, 100 * US, MS, 10 * MS, ns / 2].into_iter().filter(move |less| *less < ns)
}

fn plainer(length: &Length) -> Vec<Length> {
    let (least, most) = length.range_ns();
    match length {
        Length::Fixed(ns) => less(*ns).filter(|ns| *ns != 0).map(Length::Fixed).collect(),
        Length::List(all) => {
            let mut plainer = vec![Length::Fixed(least), Length::Fixed(most)];
            let without = (0..all.len()).map(|at| {
                let mut fewer = all.clone();
                fewer.remove(at);
                Length::List(fewer)
            });
            plainer.extend(without.filter(|_| all.len() > 2));
            plainer
        }
        _ => vec![Length::Fixed(least), Length::Fixed(most), Length::List(vec![least, most])],
    }
}

fn set_length(op: &mut Op, plain: Length) {
    if let Op::Launch { length, .. } | Op::Graph { length, .. } = op {
        *length = plain;
    }
}

fn set_first_stream(op: &mut Op) {
    if let Op::Launch { stream, .. } | Op::Graph { stream, .. } = op {
        *stream = 0;
    }
}

#[cfg(test)]
mod tests;
