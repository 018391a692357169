//! Which module imports which: in no crate does a circle of imports stand, the library's floors import downwards only, and
//! crates import each other as CONTRIBUTING says; and a type's name that crosses from one to another means one thing.
//!
//! An import is a `use`, or a path in code, from one file's module to another's; what tests import does not count, nor
//! what a macro's body names. A `use` of what a parent re-exports is an import of the parent.
//!
//! Does not see a method that is called without its type's name: who calls what is for readers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::Visit;

/// Crates whose modules are looked at.
const SOURCES: [&str; 11] = [
    "crates/abi/src",
    "crates/bench/src",
    "crates/divvy/src",
    "crates/driver-api/src",
    "crates/kube/src",
    "crates/page/src",
    "crates/policy/src",
    "crates/searcher/src",
    "crates/shim/src",
    "crates/simgpu/src",
    "xtask/src",
];

/// A module's path within its crate, `a::b`; the root is empty.
type Module = String;
type Graph = BTreeMap<Module, BTreeSet<Module>>;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files below `folder`, as module paths and texts.
fn modules(folder: &Path) -> BTreeMap<Module, String> {
    fn walk(at: &Path, path: &[String], found: &mut BTreeMap<Module, String>) {
        for entry in fs::read_dir(at).expect("a folder of sources") {
            let file = entry.expect("an entry").path();
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            if file.is_dir() {
                walk(&file, &[path, &[name]].concat(), found);
            } else if file.extension().is_some_and(|ending| ending == "rs") {
                let is_own = !["mod", "lib", "main"].contains(&name.as_str());
                let of = if is_own { [path, &[name]].concat() } else { path.to_vec() };
                found.insert(of.join("::"), fs::read_to_string(&file).expect("a source"));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, &[], &mut found);
    found
}

/// Names in one module, as paths of segments.
#[derive(Default)]
struct Named(Vec<Vec<String>>);

impl Named {
    fn add_use(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_use(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.0.push(with(&name.ident)),
            syn::UseTree::Rename(name) => self.0.push(with(&name.ident)),
            syn::UseTree::Glob(_) => self.0.push(before.to_vec()),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add_use(before, item));
            }
        }
    }
}

/// Whether an item is there for tests alone: `#[cfg(test)]`, `#[cfg(all(test, …))]`.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let words = list.tokens.to_string();
        list.path.is_ident("cfg")
            && (words == "test" || words.replace(' ', "").starts_with("all(test"))
    })
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.add_use(&[], &item.tree);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {
        // `pub(in …)` names a module and imports nothing.
    }
}

/// The module that a path names from within `from`, if it is one of the crate's.
fn target<'a>(
    all: &'a BTreeMap<Module, String>,
    from: &str,
    path: &[String],
) -> Option<&'a Module> {
    let mut at: Vec<String> =
        from.split("::").filter(|part| !part.is_empty()).map(Into::into).collect();
    let mut rest = path;
    let mut is_outward = false;
    while let Some((first, others)) = rest.split_first() {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        is_outward |= first != "self";
        rest = others;
    }
    at.extend_from_slice(rest);
    while !at.is_empty() {
        if let Some((module, _)) = all.get_key_value(&at.join("::")) {
            // A name that a module finds in its own file is no import.
            let is_within = from == module || (!is_outward && is_below(from, module));
            return (!is_within).then_some(module);
        }
        at.pop();
    }
    None
}

fn is_below(module: &str, above: &str) -> bool {
    module.strip_prefix(above).is_some_and(|rest| rest.starts_with("::"))
}

fn graph(all: &BTreeMap<Module, String>) -> Graph {
    let mut graph = Graph::new();
    for (module, text) in all {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{module}: {error}"));
        let mut named = Named::default();
        named.visit_file(&file);
        let targets = named.0.iter().filter_map(|path| target(all, module, path));
        graph.insert(module.clone(), targets.cloned().collect());
    }
    graph
}

/// Modules that lie on circles, or between two of them.
fn circles(mut graph: Graph) -> Graph {
    loop {
        let left: BTreeSet<Module> = graph.keys().cloned().collect();
        let named: BTreeSet<Module> = graph.values().flatten().cloned().collect();
        graph.values_mut().for_each(|targets| targets.retain(|target| left.contains(target)));
        graph.retain(|module, targets| !targets.is_empty() && named.contains(module));
        if graph.len() == left.len() {
            return graph;
        }
    }
}

fn told(of: &str, graph: &Graph) -> Vec<String> {
    let told = |(module, targets): (&Module, &BTreeSet<Module>)| {
        let targets = targets.iter().cloned().collect::<Vec<_>>().join(", ");
        format!("{of}: {module} imports {targets}")
    };
    graph.iter().map(told).collect()
}

#[test]
fn no_imports_run_in_a_circle() {
    let circles = |folder: &&str| told(folder, &circles(graph(&modules(&root().join(folder)))));
    let broken: Vec<_> = SOURCES.iter().flat_map(circles).collect();
    assert!(broken.is_empty(), "modules that import each other:\n{}", broken.join("\n"));
}

/// The same of the folders, and single files, right below a crate's root; but for tests, and the library's [`DOOR`].
fn rooms(graph: &Graph) -> Graph {
    let room = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut rooms = Graph::new();
    let counts = |module: &str| {
        let is_test = module == "tests" || module.ends_with("::tests");
        !module.is_empty() && !is_test && module != DOOR && !is_below(module, DOOR)
    };
    for (module, targets) in graph.iter().filter(|(module, _)| counts(module)) {
        let others = targets.iter().map(|target| room(target)).filter(|of| *of != room(module));
        rooms.entry(room(module)).or_default().extend(others.filter(|of| !of.is_empty()));
    }
    rooms
}

#[test]
fn no_folders_import_in_a_circle() {
    let circles =
        |folder: &&str| told(folder, &circles(rooms(&graph(&modules(&root().join(folder))))));
    let broken: Vec<_> = SOURCES.iter().flat_map(circles).collect();
    assert!(broken.is_empty(), "folders that import each other:\n{}", broken.join("\n"));
}

/// Floors of the library, from below: each imports of its own and of those before it.
const FLOORS: [&str; 7] = ["sys", "tenant", "residence", "gate", "handover", "account", "hooks"];
/// The library's entry points for the loader: unsafe, so in the lowest room, though they name hooks. Nobody imports it.
const DOOR: &str = "sys::door";

/// Imports that run up.
fn upwards(graph: &Graph) -> Vec<String> {
    let floor = |module: &str| {
        if module == DOOR || is_below(module, DOOR) {
            return Some(FLOORS.len());
        }
        FLOORS.iter().position(|floor| module.split("::").next() == Some(floor))
    };
    let mut broken = Vec::new();
    for (module, targets) in graph {
        let Some(own) = floor(module) else { continue };
        let up = |target: &&Module| floor(target).is_some_and(|of| of > own);
        broken.extend(targets.iter().filter(up).map(|target| format!("{module} imports {target}")));
    }
    broken
}

#[test]
fn floors_of_the_library_import_downwards() {
    let shim = modules(&root().join("crates/shim/src"));
    for room in [&FLOORS[..], &[DOOR]].concat() {
        let stands = |module: &Module| module == room || is_below(module, room);
        assert!(shim.keys().any(stands), "no room {room} in the library");
    }
    let broken = upwards(&graph(&shim));
    assert!(broken.is_empty(), "imports that run up:\n{}", broken.join("\n"));
}

/// A small crate of such modules.
fn planted(files: &[(&str, &str)]) -> Graph {
    let all = files.iter().map(|(module, text)| ((*module).to_owned(), (*text).to_owned()));
    graph(&all.collect())
}

#[test]
fn a_circle_that_is_planted_is_found() {
    let plain = [
        ("", "mod a; mod b;"),
        ("a", "pub mod c; pub struct A; #[cfg(test)] mod tests { use super::super::b::B; }"),
        ("a::c", "pub fn f() -> u32 { 0 }"),
        ("b", "use super::a::{c::f, A}; pub struct B;"),
    ];
    assert!(circles(planted(&plain)).is_empty());
    for back in
        ["use crate::b::B;", "fn g() { let _ = crate::b::B; }", "use super::super::b::{self};"]
    {
        let mut files = plain;
        files[2].1 = back;
        let found = circles(planted(&files));
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a::c", "b"], "{back}");
    }
    // A child that needs its parent, which needs it.
    let family =
        [("a", "mod c; use c::C; pub const N: u32 = 1;"), ("a::c", "use super::N; pub struct C;")];
    assert_eq!(circles(planted(&family)).len(), 2);
}

#[test]
fn a_circle_of_folders_that_is_planted_is_found() {
    let files = |back| [("a::c", "use crate::b::d::D;"), ("b::d", "pub struct D;"), ("b::e", back)];
    assert!(circles(rooms(&planted(&files("use super::d::D;")))).is_empty());
    let found = planted(&files("use crate::a::c;"));
    assert!(circles(found.clone()).is_empty(), "no modules do");
    assert_eq!(circles(rooms(&found)).keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn an_import_that_is_planted_upwards_is_found() {
    let door = ("sys::door", "use crate::hooks::memory::free;");
    let others = [("hooks::memory", ""), ("gate", ""), ("sys", ""), door];
    let upwards = |line| upwards(&planted(&[&[("account::charge", line)], &others[..]].concat()));
    for line in ["use crate::sys::map;", "use crate::gate::Gates;"] {
        assert!(upwards(line).is_empty(), "{line}");
    }
    for line in ["use crate::hooks::memory::free;", "use crate::sys::door;"] {
        assert_eq!(upwards(line).len(), 1, "{line}");
    }
}

/// Definitions of one module that others may name.
#[derive(Default)]
struct Defined(BTreeSet<String>);

impl<'ast> Visit<'ast> for Defined {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, name) = match item {
            syn::Item::Struct(item) => (&item.attrs, &item.ident),
            syn::Item::Enum(item) => (&item.attrs, &item.ident),
            syn::Item::Trait(item) => (&item.attrs, &item.ident),
            syn::Item::Union(item) => (&item.attrs, &item.ident),
            syn::Item::Mod(item) if is_test(&item.attrs) => return,
            _ => return syn::visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            self.0.insert(name.to_string());
        }
    }
}

/// Names of types that cross from one crate to another and mean something else in a third place: of each, where it is defined.
/// A crate is its name in a path, and its modules.
fn homonyms(crates: &[(&str, BTreeMap<Module, String>)]) -> BTreeMap<String, Vec<String>> {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut crossing = BTreeSet::new();
    for (name, modules) in crates {
        for (module, text) in modules.iter().filter(|(module, _)| !module.ends_with("tests")) {
            let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{module}: {error}"));
            let (mut named, mut defines) = (Named::default(), Defined::default());
            named.visit_file(&file);
            defines.visit_file(&file);
            let is_foreign = |path: &&Vec<String>| {
                path.first().is_some_and(|of| of != name && crates.iter().any(|(it, _)| it == of))
            };
            crossing.extend(named.0.iter().filter(is_foreign).flatten().cloned());
            for of in defines.0 {
                defined.entry(of).or_default().push(format!("{name}::{module}"));
            }
        }
    }
    defined.retain(|name, places| places.len() > 1 && crossing.contains(name));
    defined
}

#[test]
fn a_name_that_crosses_crates_means_one_thing() {
    let crates = SOURCES.map(|source| {
        let name = source.trim_start_matches("crates/").trim_end_matches("/src").replace('-', "_");
        let of = match &*name {
            "simgpu" | "xtask" => name,
            // The library that programs are given has its name.
            "divvy" => "divvy_command".to_owned(),
            _ => format!("divvy_{name}"),
        };
        (&*of.leak(), modules(&root().join(source)))
    });
    let broken = homonyms(&crates);
    assert!(broken.is_empty(), "types of one name that others import:\n{broken:#?}");
}

#[test]
fn a_homonym_that_is_planted_is_found() {
    let of = |text: &str| BTreeMap::from([("a".to_owned(), text.to_owned())]);
    let found = |third: &str| {
        let user = of("use one::a::{Kind, Other};");
        homonyms(&[
            ("one", of("pub struct Kind; pub struct Own;")),
            ("two", user),
            ("three", of(third)),
        ])
    };
    assert!(found("struct Own; #[cfg(test)] mod tests { struct Kind; }").is_empty());
    for third in ["enum Kind {}", "mod b { trait Kind {} }", "#[repr(C)] union Kind { a: u8 }"] {
        assert_eq!(found(third)["Kind"], ["one::a", "three::a"], "{third}");
    }
}

/// Arrows between crates in a text, `a ← {b, c}` or `a ← b ← c`, in backticks.
fn arrows(text: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for chain in text.split('`').skip(1).step_by(2).filter(|chain| chain.contains('←')) {
        let places: Vec<Vec<&str>> = chain
            .split('←')
            .map(|names| names.trim().trim_matches(['{', '}']).split(',').map(str::trim).collect())
            .collect();
        for pair in places.windows(2) {
            for of in &pair[0] {
                found.extend(pair[1].iter().map(|from| ((*from).to_owned(), (*of).to_owned())));
            }
        }
    }
    found
}

#[test]
fn crates_import_each_other_as_contributing_says() {
    let contributing = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("a page");
    let crates =
        SOURCES.map(|source| source.trim_start_matches("crates/").trim_end_matches("/src"));
    let mut said = arrows(&contributing);
    // Those of rooms within a crate are the floors'.
    said.retain(|(from, of)| [from, of].iter().all(|name| crates.contains(&name.as_str())));
    let mut imported = BTreeSet::new();
    for folder in SOURCES.iter().filter_map(|source| source.strip_prefix("crates/")) {
        let name = folder.trim_end_matches("/src");
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("a manifest");
        let mut is_shipped = false;
        for line in manifest.lines() {
            if line.starts_with('[') {
                is_shipped = line.contains("dependencies") && !line.contains("dev-");
            }
            let package = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let of = package.strip_prefix("divvy-").or((package == "divvy").then_some(package));
            if let Some(of) = of.filter(|_| is_shipped) {
                imported.insert((name.to_owned(), of.to_owned()));
            }
        }
    }
    assert_eq!(said, imported, "CONTRIBUTING's arrows, and the manifests'");
}
