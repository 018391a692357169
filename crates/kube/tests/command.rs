//! The program: its streams, its files and its exit codes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4096, nvidia.com/gpucores: 10}}
";

/// A folder of the test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("convert-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn save(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn convert(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_divvy-kube"))
            .arg("convert")
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may end without having read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn standard_input_is_converted_to_standard_output() {
    let folder = Folder::new("stdin");
    for arguments in [&[][..], &["-"]] {
        let (code, out, told) = folder.convert(arguments, POD);
        assert!(code == 0 && told.is_empty(), "{told}");
        assert!(out.contains("resourceClaimTemplateName: gpu-4096mi-10c"), "{out}");
    }
}

#[test]
fn a_refused_document_is_told_of_with_its_place() {
    let folder = Folder::new("refused");
    let other = POD.replace("4096", "0").replace("name: p}", "name: q}");
    folder.save("two.yaml", &format!("{POD}---\n{other}"));
    let (code, out, told) = folder.convert(&["two.yaml"], "");
    assert_eq!((code, out.matches("kind: Pod").count()), (1, 1), "{told}");
    let begin =
        "divvy-kube: two.yaml:15: document 2, Pod q, container c: refused: nvidia.com/gpumem: 0 is";
    assert!(told.starts_with(begin) && told.trim_end().ends_with("[bad-value]"), "{told}");
}

#[test]
fn a_warning_is_a_failure_where_that_is_asked_for() {
    let folder = Folder::new("strict");
    // Without cores: a claim of 1 %, where HAMi has no limit.
    let warned = POD.replace(", nvidia.com/gpucores: 10", "");
    for (pod, lax, strict) in [(POD, 0, 0), (&warned, 0, 1)] {
        let (code, out, told) = folder.convert(&[], pod);
        assert_eq!((code, told.contains("warning: ")), (lax, strict == 1), "{told}");
        let (code, same, _) = folder.convert(&["--strict"], pod);
        assert_eq!((code, same), (strict, out));
        let (code, report, _) = folder.convert(&["--strict", "--json"], pod);
        assert!(code == strict && report.contains("\"schema\": 1"), "{report}");
    }
}

#[test]
fn a_file_that_cannot_be_understood_keeps_all_from_being_written() {
    let folder = Folder::new("unread");
    folder.save("good.yaml", POD);
    folder.save("bad.yaml", "a: 1\na: 2\n");
    folder.save("worse.yaml", "a: [\n");
    let line = ["--out", "o", "good.yaml", "bad.yaml", "worse.yaml"];
    let (code, out, told) = folder.convert(&line, "");
    assert_eq!((code, &*out), (2, ""), "{told}");
    assert!(told.contains("divvy-kube: bad.yaml:2: the key \"a\" stands twice"), "{told}");
    assert!(told.contains("\ndivvy-kube: worse.yaml:"), "{told}");
    assert!(!folder.0.join("o").exists());
    let (code, _, told) = folder.convert(&["none.yaml"], "");
    assert!(code == 125 && told.contains("none.yaml cannot be read: No such file"), "{told}");
}

#[test]
fn files_are_written_by_their_names_and_never_over_an_input() {
    let folder = Folder::new("out");
    folder.save("a.yaml", POD);
    let (code, out, told) = folder.convert(&["--out", "claims", "a.yaml", "-"], POD);
    assert_eq!((code, &*out, &*told), (0, "", ""));
    let claims = folder.0.join("claims");
    let [a, stdin] =
        ["a.yaml", "stdin.yaml"].map(|name| fs::read_to_string(claims.join(name)).unwrap());
    assert!(a == stdin && a.contains("resourceClaims"), "{a}");
    assert_eq!(fs::read_dir(claims).unwrap().count(), 2);
    for (line, code, words) in [
        (&["--out", ".", "a.yaml"][..], 2, "a.yaml is one of the inputs"),
        (&["--out", "x", "a.yaml", "./a.yaml"], 2, "two files would be x/a.yaml"),
        (&["--out", "a.yaml/x", "a.yaml"], 125, "a.yaml/x cannot be made"),
        (&["-", "-"], 2, "standard input (-) can be read once"),
    ] {
        let (ended, _, told) = folder.convert(line, "");
        assert!(ended == code && told.contains(words), "{line:?}: {ended}: {told}");
    }
}

#[test]
fn the_report_counts_and_writes_no_manifest() {
    let folder = Folder::new("json");
    let mistyped = POD.replace("gpumem", "gpumemory");
    let (code, out, _) =
        folder.convert(&["--json"], &format!("kind: Namespace\n---\n{POD}---\n{mistyped}"));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 1);
    assert!(out.starts_with("{\n  \"schema\": 1,"), "{out}");
    let totals = serde_json::json!({"passed": 1, "unchanged": 1, "converted": 0, "refused": 1});
    assert_eq!(report["totals"], totals);
    let documents = &report["files"][0]["documents"];
    assert_eq!(documents[1]["containers"][0]["memory_bytes"], 4_294_967_296_u64);
    assert_eq!(documents[2]["notes"][0]["code"], "unknown-key");
}

#[test]
fn a_directory_is_its_manifests_in_their_order() {
    let folder = Folder::new("directory");
    fs::create_dir_all(folder.0.join("m/deeper")).unwrap();
    let named = |name: &str| POD.replace("name: p}", &format!("name: {name}}}"));
    for (file, name) in [("b.yml", "second"), ("a.yaml", "first"), ("c.json", "third")] {
        folder.save(&format!("m/{file}"), &named(name));
    }
    folder.save("m/notes.txt", "a: [");
    folder.save("m/deeper/d.yaml", "a: [");
    let (code, out, told) = folder.convert(&["m"], "");
    let at = |name: &str| out.find(&format!("name: {name}\n")).unwrap_or_else(|| panic!("{out}"));
    assert!(code == 0 && told.is_empty(), "{told}");
    assert!(at("first") < at("second") && at("second") < at("third"), "{out}");
    let (code, _, told) = folder.convert(&["--out", "claims", "m"], "");
    assert_eq!((code, &*told), (0, ""));
    assert_eq!(fs::read_dir(folder.0.join("claims")).unwrap().count(), 3);
    let (code, _, told) = folder.convert(&["m/deeper", "--out", "m/deeper"], "");
    assert!(code == 2 && told.contains("m/deeper/d.yaml is one of the inputs"), "{told}");
    fs::create_dir(folder.0.join("empty")).unwrap();
    let (code, out, told) = folder.convert(&["empty"], "");
    assert!(code == 2 && out.is_empty() && told.contains("empty has no .yaml"), "{told}");
}

#[test]
fn a_template_of_helms_is_named_as_one() {
    let folder = Folder::new("helm");
    for (text, line) in [
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n", 4),
        ("{{- if .Values.gpu }}\nkind: Pod\n{{- end }}\n", 1),
    ] {
        let (code, out, told) = folder.convert(&["-"], text);
        assert!(code == 2 && out.is_empty(), "{told}");
        let begin = format!("divvy-kube: -:{line}: ");
        assert!(
            told.starts_with(&begin) && told.contains("render it first: helm template"),
            "{told}"
        );
    }
    let quoted = POD.replace("4096", "\"{{ .Values.memory }}\"");
    let (code, _, told) = folder.convert(&[], &quoted);
    assert!(code == 1 && told.contains("render the template first"), "{told}");
    let (code, _, told) = folder.convert(&[], "a: 1\na: 2\n");
    assert!(code == 2 && !told.contains("helm"), "{told}");
}

#[test]
fn a_size_that_is_none_is_refused_before_anything_is_read() {
    let folder = Folder::new("size");
    for size in ["80", "50%", "0", "many", "1KiB"] {
        let (code, _, told) = folder.convert(&["--card-memory", size, "none.yaml"], "");
        assert!(code == 2 && told.contains(size), "{told}");
    }
    for line in
        [["--default-memory", "8GiB"], ["--default-cores", "101"], ["--default-memory", "1.5"]]
    {
        let (code, _, told) = folder.convert(&line, "");
        assert!(code == 2 && told.contains(line[0]), "{told}");
    }
    let whole = POD.replace(", nvidia.com/gpumem: 4096, nvidia.com/gpucores: 10", "");
    let (code, out, _) =
        folder.convert(&["--default-memory", "4096", "--default-cores", "10"], &whole);
    assert!(code == 0 && out.contains("name: gpu-4096mi-10c"), "{out}");
    let (code, _, told) = folder.convert(&["--card-memroy", "80GiB"], "");
    assert!(code == 2 && told.contains("--card-memory"), "{told}");
    let (code, out, _) = folder.convert(&["--help"], "");
    assert!(code == 0 && out.contains("Exit codes:"), "{out}");
}

#[test]
fn a_cluster_that_renamed_its_resources_is_read() {
    let folder = Folder::new("renamed");
    let pod = POD.replace("nvidia.com/gpumem: 4096", "example.com/vgpu-memory: 4096");
    let (code, out, told) = folder.convert(&[], &pod);
    assert!(
        code == 0 && out.contains("name: gpu-whole-10c") && told.contains("[part-unread]"),
        "{told}"
    );
    assert!(told.contains("--resource-name gpumem=example.com/vgpu-memory"), "{told}");
    let option = ["--resource-name", "gpumem=example.com/vgpu-memory"];
    let (code, out, told) = folder.convert(&option, &pod);
    assert!(code == 0 && out.contains("name: gpu-4096mi-10c") && told.is_empty(), "{told}");
    folder.save("values.yaml", "resourceMem: example.com/vgpu-memory\ndefaultCores: 20\n");
    let open = pod.replace(", nvidia.com/gpucores: 10", "");
    let (code, out, told) = folder.convert(&["--hami-config", "values.yaml"], &open);
    assert!(code == 0 && out.contains("name: gpu-4096mi-20c"), "{told}");
    folder.save("empty.yaml", "a: b\n");
    for (line, words) in [
        (["--resource-name", "gpumem"], "KEY=NAME"),
        (["--hami-config", "empty.yaml"], "--hami-config: empty.yaml: it has no settings"),
    ] {
        let (code, _, told) = folder.convert(&line, "");
        assert!(code == 2 && told.contains(words), "{told}");
    }
}

#[test]
fn names_that_a_terminal_would_obey_are_shown_by_their_numbers() {
    let folder = Folder::new("escape");
    let input = POD.replace("name: p}", "name: \"p\\e[2J\"}").replace("4096", "0");
    let (_, _, told) = folder.convert(&[], &input);
    assert!(told.contains("p\\u{1b}[2J") && !told.contains('\u{1b}'), "{told}");
}

#[test]
fn a_file_without_an_end_is_read_as_far_as_one_is_taken() {
    let folder = Folder::new("endless");
    let (code, out, told) = folder.convert(&["/dev/zero"], "");
    assert_eq!((code, &*out), (2, ""), "{told}");
    assert!(told.contains("/dev/zero") && told.contains("more than 16 MiB"), "{told}");
}

#[test]
fn a_reader_that_has_gone_ends_it_quietly() {
    let folder = Folder::new("pipe");
    folder.save("a.yaml", &format!("{POD}---\n").repeat(4000));
    let mut child = Command::new(env!("CARGO_BIN_EXE_divvy-kube"))
        .args(["convert", "a.yaml"])
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(141) && told.is_empty(), "{told}");
}
