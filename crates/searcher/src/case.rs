//! A case: everything a run depends on, as data.
//!
//! Knobs, what tenants do, and the deviations from nothing going wrong. A seed may make a case ([`crate::draw`]);
//! what is kept, replayed and made smaller is the case. Its JSON form is stored with a failure.
//!
//! Promises: a case written by one version and read by another is refused where it holds what that version
//! does not know.

use divvy_policy::turns::tuning;
use serde::{Deserialize, Serialize};

use crate::card::CardModel;
use crate::program::{self, Ops};
pub use crate::site::{Actor, Dev, Fault, Site};
use crate::{MS, SECOND};

/// Figures of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knobs {
    /// Of what is left to chance in the environment: lengths of calls, lateness of sleepers.
    pub seed: u64,
    /// When the run ends.
    pub run_ns: u64,
    /// From when nothing goes wrong any more, and what was promised must come.
    pub heal_ns: u64,
    /// Devices, all alike.
    pub devices: u32,
    /// The devices' and the driver's figures.
    pub card: CardModel,
    /// A daemon makes turns.
    pub has_daemon: bool,
    /// The daemon's floor of low priority, in millionths.
    pub floor_ppm: u64,
    /// How long strangers must have been as they are before the daemon knows.
    pub unnoticed_ns: u64,
    /// Tenants find a board where they can meet without one.
    pub has_board: bool,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            seed: 1,
            run_ns: SECOND,
            heal_ns: SECOND,
            devices: 1,
            card: CardModel::default(),
            has_daemon: false,
            floor_ppm: tuning::FLOOR_PPM,
            unnoticed_ns: SECOND / 4,
            has_board: true,
        }
    }
}

/// A process that a case begins with.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessPlan {
    /// When it begins, with a context made.
    pub start_ns: u64,
    /// On which device.
    pub device: u32,
    /// Its threads sleep in the driver, and do not spin.
    pub is_blocking: bool,
    /// Its program.
    pub ops: Ops,
}

/// A tenant.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TenantPlan {
    /// Cap in millionths; 0 for none.
    pub share_ppm: u64,
    /// Share of contended time against others'; 0 for what it is by default, the cap in percent, or 100.
    pub weight: u32,
    /// The higher one goes first.
    pub priority: i32,
    /// Of the latency class.
    pub is_latency: bool,
    /// No library is loaded into it: a stranger.
    pub is_stranger: bool,
    /// Its processes.
    pub processes: Vec<ProcessPlan>,
}

impl TenantPlan {
    /// One of one process that does `ops`, without a cap.
    pub fn of(ops: Ops) -> Self {
        Self { processes: vec![ProcessPlan { ops, ..ProcessPlan::default() }], ..Self::default() }
    }
}

/// The input of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its figures.
    pub knobs: Knobs,
    /// Its tenants.
    pub tenants: Vec<TenantPlan>,
    /// Its deviations.
    #[serde(default)]
    pub devs: Vec<Dev>,
}

impl Case {
    /// Programs side by side, each a tenant without a cap, for so long.
    pub fn beside(programs: &[Ops], run_ns: u64) -> Self {
        let tenants = programs.iter().map(|ops| TenantPlan::of(ops.clone())).collect();
        let knobs = Knobs { run_ns, heal_ns: run_ns, ..Knobs::default() };
        Self { knobs, tenants, devs: Vec::new() }
    }

    /// Size for a reader: the shrinker makes it smaller.
    pub fn size(&self) -> (usize, usize, usize, u64) {
        let processes = self.tenants.iter().flat_map(|tenant| &tenant.processes);
        let ops = processes.clone().map(|process| program::count(&process.ops)).sum::<usize>();
        let lives = self.tenants.len() + processes.count();
        (lives, ops, self.devs.len(), self.knobs.run_ns / MS)
    }

    /// The JSON that is stored.
    ///
    /// # Panics
    /// Never: a case is plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data has a form")
    }

    /// Reads what [`Case::to_json`] wrote.
    ///
    /// # Errors
    /// The place at which the text is no case.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::named;

    #[test]
    fn a_case_is_its_text() {
        let mut case = Case::beside(&[named::mix2(), named::threads(4, 200_000)], SECOND);
        let who = Actor { tenant: 1, process: 0, thread: 2 };
        case.devs.push(Dev { who, site: Site::Record, nth: 7, what: Fault::Delay(5 * MS) });
        case.devs.push(Dev { who, site: Site::IsDone, nth: 1, what: Fault::Kill });
        assert_eq!(Case::from_json(&case.to_json()).expect("its own"), case);
        let short = Case::from_json(r#"{"knobs": {"run_ns": 5}, "tenants": [{}]}"#).expect("usual");
        assert_eq!((short.knobs.run_ns, short.tenants.len()), (5, 1));
        let unknown = Case::from_json(r#"{"knobs": {"run": 5}, "tenants": []}"#);
        assert!(unknown.expect_err("no such knob").to_string().contains("run"));
    }
}
