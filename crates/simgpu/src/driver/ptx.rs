//! Reads PTX text as far as the driver must: entries, their parameters and memory, and globals.
//!
//! Promises: the sizes it reports are those the text declares. Does not check instructions: code is
//! recognised by entry name (see [`super::kernels`]), not executed.

/// A variable in the module's global or constant memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Global {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Its initial bytes; what is missing is zero.
    pub(crate) initial: Vec<u8>,
    pub(crate) is_managed: bool,
}

/// A kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PtxEntry {
    pub(crate) name: String,
    /// Size of each parameter.
    pub(crate) parameters: Vec<usize>,
    pub(crate) local_bytes: u64,
    pub(crate) shared_bytes: u64,
    pub(crate) registers: u32,
    /// `.maxntid`, where it is given.
    pub(crate) max_threads: Option<u32>,
    /// Whether its code can do anything but return.
    pub(crate) is_empty: bool,
    /// Whether its code always traps.
    pub(crate) traps: bool,
}

/// Contents of a module image.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Image {
    pub(crate) entries: Vec<PtxEntry>,
    pub(crate) globals: Vec<Global>,
}

/// Why text is no module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadText {
    /// It is not PTX at all.
    NotPtx,
    /// It begins as PTX and goes wrong.
    BadPtx,
}

/// Parses PTX text.
pub(crate) fn parse(text: &str) -> Result<Image, BadText> {
    let text = without_comments(text);
    if !text.contains(".version") || !text.contains(".target") {
        return Err(BadText::NotPtx);
    }
    items(&text).ok_or(BadText::BadPtx)
}

fn items(text: &str) -> Option<Image> {
    let mut image = Image::default();
    let mut rest = text;
    while let Some((head, tail)) = next_item(rest) {
        if !head.trim_start().starts_with('.') {
            return None;
        }
        if let Some(at) = head.find(".entry") {
            let open = head.find('{');
            let declaration = &head[at + 6..open.unwrap_or(head.len())];
            let body = open.map_or("", |open| &head[open + 1..head.len() - 1]);
            image.entries.push(entry(declaration, body)?);
        } else if (head.contains(".global") || head.contains(".const"))
            && !head.contains(".extern")
            && !head.contains(".func")
        {
            image.globals.push(global(head)?);
        }
        rest = tail;
    }
    Some(image)
}

fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        match (rest.find("//"), rest.find("/*")) {
            (Some(line), block) if block.is_none_or(|block| line < block) => {
                out.push_str(&rest[..line]);
                rest = rest[line..].find('\n').map_or("", |end| &rest[line + end..]);
            }
            (_, Some(block)) => {
                out.push_str(&rest[..block]);
                out.push(' ');
                rest = rest[block..].find("*/").map_or("", |end| &rest[block + end + 2..]);
            }
            _ => {
                out.push_str(rest);
                return out;
            }
        }
    }
}

/// The next declaration (to its `;`) or definition (to its closing brace), and what follows.
/// Directives without either end at their line.
fn next_item(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if text.is_empty() {
        return None;
    }
    for directive in [".version", ".target", ".address_size", ".file", ".section"] {
        if text.starts_with(directive) {
            let end = text.find('\n').unwrap_or(text.len());
            return Some(text.split_at(end));
        }
    }
    let (mut depth, mut is_code) = (0_usize, false);
    for (at, character) in text.char_indices() {
        match character {
            '{' => {
                // An initialiser's braces belong to its declaration.
                is_code |= depth == 0 && !text[..at].trim_end().ends_with('=');
                depth += 1;
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && is_code {
                    return Some(text.split_at(at + 1));
                }
            }
            ';' if depth == 0 => return Some(text.split_at(at + 1)),
            _ => {}
        }
    }
    Some((text, ""))
}

fn type_bytes(word: &str) -> Option<u64> {
    let digits = word.strip_prefix('.')?;
    if digits == "pred" {
        return Some(1);
    }
    let kind = digits.chars().next()?;
    let bits: u64 = digits[1..].parse().ok()?;
    (matches!(kind, 'b' | 'u' | 's' | 'f') && bits.is_multiple_of(8)).then_some(bits / 8)
}

/// The name, element size and element count of `… .b8 name[12]`.
fn variable(declaration: &str) -> Option<(String, u64, u64)> {
    let spaced = declaration.replace('[', " [").replace(';', " ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let at = words.iter().position(|word| type_bytes(word).is_some())?;
    let mut element = type_bytes(words[at])?;
    for word in &words[..at] {
        element *= match *word {
            ".v2" => 2,
            ".v4" => 4,
            _ => 1,
        };
    }
    let name = (*words.get(at + 1)?).to_owned();
    let mut count = 1;
    for word in &words[at + 2..] {
        if let Some(length) = word.strip_prefix('[').and_then(|w| w.strip_suffix(']')) {
            count *= length.trim().parse::<u64>().unwrap_or(0);
        }
    }
    Some((name, element, count))
}

fn global(declaration: &str) -> Option<Global> {
    let (left, right) = match declaration.split_once('=') {
        Some((left, right)) => (left, Some(right)),
        None => (declaration, None),
    };
    let (name, element, count) = variable(left)?;
    let (bytes, mut initial) = (element * count, Vec::new());
    let values = right.unwrap_or("").trim_end_matches(';').replace(['{', '}'], " ");
    for value in values.split(',').map(str::trim).filter(|value| !value.is_empty()) {
        let number = number(value).unwrap_or(0);
        initial.extend_from_slice(&number.to_le_bytes()[..element.min(8) as usize]);
    }
    Some(Global { name, bytes, initial, is_managed: left.contains(".attribute(.managed)") })
}

fn number(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex.trim_end_matches('U'), 16).ok();
    }
    if let Some(bits) = text.strip_prefix("0f") {
        return u64::from_str_radix(bits, 16).ok();
    }
    text.parse::<i64>().ok().map(i64::cast_unsigned).or_else(|| text.parse().ok())
}

fn entry(declaration: &str, body: &str) -> Option<PtxEntry> {
    let name = declaration.split(['(', '\n', ' ']).find(|word| !word.trim().is_empty())?;
    let mut made = PtxEntry { name: name.trim().to_owned(), registers: 8, ..PtxEntry::default() };
    if let Some((open, close)) = declaration.find('(').zip(declaration.rfind(')')) {
        let list = &declaration[open + 1..close];
        for parameter in list.split(',').filter(|parameter| !parameter.trim().is_empty()) {
            let (_, element, count) = variable(parameter)?;
            made.parameters.push(usize::try_from(element * count).ok()?);
        }
    }
    if let Some(at) = declaration.find(".maxntid") {
        let numbers = declaration[at + 8..].split(|c: char| !c.is_ascii_digit());
        let product = numbers.filter_map(|n| n.parse::<u32>().ok()).take(3).product();
        made.max_threads = Some(product);
    }
    let mut instructions = Vec::new();
    for statement in body.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let is_declaration = statement.starts_with('.');
        if is_declaration && statement.contains(".local") {
            let (_, element, count) = variable(statement)?;
            made.local_bytes += element * count;
        } else if is_declaration && statement.contains(".shared") {
            let (_, element, count) = variable(statement)?;
            made.shared_bytes += element * count;
        } else if let Some((_, count)) = statement.split_once('<').filter(|_| is_declaration) {
            made.registers += count.trim_end_matches('>').parse::<u32>().unwrap_or(0) / 2;
        } else if !is_declaration {
            instructions.push(statement.trim_matches(['{', '}']).trim());
        }
    }
    made.registers = made.registers.min(255);
    instructions.retain(|instruction| !instruction.is_empty());
    made.is_empty = instructions.iter().all(|instruction| matches!(*instruction, "ret" | "exit"));
    made.traps = instructions.first() == Some(&"trap");
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        .version 7.8 // a comment { with a brace
        .target sm_75
        .address_size 64
        .visible .global .align 4 .u32 answer = 42;
        .visible .global .align 16 .b8 big[8388608];
        .global .align 4 .u32 table[3] = {1, 2, 0x3};
        .visible .entry fill32(.param .u64 p, .param .u32 value,
            .param .u32 n)
        {
            .reg .b32 %r<10>;
            .local .align 8 .b8 depot[8192];
            ld.param.u64 %rd1, [p];
            ret;
        }
        .entry empty() .maxntid 256, 1, 1
        { ret; }
        .visible .entry trap_now() { trap; ret; }
    ";

    #[test]
    fn entries_and_globals_have_their_declared_sizes() {
        let image = parse(TEXT).expect("valid text");
        let names: Vec<&str> = image.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["fill32", "empty", "trap_now"]);
        assert_eq!(image.entries[0].parameters, [8, 4, 4]);
        assert_eq!(image.entries[0].local_bytes, 8192);
        assert!(!image.entries[0].is_empty && image.entries[1].is_empty);
        assert_eq!(image.entries[1].max_threads, Some(256));
        assert!(image.entries[2].traps);
        let sizes: Vec<u64> = image.globals.iter().map(|global| global.bytes).collect();
        assert_eq!(sizes, [4, 8_388_608, 12]);
        assert_eq!(image.globals[0].initial, [42, 0, 0, 0]);
        assert_eq!(image.globals[2].initial[8], 3);
    }

    #[test]
    fn text_that_is_not_ptx_is_refused() {
        assert_eq!(parse("hello"), Err(BadText::NotPtx));
        assert_eq!(parse(""), Err(BadText::NotPtx));
        let nonsense = ".version 7.8\n.target sm_75\nnonsense;\n";
        assert_eq!(parse(nonsense), Err(BadText::BadPtx));
    }
}
