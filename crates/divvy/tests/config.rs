//! Files of defaults as `divvy run`, `daemon` and `doctor` meet them: what holds, what is refused, what is said.

mod asked;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use asked::divvy;
use divvy_abi::config::{Config, FLAG_OVERSUBSCRIBE};
use divvy_page::Directory;
use divvy_page::reader::read_config;

/// A home of this test's own, gone afterwards.
struct Home(PathBuf);

impl Home {
    fn new(name: &str, text: &str) -> Self {
        let base = std::env::temp_dir().join(format!("divvy-config-{name}-{}", std::process::id()));
        std::fs::create_dir_all(base.join("config/divvy")).unwrap();
        std::fs::create_dir_all(base.join("seen")).unwrap();
        let home = Self(base);
        std::fs::write(home.file(), text).unwrap();
        home
    }

    fn file(&self) -> PathBuf {
        self.0.join("config/divvy/config.toml")
    }

    fn ask(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = divvy(&self.0, arguments);
        for name in ["MEMORY", "COMPUTE", "WEIGHT", "PRIORITY", "CLASS", "OVERSUBSCRIBE", "BACKEND"]
        {
            command.env_remove(format!("DIVVY_{name}"));
        }
        command.env_remove("LD_PRELOAD").envs(variables.iter().copied());
        command.output().unwrap()
    }

    /// The limits of a tenant that is started with these options.
    fn limits(&self, options: &[&str], variables: &[(&str, &str)]) -> Config {
        let copy = format!("cp $DIVVY_TENANT/config {}", self.0.join("seen/config").display());
        let line = [&["run", "--no-daemon"], options, &["--", "sh", "-c", &copy]].concat();
        // The C library, which is there anyway.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps.lines().find(|line| line.ends_with("/libc.so.6")).expect("a libc");
        let library = [("DIVVY_LIBRARY", &library[library.find('/').unwrap()..])];
        let output = self.ask(&line, &[&library, variables].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let path = std::ffi::CString::new(self.0.join("seen").as_os_str().as_bytes()).unwrap();
        read_config(&Directory::open(&path).unwrap()).unwrap().unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_line_comes_before_the_environment_and_that_before_a_file() {
    let text = "[run]\ncompute = \"30%\"\nweight = 3\nclass = \"latency\"\noversubscribe = true\n";
    let home = Home::new("order", text);
    let seen = |config: &Config| (config.compute_rules()[0].value, config.weight, config.class);
    let of_file = home.limits(&[], &[]);
    assert_eq!(seen(&of_file), (300_000, 3, 1));
    assert_ne!(of_file.flags & FLAG_OVERSUBSCRIBE, 0);
    let variables = [("DIVVY_COMPUTE", "40%"), ("DIVVY_WEIGHT", "4"), ("DIVVY_OVERSUBSCRIBE", "0")];
    let of_environment = home.limits(&[], &variables);
    assert_eq!(seen(&of_environment), (400_000, 4, 1));
    assert_eq!(of_environment.flags & FLAG_OVERSUBSCRIBE, 0);
    let line = ["--compute", "50%", "--weight", "5", "--class", "normal"];
    assert_eq!(seen(&home.limits(&line, &variables)), (500_000, 5, 0));
    let off = home.limits(&["--oversubscribe=off"], &[]);
    assert_eq!(off.flags & FLAG_OVERSUBSCRIBE, 0);
    assert_ne!(home.limits(&["--oversubscribe"], &variables).flags & FLAG_OVERSUBSCRIBE, 0);
}

#[test]
fn nothing_starts_by_a_file_or_a_variable_that_is_not_understood() {
    let home = Home::new("wrong", "[run]\nmemory = \"8\"\n");
    let mark = home.0.join("started").display().to_string();
    for line in [&["run", "--no-daemon", "--", "touch", &mark][..], &["daemon", "--linger", "0"]] {
        let output = home.ask(line, &[]);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {}", said(&output));
        let place = format!("{}, line 2: run.memory = \"8\"", home.file().display());
        assert!(said(&output).contains(&place), "{}", said(&output));
    }
    std::fs::write(home.file(), "").unwrap();
    for (name, value) in [
        ("DIVVY_MEMORY", ""),
        ("DIVVY_MEMORY_x", "1GiB"),
        ("DIVVY_COMPUTE", "30"),
        ("DIVVY_CLASS", "quick"),
        ("DIVVY_OVERSUBSCRIBE", "perhaps"),
    ] {
        let output = home.ask(&["run", "--no-daemon", "--", "touch", &mark], &[(name, value)]);
        assert_eq!(output.status.code(), Some(2), "{name}={value}: {}", said(&output));
        assert!(said(&output).contains(name), "{}", said(&output));
    }
    assert!(!std::path::Path::new(&mark).exists());
    // What does not speak of defaults does not read them.
    std::fs::write(home.file(), "[x]").unwrap();
    assert_eq!(home.ask(&["ps", "--json"], &[]).status.code(), Some(0));
}

#[test]
fn doctor_says_what_holds_what_is_overridden_and_what_is_wrong() {
    let home = Home::new("doctor", "[run]\nmemory = \"8GiB\"\nweight = 2\n");
    let ask = || {
        let output = home.ask(&["doctor"], &[("DIVVY_WEIGHT", "3")]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let found = "run.memory 8GiB, run.weight 2 (overridden by DIVVY_WEIGHT)";
    let (text, path) = (ask(), home.file().display().to_string());
    assert!(text.contains(&format!("{path}: {found}")), "{text}");
    std::fs::set_permissions(home.file(), std::fs::Permissions::from_mode(0o646)).unwrap();
    let text = ask();
    assert!(text.contains(&format!("BAD   {path}: others may write it (mode 646)")), "{text}");
    assert!(text.contains("start nothing until then"), "{text}");
}
