//! Properties of the share grammar over generated texts.
#![cfg(not(loom))]

use divvy_policy::limit::Rules;
use divvy_policy::share::{self, Environment};
use divvy_policy::size::Limit;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_written_share_means_its_millionths(ppm in 0_u64..3_000_000, places in 0_u32..=4) {
        let step = 10_u64.pow(4 - places);
        let ppm = ppm / step * step;
        let (whole, parts) = (ppm / 10_000, ppm % 10_000 / step);
        let text = match places {
            0 => format!("{whole}%"),
            places => format!("{whole}.{parts:0width$}%", width = places as usize),
        };
        let expected = match ppm {
            0 => None,
            1_000_000.. => Some(Limit::Unlimited),
            below => Some(Limit::Ppm(u32::try_from(below).expect("small"))),
        };
        prop_assert_eq!(share::parse(&text).ok(), expected, "{}", text);
    }

    #[test]
    fn only_zero_and_the_whole_are_no_cap(text in "[0-9.%a ]{0,8}") {
        if share::parse(&text) == Ok(Limit::Unlimited) {
            let number = text.strip_suffix('%').map(str::parse::<f64>);
            prop_assert!(text == "0" || number.is_some_and(|n| n.is_ok_and(|n| n >= 100.0)));
        }
    }

    #[test]
    fn an_error_shows_what_was_written(text in ".{0,40}") {
        let quoted = format!("\"{text}\"");
        if let Err(error) = share::parse(&text) {
            prop_assert!(error.to_string().contains(&quoted));
        }
        if let Err(error) = share::parse_weight(&text) {
            prop_assert!(error.to_string().contains(&quoted));
        }
        if let Err(error) = share::parse_into(&mut Rules::new(), &text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    /// What a text says is what a process resolves from the file.
    #[test]
    fn a_cap_survives_the_way_through_rules(all in 1_u32..1_000_000, one in 1_u32..1_000_000) {
        let percent = |ppm: u32| format!("{}.{:04}%", ppm / 10_000, ppm % 10_000);
        let mut rules = Rules::new();
        let text = format!("3={},{}", percent(one), percent(all));
        prop_assert_eq!(share::parse_into(&mut rules, &text), Ok(()));
        prop_assert_eq!(share::resolve(rules.as_slice(), Some(3), &[0; 16]), Ok(Some(one)));
        prop_assert_eq!(share::resolve(rules.as_slice(), None, &[0; 16]), Ok(Some(all)));
    }

    /// The peer's parser reads whole percentages; so do we, and 100 or more is no cap.
    #[test]
    fn the_peers_percentages_agree_with_ours(percent in 1_u32..300) {
        let mut environment = Environment::new();
        let text = percent.to_string();
        prop_assert_eq!(environment.push("CUDA_DEVICE_SM_LIMIT", &text), Ok(true));
        let mut rules = Rules::new();
        let own = format!("{percent}%");
        prop_assert_eq!(share::parse_into(&mut rules, &own), Ok(()));
        prop_assert_eq!(environment.rules(), rules.as_slice());
    }
}
