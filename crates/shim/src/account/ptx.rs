//! The sum of the global variables that a PTX text declares.
//!
//! A declaration is `.global`, its attributes and type, and names with dimensions, up to `;`. The
//! same word inside an instruction (`ld.global`) or a parameter (`.ptr .global`) is none, and
//! `.extern` declares what another module has. Comments are skipped. A text that is no PTX has none.

/// Longest word kept; names are longer, and do not matter.
const WORD_BYTES: usize = 24;

/// A word of the text.
#[derive(Clone, Copy)]
struct Word {
    bytes: [u8; WORD_BYTES],
    length: usize,
}

impl Word {
    const EMPTY: Self = Self { bytes: [0; WORD_BYTES], length: 0 };

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
        }
        self.length = self.length.saturating_add(1);
    }

    fn is(&self, text: &[u8]) -> bool {
        self.bytes.get(..self.length) == Some(text)
    }

    /// Bytes of a fundamental type: the number at its end in bits, twice for `x2`.
    fn type_bytes(&self) -> Option<u64> {
        let text = self.bytes.get(..self.length)?;
        let (first, rest) = text.split_first()?;
        let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        if *first != b'.' || letters == 0 || self.is_vector() {
            return None;
        }
        let digits = rest.get(letters..)?;
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let bits = number(digits.get(..end)?)?;
        let twice = u64::from(digits.get(end..) == Some(b"x2"));
        (bits >= 8).then_some((bits / 8).saturating_mul(twice.saturating_add(1)))
    }

    fn is_vector(&self) -> bool {
        self.is(b".v2") || self.is(b".v4")
    }

    fn number(&self) -> Option<u64> {
        number(self.bytes.get(..self.length)?)
    }
}

/// Decimal, octal or hexadecimal, with an optional `U`.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b"U").unwrap_or(text);
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
        [b'0', rest @ ..] if !rest.is_empty() => (rest, 8),
        _ => (text, 10),
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(radix)?;
        Some(sum.saturating_mul(u64::from(radix)).saturating_add(u64::from(digit)))
    })
}

/// Where in a declaration the text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In none.
    Outside,
    /// Between `.global` and the first name.
    Type,
    /// After a name.
    Name,
    /// Inside `[ ]`.
    Dimension,
    /// Behind `=`.
    Value,
}

struct Reader {
    place: Place,
    sum: u64,
    element_bytes: u64,
    lanes: u64,
    elements: u64,
    /// A dimension was empty: the values tell.
    open_dimension: bool,
    values: u64,
    depth: u32,
    external: bool,
    parameter: bool,
    /// The next word belongs to `.align`.
    alignment: bool,
}

impl Reader {
    const START: Self = Self {
        place: Place::Outside,
        sum: 0,
        element_bytes: 0,
        lanes: 1,
        elements: 1,
        open_dimension: false,
        values: 0,
        depth: 0,
        external: false,
        parameter: false,
        alignment: false,
    };

    fn word(&mut self, word: &Word) {
        match self.place {
            Place::Outside if word.is(b".extern") => self.external = true,
            Place::Outside if word.is(b".ptr") => self.parameter = true,
            Place::Outside if word.is(b".global") && !self.parameter => {
                self.place = Place::Type;
                self.element_bytes = 0;
                self.lanes = 1;
                self.begin_name();
            }
            Place::Type if self.alignment => self.alignment = false,
            Place::Type if word.is(b".align") => self.alignment = true,
            Place::Type if word.is_vector() => {
                self.lanes = if word.is(b".v2") { 2 } else { 4 };
            }
            Place::Type => match word.type_bytes() {
                Some(bytes) => self.element_bytes = bytes,
                // Handles of textures take a word; anything without a dot is the name.
                None if word.bytes.first() == Some(&b'.') => {
                    self.element_bytes = self.element_bytes.max(8);
                }
                None => self.place = Place::Name,
            },
            Place::Dimension => {
                self.elements = self.elements.saturating_mul(word.number().unwrap_or(1));
                self.open_dimension = false;
            }
            Place::Outside | Place::Name | Place::Value => {}
        }
    }

    fn begin_name(&mut self) {
        self.elements = 1;
        self.open_dimension = false;
        self.values = 0;
        self.depth = 0;
    }

    fn end_name(&mut self) {
        let elements = match self.open_dimension {
            true => self.elements.saturating_mul(self.values.max(1)),
            false => self.elements,
        };
        let bytes = self.element_bytes.saturating_mul(self.lanes).saturating_mul(elements);
        if !self.external {
            self.sum = self.sum.saturating_add(bytes);
        }
        self.begin_name();
    }

    fn mark(&mut self, byte: u8) {
        match (byte, self.place) {
            (b'[', Place::Name) => {
                self.place = Place::Dimension;
                self.open_dimension = true;
            }
            (b']', Place::Dimension) => self.place = Place::Name,
            (b'=', Place::Name) => {
                self.place = Place::Value;
                self.values = 1;
            }
            (b'{', Place::Value) => self.depth = self.depth.saturating_add(1),
            (b'}', Place::Value) => self.depth = self.depth.saturating_sub(1),
            (b',', Place::Value) if self.depth != 0 => {
                self.values = self.values.saturating_add(1);
            }
            (b',', Place::Name | Place::Value) => {
                self.end_name();
                self.place = Place::Name;
            }
            (b';', Place::Name | Place::Value) => {
                self.end_name();
                self.place = Place::Outside;
                self.external = false;
            }
            (b';' | b'{' | b'}', _) => {
                self.place = Place::Outside;
                self.external = false;
                self.parameter = false;
            }
            (b',' | b')', Place::Outside) => self.parameter = false,
            _ => {}
        }
    }
}

/// Bytes of the global variables in the text that `byte_at` reads, which ends with `None`.
///
/// Cost: a few nanoseconds a byte; compiling the text costs the driver a thousand times that.
pub(crate) fn globals(byte_at: impl Fn(u64) -> Option<u8>) -> u64 {
    let mut reader = Reader::START;
    let mut word = Word::EMPTY;
    let mut at = 0_u64;
    if !byte_at(0).is_some_and(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'.')) {
        // Something else, which need not end where a text does.
        return 0;
    }
    while let Some(byte) = byte_at(at) {
        at = at.saturating_add(1);
        let is_comment = byte == b'/' && matches!(byte_at(at), Some(b'/' | b'*'));
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$' | b'%' | b':') {
            word.push(byte);
            continue;
        }
        if word.length != 0 {
            reader.word(&word);
            word = Word::EMPTY;
        }
        if is_comment {
            at = after_comment(&byte_at, at);
        } else {
            reader.mark(byte);
        }
    }
    reader.sum
}

/// The position behind a comment whose second character is at `at`.
fn after_comment(byte_at: &impl Fn(u64) -> Option<u8>, at: u64) -> u64 {
    let is_line = byte_at(at) == Some(b'/');
    let mut before = 0_u8;
    let mut at = at.saturating_add(1);
    while let Some(byte) = byte_at(at) {
        at = at.saturating_add(1);
        if (is_line && byte == b'\n') || (!is_line && before == b'*' && byte == b'/') {
            break;
        }
        before = byte;
    }
    at
}
