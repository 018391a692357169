//! Limits of a context that take memory ([`crate::account::heap`]).

use divvy_driver_api::types::{CUlimit, CUresult};

use crate::account::context::here;
use crate::account::heap::set_limit;
use crate::account::place::Next;
use crate::sys::real;

/// Sets a limit of the current context.
pub(crate) fn cuCtxSetLimit(real: real::cuCtxSetLimit, limit: CUlimit, value: usize) -> CUresult {
    let counted = [
        CUlimit::CU_LIMIT_STACK_SIZE,
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE,
        CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE,
    ];
    if !counted.contains(&limit) {
        return real.call(limit, value);
    }
    let place = match here() {
        Next::Count(place) => place,
        Next::Forward => return real.call(limit, value),
        Next::Refuse(code) => return code,
    };
    set_limit(place, limit, value, || real.call(limit, value))
}
