//! Programs that replace what the library could ask of its process, and those built with sanitizers, start and are limited.
//!
//! Each is played as a program and as a library that is loaded behind ours, with a limit and without: sanitizers, allocators,
//! Go, and a program for each function of the C library, which looks the next one up by `dlsym` and ends the process where
//! that comes back to it, or where the library under test calls it. What a compiler or a package lacks here is a counted skip.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Finished, GIB, MIB, Machine, build_program, finish, root, stage};

/// Functions that are replaced, one at a time: what the library asked the C library for once, what it finds there at run time, and
/// what programs of this kind replace.
const FUNCTIONS: [&str; 27] = [
    "__errno_location",
    "bcmp",
    "calloc",
    "close",
    "dl_iterate_phdr",
    "dladdr",
    "dlinfo",
    "dlmopen",
    "dlopen",
    "dlsym",
    "dlvsym",
    "free",
    "getauxval",
    "getenv",
    "malloc",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "mmap",
    "open",
    "pthread_create",
    "pthread_detach",
    "read",
    "realloc",
    "strcmp",
    "strlen",
];
/// Variables of the C library and of the dynamic linker, replaced by zeroes.
const DATA: [&str; 4] = ["environ", "__environ", "_r_debug", "_dl_debug_addr"];

/// A limit below the large block of `begin.c`.
const LIMIT_BYTES: u64 = 700 * MIB;
const _: () = assert!(LIMIT_BYTES < GIB);

fn source(name: &str) -> PathBuf {
    root().join("tests/e2e/beginnings").join(name)
}

/// The program that is given a small block and asks for a large one, with `flags` for gcc.
fn program(name: &str, more: &[PathBuf], flags: &[&str]) -> PathBuf {
    let flags = [&["-fno-builtin", "-Wno-builtin-declaration-mismatch"], flags].concat();
    build_program(name, &source("begin.c"), more, &flags)
}

/// `own.c` with one name replaced, as a library.
fn library(name: &str, flags: &[&str]) -> PathBuf {
    let flags = [&["-shared", "-fPIC", "-fno-builtin", "-ftls-model=initial-exec"], flags].concat();
    build_program(&format!("lib{name}.so"), &source("own.c"), &[], &flags)
}

/// Starts a program without a limit and with one; the library is preloaded first, and `behind` after it.
#[track_caller]
fn starts(what: &str, program: &Path, behind: &[&Path], variables: &[(&str, &str)]) {
    for limited in [false, true] {
        let machine = Machine::new();
        let machine = if limited { machine.limited(LIMIT_BYTES) } else { machine };
        let told = play(&machine, program, behind, variables);
        let wanted = if limited { "small 0 large 2\n" } else { "small 0 large 0\n" };
        assert_eq!((told.code(), &*told.out), (Some(0), wanted), "{what}, {limited}: {told}");
    }
}

fn play(
    machine: &Machine,
    program: &Path,
    behind: &[&Path],
    variables: &[(&str, &str)],
) -> Finished {
    let mut command = machine.command(program);
    let mut preload = stage().join("lib/libdivvy.so").into_os_string();
    for library in behind {
        preload.push(":");
        preload.push(library);
    }
    command.env("LD_PRELOAD", preload).envs(variables.iter().copied());
    finish(&mut command)
}

#[test]
fn no_function_that_a_program_replaces_is_called() {
    let plain = program("begin", &[], &[]);
    starts("plain", &plain, &[], &[]);
    let names = FUNCTIONS.map(|name| (name, false)).into_iter();
    for (name, is_data) in names.chain(DATA.map(|name| (name, true))) {
        let define = format!("-DNAME=\"{name}\"");
        let flags: &[&str] = if is_data { &[&define, "-DDATA"] } else { &[&define] };
        let own = program(
            &format!("begin-{name}"),
            &[source("own.c")],
            &[&["-rdynamic"], flags].concat(),
        );
        starts(&format!("{name} of the program"), &own, &[], &[]);
        let library = library(&format!("own-{name}"), flags);
        starts(&format!("{name} of a library behind"), &plain, &[&library], &[]);
    }
}

/// Where gcc has a library of that name, and the name a program asks for it by.
fn of_gcc(name: &str) -> Option<PathBuf> {
    let output = Command::new("gcc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then(|| path.canonicalize().ok())?
}

#[test]
fn programs_with_sanitizers_start() {
    let plain = program("begin", &[], &[]);
    for (sanitizer, runtime) in
        [("thread", "libtsan.so"), ("undefined", "libubsan.so"), ("leak", "liblsan.so")]
    {
        let Some(runtime) = of_gcc(runtime) else {
            println!("SKIPPED -fsanitize={sanitizer}: gcc has no {runtime}");
            continue;
        };
        let flag = format!("-fsanitize={sanitizer}");
        // A tracer of ours would be one too many; what is tested is the start.
        let quiet = [("LSAN_OPTIONS", "detect_leaks=0"), ("TSAN_OPTIONS", "report_bugs=0")];
        let shared = program(&format!("begin-{sanitizer}"), &[], &[&flag]);
        starts(&flag, &shared, &[], &quiet);
        let inside = format!("-static-lib{}san", &sanitizer[..1].replace('u', "ub"));
        let statically = program(&format!("begin-{sanitizer}-in"), &[], &[&flag, &inside]);
        // Of some versions of gcc and glibc such a program does not start by itself either.
        let mut alone = Machine::new().native().command(&statically);
        match finish(alone.envs(quiet)).code() {
            Some(0) => starts(&inside, &statically, &[], &quiet),
            _ => println!("SKIPPED {inside}: such a program does not start without Divvy here"),
        }
        starts(&format!("{} behind", runtime.display()), &plain, &[&runtime], &quiet);
    }
}

#[test]
fn programs_of_memory_sanitizer_start() {
    if Command::new("clang").arg("--version").output().is_err() {
        println!("SKIPPED -fsanitize=memory: there is no clang; `apt-get install clang` brings it");
        return;
    }
    let machine = Machine::new();
    let built = machine.home().join("begin-memory");
    let made = Command::new("clang")
        .args(["-fsanitize=memory", "-fno-builtin", "-o"])
        .arg(&built)
        .arg(source("begin.c"))
        .output()
        .expect("clang runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    starts("-fsanitize=memory", &built, &[], &[]);
}

#[test]
fn a_program_of_address_sanitizer_starts_where_its_check_of_order_is_off() {
    let Some(runtime) = of_gcc("libasan.so") else {
        println!("SKIPPED -fsanitize=address: gcc has no libasan.so");
        return;
    };
    let shared = program("begin-address", &[], &["-fsanitize=address"]);
    let off = [("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0")];
    starts("-fsanitize=address", &shared, &[], &off);
    let inside = program("begin-address-in", &[], &["-fsanitize=address", "-static-libasan"]);
    starts("-static-libasan", &inside, &[], &[("ASAN_OPTIONS", "detect_leaks=0")]);
    let plain = program("begin", &[], &[]);
    starts("libasan.so behind", &plain, &[&runtime], &off);
}

#[test]
fn allocators_start() {
    let places =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let plain = program("begin", &[], &[]);
    for (name, package) in [
        ("libjemalloc.so.2", "libjemalloc2"),
        ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
        ("libmimalloc.so.2", "libmimalloc2.0"),
    ] {
        let found =
            places.iter().map(|place| Path::new(place).join(name)).find(|path| path.exists());
        let Some(found) = found else {
            println!("SKIPPED {name}: it is not here; `apt-get install {package}` brings it");
            continue;
        };
        starts(&format!("{name} behind"), &plain, &[&found], &[]);
        let linked = program(
            &format!("begin-{package}"),
            std::slice::from_ref(&found),
            &["-Wl,--no-as-needed"],
        );
        starts(&format!("{name} needed"), &linked, &[], &[]);
    }
}

#[test]
fn programs_in_go_start() {
    let machine = Machine::new();
    let plain = machine.home().join("plain-go");
    let text = machine.home().join("plain.go");
    std::fs::write(&text, "package main\nfunc main() { println(\"begun\") }\n").expect("a file");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&plain).arg(&text).env("CGO_ENABLED", "0");
    if go.output().is_ok_and(|made| made.status.success()) {
        let told = play(&machine, &plain, &[], &[]);
        assert_eq!((told.code(), told.err.contains("begun")), (Some(0), true), "{told}");
    }
    let built = machine.home().join("begin-go");
    let made = Command::new("go")
        .args(["build", "-o"])
        .arg(&built)
        .arg(source("main.go"))
        .env("CGO_ENABLED", "1")
        .env("GOFLAGS", "-mod=mod")
        .output();
    let Ok(made) = made else {
        println!("SKIPPED programs_in_go_start: there is no go");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for machine in [&machine, &Machine::new().limited(LIMIT_BYTES)] {
        let told = play(machine, &built, &[], &[]);
        assert_eq!((told.code(), &*told.out), (Some(0), "init 0\n"), "{told}");
    }
}

#[test]
fn divvy_run_starts_a_program_of_address_sanitizer() {
    if of_gcc("libasan.so").is_none() {
        println!("SKIPPED divvy_run_starts_a_program_of_address_sanitizer: gcc has no libasan.so");
        return;
    }
    let machine = Machine::new().native().with("ASAN_OPTIONS", "detect_leaks=0");
    let program = program("begin-address", &[], &["-fsanitize=address"]);
    let path = program.to_str().expect("a path in UTF-8");
    let mut command = machine.divvy(&["run", "--no-daemon", "--memory", "700MiB", "--", path]);
    let told = finish(&mut command);
    assert_eq!((told.code(), &*told.out), (Some(0), "small 0 large 2\n"), "{told}");
    let told = finish(&mut machine.divvy(&["doctor", "--", path]));
    assert!(told.out.contains("DV025") && told.out.contains("verify_asan_link_order=0"), "{told}");
}

#[test]
fn doctor_says_where_limits_reach_no_program() {
    let library = stage().join("lib/libdivvy.so");
    let library = library.to_str().expect("a path in UTF-8");
    let told = |variables: &[(&str, &str)], words: &[&str]| {
        let machine = variables
            .iter()
            .fold(Machine::new().native(), |machine, pair| machine.with(pair.0, pair.1));
        finish(machine.divvy(&[&["doctor"], words].concat()).current_dir(stage()))
    };
    let quiet = told(&[("DIVVY_MEMORY", "1GiB"), ("LD_PRELOAD", library)], &[]);
    assert!(quiet.out.contains("Nothing stands in the way"), "{quiet}");
    let with = |limit: &'static str, value: &'static str, preload: &'static str| {
        told(
            &[(limit, value), ("LD_PRELOAD", if preload == "ours" { library } else { preload })],
            &[],
        )
    };
    for (bad, words) in [
        (told(&[("DIVVY_MEMORY", "1GiB")], &[]), "limits nothing: libdivvy.so is not preloaded"),
        (with("DIVVY_MEMORY", "1GiB", "/nonexistent/libdivvy.so"), "does not exist"),
        (with("DIVVY_MEMORY", "1GiB", "lib/nothing.so"), "does not exist"),
        (with("DIVVY_MEMORY", "1GiB", "lib/libdivvy.so"), "found from this directory alone"),
        (with("DIVVY_MEMORY_7", "1GiB", "ours"), "names device 7, which is not there"),
        (with("DIVVY_COMPUTE_7", "30%", "ours"), "names device 7, which is not there"),
        (with("DIVVY_MEMORY", "300MiB", "ours"), "that a context takes"),
        (told(&[], &["--", "env", "-i", "sh"]), "empties the environment"),
        (told(&[], &["--", "env", "-u", "LD_PRELOAD", "sh"]), "takes LD_PRELOAD away"),
    ] {
        assert!(bad.out.contains(words) && bad.code() == Some(1), "{words}: {bad}");
        assert!(!bad.out.contains("Nothing stands in the way"), "{bad}");
    }
}
