//! How a call reaches the shim, proved on the library itself with a driver of eight entry points.
//!
//! The library is built in release mode, preloaded into C programs, and these say in whose code the
//! addresses lie that they were given. What hooks then do is tested end to end elsewhere.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use divvy_abi::config::{Config, FLAG_STRICT};

/// Where the library, the driver and the clients lie.
struct Built {
    folder: PathBuf,
    shim: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("interpose");
        std::fs::create_dir_all(&folder).expect("a folder for the fixtures");
        let target = folder.join("target");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--release", "--package", "divvy-shim", "--target-dir"])
            .arg(&target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the shim builds");
        let shim = folder.join("libdivvy.so");
        std::fs::copy(target.join("release/libdivvy.so"), &shim).expect("the shim is there");

        let library = |source: &str, name: &str, more: &[&str]| {
            let mut arguments = vec!["-shared", "-fPIC"];
            arguments.extend_from_slice(more);
            compile(&folder, source, name, &arguments);
        };
        library("driver.c", "libcuda.so.1", &["-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"]);
        library("management.c", "libnvidia-ml.so.1", &["-Wl,-soname,libnvidia-ml.so.1"]);
        std::fs::create_dir_all(folder.join("versioned")).expect("a folder");
        let versions = folder.join("versions");
        std::fs::write(&versions, "DRIVER_1 { global: *; };").expect("a version script");
        let script = format!("-Wl,--version-script,{}", versions.display());
        let versioned = ["-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", &script];
        library("driver.c", "versioned/libcuda.so.1", &versioned);
        library("second.c", "libsecond.so", &[]);
        std::fs::create_dir_all(folder.join("deeper")).expect("a folder");
        library("second.c", "deeper/libneighbour.so", &[]);
        library("auditor.c", "libauditor.so", &[]);
        library("caller.c", "deeper/libcaller.so", &["-Wl,-rpath,$ORIGIN", "-ldl"]);
        let place = folder.to_str().expect("a path in UTF-8").to_owned();
        let search = format!("-L{place}");
        library("first.c", "libfirst.so", &["-Wl,--no-as-needed", &search, "-lsecond"]);
        compile(&folder, "client.c", "client", &["-ldl", "-lpthread"]);
        compile(&folder, "linked.c", "linked", &[&search, "-l:libcuda.so.1", "-ldl"]);
        Built { folder, shim }
    })
}

fn compile(folder: &Path, source: &str, name: &str, arguments: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(source);
    let status = Command::new("gcc")
        .args(["-O1", "-Wall", "-o"])
        .arg(folder.join(name))
        .arg(&source)
        .args(arguments)
        .status()
        .expect("gcc runs");
    assert!(status.success(), "{} compiles", source.display());
}

/// A program under the shim, without any variable of ours.
fn program(name: &str) -> Command {
    let built = built();
    let mut command = Command::new(built.folder.join(name));
    command.env_clear().env("LD_LIBRARY_PATH", &built.folder).env("LD_PRELOAD", &built.shim);
    command
}

/// As [`program`], with a limit.
fn limited(name: &str) -> Command {
    let mut command = program(name);
    let tenant = built().folder.join("tenant");
    command.env("DIVVY_MEMORY", "1GiB").env("CUDA_DEVICE_MEMORY_SHARED_CACHE", tenant);
    command
}

fn run(command: &mut Command) -> (String, String) {
    let output = command.output().expect("the client runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    (out, err)
}

fn answers(command: &mut Command) -> BTreeMap<String, String> {
    let (out, _) = run(command);
    out.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(what, answer)| (what.to_owned(), answer.to_owned()))
        .collect()
}

#[track_caller]
fn expect(answers: &BTreeMap<String, String>, wanted: &[(&str, &str)]) {
    for (what, answer) in wanted {
        assert_eq!(answers.get(*what).map(String::as_str), Some(*answer), "{what} in {answers:#?}");
    }
}

#[test]
fn a_handle_gives_hooks_for_what_the_driver_has_and_nothing_else() {
    let answers = answers(limited("client").arg("by_handle"));
    expect(
        &answers,
        &[
            ("cuInit", "libdivvy.so"),
            ("cuMemAlloc_v2", "libdivvy.so"),
            ("cuGetProcAddress_v2", "libdivvy.so"),
            ("cuDeviceGetPCIBusId", "libcuda.so.1"),
            ("cuMemFromTheFuture", "libcuda.so.1"),
            ("cuMemCreate", "null error"),
            ("curl_easy_init", "null error"),
            ("cu", "null error"),
            ("", "null error"),
        ],
    );
}

#[test]
fn a_program_without_a_limit_gets_the_drivers_own_addresses() {
    let answers = answers(program("client").arg("by_handle"));
    expect(
        &answers,
        &[
            ("cuInit", "libcuda.so.1"),
            ("cuMemAlloc_v2", "libcuda.so.1"),
            ("cuGetProcAddress_v2", "libcuda.so.1"),
            ("cuMemCreate", "null error"),
        ],
    );
}

#[test]
fn the_drivers_answers_are_mapped_by_address() {
    let mut command = limited("client");
    let (out, err) = run(command.arg("by_driver").env("DIVVY_LOG", "warn"));
    let wanted = "cuInit=libdivvy.so 0 0\n\
        cuMemAlloc=libdivvy.so 0 0\n\
        cuDeviceGetPCIBusId=libcuda.so.1 0 0\n\
        cuMemFromTheFuture=libcuda.so.1 0 0\n\
        cuGetProcAddress=libdivvy.so 0 0\n\
        cuNothing=null 500 1\n";
    assert_eq!(out, wanted);
    let told = err.lines().filter(|line| line.contains("UNCOVERED: cuMemFromTheFuture")).count();
    assert_eq!(told, 1, "named once: {err}");
}

#[test]
fn a_strict_tenant_refuses_names_of_memory_families_that_are_not_known() {
    let directory = built().folder.join("strict");
    std::fs::create_dir_all(&directory).expect("a folder");
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).expect("a mode");
    let name = CString::new(directory.as_os_str().as_bytes()).expect("no NUL");
    let config = Config { flags: FLAG_STRICT, ..Config::default() };
    let opened = divvy_page::Directory::open(&name).expect("it was made");
    divvy_page::reader::write_config(&opened, &config).expect("a config");
    let mut command = program("client");
    let answers = answers(command.arg("newer").env("DIVVY_TENANT", &directory));
    expect(
        &answers,
        &[
            ("cuMemFromTheFuture", "null 500 1"),
            ("cuIpcFromTheFuture", "null 500 1"),
            ("cuSurfFromTheFuture", "libcuda.so.1 0 0"),
        ],
    );
}

#[test]
fn the_passive_driver_answers_for_itself() {
    let (out, err) = run(program("client").arg("by_driver").env("DIVVY_LOG", "debug"));
    assert!(!out.contains("libdivvy"), "{out}");
    assert_eq!(err, "");
}

#[test]
fn a_version_is_passed_on() {
    // A search for a version finds no name that has none.
    let answers = answers(limited("client").arg("by_version"));
    expect(&answers, &[("cuInit", "null"), ("fopen", "libc.so.6")]);
    let mut command = limited("client");
    command.arg("by_version").env("LD_LIBRARY_PATH", built().folder.join("versioned"));
    expect(&self::answers(&mut command), &[("cuInit", "libdivvy.so")]);
}

#[test]
fn searches_start_at_the_caller() {
    let answers = answers(limited("client").arg("searched"));
    expect(
        &answers,
        &[
            ("open", "1"),
            ("default cuInit", "libdivvy.so"),
            ("next cuInit", "libdivvy.so"),
            ("thing", "12"),
            ("own", "1"),
        ],
    );
}

#[test]
fn a_new_namespace_meets_the_hooks_first() {
    let answers = answers(limited("client").arg("spaces"));
    expect(
        &answers,
        &[
            ("thing", "2"),
            ("cuInit", "libdivvy.so"),
            ("same", "0"),
            ("cuDeviceGetPCIBusId", "libcuda.so.1"),
            ("null", "1"),
            ("global", "1"),
            ("closed", "64"),
        ],
    );
    let objects = answers.get("objects").expect("a list");
    assert!(objects.starts_with("libdivvy.so libc.so.6"), "{objects}");
    assert!(objects.trim_end().ends_with("libsecond.so libcuda.so.1"), "{objects}");
}

#[test]
fn a_namespace_of_a_program_without_a_limit_is_its_own() {
    let answers = answers(program("client").arg("spaces"));
    expect(&answers, &[("cuInit", "libcuda.so.1"), ("null", "1"), ("closed", "64")]);
    let objects = answers.get("objects").expect("a list");
    assert!(!objects.contains("libdivvy"), "{objects}");
}

#[test]
fn auditors_are_left_alone() {
    let auditor = built().folder.join("libauditor.so");
    for act in ["by_handle", "searched", "spaces", "found_by_caller"] {
        let mut audited = limited("client");
        audited.arg(act).env("LD_AUDIT", &auditor);
        assert_eq!(run(&mut audited).0, run(limited("client").arg(act)).0, "{act}");
    }
}

#[test]
fn libraries_are_found_by_who_loads_them() {
    for mut command in [program("client"), limited("client")] {
        let answers = answers(command.arg("found_by_caller"));
        expect(&answers, &[("found", "8"), ("main", "1")]);
    }
}

#[test]
fn a_linked_program_meets_the_hooks_first() {
    for mut command in [program("linked"), limited("linked")] {
        let (out, _) = run(&mut command);
        assert_eq!(out, "cuInit=libdivvy.so 777\ncuDeviceGetPCIBusId=libcuda.so.1 0\n");
    }
}

#[test]
fn nvml_is_met_where_its_answers_are_changed() {
    let answers = answers(limited("client").arg("by_nvml"));
    expect(
        &answers,
        &[
            ("nvmlInit_v2", "libnvidia-ml.so.1"),
            ("nvmlDeviceGetMemoryInfo", "libdivvy.so"),
            ("nvmlDeviceGetMemoryInfo_v2", "null"),
        ],
    );
}

#[test]
fn without_a_driver_there_is_no_device() {
    for mut command in [program("client"), limited("client")] {
        let answers = answers(command.arg("absent"));
        expect(
            &answers,
            &[("cuInit", "libdivvy.so 100"), ("nvmlDeviceGetMemoryInfo", "libdivvy.so 13")],
        );
    }
}

#[test]
fn calls_after_main_reach_the_driver() {
    let answers = answers(limited("client").arg("at_exit"));
    let wanted = ["main cuInit", "exit cuInit", "destructor cuInit"].map(|what| (what, "777"));
    expect(&answers, &wanted);
}

#[test]
fn a_driver_loaded_anew_is_found_anew() {
    let (out, _) = run(limited("client").arg("reloaded"));
    assert_eq!(out, "cuInit=libdivvy.so 777\ngone=1\n".repeat(5));
}

#[test]
fn closing_the_shim_does_no_harm() {
    let answers = answers(limited("client").arg("closed"));
    expect(&answers, &[("cuInit", "libdivvy.so 777")]);
}

#[test]
fn threads_and_forks_look_up_at_once() {
    let answers = answers(limited("client").arg("threads"));
    expect(&answers, &[("threads", "0")]);
}

#[test]
fn of_two_copies_the_first_works_and_the_second_steps_aside() {
    let built = built();
    let second = built.folder.join("libvgpu.so");
    std::fs::copy(&built.shim, &second).expect("a copy under HAMi-core's name");
    let both = format!("{}:{}", built.shim.display(), second.display());
    let answers = answers(limited("client").arg("by_handle").env("LD_PRELOAD", both));
    expect(&answers, &[("cuInit", "libdivvy.so"), ("cuDeviceGetPCIBusId", "libcuda.so.1")]);
    let (out, _) = run(limited("linked").env("LD_PRELOAD", &second));
    assert_eq!(out, "cuInit=libvgpu.so 777\ncuDeviceGetPCIBusId=libcuda.so.1 0\n");
}

/// Names in code style of the first cell of each row of the page's table, and how each is taken.
fn taken() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/isolation.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let (_, table) = page.split_once("| taken | how |").expect("a table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let how = cells[2].to_owned();
        let names = cells[1].split('`').skip(1).step_by(2).map(str::to_owned);
        names.map(move |name| (name, how.clone())).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn the_page_lists_all_that_is_taken_from_a_process() {
    let output = Command::new("nm")
        .args(["-D", "--undefined-only"])
        .arg(&built().shim)
        .output()
        .expect("nm runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut imports: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().last()?.split('@').next()).collect();
    imports.sort_unstable();
    let here = |how: &str| how.contains("symbol") && !how.contains("arm64");
    let taken = taken();
    let mut listed: Vec<&str> =
        taken.iter().filter(|(_, how)| here(how)).map(|(name, _)| name.as_str()).collect();
    listed.sort_unstable();
    assert_eq!(imports, listed);
    // Those that are found at run time, by their names in the sources.
    let mut found = Vec::new();
    for folder in ["src/sys", "src/sys/door"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for file in std::fs::read_dir(folder).expect("sources").flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            for begin in ["in_c_library(&", "real(&", "object.function("] {
                found.extend(text.split(begin).skip(1).filter_map(|rest| {
                    let call = rest.split(')').next()?;
                    Some(call.split("b\"").nth(1)?.split('"').next()?.to_owned())
                }));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    let mut listed: Vec<String> = taken
        .into_iter()
        .filter(|(_, how)| how == "C library's table")
        .map(|(name, _)| name)
        .collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
}

#[test]
fn nothing_happens_at_load() {
    for variables in [&[][..], &[("DIVVY_MEMORY", "1GiB"), ("DIVVY_LOG", "debug")]] {
        let run = |preload: bool| {
            let mut command = program("client");
            command.arg("untouched").envs(variables.iter().copied());
            if !preload {
                command.env_remove("LD_PRELOAD");
            }
            run(&mut command)
        };
        assert_eq!(run(true), run(false));
    }
}

#[test]
fn no_panic_can_be_reached() {
    // In the same target directory, where only the shim itself is compiled again.
    let target = built().folder.join("target");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--package", "divvy-shim"])
        .args(["--features", "prove-no-panic", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the release build links without a panic handler");
}
