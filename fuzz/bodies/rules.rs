//! Lines of `NAME=VALUE` as an environment: rules neither panic, nor turn a bad value into none, nor
//! differ after a way through the config file's form.

use divvy_policy::limit::{self, Rules};

/// One input; panics where it must not.
pub(crate) fn run(text: &str) {
    let mut rules = Rules::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once('=') else { continue };
        for base in ["DIVVY_MEMORY", "CUDA_DEVICE_MEMORY_LIMIT"] {
            let before = rules.as_slice().len();
            match rules.push_env(base, name, value) {
                Ok(true) => assert!(rules.as_slice().len() > before, "{line:?} was dropped"),
                Ok(false) => assert_eq!(rules.as_slice().len(), before),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
    for index in [None, Some(0), Some(15)] {
        let limit = limit::resolve(rules.as_slice(), index, &[0xaa; 16], 1 << 36);
        assert!(limit.is_ok(), "a rule of our own is not understood: {rules:?}");
    }
}
