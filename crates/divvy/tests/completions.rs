//! Scripts of shells, asked as a shell asks them.

mod asked;

use std::path::{Path, PathBuf};
use std::process::Command;

use divvy_abi::config::Config;
use divvy_page::Directory;
use divvy_page::reader::write_config;

use asked::divvy;

/// A directory of the test's own with a tenant in it, gone afterwards.
struct Scene(PathBuf);

impl Scene {
    fn new() -> Self {
        let base = std::env::temp_dir().join(format!("divvy-compl-{}", std::process::id()));
        for (name, folder) in [("train", "one"), ("tr$(touch hacked)", "two")] {
            let tenant = base.join("tenants").join(folder);
            std::fs::create_dir_all(&tenant).unwrap();
            let mut config = Config::default();
            config.name[..name.len()].copy_from_slice(name.as_bytes());
            let path = std::ffi::CString::new(tenant.display().to_string()).unwrap();
            write_config(&Directory::open(&path).unwrap(), &config).unwrap();
        }
        std::fs::write(base.join("train.py"), "").unwrap();
        Self(base)
    }

    /// What bash offers behind these words.
    fn offered(&self, words: &[&str]) -> Vec<String> {
        let script = divvy(&self.0, &["completions", "bash"]).output().unwrap().stdout;
        let path = self.0.join("script");
        std::fs::write(&path, script).unwrap();
        let asked = divvy(&self.0, &[]);
        let bin = Path::new(asked.get_program()).parent().unwrap().display().to_string();
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let last = words.len() - 1;
        let line = format!(
            "source {}; COMP_WORDS=({}); COMP_CWORD={last}; f=$(complete -p divvy); \
             f=${{f#*-F }}; f=${{f%% *}}; $f divvy {} {}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            path.display(),
            quoted.join(" "),
            quoted[last],
            quoted[last - 1]
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &line]).current_dir(&self.0);
        bash.envs(asked.get_envs().filter_map(|(name, value)| Some((name, value?))));
        bash.env("PATH", format!("{bin}:/usr/bin:/bin"));
        let output = bash.output().expect("bash starts");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tenants_are_offered_for_tenants_and_words_for_options() {
    let scene = Scene::new();
    for command in ["set", "freeze", "thaw", "trace"] {
        assert_eq!(scene.offered(&["divvy", command, ""]), ["train"], "{command}");
    }
    assert!(!scene.0.join("hacked").exists(), "a name is a name");
    let of = |option: &str| scene.offered(&["divvy", "set", "train", option, ""]);
    assert_eq!(of("--priority"), ["low", "normal", "high"]);
    assert_eq!(of("--class"), ["normal", "latency"]);
    assert_eq!(of("--memory"), [""; 0], "no files");
    assert_eq!(scene.offered(&["divvy", "set", "train", "--prio"]), ["--priority"]);
}
