//! What is passed on for the arguments of an exported function: the part that the build scripts of both
//! libraries share.

/// Arguments that mean something only together: how the names of calls begin that have them, and the
/// arguments, all of which are passed on for the first.
pub(crate) type Together = (&'static str, &'static [&'static str]);

/// The expressions for all arguments of a call.
pub(crate) fn all_passed(together: &[Together], call: &str, arguments: &[(&str, &str)]) -> String {
    let has = |wanted: &&str| arguments.iter().any(|(argument, _)| argument == wanted);
    let passed = arguments.iter().map(|(name, ty)| {
        let row = together
            .iter()
            .find(|(start, row)| row[0] == *name && call.starts_with(start) && row.iter().all(has));
        match row.filter(|_| !is_plain(ty)) {
            Some((_, row)) => format!("({})", row.join(", ")),
            None => (*name).to_owned(),
        }
    });
    passed.collect::<Vec<_>>().join(", ")
}

/// Whether a type is neither a pointer nor a function.
fn is_plain(ty: &str) -> bool {
    !ty.starts_with('*') && !ty.ends_with("Fn") && !ty.ends_with("Callback")
}
