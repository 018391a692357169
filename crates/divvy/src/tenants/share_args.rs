//! `--compute`, `--weight`, `--priority` and `--class`: the compute share on a command line.
//!
//! The words are `divvy_policy::share`'s, so a command line, an environment and `divvy set` are
//! understood alike. Errors are usage errors that name the option, the value and the fix.

use anyhow::Result;
use divvy_abi::config::{Config, Rule};
use divvy_policy::share;

use crate::output::failure::usage;
use crate::tenants::limits;
use crate::wire::LimitChange;

/// Arguments of the compute share; a limit that is left out stays as it is.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ShareArgs {
    /// Share of the device's time: 30%, or for one device 0=30%, GPU-01ab=50%; may be repeated
    ///
    /// The program gets at most this part of the device's time, also while nobody else wants it. 0, and
    /// 100% or more, is no cap. A share for a UUID beats one for an index, which beats the one for
    /// every device.
    #[arg(long, short, value_name = "SPEC", allow_hyphen_values = true)]
    compute: Vec<String>,

    /// Weight against other tenants while they want the device too: 1 to 10000
    ///
    /// A tenant of weight 2 gets twice the time of one of weight 1. Where none is set,
    /// each is due an equal part, and what a cap does not let its tenant use is due to the others.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    weight: Option<String>,

    /// Priority: high, normal or low
    ///
    /// A tenant of higher priority gets the device at once when it has work; lower ones get what it
    /// leaves, and 2 % of the device (`divvy daemon --floor`).
    #[arg(long, value_name = "LEVEL", allow_hyphen_values = true)]
    priority: Option<String>,

    /// Class: latency, for requests (others keep the device 2 ms at most while one waits); or normal
    #[arg(long, value_name = "CLASS", allow_hyphen_values = true)]
    class: Option<String>,
}

/// [`ShareArgs`], understood.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShareLimits {
    /// Caps; empty where none was named.
    pub(crate) rules: Vec<Rule>,
    /// A weight, where one was named.
    pub(crate) weight: Option<u32>,
    /// A priority, where one was named.
    pub(crate) priority: Option<i32>,
    /// A class, where one was named.
    pub(crate) class: Option<u32>,
}

impl ShareArgs {
    /// The words as a change of a running tenant.
    pub(crate) fn change(&self) -> LimitChange {
        let Self { compute, weight, priority, class } = self.clone();
        LimitChange { compute, weight, priority, class, ..LimitChange::default() }
    }

    /// Says what was left out by `values`, of the key that it is given.
    ///
    /// # Errors
    /// Those of `values`.
    pub(crate) fn fill(
        &mut self,
        mut values: impl FnMut(&'static str) -> Result<Vec<String>>,
    ) -> Result<()> {
        let Self { compute, weight, priority, class } = self;
        if compute.is_empty() {
            *compute = values("run.compute")?;
        }
        for (option, key) in
            [(weight, "run.weight"), (priority, "run.priority"), (class, "run.class")]
        {
            if option.is_none() {
                *option = values(key)?.pop();
            }
        }
        Ok(())
    }

    /// The caps as they are written.
    pub(crate) fn compute(&self) -> &[String] {
        &self.compute
    }

    /// Reads the words where devices have these UUIDs.
    pub(crate) fn read(&self, uuids: &[String]) -> Result<ShareLimits> {
        let Self { compute, weight, priority, class } = self;
        Ok(ShareLimits {
            rules: limits::compute_rules(compute, uuids)?.as_slice().to_vec(),
            weight: word("--weight", weight, share::parse_weight)?,
            priority: word("--priority", priority, share::parse_priority)?,
            class: word("--class", class, share::parse_class)?,
        })
    }
}

/// Reads the word of `option`, where there is one.
///
/// # Errors
/// A usage error that names both.
pub(crate) fn word<T>(
    option: &str,
    text: &Option<String>,
    parse: impl Fn(&str) -> Result<T, share::ShareError<'_>>,
) -> Result<Option<T>> {
    let word = |text: &String| parse(text).map_err(|error| usage(format!("{option}: {error}")));
    text.as_ref().map(word).transpose()
}

impl ShareLimits {
    /// Whether nothing was said.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { rules, weight, priority, class } = self;
        rules.is_empty() && weight.is_none() && priority.is_none() && class.is_none()
    }

    /// Whether one of the rules caps anything.
    pub(crate) fn caps(&self) -> bool {
        self.rules.iter().any(|rule| rule.quantity != divvy_abi::config::quantity::UNLIMITED)
    }

    /// Writes what was said into the config of a new tenant.
    pub(crate) fn apply(&self, config: &mut Config) {
        config.compute_rule_count = limits::put(&mut config.compute_rules, &self.rules);
        config.weight = self.weight.unwrap_or(0);
        config.priority = self.priority.unwrap_or(0);
        config.class = self.class.unwrap_or(0);
        config.any_gate = u32::from(share::needs_gate(config));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(weight: &str, priority: &str, class: &str) -> ShareArgs {
        ShareArgs {
            compute: vec!["30%".to_owned()],
            weight: Some(weight.to_owned()),
            priority: Some(priority.to_owned()),
            class: Some(class.to_owned()),
        }
    }

    #[test]
    fn what_was_said_stands_in_the_config() {
        let share = args("7", "high", "latency").read(&[]).unwrap();
        let mut config = Config::default();
        share.apply(&mut config);
        assert_eq!((config.weight, config.priority, config.class), (7, 1, 1));
        assert_eq!((config.compute_rules().len(), config.any_gate), (1, 1));
        assert!(share.caps() && !share.is_empty());
        assert!(ShareArgs::default().read(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_bad_word_names_its_option_and_itself() {
        for (args, words) in [
            (args("0", "high", "normal"), ["--weight", "\"0\""]),
            (args("1", "urgent", "normal"), ["--priority", "\"urgent\""]),
            (args("1", "low", "quick"), ["--class", "\"quick\""]),
        ] {
            let error = args.read(&[]).unwrap_err();
            assert_eq!(crate::output::failure::code_of(&error), 2);
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}
