//! Rules by example; by property in tests/properties.rs.

use super::*;

const A: Uuid = [0xaa; 16];
const B: Uuid = [0xbb; 16];

fn rules(text: &str) -> Rules {
    let mut rules = Rules::new();
    rules.parse_into(text).expect(text);
    rules
}

#[test]
fn a_uuid_beats_an_index_beats_the_rest() {
    let uuid = UuidText(&A).to_string();
    let rules = rules(&format!("8GiB,{uuid}=1GiB,0=2GiB"));
    let limit = |index, uuid| resolve(rules.as_slice(), index, uuid, 1 << 40).unwrap();
    assert_eq!(limit(Some(0), &A), Some(1 << 30));
    assert_eq!(limit(Some(0), &B), Some(2 << 30));
    assert_eq!(limit(Some(1), &B), Some(8 << 30));
    assert_eq!(limit(None, &B), Some(8 << 30));
}

#[test]
fn an_uuid_reads_back_as_printed() {
    assert_eq!(parse_uuid(&UuidText(&A).to_string()), Some(A));
    for bad in ["GPU-", "aaaaaaaa", "GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaa", "GPU-é"] {
        assert_eq!(parse_uuid(bad), None, "{bad}");
    }
}

#[test]
fn the_environment_names_devices_by_suffix() {
    let mut rules = Rules::new();
    let base = "CUDA_DEVICE_MEMORY_LIMIT";
    assert_eq!(rules.push_env(base, "CUDA_DEVICE_MEMORY_LIMIT", "0m"), Ok(true));
    assert_eq!(rules.push_env(base, "CUDA_DEVICE_MEMORY_LIMIT_1", "3000m"), Ok(true));
    assert_eq!(rules.push_env(base, "CUDA_DEVICE_SM_LIMIT", "x"), Ok(false));
    assert_eq!(rules.push_env(base, "CUDA_DEVICE_MEMORY_LIMITS", "x"), Ok(false));
    assert_eq!(resolve(rules.as_slice(), Some(0), &A, 1), Ok(None));
    assert_eq!(resolve(rules.as_slice(), Some(1), &A, 1), Ok(Some(3000 << 20)));
}

#[test]
fn a_typing_error_is_never_unlimited() {
    let mut rules = Rules::new();
    for name in ["M_x", "M_", "M_01", "M_16", "M_-1"] {
        assert!(rules.push_env("M", name, "1g").is_err(), "{name}");
    }
    for text in ["", "1g,", "16=1g", "x=1g", "0=", "=1g", "1g,2g", "0=1g,0=1g", "1g 2g"] {
        let mut rules = Rules::new();
        assert!(rules.parse_into(text).is_err(), "{text}");
    }
    let nonsense = Rule { quantity: 9, ..rule(Selector::All, Limit::Unlimited) };
    assert_eq!(resolve(&[nonsense], None, &A, 1), Err(BadRule(0)));
    let zero = Rule { quantity: quantity::BYTES, ..nonsense };
    assert_eq!(resolve(&[zero], None, &A, 1), Err(BadRule(0)));
}

#[test]
fn a_decimal_comma_is_not_two_limits() {
    for (text, number) in [
        ("1,5g", "1,5g"),
        ("8,16GiB", "8,16GiB"),
        ("0,5g", "0,5g"),
        ("0=1,5g,1=2g", "1,5g"),
        ("1=2g,0=1,5g", "1,5g"),
    ] {
        let error = Rules::new().parse_into(text).unwrap_err();
        assert_eq!(error, RuleError::DecimalComma(number), "{text}");
        let words = error.to_string();
        assert!(words.ends_with(&format!("write {}", number.replace(',', "."))), "{words}");
    }
    for text in ["2147483648,1=5g", "0=2147483648,5g", "8g,0=1g", "1=0,50%", "50%,0=1g"] {
        assert!(Rules::new().parse_into(text).is_ok(), "{text}");
    }
    let share = crate::share::parse_into(&mut Rules::new(), "12,5%").unwrap_err().to_string();
    assert!(share.ends_with("write 12.5%"), "{share}");
}

#[test]
fn a_forgotten_unit_is_bytes_in_the_peers_variables_alone() {
    let peer = "CUDA_DEVICE_MEMORY_LIMIT";
    assert_eq!(Rules::new().push_env(peer, peer, "8"), Ok(true));
    assert_eq!(Rules::new().push_env(peer, "CUDA_DEVICE_MEMORY_LIMIT_1", "8"), Ok(true));
    for name in ["DIVVY_MEMORY", "DIVVY_MEMORY_1"] {
        let error = Rules::new().push_env("DIVVY_MEMORY", name, "8").unwrap_err();
        assert!(error.to_string().contains("write 8GiB"), "{error}");
    }
}

#[test]
fn errors_name_value_and_fix() {
    let text = parse_rule("0=abc").unwrap_err().to_string();
    assert!(text.contains("\"abc\"") && text.contains("8GiB"), "{text}");
    let text = parse_rule("99=1g").unwrap_err().to_string();
    assert!(text.contains("\"99\"") && text.contains("UUID"), "{text}");
}

#[test]
fn there_is_room_for_every_device_and_no_more() {
    let mut rules = Rules::new();
    for i in 0..MAX_RULES {
        let uuid = [u8::try_from(i).unwrap(); 16];
        assert_eq!(rules.push(rule(Selector::Uuid(uuid), Limit::Bytes(1))), Ok(()));
    }
    assert_eq!(rules.push(rule(Selector::All, Limit::Bytes(1))), Err(RuleError::TooMany));
}
