//! A line of the log in plain English.
//!
//! Promises: each is one line, without characters that a terminal would obey. An event that this version does not know is told
//! by its own message.

use super::line::{Event, LogLine, Setting};
use crate::output::plain;

/// The line, without its time and its tenant.
pub(crate) fn human(line: &LogLine) -> String {
    let message = line.message.as_deref().unwrap_or_default();
    let text = match Event::of(&line.event) {
        Some(Event::Refused) => format!("{}{}{message}", who(line), times(line)),
        Some(Event::Changed) => format!("{}{}", change(line), by(line)),
        Some(Event::Made) => format!("was made{}", by(line)),
        Some(Event::Removed) => format!("was removed{}", by(line)),
        Some(Event::Adopted) => "is served by the daemon".to_owned(),
        Some(Event::Ended) => "has ended".to_owned(),
        Some(Event::NotServed) => format!("is not served by the daemon: {message}"),
        Some(Event::Started) => format!("the daemon began: {message}{}", by(line)),
        Some(Event::Stopped) => format!("the daemon ended: {message}{}", by(line)),
        Some(Event::TookOver) => format!("the daemon took over: {message}{}", by(line)),
        Some(Event::LockLost) => format!("a lock was lost: {message}"),
        Some(Event::HandOverFailed) => format!("a hand-over failed: {message}"),
        Some(Event::NoRoom) => format!("cannot run: {message}"),
        Some(Event::LinesLost) => format!("{}{message}", times(line)),
        None if message.is_empty() => line.event.clone(),
        None => message.to_owned(),
    };
    let code = line.code.as_ref().map_or_else(String::new, |code| format!(" [{code}]"));
    plain::line(&format!("{text}{}{code}", place(line))).into_owned()
}

/// The device of an event that is no change, where it is known.
fn place(line: &LogLine) -> String {
    match (&line.device, Event::of(&line.event)) {
        (Some(_), Some(event)) if event != Event::Changed => format!(", on {}", device(line)),
        _ => String::new(),
    }
}

fn device(line: &LogLine) -> String {
    match (line.index, &line.device) {
        (Some(index), _) => format!("GPU {index}"),
        (None, device) => device.clone().unwrap_or_default(),
    }
}

fn times(line: &LogLine) -> String {
    line.count.map_or_else(String::new, |count| format!("{count} times: "))
}

fn change(line: &LogLine) -> String {
    let (old, new) =
        (line.old.as_deref().unwrap_or_default(), line.new.as_deref().unwrap_or_default());
    let setting = line.setting.as_deref().unwrap_or_default();
    match (Setting::of(setting), new) {
        (Some(Setting::Paused), "on") => "paused".to_owned(),
        (Some(Setting::Paused), _) => "resumed".to_owned(),
        (Some(Setting::Frozen), "on") => "frozen: its memory is to leave the card".to_owned(),
        (Some(Setting::Frozen), _) => "thawed: its memory may come back".to_owned(),
        (Some(Setting::Schedule), new) => format!("turns of the daemon: {old} -> {new}"),
        _ => {
            let of = match line.device {
                Some(_) => format!(" of {}", device(line)),
                None => String::new(),
            };
            format!("{setting}{of}: {old} -> {new}")
        }
    }
}

/// The process that was refused something.
fn who(line: &LogLine) -> String {
    let name = line.by.as_deref().unwrap_or("a process");
    match line.pid {
        Some(pid) => format!("{name} (pid {pid}): "),
        None => format!("{name}: "),
    }
}

fn by(line: &LogLine) -> String {
    let inside: Vec<String> =
        line.pid.map(|pid| format!("pid {pid}")).into_iter().chain(line.by.clone()).collect();
    match (line.uid, inside.is_empty()) {
        (Some(uid), false) => format!(" by uid {uid} ({})", inside.join(", ")),
        (Some(uid), true) => format!(" by uid {uid}"),
        (None, false) => format!(" ({})", inside.join(", ")),
        (None, true) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_says_what_was_who_asked_and_what_is() {
        let line = LogLine {
            setting: Some("memory limit".to_owned()),
            old: Some("8 GiB".to_owned()),
            new: Some("6 GiB".to_owned()),
            device: Some("GPU-1".to_owned()),
            index: Some(0),
            uid: Some(1000),
            pid: Some(4242),
            by: Some("divvy set".to_owned()),
            ..LogLine::new(Event::Changed)
        };
        assert_eq!(
            human(&line),
            "memory limit of GPU 0: 8 GiB -> 6 GiB by uid 1000 (pid 4242, divvy set)"
        );
        let evil = LogLine { by: Some("a\u{1b}[2J\nb".to_owned()), ..line };
        assert!(human(&evil).ends_with("(pid 4242, a?[2J?b)"), "{}", human(&evil));
    }

    #[test]
    fn every_event_has_words_and_a_foreign_one_its_own() {
        for event in Event::ALL {
            let message = Some("why".to_owned());
            let line = LogLine { message, ..LogLine::new(*event) };
            assert!(human(&line).len() > 2 && !human(&line).starts_with(event.word()), "{line:?}");
        }
        let foreign = LogLine {
            event: "prepared".to_owned(),
            message: Some("claim a/b".to_owned()),
            ..LogLine::new(Event::Started)
        };
        assert_eq!(human(&foreign), "claim a/b");
    }
}
