//! Passage of time on the device.
//!
//! Between two events nothing changes but the progress of running work. [`Card::settle`] starts every item that can
//! start and gives the device away where that is due; both follow each event that may have changed the answer.

use super::{Card, Context, ContextId, Direction, Done, FULL_PPM, Item, Position, Progress, What};

impl Item {
    fn needs_device(&self) -> bool {
        matches!(self.what, What::Kernel { .. } | What::Event { .. })
    }

    fn is_kernel(&self) -> bool {
        matches!(self.what, What::Kernel { .. })
    }

    /// The part of the device that a kernel under way keeps others from.
    fn filled_ppm(&self, tail_ppm: u64) -> u32 {
        match (self.what, self.progress) {
            (What::Kernel { length_ns, width_ppm }, Progress::Runs { left_ns }) => {
                let is_at_end = width_ppm == FULL_PPM && left_ns <= tail_ns(length_ns, tail_ppm);
                if is_at_end { 0 } else { width_ppm }
            }
            _ => 0,
        }
    }
}

fn tail_ns(length_ns: u64, tail_ppm: u64) -> u64 {
    // A division of 128 bits would cost more than the rest of the caller.
    if let Some(product) = length_ns.checked_mul(tail_ppm) {
        return product / u64::from(FULL_PPM);
    }
    let tail = u128::from(length_ns) * u128::from(tail_ppm) / u128::from(FULL_PPM);
    u64::try_from(tail).unwrap_or(0)
}

impl Context {
    /// Front item of each stream.
    fn heads(&self) -> impl Iterator<Item = (usize, &Item)> {
        let streams = self.streams.iter().enumerate();
        streams.filter_map(|(stream, queue)| Some((stream, queue.items.front()?)))
    }

    fn runs(&self) -> impl Iterator<Item = &Item> {
        let heads = self.heads().map(|(_, item)| item);
        heads.filter(|item| matches!(item.progress, Progress::Runs { .. }))
    }
}

impl Card {
    /// When something changes next, if nothing is submitted.
    pub fn next_ns(&self) -> u64 {
        // It stays the same time while nothing but time passes.
        if let Some(next_ns) = self.next_ns.get() {
            return next_ns;
        }
        let next_ns = self.find_next_ns();
        self.next_ns.set(Some(next_ns));
        next_ns
    }

    fn find_next_ns(&self) -> u64 {
        let mut next_ns = self.switch.map_or(u64::MAX, |switch| switch.until_ns);
        for (context, one) in self.contexts.iter().enumerate() {
            let is_resident = self.switch.is_none() && self.resident == Some(context);
            for (_, item) in one.heads() {
                let at_ns = match item.progress {
                    Progress::Waits if item.ready_ns > self.now_ns => item.ready_ns,
                    Progress::Ends { at_ns } => at_ns,
                    Progress::Runs { left_ns } if is_resident => {
                        self.now_ns + self.until_change(item, left_ns)
                    }
                    _ => u64::MAX,
                };
                next_ns = next_ns.min(at_ns);
            }
        }
        if self.switch.is_none() && self.resident.is_some() && self.next_context().is_some() {
            next_ns = next_ns.min(self.slice_end_ns.max(self.now_ns));
        }
        next_ns
    }

    /// When a kernel under way ends, or leaves room for another stream's.
    fn until_change(&self, item: &Item, left_ns: u64) -> u64 {
        match item.what {
            _ if item.is_held => u64::MAX - self.now_ns,
            What::Kernel { length_ns, width_ppm: FULL_PPM } => {
                let tail_ns = tail_ns(length_ns, self.model.tail_ppm);
                if left_ns > tail_ns { left_ns - tail_ns } else { left_ns }
            }
            _ => left_ns,
        }
    }

    /// Lets time pass.
    ///
    /// # Panics
    /// When `to_ns` has passed already.
    pub fn advance(&mut self, to_ns: u64) {
        assert!(to_ns >= self.now_ns, "{to_ns} has passed: it is {}", self.now_ns);
        loop {
            let next_ns = self.next_ns();
            self.pass(next_ns.min(to_ns));
            if next_ns > to_ns {
                return;
            }
            self.complete();
            self.settle();
        }
    }

    /// Lets time pass in which nothing changes.
    fn pass(&mut self, to_ns: u64) {
        let passed_ns = to_ns - self.now_ns;
        self.now_ns = to_ns;
        if self.switch.is_some() {
            self.books.switch_ns += passed_ns;
            return;
        }
        let Some(context) = self.resident.map(|context| &mut self.contexts[context]) else {
            self.books.idle_ns += passed_ns;
            return;
        };
        let (mut is_busy, mut is_marked) = (false, false);
        for item in context.streams.iter_mut().filter_map(|stream| stream.items.front_mut()) {
            let is_kernel = item.is_kernel();
            if let Progress::Runs { left_ns } = &mut item.progress {
                *left_ns -= if item.is_held { 0 } else { passed_ns };
                is_busy |= is_kernel;
                is_marked |= !is_kernel;
            }
        }
        let (of_card, of_context) = match (is_busy, is_marked) {
            (true, _) => (&mut self.books.busy_ns, Some(&mut context.had.busy_ns)),
            (false, true) => (&mut self.books.events_ns, Some(&mut context.had.events_ns)),
            (false, false) => (&mut self.books.idle_ns, None),
        };
        *of_card += passed_ns;
        of_context.into_iter().for_each(|ns| *ns += passed_ns);
    }

    /// Ends what ends now.
    fn complete(&mut self) {
        if let Some(switch) = self.switch.filter(|switch| switch.until_ns <= self.now_ns) {
            self.switch = None;
            self.resident = Some(switch.to);
            self.slice_end_ns = self.now_ns + self.model.slice_ns;
        }
        for context in 0..self.contexts.len() {
            let is_resident = self.switch.is_none() && self.resident == Some(context);
            for stream in 0..self.contexts[context].streams.len() {
                let head = self.contexts[context].streams[stream].items.front();
                let is_over = head.is_some_and(|item| match item.progress {
                    Progress::Runs { left_ns } => is_resident && left_ns == 0,
                    Progress::Ends { at_ns } => at_ns <= self.now_ns,
                    Progress::Waits => false,
                });
                if is_over {
                    self.pop(context, stream);
                }
            }
        }
    }

    /// Takes what is completed from the front of a stream.
    fn pop(&mut self, context: ContextId, stream: usize) {
        let one = &mut self.contexts[context];
        let queue = &mut one.streams[stream];
        let position = Position { context, stream, seq: queue.done };
        let Some(item) = queue.items.pop_front() else { return };
        queue.done += 1;
        match item.what {
            What::Kernel { length_ns, .. } => {
                one.had.work_ns += length_ns;
                one.had.kernels += 1;
            }
            What::Event { event, .. } => {
                if let Some(event) = self.events.get_mut(event)
                    && event.recorded == Some(position)
                {
                    event.done_ns = Some(self.now_ns + event.late_ns);
                }
            }
            What::Copy { direction, .. } => self.copying[engine(direction)] = None,
            What::HostFunction { .. } | What::Join => {}
        }
        self.done.push(Done { at_ns: self.now_ns, position, what: item.what });
    }

    fn can_start(&self, item: &Item) -> bool {
        item.progress == Progress::Waits
            && item.ready_ns <= self.now_ns
            && item.after.iter().all(|position| self.is_done(*position))
    }

    /// Starts what can start now, and gives the device away where that is due.
    pub(super) fn settle(&mut self) {
        self.next_ns.set(None);
        loop {
            let joined = self.start_elsewhere();
            if self.switch.is_none() {
                self.start_resident();
                self.give_away();
            }
            // An item that was joined may let others start.
            if !joined {
                return;
            }
        }
    }

    /// Starts copies and host functions; true where a join was completed.
    fn start_elsewhere(&mut self) -> bool {
        let mut ready: Vec<(u64, ContextId, usize, What)> = Vec::new();
        for (context, one) in self.contexts.iter().enumerate() {
            for (stream, item) in one.heads() {
                if !item.needs_device() && self.can_start(item) {
                    ready.push((item.order, context, stream, item.what));
                }
            }
        }
        ready.sort_unstable_by_key(|(order, ..)| *order);
        let mut joined = false;
        for (_, context, stream, what) in ready {
            let at_ns = match what {
                What::Join => {
                    self.pop(context, stream);
                    joined = true;
                    continue;
                }
                What::HostFunction { length_ns } => {
                    self.now_ns + self.model.host_function_ns + length_ns
                }
                What::Copy { direction, bytes } => {
                    let copying = &mut self.copying[engine(direction)];
                    if copying.is_some() {
                        continue;
                    }
                    let seq = self.contexts[context].streams[stream].done;
                    *copying = Some(Position { context, stream, seq });
                    self.now_ns + self.model.copy_ns(bytes)
                }
                What::Kernel { .. } | What::Event { .. } => continue,
            };
            if let Some(item) = self.contexts[context].streams[stream].items.front_mut() {
                item.progress = Progress::Ends { at_ns };
            }
        }
        joined
    }

    /// Starts what the context that has the device can start: events at once, kernels in the order in
    /// which they were submitted, as long as there is room.
    fn start_resident(&mut self) {
        let Some(context) = self.resident else { return };
        let one = &self.contexts[context];
        let tail_ppm = self.model.tail_ppm;
        let mut filled: u64 = one.runs().map(|item| u64::from(item.filled_ppm(tail_ppm))).sum();
        let heads = one.heads().filter(|(_, item)| item.needs_device() && self.can_start(item));
        let mut ready: Vec<_> = heads.map(|(at, item)| (item.order, at, item.what)).collect();
        ready.sort_unstable_by_key(|(order, ..)| *order);
        let mut is_full = false;
        for (_, stream, what) in ready {
            let left_ns = match what {
                What::Kernel { length_ns, width_ppm } => {
                    let width = u64::from(width_ppm.min(FULL_PPM));
                    // A later kernel does not pass by one that waits for room.
                    is_full |= filled + width > u64::from(FULL_PPM);
                    if is_full {
                        continue;
                    }
                    filled += width;
                    length_ns
                }
                What::Event { is_timed: true, is_whole: true, .. } => self.model.context_event_ns,
                What::Event { is_timed: true, .. } => self.model.timing_event_ns,
                _ => self.model.plain_event_ns,
            };
            let left_ns = left_ns.max(1);
            if let Some(item) = self.contexts[context].streams[stream].items.front_mut() {
                item.progress = Progress::Runs { left_ns };
            }
        }
    }

    /// Whether a context has anything for the device now.
    fn wants(&self, context: ContextId) -> bool {
        self.contexts[context].heads().any(|(_, item)| {
            matches!(item.progress, Progress::Runs { .. })
                || item.needs_device() && self.can_start(item)
        })
    }

    /// The next of the contexts that want the device and do not have it.
    fn next_context(&self) -> Option<ContextId> {
        let count = self.contexts.len();
        let from = self.resident.map_or(0, |resident| resident + 1);
        let others = (from..from + count).map(|at| at % count.max(1));
        others.filter(|at| Some(*at) != self.resident).find(|context| self.wants(*context))
    }

    fn give_away(&mut self) {
        let next = self.next_context();
        let Some(resident) = self.resident else {
            // No context had it, so there is no switch.
            if next.is_some() {
                self.resident = next;
                self.slice_end_ns = self.now_ns + self.model.slice_ns;
                self.start_resident();
            }
            return;
        };
        // Alone, a slice followed the other.
        let was_contended = std::mem::replace(&mut self.is_contended, next.is_some());
        if !was_contended && self.slice_end_ns <= self.now_ns {
            let slices = (self.now_ns - self.slice_end_ns) / self.model.slice_ns.max(1) + 1;
            self.slice_end_ns += slices * self.model.slice_ns.max(1);
        }
        let Some(to) = next else { return };
        let is_dry = !self.wants(resident);
        if is_dry || self.now_ns >= self.slice_end_ns {
            let model = &self.model;
            let cost_ns = if is_dry { model.switch_dry_ns } else { model.switch_preempted_ns };
            self.books.switches += 1;
            self.books.preempted += u64::from(!is_dry);
            self.switch = Some(super::Switch { to, until_ns: self.now_ns + cost_ns.max(1) });
        }
    }
}

fn engine(direction: Direction) -> usize {
    match direction {
        Direction::In => 0,
        Direction::Out => 1,
    }
}
