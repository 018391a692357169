//! A launch and a wait of a program's thread at the gates of its process.
//!
//! [`Gates::ask`] stands before the driver's call and [`Admitted::launched`] behind it; around a call that may block
//! because of work in flight stand [`Gates::sleep`], or [`Gates::begin_wait`] and [`Gates::end_wait`] where its return
//! shows that work has ended.
//!
//! Promises: two loads where no gate of the tenant is in use are the caller's ([`Gates::ask`] is one look-up of the
//! context more); captured launches pass uncharged. Does not call the driver for the program.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::gate;

use super::credit::Paid;
use super::drain::Begun;
use super::driver::{Device, Driver, LaunchStream, Sleeper, Words};
use super::here::{Here, WordsOf};
use super::process::{Context, Current, Gates};
use super::ticket::Ticket;

/// A launch that the gate let go after a look at more than the credit in hand.
#[derive(Debug)]
#[must_use = "what the driver answered is to be told by `Admitted::launched`"]
pub struct Admitted<'a, D: Driver> {
    here: Here<'a, D>,
    ticket: Ticket,
}

/// The work that a synchronisation waits for.
#[derive(Clone, Copy, Debug)]
pub enum Waited {
    /// All work of the current context.
    Current,
    /// All work of the context with this handle.
    Context(u64),
    /// A stream.
    Stream(LaunchStream),
    /// An event: some part of the submitted work.
    Event,
}

/// State of a synchronisation as it begins to wait.
#[derive(Debug)]
#[must_use = "the thread counts as awake when this is dropped"]
pub struct Waiting<'a, D: Driver> {
    current: Current<'a, D>,
    words: WordsOf<D>,
    begun: Begun,
    _sleeper: Sleeper,
}

impl<D: Driver> Gates<D> {
    /// Returns when a launch of `key` on `stream` may go, with the value that reports its outcome by
    /// [`Admitted::launched`]: none where the credit in hand pays.
    #[inline(never)]
    pub fn ask(&self, stream: LaunchStream, key: u64) -> Option<Admitted<'_, D>> {
        let current = self.current()?;
        let (context, device) = current;
        let terms = device.terms();
        let state = device.state();
        if (state == gate::FREE && terms.share_ppm == 0 && !terms.paused)
            || self.is_capturing(stream)
        {
            return None;
        }
        let paid = match state != gate::CLOSED && !terms.paused {
            true => context.lane.take(&self.costs, key, self.driver.stripe()),
            false => Paid::Not,
        };
        if paid != Paid::Not && !stream.is_own() && !context.lane.streams.knows(stream.word()) {
            context.lane.note_stream(stream.word());
        }
        match paid {
            Paid::Next => None,
            Paid::First => {
                device.words()?.count_launches(1);
                None
            }
            Paid::Not => self.admit(current, stream, key),
        }
    }

    /// Admits a launch as [`Gates::ask`] does, where the credit in hand does not pay, or the gate is closed.
    #[cold]
    #[inline(never)]
    fn admit<'a>(
        &'a self,
        current: Current<'a, D>,
        stream: LaunchStream,
        key: u64,
    ) -> Option<Admitted<'a, D>> {
        let (context, device) = current;
        let here = Here::new(self, current, device.words()?, stream);
        let ticket = context.lane.admit(&here, &self.costs, key);
        Some(Admitted { here, ticket })
    }

    /// Ends the span that is measured: something that is no work of the device's comes, on any stream.
    pub fn break_span(&self) {
        let _ = self.end_span();
    }

    /// Notes that a stream of the current context is to wait for an event. An event of the context itself adds nothing
    /// to marks that stand behind all of its work: the awaited point is reached, or is work, or has ended the span
    /// itself. Another context's is no work of this one.
    #[inline(never)]
    pub fn wait_for_event(&self) {
        let is_own = !self.has_siblings() && self.shared_events.load(Relaxed) == 0;
        let is_marked_behind_all =
            || self.current().is_some_and(|(context, _)| !context.lane.has_one_stream());
        if !(is_own && is_marked_behind_all()) {
            self.break_span();
        }
    }

    /// Notes that other processes may record events that this one's streams wait for, from here on.
    pub fn shared_event(&self) {
        self.shared_events.store(1, Relaxed);
    }

    /// Ends the span of the current context, which is returned.
    #[inline(never)]
    fn end_span(&self) -> Option<Current<'_, D>> {
        let current = self.current()?;
        let (context, device) = current;
        if context.lane.begun.event().is_some()
            && let Some(words) = device.words()
        {
            context.lane.end_begun(&Here::behind_all(self, current, words));
        }
        context.lane.break_span();
        Some(current)
    }

    /// Ends the span; until the answer is dropped the thread may sleep in the driver because of work in flight.
    #[inline(never)]
    pub fn sleep(&self) -> Option<Sleeper> {
        let (context, device) = self.end_span()?;
        let words = device.words()?;
        self.count_launches(context, &words);
        Some(words.sleeper())
    }

    /// Hands on the count of launches that the calling thread has paid from its credit.
    #[inline(always)]
    fn count_launches(&self, context: &Context<D::Home>, words: &WordsOf<D>) {
        let launches = context.lane.credit.take_launches(self.driver.stripe());
        if launches != 0 {
            words.count_launches(launches);
        }
    }

    /// Begins a synchronisation. Hands on the count of the thread's launches, for observers of this process while it
    /// sleeps, and reads the progress of the work that the wait is for.
    #[inline(never)]
    pub fn begin_wait(&self, waited: &Waited) -> Option<Waiting<'_, D>> {
        let current = self.current()?;
        let (context, device) = current;
        let words = device.words()?;
        self.count_launches(context, &words);
        if context.lane.has_open_end() && device.state() != gate::CLOSED {
            self.mark_end(current, words, waited);
        }
        let begun = context.lane.begin_wait(self.driver.now_ns());
        if context.lane.doubt.unseen_ns(begun.at_ns, begun.submitted_ns) != 0 {
            self.look_back(current, words, &begun);
        }
        Some(Waiting { current, words, begun, _sleeper: words.sleeper() })
    }

    /// Looks at the time since the last look, of which much is not charged.
    #[cold]
    #[inline(never)]
    fn look_back(&self, current: Current<'_, D>, words: WordsOf<D>, begun: &Begun) {
        let here = Here::new(self, current, words, LaunchStream::NULL);
        current.0.lane.look_back(&here, &here.line(), begun.at_ns);
    }

    /// Marks the end of the work that a synchronisation waits for.
    #[cold]
    #[inline(never)]
    fn mark_end(&self, current: Current<'_, D>, words: WordsOf<D>, waited: &Waited) {
        let (context, _) = current;
        if self.is_all(context, waited) {
            let here = match *waited {
                Waited::Stream(stream) => Here::new(self, current, words, stream),
                // A stream that was launched on may have been destroyed.
                _ => Here::behind_all(self, current, words),
            };
            context.lane.close_burst(&here, &self.costs, &here.line());
        }
    }

    /// Ends a synchronisation: work submitted before it is known to have ended, if it waited for all of it.
    ///
    /// Makes a `Here` only where the wait was long: it is most of the cost of a synchronisation that waits for nothing.
    #[inline(never)]
    pub fn end_wait(&self, waiting: &Waiting<'_, D>, waited: &Waited) {
        let Waiting { current, words, begun, .. } = waiting;
        let (context, _) = *current;
        if matches!(waited, Waited::Current) || self.is_all(context, waited) {
            let now_ns = self.driver.now_ns();
            if context.lane.may_be_late(begun, now_ns) {
                self.long_wait(waiting, now_ns);
            }
            let until_ns = context.lane.has_ended(begun, now_ns);
            let others_ns = if self.has_siblings() { self.siblings(*current, 0).1 } else { 0 };
            words.busy_until_ns().store(until_ns.max(others_ns), Relaxed);
        } else if let Waited::Stream(_) = waited {
            let now_ns = self.driver.now_ns();
            if context.lane.may_be_late(begun, now_ns) && !context.lane.has_threads() {
                self.long_wait(waiting, now_ns);
            }
            context.lane.end_look(now_ns);
        }
    }

    /// Charges for a wait that took long, or that left marks to settle.
    #[cold]
    #[inline(never)]
    fn long_wait(&self, waiting: &Waiting<'_, D>, now_ns: u64) {
        let Waiting { current, words, begun, .. } = waiting;
        let (context, _) = *current;
        let here = Here::new(self, *current, *words, LaunchStream::NULL);
        context.lane.long_wait(&here, &self.costs, begun, now_ns);
    }

    /// True if a wait for `waited` was one for all work of the context, as far as is known.
    fn is_all(&self, context: &Context<D::Home>, waited: &Waited) -> bool {
        match *waited {
            Waited::Current => true,
            Waited::Event => false,
            Waited::Context(handle) => context.handle() == handle,
            Waited::Stream(stream) => {
                // Other threads have default streams of their own.
                !stream.is_own()
                    && context.lane.streams.is_all_on(stream.word())
                    && !context.lane.has_threads()
            }
        }
    }
}

impl<D: Driver> Admitted<'_, D> {
    /// Takes the driver's answer to the launch; `submitted` is false when it refused.
    pub fn launched(self, submitted: bool) {
        let Self { here, ticket } = self;
        here.current.0.lane.launched(&here, ticket, submitted);
    }
}
