//! `--memory` and `--compute` in words, turned into the rules of a tenant's config.
//!
//! The grammars are `divvy_policy::limit`'s and `divvy_policy::share`'s; this adds one convenience, a UUID cut short
//! (`GPU-01ab=8GiB`), which must name exactly one GPU. Every error is a usage error and comes before
//! anything has been started.

use anyhow::Result;
use divvy_abi::config::{
    Config, FLAG_FAIL_OPEN, FLAG_STRICT, MAX_RULES, NAME_BYTES, Rule, quantity, selector,
};
use divvy_policy::limit::{Rules, UuidText, parse_uuid};
use divvy_policy::share;

use crate::failure::usage;
use crate::gpus::Gpu;

/// The rules that `--memory` asks for by `specs` on a machine with `gpus`.
pub(crate) fn rules(specs: &[String], gpus: &[Gpu]) -> Result<Rules> {
    collect("--memory", specs, gpus, |rules, part| {
        rules.parse_into(part).map_err(|error| error.to_string())
    })
}

/// The same of `--compute`.
pub(crate) fn compute_rules(specs: &[String], gpus: &[Gpu]) -> Result<Rules> {
    collect("--compute", specs, gpus, |rules, part| {
        share::parse_into(rules, part).map_err(|error| error.to_string())
    })
}

fn collect(
    option: &str,
    specs: &[String],
    gpus: &[Gpu],
    parse: impl Fn(&mut Rules, &str) -> Result<(), String>,
) -> Result<Rules> {
    let mut rules = Rules::new();
    for spec in specs {
        for part in spec.split(',') {
            let part = complete(option, part, gpus)?;
            parse(&mut rules, &part).map_err(|error| usage(format!("{option} {spec}: {error}")))?;
        }
    }
    Ok(rules)
}

/// Writes `rules` over the rules in `to`; how many count.
pub(crate) fn put(to: &mut [Rule; MAX_RULES], rules: &[Rule]) -> u32 {
    for (to, from) in to.iter_mut().zip(rules) {
        *to = *from;
    }
    u32::try_from(rules.len().min(MAX_RULES)).unwrap_or(0)
}

/// `old` with each of `new` in place of the rule for the same devices, or after the others.
///
/// # Errors
/// A usage error when there are more than a config holds.
pub(crate) fn merged(old: &[Rule], new: &[Rule]) -> Result<Vec<Rule>> {
    let devices = |rule: &Rule| (rule.selector, rule.index, rule.uuid);
    let is_new = |rule: &Rule| new.iter().any(|one| devices(one) == devices(rule));
    let kept = old.iter().filter(|rule| !is_new(rule)).copied();
    let all: Vec<Rule> = kept.chain(new.iter().copied()).collect();
    if all.len() > MAX_RULES {
        return Err(usage(format!("more than {MAX_RULES} limits: keep one per device")));
    }
    Ok(all)
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

/// Millionths as a percentage without needless digits: `12.5%`.
pub(crate) fn percent(ppm: u64) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `part` with a shortened UUID written out.
fn complete(option: &str, part: &str, gpus: &[Gpu]) -> Result<String> {
    let Some((name, size)) = part.split_once('=') else { return Ok(part.to_owned()) };
    if !name.starts_with("GPU-") || parse_uuid(name).is_some() {
        return Ok(part.to_owned());
    }
    let lower = name.to_ascii_lowercase();
    let found: Vec<&Gpu> =
        gpus.iter().filter(|gpu| gpu.uuid.to_ascii_lowercase().starts_with(&lower)).collect();
    let known = || gpus.iter().map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>().join(", ");
    match found.as_slice() {
        [one] => Ok(format!("{}={size}", one.uuid)),
        [] if gpus.is_empty() => Err(usage(format!(
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
pub(crate) fn config(name: &str, rules: &Rules, fail_open: bool, strict: bool) -> Config {
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

#[cfg(test)]
mod tests {
    use divvy_policy::limit::resolve;

    use super::*;

    fn gpu(uuid: &str) -> Gpu {
        Gpu { uuid: uuid.to_owned(), name: String::new(), bus: String::new() }
    }

    fn machine() -> Vec<Gpu> {
        vec![
            gpu("GPU-0aaaaaaa-0000-0000-0000-000000000001"),
            gpu("GPU-0aaaaaaa-0000-0000-0000-000000000002"),
            gpu("GPU-0bbbbbbb-0000-0000-0000-000000000003"),
        ]
    }

    fn words(spec: &str) -> String {
        rules(&[spec.to_owned()], &machine()).unwrap_err().to_string()
    }

    #[test]
    fn a_short_uuid_names_one_gpu() {
        let rules = rules(&["GPU-0B=2GiB".to_owned(), "8GiB".to_owned()], &machine()).unwrap();
        let uuid = parse_uuid("GPU-0bbbbbbb-0000-0000-0000-000000000003").unwrap();
        assert_eq!(resolve(rules.as_slice(), Some(2), &uuid, 1 << 40), Ok(Some(2 << 30)));
        assert_eq!(resolve(rules.as_slice(), Some(0), &[0; 16], 1 << 40), Ok(Some(8 << 30)));
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
        for spec in ["abc", "-1", "010g", "", "0=", "8GiB,,"] {
            let text = words(spec);
            assert!(text.starts_with(&format!("--memory {spec}:")), "{text}");
        }
        assert_eq!(crate::failure::code_of(&rules(&["x".to_owned()], &[]).unwrap_err()), 2);
    }

    #[test]
    fn a_share_names_itself_and_its_option() {
        for spec in ["30", "0%", "x", "", "30%,", "GPU-zz=30%"] {
            let error = compute_rules(&[spec.to_owned()], &machine()).unwrap_err();
            assert_eq!(crate::failure::code_of(&error), 2);
            assert!(error.to_string().starts_with("--compute "), "{error}");
        }
        let rules = compute_rules(&["30%,GPU-0B=50%".to_owned()], &machine()).unwrap();
        let uuid = parse_uuid("GPU-0bbbbbbb-0000-0000-0000-000000000003").unwrap();
        assert_eq!(share::resolve(rules.as_slice(), Some(2), &uuid), Ok(Some(500_000)));
    }

    #[test]
    fn a_changed_limit_replaces_the_one_for_the_same_devices() {
        let parse = |spec: &str| rules(&[spec.to_owned()], &[]).unwrap();
        let old = parse("8GiB,1=50%");
        let new = merged(old.as_slice(), parse("1500m,2=0").as_slice()).unwrap();
        assert_eq!(new.iter().map(text).collect::<Vec<_>>(), ["1=50%", "1500MiB", "2=0"]);
        let odd = parse("GPU-0bbbbbbb-0000-0000-0000-000000000003=12.5%,3=1025B");
        let words: Vec<_> = odd.as_slice().iter().map(text).collect();
        assert_eq!(words, ["GPU-0bbbbbbb-0000-0000-0000-000000000003=12.5%", "3=1025B"]);
        let many: Vec<Rule> =
            (0..30).map(|i| Rule { uuid: [i; 16], selector: selector::UUID, ..new[0] }).collect();
        assert!(merged(&many, &new).is_ok());
        let more: Vec<Rule> =
            (30..34).map(|i| Rule { uuid: [i; 16], selector: selector::UUID, ..new[0] }).collect();
        assert_eq!(crate::failure::code_of(&merged(&many, &more).unwrap_err()), 2);
        assert_eq!((percent(1), percent(1_000_000)), ("0.0001%".to_owned(), "100%".to_owned()));
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
