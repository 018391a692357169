//! Lines of `NAME=VALUE` as the compute share's environment: nothing panics, nothing of the family is
//! dropped, and what was read is understood after its way through the config file's form.

use divvy_abi::config::Config;
use divvy_policy::share::{self, Environment};
use divvy_policy::size::Limit;

/// One input; panics where it must not.
pub(crate) fn run(text: &str) {
    let mut environment = Environment::new();
    for line in text.lines() {
        match share::parse(line) {
            Ok(Limit::Unlimited) => assert!(line == "0" || line.ends_with('%'), "{line:?}"),
            Ok(Limit::Ppm(ppm)) => assert!((1..1_000_000).contains(&ppm), "{line:?}"),
            Ok(Limit::Bytes(_)) => panic!("{line:?} is no size"),
            Err(error) => assert!(error.to_string().contains(line)),
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        match environment.push(name, value) {
            Ok(true) => {}
            Ok(false) => assert!(!name.starts_with("DIVVY_COMPUTE_"), "{line:?} was dropped"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let mut config = Config::default();
    environment.apply(&mut config);
    for index in [None, Some(0), Some(15)] {
        let cap = share::resolve(config.compute_rules(), index, &[0xaa; 16]);
        assert!(cap.is_ok(), "a rule of our own is not understood: {environment:?}");
        assert!(config.any_gate == 1 || cap == Ok(None), "a cap that nobody looks at");
    }
}
