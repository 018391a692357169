//! Ids and limits of requests for tenants by id, checked and turned into a tenant's config.
//!
//! Promises: all of a request is judged before anything is done, and nothing of it is ever read as "no limit": a
//! tenant has a limit on each device that it names, and no memory of any other, so a container that can see one more
//! card than it was given gets nothing there. Pure.
//!
//! Does not read a request: that is [`crate::wire::by_id`]'s; nor say who may make it.

use divvy_abi::MAX_DEVICES;
use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE, Rule, quantity, selector};
use divvy_policy::limit::{Rules, parse_uuid};
use divvy_policy::share::{self, MAX_WEIGHT};
use divvy_policy::size::MAX_BYTES;

use crate::tenants::limits;
use crate::tenants::started::Start;
use crate::wire::by_id::{DeviceLimits, RefusalCode, TenantLimits};

/// The longest id.
const MOST_ID_BYTES: usize = 128;
/// A whole device, in millionths of its time.
const WHOLE_PPM: u32 = 1_000_000;

/// A request that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub(crate) struct CallRefusal {
    /// The reason, for programs.
    pub(crate) code: RefusalCode,
    /// The same for people.
    pub(crate) words: String,
}

impl CallRefusal {
    pub(crate) fn new(code: RefusalCode, words: impl Into<String>) -> Self {
        Self { code, words: words.into() }
    }
}

/// Judges an id: it is the name of a directory, and stands in a path of a mount.
pub(crate) fn check_id(id: &str) -> Result<(), CallRefusal> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if (1..=MOST_ID_BYTES).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(plain) {
        return Ok(());
    }
    let words = format!(
        "the id {id:?}: write 1 to {MOST_ID_BYTES} of A-Z, a-z, 0-9, '.', '_' and '-', not beginning with '.'"
    );
    Err(CallRefusal::new(RefusalCode::BadId, words))
}

/// The config of the tenant `id` with these limits, on a machine whose GPUs have these UUIDs; none are compared where
/// it knows of none.
pub(crate) fn config(
    id: &str,
    asked: &TenantLimits,
    machine: &[String],
) -> Result<Config, CallRefusal> {
    let bad = |words: String| CallRefusal::new(RefusalCode::BadLimit, words);
    let TenantLimits { devices, weight, priority, class, oversubscribe } = asked;
    if devices.is_empty() || devices.len() > MAX_DEVICES {
        let count = devices.len();
        return Err(bad(format!("{count} devices: name 1 to {MAX_DEVICES}, each with its memory")));
    }
    let (mut memory, mut compute) = (vec![nothing_of_others()], Vec::new());
    for device in devices {
        let rule = rule(device, machine)?;
        if memory.iter().any(|other| other.selector == selector::UUID && other.uuid == rule.uuid) {
            return Err(bad(format!("two limits for {}: keep one", device.uuid)));
        }
        if let Some(share_ppm) = cap(device)? {
            let (quantity, value) = (quantity::PPM, u64::from(share_ppm));
            compute.push(Rule { quantity, value, ..rule });
        }
        memory.push(rule);
    }
    let mut config = limits::config(id, &Rules::new(), false, false);
    config.rule_count = limits::put(&mut config.rules, &memory);
    config.compute_rule_count = limits::put(&mut config.compute_rules, &compute);
    if let Some(weight) = weight {
        if !(1..=MAX_WEIGHT).contains(weight) {
            return Err(bad(format!("weight {weight}: give 1 to {MAX_WEIGHT}")));
        }
        config.weight = *weight;
    }
    let word = |what: &str, error: share::ShareError<'_>| bad(format!("{what}: {error}"));
    if let Some(text) = priority {
        config.priority = share::parse_priority(text).map_err(|error| word("priority", error))?;
    }
    if let Some(text) = class {
        config.class = share::parse_class(text).map_err(|error| word("class", error))?;
    }
    if *oversubscribe {
        config.flags |= FLAG_OVERSUBSCRIBE;
    }
    config.any_gate = u32::from(share::needs_gate(&config));
    Ok(config)
}

/// The rule for every device that no other names. A byte is the least that there is; less than any request.
fn nothing_of_others() -> Rule {
    let (selector, quantity) = (selector::ALL, quantity::BYTES);
    Rule { selector, index: 0, uuid: [0; 16], quantity, reserved: 0, value: 1 }
}

fn rule(device: &DeviceLimits, machine: &[String]) -> Result<Rule, CallRefusal> {
    let DeviceLimits { uuid, memory_bytes, .. } = device;
    let Some(parsed) = parse_uuid(uuid) else {
        let words = format!(
            "{uuid:?} is no UUID: write all of it, such as GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
        return Err(CallRefusal::new(RefusalCode::UnknownDevice, words));
    };
    // Instances of partitioned cards are not listed by the kernel module.
    let is_listed = uuid.starts_with("GPU-") && !machine.is_empty();
    if is_listed && !machine.iter().any(|known| parse_uuid(known) == Some(parsed)) {
        let words = format!("no GPU here is {uuid}; there is {}", machine.join(", "));
        return Err(CallRefusal::new(RefusalCode::UnknownDevice, words));
    }
    if !(1..=MAX_BYTES).contains(memory_bytes) {
        let words = format!("{memory_bytes} bytes of {uuid}: give 1 to {MAX_BYTES}");
        return Err(CallRefusal::new(RefusalCode::BadLimit, words));
    }
    let (selector, quantity) = (selector::UUID, quantity::BYTES);
    Ok(Rule { selector, index: 0, uuid: parsed, quantity, reserved: 0, value: *memory_bytes })
}

/// The cap on a device, if it is one.
fn cap(device: &DeviceLimits) -> Result<Option<u32>, CallRefusal> {
    match device.share_ppm {
        None | Some(WHOLE_PPM) => Ok(None),
        Some(ppm @ 1..WHOLE_PPM) => Ok(Some(ppm)),
        Some(ppm) => {
            let words = format!("{ppm} millionths of {}: give 1 to {WHOLE_PPM}", device.uuid);
            Err(CallRefusal::new(RefusalCode::BadLimit, words))
        }
    }
}

/// Limits that a request can say, in an order of their own, for comparing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedLimits {
    limits: Start,
    oversubscribes: bool,
}

impl AskedLimits {
    /// Those of `config`, with `limits` in the place of those that can be changed.
    pub(crate) fn of(config: &Config, limits: Option<Start>) -> Self {
        let mut limits = limits.unwrap_or_else(|| Start::of(config));
        for rules in [&mut limits.memory, &mut limits.compute] {
            rules.sort_unstable_by_key(|rule| (rule.selector, rule.index, rule.uuid));
        }
        Self { limits, oversubscribes: config.flags & FLAG_OVERSUBSCRIBE != 0 }
    }
}

#[cfg(test)]
mod tests {
    use divvy_policy::limit::resolve;

    use super::*;

    const A: &str = "GPU-0aaaaaaa-0000-0000-0000-000000000001";
    const B: &str = "GPU-0bbbbbbb-0000-0000-0000-000000000002";

    fn device(uuid: &str, memory_bytes: u64, share_ppm: Option<u32>) -> DeviceLimits {
        DeviceLimits { uuid: uuid.to_owned(), memory_bytes, share_ppm }
    }

    fn asked(devices: &[DeviceLimits]) -> TenantLimits {
        TenantLimits { devices: devices.to_vec(), ..TenantLimits::default() }
    }

    fn code(asked: &TenantLimits, machine: &[&str]) -> &'static str {
        let machine: Vec<String> = machine.iter().map(|&uuid| uuid.to_owned()).collect();
        config("x", asked, &machine).unwrap_err().code.word()
    }

    #[test]
    fn ids_are_names_of_directories() {
        for good in ["a", "0", "-a", "claim_1.share-2", &"x".repeat(128)] {
            assert_eq!(check_id(good), Ok(()), "{good}");
        }
        let bad =
            ["", ".", "..", ".meet", "a/b", "a b", "é", "a\0", "a\n", "../x", &"x".repeat(129)];
        for bad in bad {
            let refusal = check_id(bad).unwrap_err();
            assert_eq!(refusal.code, RefusalCode::BadId);
            assert!(refusal.words.contains(&format!("{bad:?}")), "{refusal}");
        }
    }

    #[test]
    fn devices_that_are_not_named_give_no_memory() {
        let limits = asked(&[device(A, 8 << 30, Some(300_000)), device(B, 1, Some(1_000_000))]);
        let config = config("job", &limits, &[A.to_owned(), B.to_owned()]).unwrap();
        let limit = |uuid: &str| {
            resolve(config.rules(), Some(0), &parse_uuid(uuid).unwrap(), 1 << 40).unwrap()
        };
        assert_eq!([A, B].map(limit), [Some(8 << 30), Some(1)]);
        assert_eq!(limit("GPU-0ccccccc-0000-0000-0000-000000000003"), Some(1));
        let share = |uuid: &str| {
            share::resolve(config.compute_rules(), None, &parse_uuid(uuid).unwrap()).unwrap()
        };
        assert_eq!([A, B].map(share), [Some(300_000), None]);
        assert_eq!(config.any_gate, 1);
        assert!(config.name.starts_with(b"job\0"));
    }

    #[test]
    fn nothing_out_of_range_is_a_limit() {
        assert_eq!(code(&asked(&[]), &[]), "bad-limit");
        assert_eq!(code(&asked(&vec![device(A, 1, None); 17]), &[]), "bad-limit");
        for bad in [
            device(A, 0, None),
            device(A, MAX_BYTES + 1, None),
            device(A, u64::MAX, None),
            device(A, 1, Some(0)),
            device(A, 1, Some(1_000_001)),
            device(A, 1, Some(u32::MAX)),
        ] {
            assert_eq!(code(&asked(std::slice::from_ref(&bad)), &[A]), "bad-limit", "{bad:?}");
        }
        let twice = [device(A, 1, None), device(&A.replace("0a", "0A"), 2, None)];
        assert_eq!(code(&asked(&twice), &[]), "bad-limit");
        let one = asked(&[device(A, 1, None)]);
        for bad in [
            TenantLimits { weight: Some(0), ..one.clone() },
            TenantLimits { weight: Some(MAX_WEIGHT + 1), ..one.clone() },
            TenantLimits { priority: Some("urgent".to_owned()), ..one.clone() },
            TenantLimits { priority: Some(String::new()), ..one.clone() },
            TenantLimits { class: Some("default".to_owned()), ..one.clone() },
        ] {
            assert_eq!(code(&bad, &[]), "bad-limit", "{bad:?}");
        }
    }

    #[test]
    fn devices_are_those_of_the_machine_where_it_knows_any() {
        let one = |uuid: &str| asked(&[device(uuid, 1, None)]);
        assert_eq!(code(&one(A), &[B]), "unknown-device");
        for bad in ["", "0", "GPU-0aaaaaaa", &A[4..], "gpu-0", "\u{1b}[31m"] {
            assert_eq!(code(&one(bad), &[]), "unknown-device", "{bad:?}");
        }
        assert!(config("x", &one(A), &[]).is_ok());
        assert!(config("x", &one(&A.replace("GPU", "MIG")), &[B.to_owned()]).is_ok());
    }

    #[test]
    fn limits_are_the_same_in_whatever_order() {
        let of = |devices: &[DeviceLimits]| {
            AskedLimits::of(&config("x", &asked(devices), &[]).unwrap(), None)
        };
        let (one, two) = (device(A, 1, Some(2)), device(B, 2, None));
        assert_eq!(of(&[one.clone(), two.clone()]), of(&[two.clone(), one.clone()]));
        assert_ne!(of(&[one.clone(), two.clone()]), of(&[one]));
        assert_ne!(of(std::slice::from_ref(&two)), of(&[device(B, 3, None)]));
    }
}
