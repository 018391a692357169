//! A text that a tenant wrote into its files, as others may print it.
//!
//! Promises: its display has only characters that a terminal shows in their places, whatever the bytes are. Does not
//! read the bytes from a file ([`crate::reader`] does), or say whether what they tell is true.

use core::fmt;

/// A text a tenant wrote. Its display is safe for a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldText<const N: usize>([u8; N]);

impl<const N: usize> FieldText<N> {
    /// Of zero-padded bytes.
    pub const fn new(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.first().is_none_or(|byte| *byte == 0)
    }
}

/// Whether a terminal shows `c` as a character in its place. Not so: control characters, which it obeys,
/// and those that nobody sees and that change how others are shown (direction, joining, tags).
pub fn is_shown(c: char) -> bool {
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    !c.is_control() && !is_hidden
}

impl<const N: usize> fmt::Display for FieldText<N> {
    /// Characters that are not shown ([`is_shown`]) and bytes that are no UTF-8 become `?`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        for chunk in text.utf8_chunks() {
            for c in chunk.valid().chars() {
                fmt::Write::write_char(f, if is_shown(c) { c } else { '?' })?;
            }
            if !chunk.invalid().is_empty() {
                f.write_str("?")?;
            }
        }
        Ok(())
    }
}
