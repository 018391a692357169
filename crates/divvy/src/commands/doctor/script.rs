//! Lines of a shell's script by which what is preloaded, or the tenant, does not reach what it starts.
//!
//! Words are judged, not run: an assignment that keeps what was there, a comment and another variable are left alone. Does not
//! follow variables, functions or other files.

use super::finding::Finding;
use super::preload::Preloaded;
use crate::machine::install;
use crate::output::reason::Reason;

/// Commands that run a program as another user, whose environment is then that user's.
pub(super) const CHANGES_USER: [&str; 6] = ["sudo", "su", "doas", "pkexec", "runuser", "sudoedit"];
/// Words behind which a command begins.
const BEFORE_COMMAND: [&str; 10] =
    ["exec", "nohup", "time", "then", "do", "else", "!", "{", "command", "nice"];
/// Variable by which the library is preloaded.
const LD_PRELOAD: &str = "LD_PRELOAD";

/// Something that loses the library or the tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// All variables go.
    Emptied,
    /// This variable goes.
    Unset(String),
    /// This comes in place of the libraries that are preloaded.
    Replaced(String),
    /// A command that runs programs as another user.
    OtherUser(String),
}

impl Loss {
    pub(super) fn of_unset(name: &str) -> Option<Self> {
        let is_ours = name == LD_PRELOAD || name == divvy_policy::variables::TENANT;
        is_ours.then(|| Self::Unset(name.to_owned()))
    }

    /// The loss by an assignment. A value that keeps the old one, or brings the library itself, loses nothing; other variables do
    /// not either.
    pub(super) fn of_set(name: &str, value: &str) -> Option<Self> {
        let keeps = value.contains("$LD_PRELOAD") || value.contains("${LD_PRELOAD");
        let mut entries = install::preload_entries(value, "");
        let brings = entries.any(|(_, path)| install::is_ours(path.as_ref()) == Some(true));
        (name == LD_PRELOAD && !keeps && !brings).then(|| Self::Replaced(value.to_owned()))
    }

    /// The finding, where the library comes by a way that is lost.
    pub(super) fn finding(&self, place: &str, preloaded: Preloaded) -> Option<Finding> {
        let (words, fix) = match self {
            Self::Emptied => (
                "empties the environment".to_owned(),
                "keep LD_PRELOAD and DIVVY_TENANT: env -i LD_PRELOAD=\"$LD_PRELOAD\" DIVVY_TENANT=\"$DIVVY_TENANT\""
                    .to_owned(),
            ),
            Self::Unset(name) => (format!("takes {name} away"), format!("leave {name} as it is")),
            Self::Replaced(value) => (
                format!("sets LD_PRELOAD={value} in place of what is preloaded"),
                format!("write LD_PRELOAD={value}:$LD_PRELOAD"),
            ),
            Self::OtherUser(command) => (
                format!("starts a program by {command}, which clears LD_PRELOAD"),
                format!("run divvy inside: {command} … divvy run …"),
            ),
        };
        // The machine's file brings the library whatever the variables are, but not the tenant.
        let is_preload = match self {
            Self::Unset(name) => name == LD_PRELOAD,
            Self::Replaced(_) => true,
            Self::Emptied | Self::OtherUser(_) => false,
        };
        let found = format!("{place} {words}: what it starts is not limited");
        (!(is_preload && preloaded.by_file)).then(|| Finding::bad(Reason::Launcher, found, fix))
    }
}

pub(super) fn is_shell(name: &str) -> bool {
    matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "mksh" | "rbash")
}

/// Findings of a script's text, which lies at `place`.
pub(super) fn look(text: &str, place: &str, preloaded: Preloaded) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let place = match text.lines().nth(1) {
            Some(_) => format!("line {number} of {place}"),
            None => place.to_owned(),
        };
        findings.extend(losses(line).iter().filter_map(|loss| loss.finding(&place, preloaded)));
    }
    findings
}

/// A word of a line, or the end of a command.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    End,
}

/// Words of a line as a shell splits them: quotes join, a comment ends it.
fn tokens(line: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            (None, ';' | '&' | '|' | '(' | ')' | '`') => {
                tokens.extend(word.take().map(Token::Word));
                tokens.push(Token::End);
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    tokens.extend(word.map(Token::Word));
    tokens
}

fn losses(line: &str) -> Vec<Loss> {
    let mut losses = Vec::new();
    let tokens = tokens(line);
    for command in tokens.split(|token| *token == Token::End) {
        let words: Vec<&str> = command
            .iter()
            .filter_map(|token| match token {
                Token::Word(word) => Some(word.as_str()),
                Token::End => None,
            })
            .collect();
        losses.extend(of_command(&words));
    }
    losses
}

/// Losses of one simple command.
fn of_command(words: &[&str]) -> Vec<Loss> {
    let mut losses: Vec<Loss> = words
        .iter()
        .filter_map(|word| word.split_once('='))
        .filter_map(|(name, value)| Loss::of_set(name, value))
        .collect();
    let is_before = |word: &&&str| BEFORE_COMMAND.contains(*word) || word.contains('=');
    let skipped = words.iter().take_while(is_before).count();
    let Some((command, rest)) = words.get(skipped..).and_then(<[&str]>::split_first) else {
        return losses;
    };
    let name = command.rsplit('/').next().unwrap_or_default();
    if CHANGES_USER.contains(&name) {
        losses.push(Loss::OtherUser(name.to_owned()));
    }
    let removes = match name {
        "unset" => true,
        "export" | "declare" | "typeset" => rest.iter().any(|word| matches!(*word, "-n" | "+x")),
        _ => false,
    };
    if removes {
        losses.extend(rest.iter().filter_map(|word| Loss::of_unset(word)));
    }
    if name == "env" {
        losses.extend(
            of_env(rest).0.into_iter().filter(|loss| !losses.contains(loss)).collect::<Vec<_>>(),
        );
    }
    losses
}

/// Losses by `env` with these words, and where among them the program stands.
pub(super) fn of_env(words: &[&str]) -> (Vec<Loss>, usize) {
    let mut losses = Vec::new();
    let (mut keeps_library, mut keeps_tenant) = (false, false);
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if *word == "--" {
            break;
        }
        if let Some((name, value)) = word.split_once('=').filter(|_| !word.starts_with('-')) {
            let loss = Loss::of_set(name, value);
            keeps_library |= name == LD_PRELOAD && loss.is_none();
            keeps_tenant |= name == divvy_policy::variables::TENANT;
            losses.extend(loss);
            continue;
        }
        let Some(option) = word.strip_prefix('-') else {
            at -= 1;
            break;
        };
        let is_short = !option.starts_with('-');
        if matches!(option, "" | "-ignore-environment") || (is_short && option.contains('i')) {
            losses.push(Loss::Emptied);
        }
        let takes_next = matches!(*word, "-u" | "--unset" | "-C" | "--chdir");
        let name = match *word {
            "-u" | "--unset" => words.get(at).copied(),
            _ => word.strip_prefix("--unset=").or_else(|| word.strip_prefix("-u")),
        };
        losses.extend(name.and_then(Loss::of_unset));
        at += usize::from(takes_next);
    }
    if keeps_library && keeps_tenant {
        losses.retain(|loss| *loss != Loss::Emptied);
    }
    (losses, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_lose_the_library_are_found_and_others_left_alone() {
        for good in [
            "export LD_PRELOAD=/x/libfake.so:$LD_PRELOAD",
            "LD_PRELOAD=\"${LD_PRELOAD:+$LD_PRELOAD:}/x.so\" exec \"$@\"",
            "# unset LD_PRELOAD",
            "echo 'sudo is not here' # env -i",
            "env A=1 make -i",
            "env -i LD_PRELOAD=\"$LD_PRELOAD\" DIVVY_TENANT=\"$DIVVY_TENANT\" \"$@\"",
            "unset HOME",
            "cat sudo",
            "export MY_LD_PRELOAD=/x.so",
        ] {
            assert_eq!(losses(good), [], "{good}");
        }
        let replaced = |value: &str| vec![Loss::Replaced(value.to_owned())];
        let unset = |name: &str| vec![Loss::Unset(name.to_owned())];
        for (bad, wanted) in [
            ("export LD_PRELOAD=/usr/lib/libfakeroot-0.so", replaced("/usr/lib/libfakeroot-0.so")),
            ("LD_PRELOAD='/a b.so' exec \"$@\"", replaced("/a b.so")),
            ("LD_PRELOAD= exec \"$@\"", replaced("")),
            ("if true; then unset LD_PRELOAD; fi", unset("LD_PRELOAD")),
            ("unset A LD_PRELOAD B", unset("LD_PRELOAD")),
            ("export -n LD_PRELOAD", unset("LD_PRELOAD")),
            ("exec env -u LD_PRELOAD \"$@\"", unset("LD_PRELOAD")),
            ("/usr/bin/env --unset=LD_PRELOAD x", unset("LD_PRELOAD")),
            ("exec env -i PATH=$PATH \"$@\"", vec![Loss::Emptied]),
            ("cd /x && sudo -E \"$@\"", vec![Loss::OtherUser("sudo".to_owned())]),
            ("exec su - user -c \"$*\"", vec![Loss::OtherUser("su".to_owned())]),
        ] {
            assert_eq!(losses(bad), wanted, "{bad}");
        }
    }

    #[test]
    fn by_the_machines_file_the_library_comes_in_spite_of_variables() {
        let by_file = Preloaded { by_variable: false, by_file: true };
        assert!(look("unset LD_PRELOAD", "x", by_file).is_empty());
        assert_eq!(look("env -i x", "x", by_file).len(), 1);
        let told = look("#!/bin/sh\nunset LD_PRELOAD\n", "x", Preloaded::default());
        assert!(told[0].found.starts_with("line 2 of x takes LD_PRELOAD away"), "{told:?}");
    }
}
