//! Fibers: bodies that are left in the middle and gone on with later, each on a stack of its own.
//!
//! The shipped gate is straight code that waits in the middle of a call, so a simulated thread is a
//! stack, not a state machine. A fiber is left from wherever its body has got to ([`suspend`]): what it
//! needs for that is found by a word of the thread.
//!
//! Promises: outside a fiber, and while one is unwound, [`is_inside`] is false and nothing here may be
//! left. A fiber that is dropped in the middle is unwound where panics unwind; where they abort its
//! stack is leaked instead, with what lies on it.
//!
//! The one place of this crate with `unsafe`. Knows nothing of clocks: that is [`crate::sched`].

#![allow(unsafe_code, reason = "a body reaches what it is left by through a word of the thread")]

use std::cell::{Cell, RefCell};
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a stack, which are taken as they are used: the gates of a process are made on one, half a megabyte,
/// before they are moved to where they stay.
const STACK_BYTES: usize = 2 << 20;
/// Stacks of fibers that have ended that a thread keeps: to map one and unmap it costs every processor that runs a thread of
/// this process, and there are a thousand cases a second.
const KEPT: usize = 64;

thread_local! {
    /// Exit of the fiber that runs on this thread; null while none runs.
    static HERE: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
    /// Stacks that are free.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// A body under way.
#[derive(Debug)]
pub struct Fiber {
    coroutine: Option<Stacked>,
}

struct Stacked(Coroutine<(), (), ()>);

impl std::fmt::Debug for Stacked {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(if self.0.done() { "done" } else { "under way" })
    }
}

impl Fiber {
    /// One that has not begun.
    ///
    /// # Panics
    /// When there is no memory for its stack.
    pub fn new(body: impl FnOnce() + 'static) -> Self {
        let new = || DefaultStack::new(STACK_BYTES).expect("memory for a fiber's stack");
        let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(new);
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            HERE.set(yielder);
            body();
        });
        Self { coroutine: Some(Stacked(coroutine)) }
    }

    /// Goes on with it until it is left or ends; true once it has ended. A panic of its body goes on in
    /// the caller.
    ///
    /// # Panics
    /// When called inside a fiber.
    pub fn resume(&mut self) -> bool {
        assert!(!is_inside(), "a fiber resumes no other");
        let Some(Stacked(coroutine)) = &mut self.coroutine else { return true };
        // Null again however the body is left, by a panic too.
        let _outside = Outside::begin();
        matches!(coroutine.resume(()), CoroutineResult::Return(()))
    }
}

/// While it lives, and however it ends, no body runs on this thread as far as [`is_inside`] and [`suspend`] know; then
/// the one that did before.
struct Outside(*const Yielder<(), ()>);

impl Outside {
    fn begin() -> Self {
        Self(HERE.replace(ptr::null()))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        HERE.set(self.0);
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        let Some(Stacked(mut coroutine)) = self.coroutine.take() else { return };
        if cfg!(panic = "abort") && coroutine.started() && !coroutine.done() {
            // To unwind it would end the process.
            std::mem::forget(coroutine);
            return;
        }
        {
            // It is unwound on a stack of its own: what is dropped there must not leave the body that drops it.
            let _outside = Outside::begin();
            coroutine.force_unwind();
        }
        let stack = coroutine.into_stack();
        // A thread that ends may have no place for it any more.
        let _ = STACKS.try_with(|stacks| {
            let mut stacks = stacks.borrow_mut();
            if stacks.len() < KEPT {
                stacks.push(stack);
            }
        });
    }
}

/// Whether the caller is the body of a fiber, and not being unwound.
pub fn is_inside() -> bool {
    !HERE.get().is_null()
}

/// Leaves the fiber; returns when it is gone on with.
///
/// # Panics
/// Outside a fiber.
pub fn suspend() {
    let yielder = HERE.get();
    assert!(!yielder.is_null(), "only a fiber can be left");
    // SAFETY: `HERE` holds what the running fiber's coroutine was given for as long as its body is on
    // its stack. Only a body sets it, at its beginning and below, right after it is gone on with, and
    // always to its own; an `Outside` clears it whenever a body has been left, has ended or has panicked, and
    // for as long as one is unwound, be it by another body, whose own it then is again. It is a word of this
    // thread, from which neither a coroutine nor a stack can be moved. So what is not null is the caller's own,
    // and lives until the caller's body returns.
    unsafe { &*yielder }.suspend(());
    HERE.set(yielder);
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// A value on a fiber's stack, which counts when it is dropped.
    struct Local(Rc<Cell<u32>>);

    impl Drop for Local {
        fn drop(&mut self) {
            assert!(!is_inside());
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn two_bodies_go_on_where_each_was_left() {
        let said = Rc::new(RefCell::new(Vec::new()));
        let body = |name: u32| {
            let said = Rc::clone(&said);
            move || {
                for step in 0..3 {
                    said.borrow_mut().push(10 * name + step);
                    suspend();
                }
            }
        };
        let (mut one, mut two) = (Fiber::new(body(1)), Fiber::new(body(2)));
        for _ in 0..3 {
            assert!(!one.resume() && !two.resume());
        }
        assert!(!is_inside() && one.resume() && two.resume());
        assert_eq!(*said.borrow(), [10, 20, 11, 21, 12, 22]);
    }

    #[test]
    fn what_is_dropped_in_the_middle_is_unwound_outside_of_any_fiber() {
        let drops = Rc::new(Cell::new(0));
        let local = Local(Rc::clone(&drops));
        let mut fiber = Fiber::new(move || {
            let _local = local;
            suspend();
            unreachable!("nobody goes on with it");
        });
        assert!(!fiber.resume());
        assert_eq!(drops.get(), 0);
        drop(fiber);
        assert_eq!(drops.get(), 1);
    }

    /// Another body, that is: what is unwound lies on the stack of the one that is dropped.
    #[test]
    fn what_a_body_drops_in_the_middle_does_not_leave_that_body() {
        let drops = Rc::new(Cell::new(0));
        let local = Local(Rc::clone(&drops));
        let mut inner = Fiber::new(move || {
            let _local = local;
            suspend();
            unreachable!("nobody goes on with it");
        });
        assert!(!inner.resume());
        let mut outer = Fiber::new(move || {
            drop(inner);
            assert!(is_inside());
            suspend();
        });
        assert!(!outer.resume() && drops.get() == 1);
        assert!(outer.resume() && !is_inside());
    }

    #[test]
    fn a_panic_goes_on_outside_and_leaves_the_thread_as_it_was() {
        let mut fiber = Fiber::new(|| panic!("on purpose"));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fiber.resume()));
        assert!(caught.is_err() && !is_inside());
        let mut next = Fiber::new(suspend);
        assert!(!next.resume() && next.resume());
    }
}
