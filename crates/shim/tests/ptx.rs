//! The reader of PTX texts: what it takes for a global variable, and what not.

#[path = "../src/account/ptx.rs"]
mod ptx;

fn globals(text: &str) -> u64 {
    ptx::globals(|at| usize::try_from(at).ok().and_then(|at| text.as_bytes().get(at)).copied())
}

#[test]
fn declarations_are_summed() {
    for (text, bytes) in [
        (".visible .global .align 4 .b8 big[268435456];", 268_435_456),
        (".global .u32 a;", 4),
        (".global .align 8 .f64 m[3][5];", 120),
        (".global .u32 a, b[10];", 44),
        (".global .v4 .f32 v[2];", 32),
        (".global .f16x2 h[4];", 16),
        (".global .attribute(.managed) .align 8 .b8 x[64];", 64),
        (".global .s32 t[] = {1, 2, 3, 4};", 16),
        (".global .s32 one = 1, two[2] = {3, 4};", 12),
        (".global .b8 hex[0x20];", 32),
        (".global .b8 a[10];\n.global .b8 b[7];", 17),
        (".weak .global .align 1 .b8 name_that_is_far_longer_than_any_word_we_keep[9];", 9),
        (".global .texref tex;", 8),
    ] {
        assert_eq!(globals(text), bytes, "{text}");
    }
}

#[test]
fn what_only_looks_like_one_is_none() {
    for text in [
        "",
        "\u{7f}ELF.global .b8 a[9];",
        ".extern .global .b8 elsewhere[100];",
        ".const .align 4 .b8 c[100];",
        "// .global .b8 a[9];\n",
        "/* .global .b8 a[9]; */",
        ".entry k(.param .u64 .ptr .global .align 4 p) { ld.global.u32 %r1, [%rd1]; ret; }",
        ".shared .align 4 .b8 s[100];",
        ".entry k() { .local .b8 stack[100]; st.global.u32 [a], 1; }",
    ] {
        assert_eq!(globals(text), 0, "{text}");
    }
}

#[test]
fn an_extern_hides_nothing_after_it() {
    assert_eq!(globals(".extern .global .b8 a[9]; .global .b8 b[5];"), 5);
    assert_eq!(globals(".extern .func f (.param .b32 p); .global .b8 b[5];"), 5);
    assert_eq!(
        globals(".entry k(.param .u64 .ptr .global .align 4 p)\n{ ret; }\n.global .b8 b[5];"),
        5
    );
}

#[test]
fn nonsense_has_an_answer() {
    for text in [
        ".global",
        ".global .b8 a[",
        ".global .b8 a[18446744073709551615][9];",
        ".global ;",
        ".global , , ;",
        ".global .b8 a = {{{{",
        "/*",
        "//",
        ".global .align .b8 a;",
        ".global .b99999999999999999999 a;",
    ] {
        globals(text);
    }
    assert_eq!(globals(".global .b8 a[18446744073709551615][9];"), u64::MAX);
}
