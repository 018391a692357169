//! Rewrites a source file so that each of its mutants is behind a switch at run time.
//!
//! Operands are written once, whatever lies inside them: two of an operator are bound first and the operator chosen
//! then, and of a lazy one the first alone, which is `a && b` or, where `a` is not what the switch says, `a || b`. A
//! mutant of cargo-mutants is one of the text, so where an operator binds closer than its neighbours it is not quite
//! this one of the tree: `a + b * c`, mutated to `a * b * c`, is here `a * (b * c)`.
//!
//! Promises: with no switch on, the file does what it did. Does not promise that it compiles: a switch is no constant,
//! and some mutants are of a type that does not exist. Those that `tree` finds by the compiler's errors are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Pat, Signature};

use super::edits::{Edits, Site};
use super::list::{Genre, Mutant};

/// A file with its switches.
#[derive(Debug)]
pub(super) struct Switched {
    pub(super) text: String,
    pub(super) sites: Vec<Site>,
    /// Mutants of constants, in which nothing can be switched at run time.
    pub(super) constant: BTreeSet<u32>,
    /// Mutants without a switch: of `&&` beside a `let`, where `||` is no Rust, and of what this does not look into.
    pub(super) unplaced: BTreeSet<u32>,
}

/// Puts the switches of `mutants`, all of this file, into `text`. Functions that are `const` lose it, but for those
/// named in `const_fns` and constructors, of which statics and arrays are made.
pub(super) fn rewrite(
    text: &str,
    mutants: &[&Mutant],
    const_fns: &BTreeSet<String>,
) -> Result<Switched> {
    let file = syn::parse_file(text).context("not parsed")?;
    let mut wanted: BTreeMap<(Genre, usize, usize), Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        wanted.entry((mutant.genre, mutant.line, mutant.column)).or_default().push(mutant);
    }
    let mut switch = Switch {
        text,
        wanted,
        const_fns,
        edits: Edits::default(),
        constant: BTreeSet::new(),
        depth: 0,
        in_constant: 0,
    };
    switch.visit_file(&file);
    let constant = switch.constant;
    let (text, sites) = switch.edits.apply(text);
    let mut unplaced: BTreeSet<u32> = numbers(mutants).into_iter().collect();
    unplaced.retain(|number| !constant.contains(number));
    for number in sites.iter().flat_map(|site| &site.numbers) {
        unplaced.remove(number);
    }
    Ok(Switched { text, sites, constant, unplaced })
}

struct Switch<'a> {
    text: &'a str,
    wanted: BTreeMap<(Genre, usize, usize), Vec<&'a Mutant>>,
    const_fns: &'a BTreeSet<String>,
    edits: Edits,
    constant: BTreeSet<u32>,
    /// Expressions around this one.
    depth: usize,
    /// Constants around it.
    in_constant: usize,
}

/// The test of a mutant's switch.
fn is(mutant: &Mutant) -> String {
    format!("crate::mutant::is({})", mutant.number)
}

/// `if` and `else if` of each mutant with what it does, and what is done else.
fn choose(mutants: &[&Mutant], mutated: impl Fn(&Mutant) -> String, original: &str) -> String {
    let mut text = String::new();
    for mutant in mutants {
        text.push_str(&format!("if {} {{ {} }} else ", is(mutant), mutated(mutant)));
    }
    text + &format!("{{ {original} }}")
}

fn numbers(mutants: &[&Mutant]) -> Vec<u32> {
    mutants.iter().map(|mutant| mutant.number).collect()
}

/// Whether a chain of `&&` binds anything, so that it is no expression of its own.
fn binds(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            binds(&binary.left) || binds(&binary.right)
        }
        _ => false,
    }
}

/// Whether a pattern takes whatever is left, so that a match without it is not exhaustive. Constants are upper case.
fn takes_all(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Tuple(tuple) => tuple.elems.iter().all(takes_all),
        Pat::Ident(name) => name.ident.to_string().starts_with(|first: char| first.is_lowercase()),
        _ => false,
    }
}

fn is_assignment(op: BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

impl<'a> Switch<'a> {
    /// The mutants of a kind that begin here; none in a constant.
    fn at(&mut self, genre: Genre, span: Span) -> Vec<&'a Mutant> {
        let start = span.start();
        let found = self.wanted.remove(&(genre, start.line, start.column + 1)).unwrap_or_default();
        if self.in_constant == 0 {
            return found;
        }
        self.constant.extend(numbers(&found));
        Vec::new()
    }

    fn source(&self, span: Span) -> &'a str {
        &self.text[span.byte_range()]
    }

    /// Puts two texts around a range.
    fn wrap(&mut self, mutants: &[&Mutant], around: Range<usize>, texts: [String; 2]) -> usize {
        let [before, behind] = texts;
        let site = self.edits.site(numbers(mutants));
        self.edits.begin(site, around.start, self.depth, before);
        self.edits.end(site, around.end, self.depth, behind);
        site
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let mutants = self.at(Genre::Binary, binary.op.span());
        if mutants.is_empty() {
            return;
        }
        let (op, range) = (self.source(binary.op.span()), binary.span().byte_range());
        let (begins, between, ends) = match binary.op {
            BinOp::And(_) | BinOp::Or(_) => {
                let lazy = if op == "&&" { "!=" } else { "==" };
                let any = mutants.iter().map(|mutant| is(mutant)).collect::<Vec<_>>().join(" | ");
                let between = format!(") {{ mutant_a => if mutant_a {lazy} ({any}) {{ ");
                ("(match (".to_owned(), between, " } else { mutant_a } })".to_owned())
            }
            BinOp::Eq(_)
            | BinOp::Ne(_)
            | BinOp::Lt(_)
            | BinOp::Le(_)
            | BinOp::Gt(_)
            | BinOp::Ge(_) => {
                // As references: a comparison moves nothing.
                let with = |op: &str| format!("*mutant_a {op} *mutant_b");
                let chosen = choose(&mutants, |mutant| with(&mutant.replacement), &with(op));
                let ends = format!(")) {{ (mutant_a, mutant_b) => {chosen} }})");
                ("(match (&(".to_owned(), "), &(".to_owned(), ends)
            }
            _ => {
                let with = |op: &str| format!("mutant_a {op} mutant_b");
                let chosen = choose(&mutants, |mutant| with(&mutant.replacement), &with(op));
                let ends = format!(") {{ (mutant_a, mutant_b) => {chosen} }})");
                ("(match (".to_owned(), ",".to_owned(), ends)
            }
        };
        let site = self.wrap(&mutants, range, [begins, ends]);
        self.edits.replace(Some(site), binary.op.span().byte_range(), &between);
    }

    /// `a += b`: whether it has a switch. The right side comes first, as it may read what the left one is about to be;
    /// so the left one is moved behind it, without switches of its own.
    fn assignment(&mut self, binary: &syn::ExprBinary) -> bool {
        let mutants = self.at(Genre::Binary, binary.op.span());
        if mutants.is_empty() {
            return false;
        }
        let (op, left) = (binary.op.span(), binary.left.span());
        let with = |op: &str| format!("*mutant_a {op} mutant_b");
        let chosen = choose(&mutants, |mutant| with(&mutant.replacement), &with(self.source(op)));
        let place = self.source(left);
        let behind = format!(") {{ mutant_b => match &mut ({place}) {{ mutant_a => {chosen} }} }}");
        let site = self.edits.site(numbers(&mutants));
        self.edits.replace(Some(site), left.byte_range().start..op.byte_range().end, "match (");
        self.edits.end(site, binary.span().byte_range().end, self.depth, behind);
        true
    }

    fn unary(&mut self, unary: &syn::ExprUnary) {
        let mutants = self.at(Genre::Unary, unary.op.span());
        if mutants.is_empty() {
            return;
        }
        let whole = format!("{}mutant_a", self.source(unary.op.span()));
        let chosen = choose(&mutants, |_| "mutant_a".to_owned(), &whole);
        let texts = ["(match (".to_owned(), format!(") {{ mutant_a => {chosen} }})")];
        let site = self.wrap(&mutants, unary.span().byte_range(), texts);
        self.edits.replace(Some(site), unary.op.span().byte_range(), "");
    }

    /// Leaves out the links of a chain with `let`: no side of them can be taken out of it.
    fn forget_chain(&mut self, left: &Expr) {
        let mut left = left;
        while let Expr::Binary(inner) = left
            && matches!(inner.op, BinOp::And(_))
        {
            let start = inner.op.span().start();
            self.wanted.remove(&(Genre::Binary, start.line, start.column + 1));
            left = &inner.left;
        }
    }

    fn fields(&mut self, expr: &syn::ExprStruct) {
        let Some(base) = expr.rest.as_deref() else { return };
        let base = self.source(base.span());
        for field in &expr.fields {
            let mutants = self.at(Genre::Field, field.span());
            if mutants.is_empty() {
                continue;
            }
            let name = self.source(field.member.span());
            let label =
                if field.colon_token.is_none() { format!("{name}: ") } else { String::new() };
            let any = mutants.iter().map(|mutant| is(mutant)).collect::<Vec<_>>().join(" | ");
            let texts =
                [format!("{label}if {any} {{ ({base}).{name} }} else {{ "), " }".to_owned()];
            self.wrap(&mutants, field.expr.span().byte_range(), texts);
        }
    }

    fn arm(&mut self, arm: &syn::Arm, has_rest: bool) {
        let mut gone = self.at(Genre::Arm, arm.span());
        if !has_rest {
            gone.clear();
        }
        let stays: String = gone.iter().map(|mutant| format!("!{} && ", is(mutant))).collect();
        let Some((_, guard)) = &arm.guard else {
            if !gone.is_empty() && !takes_all(&arm.pat) {
                let site = self.edits.site(numbers(&gone));
                let stays = format!(" if {}", stays.trim_end_matches(" && "));
                self.edits.end(site, arm.pat.span().byte_range().end, self.depth, stays);
            }
            return;
        };
        let mutants = self.at(Genre::Guard, guard.span());
        if gone.is_empty() && mutants.is_empty() {
            return;
        }
        let mut begins = format!("{stays}(");
        for mutant in &mutants {
            let is = is(mutant);
            begins += &if mutant.replacement == "true" {
                format!("{is} || ")
            } else {
                format!("!{is} && ")
            };
        }
        let all: Vec<&Mutant> = gone.into_iter().chain(mutants).collect();
        self.wrap(&all, guard.span().byte_range(), [begins + "(", "))".to_owned()]);
    }

    fn function(&mut self, signature: &Signature, block: &Block) -> bool {
        let is_const = signature.constness.is_some_and(|word| {
            let makes_self = matches!(&signature.output, syn::ReturnType::Type(_, of)
                if self.source(of.span()) == "Self");
            let stays = makes_self || self.const_fns.contains(&signature.ident.to_string());
            if !stays {
                self.edits.replace(None, word.span.byte_range(), "");
            }
            stays
        });
        self.in_constant += usize::from(is_const);
        if let Some(first) = block.stmts.first() {
            let inside = block.brace_token.span.open().byte_range().end;
            for mutant in self.at(Genre::Function, first.span()) {
                let site = self.edits.site(vec![mutant.number]);
                let text = format!(" if {} {{ return {}; }}", is(mutant), mutant.replacement);
                self.edits.begin(site, inside, self.depth, text);
            }
        }
        is_const
    }

    fn constant(&mut self, visit: impl FnOnce(&mut Self)) {
        self.in_constant += 1;
        visit(self);
        self.in_constant -= 1;
    }
}

impl<'ast> Visit<'ast> for Switch<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        self.depth += 1;
        match expr {
            // `let` in a chain: neither side can be taken out of it, and with `||` it is no Rust.
            Expr::Binary(binary) if binds(expr) => self.forget_chain(&binary.left),
            Expr::Binary(binary) if is_assignment(binary.op) && self.assignment(binary) => {
                self.visit_expr(&binary.right);
                self.depth -= 1;
                return;
            }
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(unary) => self.unary(unary),
            Expr::Struct(fields) => self.fields(fields),
            Expr::Match(expr) => {
                let takes_rest = |arm: &syn::Arm| arm.guard.is_none() && takes_all(&arm.pat);
                let has_rest = expr.arms.iter().any(takes_rest);
                expr.arms.iter().for_each(|arm| self.arm(arm, has_rest));
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
        self.depth -= 1;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let is_const = self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
        self.in_constant -= usize::from(is_const);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let is_const = self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
        self.in_constant -= usize::from(is_const);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let is_const = item.default.as_ref().is_some_and(|block| self.function(&item.sig, block));
        visit::visit_trait_item_fn(self, item);
        self.in_constant -= usize::from(is_const);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant(|this| visit::visit_item_const(this, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(|this| visit::visit_impl_item_const(this, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constant(|this| visit::visit_item_static(this, item));
    }

    fn visit_expr_const(&mut self, expr: &'ast syn::ExprConst) {
        self.constant(|this| visit::visit_expr_const(this, expr));
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.constant(|this| visit::visit_type_array(this, array));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switched(text: &str, genre: Genre, place: (usize, usize), replacement: &str) -> String {
        let mutant = Mutant {
            number: 7,
            name: String::new(),
            file: String::new(),
            genre,
            line: place.0,
            column: place.1,
            replacement: replacement.to_owned(),
            bytes: None,
        };
        rewrite(text, &[&mutant], &BTreeSet::new()).expect("parsed").text
    }

    #[test]
    fn operators_are_chosen_once_their_operands_are_there() {
        let of = |text: &str, column: usize, replacement: &str| {
            let text = format!("fn f() {{ {text} }}");
            switched(&text, Genre::Binary, (1, column + 9), replacement)
        };
        assert!(of("a + b", 3, "-").contains(
            "(match (a , b) { (mutant_a, mutant_b) => if crate::mutant::is(7) \
             { mutant_a - mutant_b } else { mutant_a + mutant_b } })"
        ));
        assert!(of("a && b", 3, "||").contains(
            "(match (a ) { mutant_a => if mutant_a != (crate::mutant::is(7)) {  b } else { mutant_a } })"
        ));
        assert!(
            of("a += b;", 3, "-=").contains("match ( b) { mutant_b => match &mut (a) { mutant_a")
        );
        assert!(!of("if a && let b = c {}", 6, "||").contains("mutant"));
    }

    #[test]
    fn functions_arms_and_guards_have_switches() {
        let text = "const fn f(a: u8) -> u8 {\n    match a {\n        1 => 2,\n        b if b > 3 => 4,\n        _ => 5,\n    }\n}";
        let function = switched(text, Genre::Function, (2, 5), "0");
        assert!(function.contains(" fn f(a: u8) -> u8 { if crate::mutant::is(7) { return 0; }"));
        assert!(!function.contains("const"));
        let arm = switched(text, Genre::Arm, (3, 9), "");
        assert!(arm.contains("1 if !crate::mutant::is(7) => 2"));
        let guard = switched(text, Genre::Guard, (4, 14), "true");
        assert!(guard.contains("b if (crate::mutant::is(7) || (b > 3)) => 4"));
    }
}
