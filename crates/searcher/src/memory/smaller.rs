//! A case that fails, made smaller: fewer events, tenants and processes, shorter, rounder.
//!
//! Promises: what comes back fails as `fails` says; the tries are bounded.

use super::case::MemoryCase;

/// The smallest that was found in `tries` tries.
pub fn smaller(
    mut case: MemoryCase,
    tries: usize,
    fails: &dyn Fn(&MemoryCase) -> bool,
) -> MemoryCase {
    let mut left = tries;
    loop {
        let found = candidates(&case).into_iter().find(|candidate| {
            left = left.saturating_sub(1);
            left > 0 && fails(candidate)
        });
        match found {
            Some(found) => case = found,
            None => return case,
        }
    }
}

fn candidates(case: &MemoryCase) -> Vec<MemoryCase> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut MemoryCase)| {
        let mut other = case.clone();
        change(&mut other);
        if other != *case {
            all.push(other);
        }
    };
    with(&|case| case.run_ms = case.run_ms * 3 / 4);
    for at in 0..case.events.len() {
        with(&|case| {
            case.events.remove(at);
        });
    }
    for tenant in 0..case.tenants.len() {
        with(&|case| {
            case.tenants.remove(tenant);
            case.events.retain(|event| event.tenant != tenant);
            case.events.iter_mut().filter(|e| e.tenant > tenant).for_each(|e| e.tenant -= 1);
        });
        for process in 0..case.tenants.get(tenant).map_or(0, |tenant| tenant.processes.len()) {
            with(&|case| {
                case.tenants[tenant].processes.remove(process);
                case.events.retain(|event| event.tenant != tenant || event.process != process);
                let later =
                    |e: &&mut super::case::MemoryEvent| e.tenant == tenant && e.process > process;
                case.events.iter_mut().filter(later).for_each(|e| e.process -= 1);
            });
            with(&|case| case.tenants[tenant].processes[process].lag_us = 0);
            with(&|case| case.tenants[tenant].processes[process].kernel_us = 1_000);
            with(&|case| case.tenants[tenant].processes[process].start_ms = 0);
            with(&|case| {
                let program = &mut case.tenants[tenant].processes[process];
                (program.on_ms, program.off_ms) = (1, 0);
            });
            with(&|case| case.tenants[tenant].processes[process].mib &= !0x3ff);
        }
    }
    with(&|case| case.capacity_mib = 0);
    with(&|case| case.tick_us = 1_000);
    with(&|case| case.card_mib &= !0x3ff);
    all
}
