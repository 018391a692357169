//! `--memory` in words, turned into the rules of a tenant's config.
//!
//! The grammar is `divvy_policy::limit`'s; this adds one convenience, a UUID cut short
//! (`GPU-01ab=8GiB`), which must name exactly one GPU. Every error is a usage error and comes before
//! anything has been started.

use anyhow::Result;
use divvy_abi::config::{Config, FLAG_FAIL_OPEN, FLAG_STRICT, MAX_RULES, NAME_BYTES};
use divvy_policy::limit::{Rules, parse_uuid};

use crate::failure::usage;
use crate::gpus::Gpu;

/// The rules that `specs` ask for on a machine with `gpus`.
pub(crate) fn rules(specs: &[String], gpus: &[Gpu]) -> Result<Rules> {
    let mut rules = Rules::new();
    for spec in specs {
        for part in spec.split(',') {
            let part = complete(part, gpus)?;
            rules.parse_into(&part).map_err(|error| usage(format!("--memory {spec}: {error}")))?;
        }
    }
    Ok(rules)
}

/// `part` with a shortened UUID written out.
fn complete(part: &str, gpus: &[Gpu]) -> Result<String> {
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
            "--memory {part}: \"{name}\" is not a whole UUID and no GPU is known here to complete \
             it from; write all 36 characters, or an index such as 0={size}"
        ))),
        [] => Err(usage(format!(
            "--memory {part}: no GPU's UUID begins with \"{name}\"; there is {}",
            known()
        ))),
        _ => Err(usage(format!(
            "--memory {part}: \"{name}\" begins the UUID of {} GPUs; write more of it ({})",
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
    let list = rules.as_slice();
    for (to, from) in config.rules.iter_mut().zip(list) {
        *to = *from;
    }
    config.rule_count = u32::try_from(list.len().min(MAX_RULES)).unwrap_or(0);
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
    fn a_config_says_what_was_asked() {
        let rules = rules(&["50%".to_owned(), "1=3000m".to_owned()], &[]).unwrap();
        let config = config("train", &rules, true, true);
        assert_eq!(config.rules(), rules.as_slice());
        assert_eq!(config.flags, FLAG_FAIL_OPEN | FLAG_STRICT);
        assert!(config.name.starts_with(b"train\0"));
    }
}
