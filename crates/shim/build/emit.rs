//! Rust text of the generated files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use divvy_driver_api::Effect;

use crate::surface::{Known, Signature, Surface, Symbol};

/// `tables.rs`: what `dlsym` and the address map search, in arrays without a pointer.
pub(crate) fn tables(surface: &Surface) -> String {
    let mut text = String::new();
    let known = &surface.known;
    let hook_of = |name: &str| surface.hooked.iter().position(|symbol| symbol.name == name);
    let kept = |known: &Known| if known.is_named { known.name } else { "" };
    let blob: String = known.iter().map(kept).collect();
    let mut end = 0;
    let ends: Vec<usize> = known
        .iter()
        .map(|known| {
            end += kept(known).len();
            end
        })
        .collect();
    let hashes: Vec<u32> = known.iter().map(|known| known.hash).collect();
    let hooks: Vec<usize> =
        known.iter().map(|known| hook_of(known.name).unwrap_or(NO_HOOK)).collect();
    let _ = writeln!(
        text,
        "/// Names known.\npub(crate) const KNOWN: usize = {known};\n\
         /// Symbols hooked.\npub(crate) const HOOKED: usize = {hooked};\n\
         pub(super) const NO_HOOK: u16 = {NO_HOOK};\n\
         pub(super) static NAMES: [u8; {bytes}] = *b\"{blob}\";\n\
         pub(super) static NAME_ENDS: [u16; KNOWN] = {ends:?};\n\
         pub(super) static HASHES: [u32; KNOWN] = {hashes:?};\n\
         pub(super) static HOOKS: [u16; KNOWN] = {hooks:?};",
        known = known.len(),
        hooked = surface.hooked.len(),
        bytes = blob.len(),
    );
    let _ = writeln!(text, "/// Positions of names in the table.\npub(crate) mod index {{");
    for (position, Known { name, .. }) in known.iter().enumerate().filter(|(_, it)| it.is_named) {
        let _ = writeln!(text, "    pub(crate) const {name}: usize = {position};");
    }
    text.push_str("}\n");
    text
}

const NO_HOOK: usize = 65_535;

/// `real.rs`: for each base symbol, the driver's function behind it, with a safe `call`.
pub(crate) fn real(surface: &Surface) -> String {
    let mut text = String::new();
    let mut seen = BTreeSet::new();
    for symbol in &surface.hooked {
        if !seen.insert(symbol.base) {
            continue;
        }
        let base = symbol.base;
        let path = signature_path(symbol);
        let Signature { arguments, result, .. } = &symbol.signature;
        let declared = list(arguments, |name, ty| format!("{name}: {}", wrapped(base, name, ty)));
        let passed = list(arguments, unwrap);
        let _ = writeln!(
            text,
            "/// The driver's `{base}`, or the default-stream variant of it that was called.\n\
             #[derive(Clone, Copy)]\n\
             pub(crate) struct {base} {{ function: {path}, per_thread: bool }}\n\
             impl {base} {{\n\
             \x20   /// # Safety\n\
             \x20   /// 1. `function` is the driver's function of this name.\n\
             \x20   #[inline(always)]\n\
             \x20   pub(super) const unsafe fn new(function: {path}, per_thread: bool) -> Self {{\n\
             \x20       Self {{ function, per_thread }}\n\
             \x20   }}\n\
             \x20   /// Whether the default stream is the calling thread's own.\n\
             \x20   pub(crate) const fn per_thread(self) -> bool {{ self.per_thread }}\n\
             \x20   /// Calls it, by the contract of this module.\n\
             \x20   #[inline(always)]\n\
             \x20   pub(crate) fn call(self, {declared}) -> {result} {{\n\
             \x20       // SAFETY: the function is the driver's (`new`), every pointer is the program's own for this\n\
             \x20       // call or one of ours made from a reference, and the rest is as the contract has it.\n\
             \x20       unsafe {{ (self.function)({passed}) }}\n\
             \x20   }}\n\
             }}",
        );
    }
    text
}

/// `exports.rs`: the exported functions, and their addresses as offsets.
pub(crate) fn exports(
    surface: &Surface,
    hooks: &BTreeMap<String, String>,
    unhooked: &dyn Fn(&str) -> bool,
) -> String {
    let mut text = String::new();
    for symbol in &surface.hooked {
        let is_unhooked = unhooked(symbol.name) || unhooked(symbol.base);
        let hook = hooks.get(symbol.base).filter(|_| !is_unhooked);
        let Signature { name, arguments, result } = &symbol.signature;
        let path = signature_path(symbol);
        let declared = list(arguments, |name, ty| format!("{name}: {ty}"));
        let plain = list(arguments, |name, _| name.to_owned());
        // Work, and waits for it, are what a program calls a million times a second.
        let is_often = symbol.effects.has(Effect::Gate) || symbol.effects.has(Effect::Span);
        let found = if is_often { "function" } else { "function_by_call" };
        let _ = writeln!(
            text,
            "/// `{name}` as the program sees it.\n\
             ///\n\
             /// # Safety\n\
             /// 1. The arguments are what the driver's function of this name demands.\n\
             #[unsafe(no_mangle)]\n\
             unsafe extern \"C\" fn {name}({declared}) -> {result} {{\n\
             \x20   let Some(address) = resolve::{found}(index::{name}) else {{\n\
             \x20       return absent::Absent::absent();\n\
             \x20   }};\n\
             \x20   // SAFETY: the address is that of the driver's function of this name.\n\
             \x20   let real_function = unsafe {{ core::mem::transmute::<usize, {path}>(address.get()) }};",
        );
        if let Some(module) = hook {
            let base = symbol.base;
            let per_thread = symbol.is_per_thread();
            let wrapped = list(arguments, |name, ty| wrap(base, name, ty));
            // Only making wrapped pointers is unsafe.
            let (promise, open, close) = if wrapped == plain {
                ("", "", "")
            } else {
                (
                    "        // SAFETY: 1. says of each pointer what its wrapper asks for.\n",
                    "unsafe { ",
                    " }",
                )
            };
            let _ = writeln!(
                text,
                "    if mode::is_active() {{\n\
                 \x20       // SAFETY: as above.\n\
                 \x20       let real = unsafe {{ real::{base}::new(real_function, {per_thread}) }};\n\
                 {promise}\x20       return {open}{module}::{base}(real, {wrapped}){close};\n\
                 \x20   }}",
            );
        }
        let general = hook.is_none() && !is_unhooked;
        let (open, close) = if general { general_hook(symbol) } else { Default::default() };
        let _ = writeln!(
            text,
            "{open}    // SAFETY: the caller's promise, passed on.\n\
             \x20   unsafe {{ real_function({plain}) }}\n{close}}}",
        );
    }
    text.push_str(&offsets(surface));
    text
}

/// Steps around the driver's call for a symbol without a hook of its own, if it submits work or ends a
/// measured span.
fn general_hook(symbol: &Symbol) -> (String, &'static str) {
    let Symbol { name, effects, signature, .. } = symbol;
    let close = "    })\n";
    if effects.has(Effect::Gate) {
        let stream = signature.arguments.iter().find(|(_, ty)| ty.ends_with("CUstream"));
        let stream = stream.map_or("submit::NULL_STREAM", |(name, _)| *name);
        let sides = ["ByteCount", "N", "Width", "Height"];
        let is_side = |(name, ty): &&(&str, String)| ty == "usize" && sides.contains(name);
        let bytes = signature.arguments.iter().filter(is_side);
        let bytes: String = bytes.map(|(name, _)| format!(".saturating_mul({name})")).collect();
        let per_thread = symbol.is_per_thread();
        let key = format!("submit::copy_key(index::{name}, 1_usize{bytes} as u64)");
        (format!("    submit::work({stream}, {per_thread}, || {key}, || {{\n"), close)
    } else if !effects.has(Effect::Span) {
        Default::default()
    } else if name.starts_with("cuMemcpy") {
        // A copy may return when it is done; the others do not wait.
        ("    submit::transfer(|| {\n".to_owned(), close)
    } else {
        let is_event = name.starts_with("cuStreamWaitEvent");
        let ends = if is_event { "wait_for_event" } else { "end_span" };
        let enters = match effects.has(Effect::Touch) {
            true => "    let _inside = state::enter();\n",
            false => "",
        };
        (format!("    submit::{ends}();\n{enters}"), "")
    }
}

/// The hooks' addresses, as distances from the table: nothing to relocate when the library loads.
fn offsets(surface: &Surface) -> String {
    let mut text = String::from(
        "core::arch::global_asm!(\n    \
         \".pushsection .rodata.divvy_hooks, \\\"a\\\"\",\n    \".balign 4\",\n    \
         \".globl divvy_hook_offsets\",\n    \".hidden divvy_hook_offsets\",\n    \
         \"divvy_hook_offsets:\",\n",
    );
    for position in 0..surface.hooked.len() {
        let _ = writeln!(text, "    \".long {{{position}}} - divvy_hook_offsets\",");
    }
    text.push_str("    \".popsection\",\n");
    for symbol in &surface.hooked {
        let _ = writeln!(text, "    sym {},", symbol.name);
    }
    text.push_str(");\n");
    text
}

fn signature_path(symbol: &Symbol) -> String {
    let module = if symbol.is_nvml() { "nvml_sig" } else { "sig" };
    format!("{module}::{}", symbol.signature.name)
}

pub(crate) fn list(
    arguments: &[(&'static str, String)],
    text_of: impl Fn(&str, &str) -> String,
) -> String {
    arguments.iter().map(|(name, ty)| text_of(name, ty)).collect::<Vec<_>>().join(", ")
}

/// Shape of a pointer, by its argument's type.
enum Shape<'a> {
    Void { mutable: bool },
    Out(&'a str),
    In(&'a str),
    Value,
}

fn shape(ty: &str) -> Shape<'_> {
    let target = |prefix| ty.strip_prefix(prefix).map(str::trim);
    match (target("*mut"), target("*const")) {
        (Some("::core::ffi::c_void"), _) => Shape::Void { mutable: true },
        (_, Some("::core::ffi::c_void")) => Shape::Void { mutable: false },
        (Some(target), _) => Shape::Out(target),
        (_, Some(target)) => Shape::In(target),
        _ => Shape::Value,
    }
}

/// Facts of a pointer by the entry point's documentation, beyond its type.
#[derive(Clone, Copy)]
enum Meaning {
    /// An array, with as many elements as this argument says.
    Counted(&'static str),
    /// An array, with as many elements as the number that this argument points to says before the call.
    CountedAt(&'static str),
    /// Room for a handle, which is a descriptor if the call's `handleType` has this value.
    Handle(&'static str),
    /// The image of a module.
    Image,
    /// Room for a function's address.
    Function,
    /// A structure with an array in it.
    List,
    /// The value of the attribute that this argument says.
    Attribute(&'static str),
    /// Values of the attributes in this array, as many as the other argument says.
    Attributes(&'static str, &'static str),
}

const MEMORY_DESCRIPTOR: &str =
    "CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR";
const RANGE_DESCRIPTOR: &str = "CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD";

/// Arguments by which hooks read more than their types say, by symbol without variant and by name.
const MEANINGS: [(&str, &str, Meaning); 19] = [
    ("cuGetProcAddress", "pfn", Meaning::Function),
    ("cuGetProcAddress_v2", "pfn", Meaning::Function),
    ("cuLibraryEnumerateKernels", "kernels", Meaning::Counted("numKernels")),
    ("cuLibraryLoadData", "code", Meaning::Image),
    ("cuMemExportToShareableHandle", "shareableHandle", Meaning::Handle(MEMORY_DESCRIPTOR)),
    ("cuMemGetHandleForAddressRange", "handle", Meaning::Handle(RANGE_DESCRIPTOR)),
    ("cuMemMapArrayAsync", "mapInfoList", Meaning::Counted("count")),
    ("cuModuleEnumerateFunctions", "functions", Meaning::Counted("numFunctions")),
    ("cuModuleLoadData", "image", Meaning::Image),
    ("cuModuleLoadDataEx", "image", Meaning::Image),
    ("cuModuleLoadFatBinary", "fatCubin", Meaning::Image),
    ("cuPointerGetAttribute", "data", Meaning::Attribute("attribute")),
    ("cuPointerGetAttributes", "data", Meaning::Attributes("attributes", "numAttributes")),
    ("nvmlDeviceGetComputeRunningProcesses", "infos", Meaning::CountedAt("infoCount")),
    ("nvmlDeviceGetComputeRunningProcesses_v2", "infos", Meaning::CountedAt("infoCount")),
    ("nvmlDeviceGetComputeRunningProcesses_v3", "infos", Meaning::CountedAt("infoCount")),
    ("nvmlDeviceGetProcessUtilization", "utilization", Meaning::CountedAt("processSamplesCount")),
    ("nvmlDeviceGetProcessesUtilizationInfo", "procesesUtilInfo", Meaning::List),
    ("nvmlDeviceGetRunningProcessDetailList", "plist", Meaning::List),
];

fn meaning(base: &str, name: &str) -> Option<Meaning> {
    let is_of = |(of, argument, _): &&(&str, &str, Meaning)| *of == base && *argument == name;
    MEANINGS.iter().find(is_of).map(|(_, _, meaning)| *meaning)
}

/// Panics where a row of [`MEANINGS`] names what no symbol has: a hook would not compile, but a count that is another
/// argument's would.
pub(crate) fn check_meanings(surface: &Surface) {
    for (base, argument, meaning) in MEANINGS {
        let other = match meaning {
            Meaning::Counted(count) | Meaning::CountedAt(count) => count,
            Meaning::Attribute(other) | Meaning::Attributes(other, _) => other,
            Meaning::Handle(_) => "handleType",
            Meaning::Image | Meaning::Function | Meaning::List => argument,
        };
        let has = |symbol: &Symbol, wanted| {
            symbol.signature.arguments.iter().any(|(name, _)| *name == wanted)
        };
        let mut symbols = surface.hooked.iter().filter(|symbol| symbol.base == base).peekable();
        assert!(symbols.peek().is_some(), "{base} is not hooked");
        assert!(
            symbols.all(|it| has(it, argument) && has(it, other)),
            "{base}({argument}, {other})"
        );
    }
}

/// The type a hook sees for an argument of type `ty`.
pub(crate) fn wrapped(base: &str, name: &str, ty: &str) -> String {
    match (shape(ty), meaning(base, name)) {
        (_, Some(Meaning::Handle(_))) => return "OutHandle<'_>".to_owned(),
        (_, Some(Meaning::Image)) => return "Image<'_>".to_owned(),
        (_, Some(Meaning::Attribute(_))) => return "OutAttribute<'_>".to_owned(),
        (_, Some(Meaning::Attributes(..))) => return "&OutAttributes<'_>".to_owned(),
        (_, Some(Meaning::Function)) => return "OutFunction<'_>".to_owned(),
        (Shape::Out(target), Some(Meaning::List)) => return format!("&List<'_, {target}>"),
        (Shape::Out(target), Some(_)) => return format!("OutArray<'_, {target}>"),
        _ => {}
    }
    match shape(ty) {
        Shape::Void { .. } => "Opaque<'_>".to_owned(),
        Shape::Out(target) => format!("Out<'_, {target}>"),
        Shape::In(target) => format!("In<'_, {target}>"),
        Shape::Value => ty.to_owned(),
    }
}

fn wrap(base: &str, name: &str, ty: &str) -> String {
    match meaning(base, name) {
        Some(Meaning::Counted(count)) => {
            return format!("OutArray::from_raw({name}, {count} as usize)");
        }
        Some(Meaning::CountedAt(count)) => return format!("OutArray::counted({name}, {count})"),
        Some(Meaning::Handle(kind)) => {
            return format!("OutHandle::from_raw({name}, handleType == {kind})");
        }
        Some(Meaning::Attribute(attribute)) => {
            return format!("OutAttribute::from_raw({name}, {attribute})");
        }
        Some(Meaning::Attributes(attributes, count)) => {
            return format!("&OutAttributes::from_raw({name}, {attributes}, {count} as usize)");
        }
        Some(Meaning::Image) => return format!("Image::from_raw({name})"),
        Some(Meaning::Function) => return format!("OutFunction::from_raw({name})"),
        Some(Meaning::List) => return format!("&List::from_raw({name})"),
        None => {}
    }
    match shape(ty) {
        Shape::Void { mutable: true } => format!("Opaque::from_raw({name})"),
        Shape::Void { mutable: false } => format!("Opaque::from_raw({name}.cast_mut())"),
        Shape::Out(_) => format!("Out::from_raw({name})"),
        Shape::In(_) => format!("In::from_raw({name})"),
        Shape::Value => name.to_owned(),
    }
}

fn unwrap(name: &str, ty: &str) -> String {
    match shape(ty) {
        Shape::Value => name.to_owned(),
        _ => format!("{name}.raw()"),
    }
}
