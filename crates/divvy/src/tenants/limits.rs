//! `--memory` and `--compute` in words, turned into the rules of a tenant's config or into a change of them.
//!
//! The grammars are `divvy_policy`'s (`limit`, `share`, `change`); this adds one convenience, a UUID cut
//! short (`GPU-01ab=8GiB`), which must name exactly one GPU. Every error is a usage error and comes before
//! anything has been started.

use anyhow::Result;
use divvy_abi::config::{
    Config, FLAG_FAIL_OPEN, FLAG_STRICT, MAX_RULES, NAME_BYTES, Rule, quantity, selector,
};
use divvy_policy::change::Steps;
use divvy_policy::limit::{RuleError, Rules, UuidText, parse_uuid};
use divvy_policy::share;

use crate::output::failure::usage;
use crate::output::sizes;

/// The option for memory.
pub(crate) const MEMORY: &str = "--memory";
/// The option for device time.
pub(crate) const COMPUTE: &str = "--compute";

/// The rules that `--memory` asks for by `specs` where devices have these UUIDs.
pub fn rules(specs: &[String], uuids: &[String]) -> Result<Rules> {
    each(MEMORY, specs, uuids, Rules::new(), Rules::parse_into)
}

/// The same of `--compute`.
pub(crate) fn compute_rules(specs: &[String], uuids: &[String]) -> Result<Rules> {
    each(COMPUTE, specs, uuids, Rules::new(), share::parse_into)
}

/// The change of a running tenant's limits that `--memory` asks for.
pub(crate) fn steps(specs: &[String], uuids: &[String]) -> Result<Steps> {
    each(MEMORY, specs, uuids, Steps::new(), Steps::parse_into)
}

/// The same of `--compute`.
pub(crate) fn compute_steps(specs: &[String], uuids: &[String]) -> Result<Steps> {
    each(COMPUTE, specs, uuids, Steps::new(), share::parse_steps)
}

fn each<T>(
    option: &str,
    specs: &[String],
    uuids: &[String],
    mut limits: T,
    parse_into: for<'a> fn(&mut T, &'a str) -> Result<(), RuleError<'a>>,
) -> Result<T> {
    for spec in specs {
        let text = complete(option, spec, uuids)?;
        parse_into(&mut limits, &text)
            .map_err(|error| usage(format!("{option} {spec}: {error}")))?;
    }
    Ok(limits)
}

/// `spec`, a list of limits of `option`, with its shortened UUIDs written out.
///
/// # Errors
/// A usage error where one names no device, or several.
pub(crate) fn complete(option: &str, spec: &str, uuids: &[String]) -> Result<String> {
    let parts = spec.split(',').map(|part| complete_one(option, part, uuids));
    Ok(parts.collect::<Result<Vec<_>>>()?.join(","))
}

/// Writes `rules` over the rules in `to`; how many count.
pub(crate) fn put(to: &mut [Rule; MAX_RULES], rules: &[Rule]) -> u32 {
    for (to, from) in to.iter_mut().zip(rules) {
        *to = *from;
    }
    u32::try_from(rules.len().min(MAX_RULES)).unwrap_or(0)
}

/// A rule as it could have been written.
pub(crate) fn text(rule: &Rule) -> String {
    let devices = match rule.selector {
        selector::ALL => String::new(),
        selector::INDEX => format!("{}=", rule.index),
        _ => format!("{}=", UuidText(&rule.uuid)),
    };
    let value = match rule.quantity {
        quantity::UNLIMITED => "0".to_owned(),
        quantity::PPM => percent(rule.value),
        _ => {
            let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
            let whole = units.iter().find(|(_, shift)| {
                rule.value >> shift > 0 && rule.value.trailing_zeros() >= *shift
            });
            match whole {
                Some((unit, shift)) => format!("{}{unit}", rule.value >> shift),
                None => format!("{}B", rule.value),
            }
        }
    };
    devices + &value
}

/// A rule in a table: its device, and its limit.
pub(crate) fn cells(rule: &Rule) -> (String, String) {
    let text = text(rule);
    let (device, limit) = text.split_once('=').unwrap_or(("all", &text));
    let limit = match rule.quantity {
        quantity::UNLIMITED => "-".to_owned(),
        quantity::BYTES => sizes::text(rule.value),
        _ => limit.to_owned(),
    };
    (short(device), limit)
}

/// A device's name in a table: the beginning of a UUID, which `divvy set` completes again.
pub(crate) fn short(device: &str) -> String {
    device.chars().take(12).collect()
}

/// Millionths as a percentage without needless digits: `12.5%`.
pub(crate) fn percent(ppm: u64) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `part` with a shortened UUID written out.
fn complete_one(option: &str, part: &str, uuids: &[String]) -> Result<String> {
    let Some((name, size)) = part.split_once('=') else { return Ok(part.to_owned()) };
    let is_uuid = ["GPU-", "MIG-"].iter().any(|prefix| name.starts_with(prefix));
    if !is_uuid || parse_uuid(name).is_some() {
        return Ok(part.to_owned());
    }
    let lower = name.to_ascii_lowercase();
    let found: Vec<&String> =
        uuids.iter().filter(|uuid| uuid.to_ascii_lowercase().starts_with(&lower)).collect();
    let known = || uuids.join(", ");
    match found.as_slice() {
        [one] => Ok(format!("{one}={size}")),
        [] if uuids.is_empty() => Err(usage(format!(
            "{option} {part}: \"{name}\" is not a whole UUID and no GPU is known here to complete \
             it from; write all 36 characters, or an index such as 0={size}"
        ))),
        [] => Err(usage(format!(
            "{option} {part}: no GPU's UUID begins with \"{name}\"; there is {}",
            known()
        ))),
        _ => Err(usage(format!(
            "{option} {part}: \"{name}\" begins the UUID of {} GPUs; write more of it ({})",
            found.len(),
            known()
        ))),
    }
}

/// The config of a tenant called `name` under `rules`.
pub fn config(name: &str, rules: &Rules, fail_open: bool, strict: bool) -> Config {
    let mut config = Config { epoch: 1, ..Config::default() };
    if fail_open {
        config.flags |= FLAG_FAIL_OPEN;
    }
    if strict {
        config.flags |= FLAG_STRICT;
    }
    for (to, from) in config.name.iter_mut().take(NAME_BYTES - 1).zip(name.bytes()) {
        *to = from;
    }
    config.rule_count = put(&mut config.rules, rules.as_slice());
    config
}

/// Gives a config the limits of another. Name, epoch and flags stay.
pub(crate) fn replace(now: &mut Config, wanted: &Config) {
    (now.rules, now.rule_count) = (wanted.rules, wanted.rule_count);
    now.compute_rules = wanted.compute_rules;
    now.compute_rule_count = wanted.compute_rule_count;
    (now.weight, now.priority, now.class) = (wanted.weight, wanted.priority, wanted.class);
}

#[cfg(test)]
mod tests {
    use divvy_policy::limit::resolve;

    use super::*;

    fn machine() -> Vec<String> {
        [
            "GPU-0aaaaaaa-0000-0000-0000-000000000001",
            "GPU-0aaaaaaa-0000-0000-0000-000000000002",
            "GPU-0bbbbbbb-0000-0000-0000-000000000003",
            "MIG-0ccccccc-0000-0000-0000-000000000004",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn words(spec: &str) -> String {
        rules(&[spec.to_owned()], &machine()).unwrap_err().to_string()
    }

    #[test]
    fn a_short_uuid_names_one_gpu() {
        let specs = ["GPU-0B=2GiB", "8GiB,MIG-0=1GiB"].map(str::to_owned);
        let rules = rules(&specs, &machine()).unwrap();
        let limit = |index, uuid: &str| {
            resolve(rules.as_slice(), Some(index), &parse_uuid(uuid).unwrap(), 1 << 40)
        };
        assert_eq!(limit(2, &machine()[2]), Ok(Some(2 << 30)));
        assert_eq!(limit(0, &machine()[0]), Ok(Some(8 << 30)));
        assert_eq!(limit(3, &machine()[3]), Ok(Some(1 << 30)));
    }

    #[test]
    fn a_short_uuid_that_names_none_or_two_is_refused_with_the_choice() {
        assert!(words("GPU-0a=1g").contains("2 GPUs"), "{}", words("GPU-0a=1g"));
        assert!(words("GPU-c=1g").contains("GPU-0bbbbbbb"), "{}", words("GPU-c=1g"));
        let none = rules(&["GPU-c=1g".to_owned()], &[]).unwrap_err().to_string();
        assert!(none.contains("36 characters"), "{none}");
    }

    #[test]
    fn a_bad_limit_names_itself() {
        for spec in ["abc", "-1", "010g", "", "0=", "8GiB,,", "8", "0=8", "1,5g"] {
            let text = words(spec);
            assert!(text.starts_with(&format!("--memory {spec}:")), "{text}");
        }
        assert!(
            words("8").ends_with("write 8GiB or 8MiB") && words("1,5g").ends_with("write 1.5g")
        );
        assert_eq!(crate::output::failure::code_of(&rules(&["x".to_owned()], &[]).unwrap_err()), 2);
    }

    #[test]
    fn a_share_names_itself_and_its_option() {
        for spec in ["30", "0%", "x", "", "30%,", "GPU-zz=30%"] {
            let error = compute_rules(&[spec.to_owned()], &machine()).unwrap_err();
            assert_eq!(crate::output::failure::code_of(&error), 2);
            assert!(error.to_string().starts_with("--compute "), "{error}");
        }
        let rules = compute_rules(&["30%,GPU-0B=50%".to_owned()], &machine()).unwrap();
        let uuid = parse_uuid("GPU-0bbbbbbb-0000-0000-0000-000000000003").unwrap();
        assert_eq!(share::resolve(rules.as_slice(), Some(2), &uuid), Ok(Some(500_000)));
    }

    #[test]
    fn rules_read_as_they_are_written() {
        let odd = "GPU-0bbbbbbb-0000-0000-0000-000000000003=12.5%,3=1025B";
        for spec in ["8GiB", "1500MiB,2=0", odd] {
            let rules = rules(&[spec.to_owned()], &[]).unwrap();
            let words: Vec<_> = rules.as_slice().iter().map(text).collect();
            assert_eq!(words.join(","), spec);
        }
        assert_eq!((percent(1), percent(1_000_000)), ("0.0001%".to_owned(), "100%".to_owned()));
    }

    #[test]
    fn a_change_may_give_back() {
        let steps = steps(&["8GiB,GPU-0B=default".to_owned()], &machine()).unwrap();
        assert_eq!(
            steps.iter().map(|step| step.limit.is_none()).collect::<Vec<_>>(),
            [false, true]
        );
        let share = compute_steps(&["default".to_owned()], &[]).unwrap();
        assert!(share.gives_back());
        assert!(rules(&["default".to_owned()], &[]).is_err(), "nothing is started with it");
    }

    #[test]
    fn a_config_says_what_was_asked() {
        let rules = rules(&["50%".to_owned(), "1=3000m".to_owned()], &[]).unwrap();
        let config = config("train", &rules, true, true);
        assert_eq!(config.rules(), rules.as_slice());
        assert_eq!(config.flags, FLAG_FAIL_OPEN | FLAG_STRICT);
        assert!(config.name.starts_with(b"train\0"));
    }
}
