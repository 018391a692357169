//! How a figure's value is written.
//!
//! Pure.

/// Three digits that matter.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        0.0..1.0 => format!("{value:.3}"),
        1.0..100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
