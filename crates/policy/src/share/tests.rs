//! The share grammar by example; by property in tests/properties.rs.

use divvy_abi::Uuid;
use divvy_abi::config::{Config, class, gate, priority};

use super::*;
use crate::limit::{BadRule, Rules};
use crate::size::Limit;

const A: Uuid = [0xaa; 16];

#[test]
fn shares_mean_what_they_say() {
    for (text, ppm) in [
        ("30%", 300_000),
        ("1%", 10_000),
        ("12.5%", 125_000),
        ("0.0001%", 1),
        ("33.3333%", 333_333),
        ("99.9999%", 999_999),
    ] {
        assert_eq!(parse(text), Ok(Limit::Ppm(ppm)), "{text}");
    }
    for text in ["0", "100%", "100.0%", "150%", "99999999999999999999999%"] {
        assert_eq!(parse(text), Ok(Limit::Unlimited), "{text}");
    }
}

#[test]
fn everything_else_is_refused_in_words() {
    use ShareReason::*;
    for (text, reason) in [
        ("", NotAShare),
        ("%", NotAShare),
        ("x%", NotAShare),
        ("-1%", NotAShare),
        ("+1%", NotAShare),
        (" 30%", NotAShare),
        (".5%", NotAShare),
        ("30", NoPercent),
        ("30 %", NoPercent),
        ("30% ", NoPercent),
        ("30%%", NoPercent),
        ("3e1%", NoPercent),
        ("0.3", NoPercent),
        ("1\u{e9}%", NoPercent),
        ("030%", LeadingZero),
        ("00", LeadingZero),
        ("1.%", BadFraction),
        ("1.23456%", BadFraction),
        ("1.2.3%", BadFraction),
        ("0%", Zero),
        ("0.0%", Zero),
    ] {
        assert_eq!(parse(text), Err(ShareError { text, reason }), "{text}");
        let words = ShareError { text, reason }.to_string();
        assert!(words.contains(&format!("\"{text}\"")), "{words}");
    }
}

#[test]
fn weights_priorities_and_classes_are_words_of_their_own() {
    assert_eq!(parse_weight("1"), Ok(1));
    assert_eq!(parse_weight("10000"), Ok(MAX_WEIGHT));
    for bad in ["", "0", "01", "-1", "1.5", "10001", "99999999999999999999"] {
        assert_eq!(parse_weight(bad).map_err(|e| e.reason), Err(ShareReason::BadWeight), "{bad}");
    }
    for word in ["high", "normal", "low"] {
        assert_eq!(parse_priority(word).map(priority_word), Ok(word));
    }
    for word in ["latency", "normal"] {
        assert_eq!(parse_class(word).map(class_word), Ok(word));
    }
    assert!(parse_priority("High").is_err() && parse_class("").is_err());
    assert_eq!((priority_word(7), priority_word(-9), class_word(5)), ("high", "low", "normal"));
}

#[test]
fn the_closest_cap_holds_and_nonsense_is_no_cap_of_anybody() {
    let mut rules = Rules::new();
    parse_into(&mut rules, "30%,1=50%,2=0").unwrap();
    let cap = |index| resolve(rules.as_slice(), index, &A);
    assert_eq!(cap(Some(0)), Ok(Some(300_000)));
    assert_eq!(cap(Some(1)), Ok(Some(500_000)));
    assert_eq!(cap(Some(2)), Ok(None));
    assert_eq!(resolve(&[], None, &A), Ok(None));
    let mut bytes = Rules::new();
    bytes.parse_into("8GiB").unwrap();
    assert_eq!(resolve(bytes.as_slice(), None, &A), Err(BadRule(0)));
    let error = parse_into(&mut Rules::new(), "0=8GiB").unwrap_err().to_string();
    assert!(error.contains("\"8GiB\"") && error.contains("30%"), "{error}");
}

fn environment(variables: &[(&'static str, &'static str)]) -> Environment {
    let mut environment = Environment::new();
    for (name, text) in variables {
        assert_eq!(environment.push(name, text), Ok(true), "{name}={text}");
    }
    environment
}

#[test]
fn the_peers_variables_cap_as_the_peer_means_them() {
    let cap = |variables: &[(&'static str, &'static str)], index| {
        resolve(environment(variables).rules(), Some(index), &A).unwrap()
    };
    assert_eq!(cap(&[("CUDA_DEVICE_SM_LIMIT", "30")], 0), Some(300_000));
    assert_eq!(cap(&[("CUDA_DEVICE_SM_LIMIT", "30%")], 0), Some(300_000));
    for none in ["0", "100", "51200"] {
        assert_eq!(cap(&[("CUDA_DEVICE_SM_LIMIT", none)], 0), None, "{none}");
    }
    let two = [("CUDA_DEVICE_SM_LIMIT", "30"), ("CUDA_DEVICE_SM_LIMIT_1", "0")];
    assert_eq!((cap(&two, 0), cap(&two, 1)), (Some(300_000), None));
    for (policy, expected) in
        [("disable", None), ("DISABLE", None), ("default", Some(300_000)), ("force", Some(300_000))]
    {
        let with = [("CUDA_DEVICE_SM_LIMIT", "30"), ("GPU_CORE_UTILIZATION_POLICY", policy)];
        assert_eq!(cap(&with, 0), expected, "{policy}");
    }
}

#[test]
fn our_own_variables_beat_the_peers() {
    let both = environment(&[
        ("CUDA_DEVICE_SM_LIMIT", "10"),
        ("GPU_CORE_UTILIZATION_POLICY", "disable"),
        ("DIVVY_PRIORITY", "normal"),
        ("CUDA_TASK_PRIORITY", "0"),
        ("DIVVY_COMPUTE_1", "50%"),
        ("DIVVY_WEIGHT", "3"),
        ("DIVVY_CLASS", "latency"),
    ]);
    assert_eq!(resolve(both.rules(), Some(1), &A), Ok(Some(500_000)));
    assert_eq!(resolve(both.rules(), Some(0), &A), Ok(None));
    let mut config = Config::default();
    both.apply(&mut config);
    assert_eq!(config.compute_rules(), both.rules());
    assert_eq!(
        (config.weight, config.priority, config.class),
        (3, priority::NORMAL, class::LATENCY)
    );
    assert_eq!(config.any_gate, 1);
    assert_eq!(environment(&[("CUDA_TASK_PRIORITY", "0")]).priority(), priority::HIGH);
    assert_eq!(environment(&[("CUDA_TASK_PRIORITY", "1")]).priority(), priority::LOW);
}

#[test]
fn a_variable_that_is_not_understood_is_an_error_and_others_are_not_ours() {
    for (name, text) in [
        ("DIVVY_COMPUTE", "30"),
        ("DIVVY_COMPUTE_x", "30%"),
        ("DIVVY_COMPUTE_16", "30%"),
        ("CUDA_DEVICE_SM_LIMIT", "abc"),
        ("CUDA_DEVICE_SM_LIMIT", ""),
        ("CUDA_DEVICE_SM_LIMIT", "030"),
        ("CUDA_DEVICE_SM_LIMIT_0", "1.5"),
        ("GPU_CORE_UTILIZATION_POLICY", "maybe"),
        ("CUDA_TASK_PRIORITY", "-1"),
        ("CUDA_TASK_PRIORITY", ""),
        ("DIVVY_WEIGHT", "0"),
        ("DIVVY_PRIORITY", "1"),
        ("DIVVY_CLASS", "fast"),
    ] {
        let error = Environment::new().push(name, text).unwrap_err();
        assert!(!error.to_string().is_empty(), "{name}={text}");
    }
    for name in ["DIVVY_MEMORY", "CUDA_DEVICE_MEMORY_LIMIT", "DIVVY_COMPUTES", "PATH"] {
        assert_eq!(Environment::new().push(name, "x"), Ok(false), "{name}");
    }
}

#[test]
fn a_gate_is_looked_at_for_a_cap_a_pause_or_a_turn_alone() {
    let plain = Config::default();
    assert!(!needs_gate(&plain));
    assert!(needs_gate(&Config { paused: 1, ..plain.clone() }));
    let mut lines = plain.gates;
    lines[3].gate = gate::TIMED;
    assert!(needs_gate(&Config { gates: lines, ..plain.clone() }));
    let mut uncapped = plain;
    environment(&[("DIVVY_COMPUTE", "100%")]).apply(&mut uncapped);
    assert_eq!((uncapped.compute_rule_count, uncapped.any_gate), (1, 0));
}
