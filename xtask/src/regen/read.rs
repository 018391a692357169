//! Reads one header: its entry points and types, as Rust tokens.
//!
//! bindgen does the C; this module takes its output apart again, so that several headers can be
//! merged symbol by symbol. It keeps no comment of the header.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use quote::ToTokens;

use crate::headers::{Header, Version};

/// Which of the two surfaces a header belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flavour {
    /// cuda.h and its graphics siblings.
    Cuda,
    /// nvml.h.
    Nvml,
}

/// One exported symbol.
#[derive(Debug)]
pub(super) struct HeaderEntry {
    pub(super) arguments: Vec<(String, String)>,
    pub(super) result: String,
    pub(super) since: Version,
    pub(super) until: Version,
}

/// Everything read so far.
#[derive(Default, Debug)]
pub(super) struct Surface {
    pub(super) entries: BTreeMap<String, HeaderEntry>,
    /// Type name to its item(s); an enum is its struct and its constants.
    pub(super) types: BTreeMap<String, Vec<syn::Item>>,
}

impl Surface {
    /// Adds an older surface: entry points that are new to us, and types that are.
    pub(super) fn absorb(&mut self, older: Self) -> Result<()> {
        for (name, entry) in older.entries {
            match self.entries.get_mut(&name) {
                None => {
                    self.entries.insert(name, entry);
                }
                Some(known) => {
                    let same = known
                        .arguments
                        .iter()
                        .map(|a| &a.1)
                        .eq(entry.arguments.iter().map(|a| &a.1));
                    if !same || known.result != entry.result {
                        // Only compatible changes of a typedef's name are known; the C compiler
                        // judges them in driver-api's header tests.
                        println!(
                            "  note: {name} differs in {}: {:?} here, {:?} newer",
                            entry.since, entry.arguments, known.arguments
                        );
                    }
                    known.since = entry.since;
                }
            }
        }
        for (name, items) in older.types {
            self.types.entry(name).or_insert(items);
        }
        Ok(())
    }
}

/// Runs bindgen over `header`.
pub(super) fn header(header: &Header, stubs: &Path, flavour: Flavour) -> Result<Surface> {
    let (text, function, handles) = match flavour {
        Flavour::Cuda => (
            "#include <cuda.h>\n#include <cudaGL.h>\n#include <cudaEGL.h>\n#include <vdpau/vdpau.h>\n#include <cudaVDPAU.h>\n\
             #include <cudaProfiler.h>\n",
            "cu[A-Z].*",
            handle_names(&header.include.join("cuda.h"))?,
        ),
        Flavour::Nvml => ("#include <nvml.h>\n", "nvml[A-Z].*", Vec::new()),
    };
    let text: String = text
        .lines()
        .filter(|line| {
            let name = line.trim_start_matches("#include <").trim_end_matches('>');
            header.include.join(name).exists() || stubs.join(name).exists()
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let mut builder = bindgen::builder()
        .header_contents("divvy.h", &text)
        .clang_arg(format!("-I{}", header.include.display()))
        .clang_arg(format!("-I{}", stubs.display()))
        // libclang without clang brings no headers of its own; the C compiler's do.
        .clang_arg(format!("-isystem{}", compiler_headers()?))
        .clang_arg("-D__CUDA_API_VERSION_INTERNAL")
        .clang_arg("-DNVML_NO_UNVERSIONED_FUNC_DEFS")
        .allowlist_function(function)
        .allowlist_type("CU.*|cuda.*|cu[A-Z].*|nvml.*")
        .default_enum_style(bindgen::EnumVariation::NewType {
            is_bitfield: false,
            is_global: false,
        })
        .default_alias_style(bindgen::AliasVariation::TypeAlias)
        .use_core()
        .generate_comments(false)
        .layout_tests(false)
        .derive_copy(true)
        .derive_debug(false)
        .formatter(bindgen::Formatter::None);
    for handle in handles {
        builder = builder.new_type_alias(format!("^{handle}$"));
    }
    let source = builder.generate().context("bindgen")?.to_string();
    let file = syn::parse_file(&source).context("bindgen's own output")?;
    take_apart(file, header.version)
}

/// The C compiler's directory of `stddef.h` and its kin.
fn compiler_headers() -> Result<String> {
    let out = std::process::Command::new("gcc")
        .arg("-print-file-name=include")
        .output()
        .context("gcc, whose stddef.h is needed")?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Names of the opaque handles: `typedef struct CUctx_st *CUcontext;`.
fn handle_names(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text
        .lines()
        .filter_map(|line| {
            let rest = line.trim().strip_prefix("typedef struct ")?;
            let (tag, rest) = rest.split_once('*')?;
            tag.trim().ends_with("_st").then_some(())?;
            Some(rest.split(';').next()?.trim().to_owned())
        })
        .collect())
}

fn take_apart(file: syn::File, version: Version) -> Result<Surface> {
    let mut surface = Surface::default();
    for item in file.items {
        match item {
            syn::Item::ForeignMod(module) => {
                for foreign in module.items {
                    if let syn::ForeignItem::Fn(function) = foreign {
                        let (name, entry) = entry(&function.sig, version)?;
                        surface.entries.insert(name, entry);
                    }
                }
            }
            other => {
                let Some(name) = item_name(&other) else { continue };
                surface.types.entry(name).or_default().push(other);
            }
        }
    }
    Ok(surface)
}

fn entry(signature: &syn::Signature, version: Version) -> Result<(String, HeaderEntry)> {
    let mut arguments = Vec::new();
    for input in &signature.inputs {
        let syn::FnArg::Typed(typed) = input else { bail!("a method in {}", signature.ident) };
        arguments.push((typed.pat.to_token_stream().to_string(), tidy(&typed.ty)));
    }
    let result = match &signature.output {
        syn::ReturnType::Default => "()".to_owned(),
        syn::ReturnType::Type(_, ty) => tidy(ty),
    };
    Ok((
        signature.ident.to_string(),
        HeaderEntry { arguments, result, since: version, until: version },
    ))
}

/// A type as one line of tokens, without the spaces that token printing puts everywhere.
fn tidy(ty: &syn::Type) -> String {
    ty.to_token_stream()
        .to_string()
        .replace(":: core :: ffi :: ", "::core::ffi::")
        .replace("* mut ", "*mut ")
        .replace("* const ", "*const ")
}

fn item_name(item: &syn::Item) -> Option<String> {
    Some(match item {
        syn::Item::Struct(item) => item.ident.to_string(),
        syn::Item::Union(item) => item.ident.to_string(),
        syn::Item::Type(item) => item.ident.to_string(),
        // `pub use self::cudaError_enum as CUresult;`
        syn::Item::Use(item) => match &item.tree {
            syn::UseTree::Path(path) => match &*path.tree {
                syn::UseTree::Rename(rename) => rename.rename.to_string(),
                _ => return None,
            },
            _ => return None,
        },
        // `impl CUresult { const … }` belongs to its type.
        syn::Item::Impl(item) => match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last()?.ident.to_string(),
            _ => return None,
        },
        _ => return None,
    })
}
