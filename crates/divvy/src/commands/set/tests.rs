//! Names of tenants, and changes in words and in the config.

use super::*;

struct Base(PathBuf);

impl Base {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("divvy-set-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn tenant(&self, directory: &str, name: &str, memory: &str) -> PathBuf {
        let path = self.0.join(directory);
        std::fs::create_dir_all(&path).unwrap();
        let rules = limits::rules(&[memory.to_owned()], &[]).unwrap();
        let config = limits::config(name, &rules, false, false);
        ledger::write_config(&path, &config).unwrap();
        path
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_name_names_one_tenant_or_the_choice() {
    let base = Base::new("find");
    let roots = [base.0.clone()];
    let one = base.tenant("one-1", "set-one", "8GiB");
    let two = base.tenant("two-2", "set-two", "8GiB");
    assert_eq!(find("set-one", &roots).unwrap().1, one);
    assert_eq!(find("two-2", &roots).unwrap().1, two);
    assert_eq!(find(one.to_str().unwrap(), &[]).unwrap().0, "set-one");
    let none = find("set-three", &roots).unwrap_err();
    assert_eq!(crate::output::failure::code_of(&none), 2);
    assert!(none.to_string().contains("set-one, set-two"), "{none}");
    let again = base.tenant("one-3", "set-one", "8GiB");
    let both = find("set-one", &roots).unwrap_err().to_string();
    assert!([&one, &again].iter().all(|d| both.contains(d.to_str().unwrap())), "{both}");
    assert!(find("/nonexistent", &roots).is_err());
}

/// Two devices that nobody has.
fn cards() -> Cards {
    let card = |index: u32| Card {
        index: Some(index),
        uuid: format!("GPU-{index:08}-0000-0000-0000-000000000000"),
        name: "H200".to_owned(),
        total_bytes: (1 - u64::from(index)) * (140 << 30),
        part_of: None,
    };
    Cards { list: vec![card(0), card(1)], unknown: None }
}

/// Answer to a change of the tenant in `directory`.
fn said(directory: &Path, change: &LimitChange) -> String {
    let change::Made { config, notes, .. } = changed::make(directory, change).unwrap();
    words(&report(
        "train".to_owned(),
        directory.to_owned(),
        Applied { config, notes, cards: cards() },
    ))
}

#[test]
fn a_change_stands_in_the_config_and_in_words() {
    let base = Base::new("change");
    let one = base.tenant("one-1", "train", "8GiB,1=50%");
    let change = LimitChange {
        memory: vec!["1=12GiB".to_owned()],
        compute: vec!["50%".to_owned()],
        weight: Some("2".to_owned()),
        priority: Some("high".to_owned()),
        class: Some("latency".to_owned()),
        paused: Some(true),
        ..LimitChange::default()
    };
    assert_eq!(
        said(&one, &change),
        "train: memory 8GiB, 1=12GiB; compute 50%; weight 2; priority high; class latency; paused\n\
         device 0: memory 8 GiB of 140 GiB; compute 50%\n\
         device 1: memory 12 GiB; compute 50%\n"
    );
    let config = read(&one).unwrap();
    assert_eq!((config.any_gate, config.paused), (1, 1));
    let other = LimitChange { weight: Some("3".to_owned()), ..LimitChange::default() };
    let made = changed::make(&one, &other).unwrap();
    assert!(made.notes[0].contains("--resume"), "{:?}", made.notes);
    assert_eq!((made.config.weight, made.config.compute_rules().len()), (3, 1));
    // 100 % and more is no cap, and is called that.
    let all = LimitChange { compute: vec!["500%".to_owned()], ..LimitChange::default() };
    assert!(said(&one, &all).contains("; compute no limit;"));
    let bad = LimitChange { memory: vec!["abc".to_owned()], ..other };
    assert_eq!(crate::output::failure::code_of(&changed::make(&one, &bad).unwrap_err()), 2);
    assert_eq!(
        crate::output::failure::code_of(&changed::make(&one, &LimitChange::default()).unwrap_err()),
        2
    );
    assert_eq!(read(&one).unwrap().weight, 3);
}

#[test]
fn default_gives_back_what_the_tenant_was_started_with() {
    let base = Base::new("default");
    let one = base.tenant("one-1", "train", "8GiB,1=4GiB");
    let change = |memory: &str, weight: &str| LimitChange {
        memory: vec![memory.to_owned()],
        compute: vec![if memory == "default" { "default" } else { "30%" }.to_owned()],
        weight: Some(weight.to_owned()),
        ..LimitChange::default()
    };
    let now = |change: &LimitChange| {
        let Config { rule_count, weight, .. } = changed::make(&one, change).unwrap().config;
        let config = read(&one).unwrap();
        let memory: Vec<_> = config.rules().iter().map(limits::text).collect();
        assert_eq!((rule_count as usize, weight), (memory.len(), config.weight));
        (memory.join(","), config.compute_rules().len(), weight)
    };
    assert_eq!(now(&change("2GiB", "9")), ("2GiB".to_owned(), 1, 9));
    assert_eq!(now(&change("0=1GiB", "8")), ("2GiB,0=1GiB".to_owned(), 1, 8));
    assert_eq!(now(&change("0=default,1=default", "8")), ("2GiB,1=4GiB".to_owned(), 1, 8));
    assert_eq!(now(&change("default", "default")), ("8GiB,1=4GiB".to_owned(), 0, 0));
}

#[test]
fn what_was_changed_by_another_version_has_no_default() {
    let base = Base::new("unknown");
    let one = base.tenant("one-1", "train", "8GiB");
    let change =
        |weight: &str| LimitChange { weight: Some(weight.to_owned()), ..LimitChange::default() };
    changed::make(&one, &change("9")).unwrap();
    std::fs::remove_file(one.join("started")).unwrap();
    let error = changed::make(&one, &change("default")).unwrap_err();
    assert_eq!(crate::output::failure::code_of(&error), 2);
    assert!(error.to_string().contains("another version"), "{error}");
    // A device has the limit for every device back, which is known.
    let one_device = LimitChange { memory: vec!["0=default".to_owned()], ..LimitChange::default() };
    assert!(changed::make(&one, &one_device).is_ok());
}

#[test]
fn a_mistyped_tenant_is_named_with_the_one_that_was_meant() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(there("trian", vec![]), "there is none");
    assert_eq!(there("trian", names(&["train"])), "did you mean \"train\"? there is train");
    assert_eq!(there("x", names(&["b", "a", "", "a"])), "there are a, b");
    let many: Vec<String> = (0..12).map(|at| format!("tenant-{at:02}")).collect();
    let told = there("tenant_03", many);
    assert!(told.starts_with("did you mean \"tenant-03\"? there are tenant-00, "), "{told}");
    assert!(told.ends_with("tenant-07 and 4 more, see `divvy ps`"), "{told}");
}
