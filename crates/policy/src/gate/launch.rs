//! A launch and a wait of a program's thread at the gates of its process.
//!
//! [`Gates::ask`] stands before the driver's call and [`Admitted::launched`] behind it; around a call that
//! may block because of work in flight stand [`Gates::sleep`], or [`Gates::begin_wait`] and
//! [`Gates::end_wait`] where its return says what has ended.
//!
//! Promises: two loads where no gate of the tenant is in use are the caller's ([`Gates::ask`] is one
//! look-up of the context more); what is being captured passes uncharged. Does not call the driver for
//! the program.

use core::sync::atomic::Ordering::Relaxed;

use divvy_abi::config::gate;

use super::credit::Paid;
use super::drain::Begun;
use super::driver::{Device, Driver, LaunchStream, Sleeper, Words};
use super::here::{Here, WordsOf};
use super::process::{Context, Current, Gates};
use super::ticket::Ticket;
use super::world::Access;

/// A launch that the gate let go after a look at more than the credit in hand.
#[derive(Debug)]
#[must_use = "what the driver answered is to be told by `Admitted::launched`"]
pub struct Admitted<'a, D: Driver> {
    here: Here<'a, D>,
    ticket: Ticket,
}

/// Object that a synchronisation waits for.
#[derive(Clone, Copy, Debug)]
pub enum Waited {
    /// All work of the current context.
    Current,
    /// All work of the context with this handle.
    Context(u64),
    /// A stream.
    Stream(LaunchStream),
    /// An event: some part of what was submitted.
    Event,
}

/// State of the lane when a synchronisation begins to wait.
#[derive(Debug)]
#[must_use = "the thread counts as awake when this is dropped"]
pub struct Waiting<'a, D: Driver> {
    current: Current<'a, D>,
    words: WordsOf<D>,
    begun: Begun,
    _sleeper: Sleeper,
}

impl<D: Driver> Gates<D> {
    /// Blocks until a launch of `key` on `stream` is admitted. The answer is for [`Admitted::launched`]; it is empty
    /// if the credit in hand pays.
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
        match paid {
            Paid::Next => None,
            Paid::First => {
                device.words()?.count_launches(1);
                None
            }
            Paid::Not => self.admit(current, stream, key),
        }
    }

    /// [`Gates::ask`] where the credit in hand does not pay, or the gate is closed.
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
        context.stream.store(self.stream_word(stream), Relaxed);
        let ticket = context.lane.admit(&here, &self.costs, key);
        Some(Admitted { here, ticket })
    }

    /// Something that is no work of the device's, on whatever stream: the span that is measured ends.
    pub fn break_span(&self) {
        let _ = self.end_span();
    }

    /// A stream of the current context is to wait for an event. One of the context's own shows, where marks stand behind
    /// all of its work, nothing that they do not show: what is waited for is done, or is work, or has ended the span
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

    /// Others may record events that the process's streams wait for, from here on.
    pub fn shared_event(&self) {
        self.shared_events.store(1, Relaxed);
    }

    /// Ends the span of the current context, which is answered.
    #[inline(never)]
    fn end_span(&self) -> Option<Current<'_, D>> {
        let current = self.current()?;
        let (context, device) = current;
        if context.lane.has_begun()
            && let Some(words) = device.words()
        {
            context.lane.end_begun(&Here::behind_all(self, current, words));
        }
        context.lane.break_span();
        Some(current)
    }

    /// Ends the span; until the answer is dropped the thread may sleep in the driver because of work in
    /// flight.
    #[inline(never)]
    pub fn sleep(&self) -> Option<Sleeper> {
        let (context, device) = self.end_span()?;
        let words = device.words()?;
        self.count_launches(context, &words);
        Some(words.sleeper())
    }

    /// Hands on what the calling thread has launched from its credit.
    #[inline(always)]
    fn count_launches(&self, context: &Context<D::Home>, words: &WordsOf<D>) {
        let launches = context.lane.take_launches(self.driver.stripe());
        if launches != 0 {
            words.count_launches(launches);
        }
    }

    /// A synchronisation begins. Hands on what the thread has launched, so that whoever looks at this
    /// process while it sleeps sees it, and reads how far the work has come that the wait is for.
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
        Some(Waiting { current, words, begun, _sleeper: words.sleeper() })
    }

    /// Marks the end of what a synchronisation waits for.
    #[cold]
    #[inline(never)]
    fn mark_end(&self, current: Current<'_, D>, words: WordsOf<D>, waited: &Waited) {
        let (context, _) = current;
        if self.is_all(context, waited) {
            let here = match *waited {
                Waited::Stream(stream) => Here::new(self, current, words, stream),
                // A stream that was launched on may be no more.
                _ => Here::behind_all(self, current, words),
            };
            context.lane.close_burst(&here, &self.costs, &here.line());
        }
    }

    /// Notes that the synchronisation has returned: if it waited for all work, the work submitted before it has ended.
    ///
    /// As [`Lane::drained`], whose world is made only if the wait was long: making it is most of the cost of a
    /// synchronisation that waits for nothing.
    ///
    /// [`Lane::drained`]: super::lane::Lane::drained
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
        }
    }

    /// It took long, or marks show what it was worth.
    #[cold]
    #[inline(never)]
    fn long_wait(&self, waiting: &Waiting<'_, D>, now_ns: u64) {
        let Waiting { current, words, begun, .. } = waiting;
        let (context, _) = *current;
        let here = Here::new(self, *current, *words, LaunchStream::NULL);
        context.lane.long_wait(&here, &self.costs, begun, now_ns);
    }

    /// Whether who waited for that waited for all work of the context, as far as is known.
    fn is_all(&self, context: &Context<D::Home>, waited: &Waited) -> bool {
        match *waited {
            Waited::Current => true,
            Waited::Event => false,
            Waited::Context(handle) => context.handle() == handle,
            Waited::Stream(stream) => {
                // Other threads have default streams of their own.
                !stream.is_own()
                    && self.stream_word(stream) == context.stream.load(Relaxed)
                    && context.lane.has_one_stream()
            }
        }
    }
}

impl<D: Driver> Admitted<'_, D> {
    /// The driver has answered to the launch; `submitted` is false when it refused.
    pub fn launched(self, submitted: bool) {
        let Self { here, ticket } = self;
        here.current.0.lane.launched(&here, ticket, submitted);
    }
}
