//! Reads the generated Rust types as text, and spells Rust types in C.
//!
//! It knows the shapes the generator writes and nothing else of Rust; a shape it does not know
//! makes the C compiler fail, never pass.

use std::collections::BTreeMap;

/// An enum's constant with the value the table gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Constant {
    pub(crate) name: String,
    pub(crate) value: i64,
}

/// The constants of every newtype enum in `source`.
pub(crate) fn constants(source: &str) -> Vec<Constant> {
    let flat = source.split_whitespace().collect::<Vec<_>>().join(" ");
    flat.split("pub const ")
        .skip(1)
        .filter_map(|item| {
            let (name, rest) = item.split_once(':')?;
            let (_, value) = rest.split(';').next()?.split_once('=')?;
            let value = value.split('(').nth(1)?.split([')', ',']).next()?.trim();
            let value = value.trim_end_matches("u32").trim_end_matches("i32");
            Some(Constant { name: name.trim().to_owned(), value: value.parse().ok()? })
        })
        .collect()
}

/// The fields of every struct and union in `source`, by type name.
pub(crate) fn records(source: &str) -> BTreeMap<String, Vec<String>> {
    let mut records = BTreeMap::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in source.lines() {
        if let Some((name, fields)) = &mut open {
            if line == "}" {
                records.insert(std::mem::take(name), std::mem::take(fields));
                open = None;
            } else if let Some(rest) = line.trim().strip_prefix("pub ")
                && let Some((field, _)) = rest.split_once(':')
            {
                fields.push(field.trim_start_matches("r#").to_owned());
            }
            continue;
        }
        let rest = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub union "));
        if let Some(name) = rest.and_then(|rest| rest.strip_suffix(" {")) {
            open = Some((name.to_owned(), Vec::new()));
        }
    }
    records
}

/// `ty`, a type as the table writes it, in C.
pub(crate) fn in_c(ty: &str) -> String {
    let ty = ty.trim();
    if let Some(rest) = ty.strip_prefix('*') {
        // `stringify!` writes `*mut T`, `* mut T` or a line break, as it likes.
        let rest = rest.trim_start();
        return match (rest.strip_prefix("mut"), rest.strip_prefix("const")) {
            (Some(rest), _) => format!("{} *", in_c(rest)),
            (None, Some(rest)) => format!("{} const *", in_c(rest)),
            (None, None) => format!("/* not a pointer: {ty} */"),
        };
    }
    let name = ty.rsplit("::").next().unwrap_or(ty).trim();
    match name {
        "c_void" | "()" => "void",
        "c_char" => "char",
        "c_schar" => "signed char",
        "c_uchar" => "unsigned char",
        "c_short" => "short",
        "c_ushort" => "unsigned short",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_long" => "long",
        "c_ulong" => "unsigned long",
        "c_longlong" => "long long",
        "c_ulonglong" => "unsigned long long",
        "usize" => "size_t",
        "u64" => "uint64_t",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "i32" => "int32_t",
        "f32" => "float",
        "f64" => "double",
        other => other,
    }
    .to_owned()
}

/// The words of `text` that could be C identifiers.
pub(crate) fn words(text: &str) -> std::collections::BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect()
}

#[test]
fn rust_types_are_spelt_in_c() {
    assert_eq!(in_c("*mut *const ::core::ffi::c_char"), "char const * *");
    assert_eq!(in_c("CUdeviceptr"), "CUdeviceptr");
    assert_eq!(in_c("()"), "void");
}
