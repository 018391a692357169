//! Lines of a change: the difference between the limits before and after, and the user who asked for it.
//!
//! Limits of memory and caps are told as they hold on each device that the tenant has used, since its programs see them so.
//! Where they are alike on all devices, or no device is known, the rules are told as they are written.

use std::path::Path;

use divvy_abi::Uuid;
use divvy_abi::config::{Config, FLAG_STAYS, Rule};
use divvy_policy::limit::{self, UuidText};
use divvy_policy::share;

use super::line::{ChangeAuthor, Event, LogLine, Setting};
use crate::machine::gpus;
use crate::output::sizes;
use crate::tenants::change::Made;
use crate::tenants::limits;
use crate::tenants::snapshot::{Snapshot, config_name};

/// The tenant that a line is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) directory: String,
    pub(crate) owner: u32,
}

impl Subject {
    /// The tenant in the directory at `path`, by its limits.
    pub(crate) fn of(path: &Path, config: Option<&Config>, owner: u32) -> Self {
        let base = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = config.map(config_name).filter(|name| !name.is_empty());
        let name = name.or(base).unwrap_or_default();
        Self { name, directory: path.display().to_string(), owner }
    }

    /// A line about it.
    pub(crate) fn line(&self, event: Event) -> LogLine {
        LogLine {
            tenant: Some(self.name.clone()),
            directory: Some(self.directory.clone()),
            owner: Some(self.owner),
            ..LogLine::new(event)
        }
    }
}

/// A device that the tenant has used.
#[derive(Clone, Debug)]
struct UsedDevice {
    uuid: Uuid,
    index: Option<u32>,
    total_bytes: u64,
}

/// The lines of a change of `subject` from `before` to `after`.
pub(crate) fn lines(
    subject: &Subject,
    files: &Snapshot,
    [before, after]: [&Config; 2],
    asker: &ChangeAuthor,
) -> Vec<LogLine> {
    let devices: Vec<UsedDevice> = files
        .devices
        .iter()
        .map(|device| UsedDevice {
            uuid: device.uuid,
            index: device.index.or_else(|| gpus::index_of(&UuidText(&device.uuid).to_string())),
            total_bytes: device.total_bytes,
        })
        .collect();
    let changed = Setting::ALL.iter().flat_map(|setting| {
        differences(*setting, &devices, [before, after]).into_iter().map(|difference| LogLine {
            device: difference.device.as_ref().map(|device| UuidText(&device.uuid).to_string()),
            index: difference.device.as_ref().and_then(|device| device.index),
            setting: Some(setting.word().to_owned()),
            old: Some(difference.old),
            new: Some(difference.new),
            ..subject.line(Event::Changed).by(asker)
        })
    });
    changed.collect()
}

/// The lines of a change to the tenant in `directory` that was made.
pub(crate) fn lines_of(directory: &Path, made: &Made, asker: &ChangeAuthor) -> Vec<LogLine> {
    let subject = Subject::of(directory, Some(&made.config), made.uid);
    lines(&subject, &made.snapshot, [&made.replaced, &made.config], asker)
}

struct Difference {
    device: Option<UsedDevice>,
    old: String,
    new: String,
}

/// Differences in one setting. A new setting compiles only once it stands here.
fn differences(
    setting: Setting,
    devices: &[UsedDevice],
    [before, after]: [&Config; 2],
) -> Vec<Difference> {
    let one = |old: String, new: String| -> Vec<Difference> {
        let difference = Difference { device: None, old, new };
        if difference.old == difference.new { Vec::new() } else { vec![difference] }
    };
    let of_both = |text: &dyn Fn(&Config) -> String| one(text(before), text(after));
    let on_off = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    match setting {
        Setting::Memory => of_rules(devices, [before.rules(), after.rules()], |rules, device| {
            let bytes = limit::resolve(rules, device.index, &device.uuid, device.total_bytes);
            bytes.map_or_else(|_| UNCLEAR.to_owned(), |bytes| bytes.map_or_else(none, sizes::text))
        }),
        Setting::Compute => {
            let rules = [before.compute_rules(), after.compute_rules()];
            of_rules(devices, rules, |rules, device| {
                let ppm = share::resolve(rules, device.index, &device.uuid);
                let text = |ppm: u32| limits::percent(u64::from(ppm));
                ppm.map_or_else(|_| UNCLEAR.to_owned(), |ppm| ppm.map_or_else(none, text))
            })
        }
        Setting::Weight => of_both(&|config| match config.weight {
            0 => "default".to_owned(),
            weight => weight.to_string(),
        }),
        Setting::Priority => of_both(&|config| share::priority_word(config.priority).to_owned()),
        Setting::Class => of_both(&|config| share::class_word(config.class).to_owned()),
        Setting::Quantum => of_both(&|config| match config.quantum_ms {
            0 => "default".to_owned(),
            ms => format!("{ms} ms"),
        }),
        Setting::Paused => of_both(&|config| on_off(config.paused != 0)),
        Setting::Frozen if before.frozen != after.frozen => vec![Difference {
            // To freeze again is a wish too: memory that has come back is to leave once more.
            device: None,
            old: on_off(before.frozen % 2 == 1),
            new: on_off(after.frozen % 2 == 1),
        }],
        Setting::Frozen => Vec::new(),
        Setting::Oversubscribe => of_both(&|config| on_off(config.flags & FLAG_STAYS == 0)),
        // A setting of a daemon, which has no config.
        Setting::Schedule => Vec::new(),
    }
}

/// Words for rules that no version understands: memory is refused.
const UNCLEAR: &str = "not understood";

fn none() -> String {
    "none".to_owned()
}

/// The devices on which the rules give another value.
fn of_rules(
    devices: &[UsedDevice],
    [before, after]: [&[Rule]; 2],
    text: impl Fn(&[Rule], &UsedDevice) -> String,
) -> Vec<Difference> {
    if before == after {
        return Vec::new();
    }
    let each = devices.iter().map(|device| Difference {
        old: text(before, device),
        new: text(after, device),
        device: Some(device.clone()),
    });
    let found: Vec<Difference> = each.filter(|found| found.old != found.new).collect();
    if !found.is_empty() {
        return found;
    }
    let written = |rules: &[Rule]| match rules {
        [] => none(),
        rules => rules.iter().map(limits::text).collect::<Vec<_>>().join(", "),
    };
    vec![Difference { device: None, old: written(before), new: written(after) }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::LimitChange;

    fn config(change: impl FnOnce(&mut Config)) -> Config {
        let mut config = Config::default();
        change(&mut config);
        config
    }

    fn told(before: &Config, after: &Config) -> Vec<(String, String, String)> {
        let asker = ChangeAuthor { uid: 1000, pid: 4242, by: "divvy set".to_owned() };
        let files =
            Snapshot { config: None, layout: None, devices: Vec::new(), processes: Vec::new() };
        let lines = lines(&Subject::default(), &files, [before, after], &asker);
        assert!(lines.iter().all(|line| (line.uid, line.pid) == (Some(1000), Some(4242))));
        let text = |text: &Option<String>| text.clone().expect("a text");
        lines.iter().map(|l| (text(&l.setting), text(&l.old), text(&l.new))).collect()
    }

    /// Every field of a change leaves a line of its own; one that is added does not compile before it has one.
    #[test]
    fn each_kind_of_change_leaves_its_line() {
        let LimitChange {
            memory: _,
            compute: _,
            weight: _,
            priority: _,
            class: _,
            paused: _,
            quantum: _,
            frozen: _,
            oversubscribe: _,
        } = LimitChange::default();
        let rules = |spec: &str| limits::rules(&[spec.to_owned()], &[]).expect("a limit");
        let caps = |spec: &str| {
            let rules = limits::compute_steps(&[spec.to_owned()], &[]).expect("a cap");
            let start = Vec::new();
            rules.apply(&[], &start, &[]).expect("it applies")
        };
        let cases: [(&str, Config, &str, &str); 9] = [
            (
                "memory limit",
                config(|c| c.rule_count = limits::put(&mut c.rules, rules("0=6GiB").as_slice())),
                "none",
                "0=6GiB",
            ),
            (
                "compute limit",
                config(|c| {
                    c.compute_rule_count =
                        limits::put(&mut c.compute_rules, caps("30%").as_slice());
                }),
                "none",
                "30%",
            ),
            ("weight", config(|c| c.weight = 3), "default", "3"),
            ("priority", config(|c| c.priority = 1), "normal", "high"),
            ("class", config(|c| c.class = 1), "normal", "latency"),
            ("quantum", config(|c| c.quantum_ms = 500), "default", "500 ms"),
            ("paused", config(|c| c.paused = 1), "off", "on"),
            ("frozen", config(|c| c.frozen = 3), "off", "on"),
            ("oversubscribe", config(|c| c.flags |= FLAG_STAYS), "on", "off"),
        ];
        let none = Config::default();
        for (setting, after, old, new) in &cases {
            let line = |old: &str, new: &str| {
                vec![((*setting).to_owned(), old.to_owned(), new.to_owned())]
            };
            assert_eq!(told(&none, after), line(old, new));
            assert_eq!(told(after, &none), line(new, old));
            assert_eq!(told(after, after), []);
        }
        assert_eq!(cases.len() + 1, Setting::ALL.len(), "all but the daemon's own");
    }
}
