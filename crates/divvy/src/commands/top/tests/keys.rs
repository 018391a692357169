//! Keys, and the changes that they ask for.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::app::{Action, App, Mode};
use super::super::model::Sort;
use super::*;

pub(super) fn key(app: &mut App, code: KeyCode) -> Action {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

pub(super) fn keys(app: &mut App, text: &str) -> Action {
    text.chars().fold(Action::None, |_, c| key(app, KeyCode::Char(c)))
}

fn names(app: &App) -> Vec<&str> {
    app.rows().map(|row| row.tenant.as_str()).collect()
}

fn changed(directory: &str, change: LimitChange) -> Action {
    Action::Change(directory.to_owned(), change)
}

fn compute(spec: &str) -> LimitChange {
    LimitChange { compute: vec![spec.to_owned()], ..LimitChange::default() }
}

#[test]
fn rows_are_sorted_within_their_device_and_the_choice_stays() {
    let mut app = App::new(picture());
    assert_eq!(names(&app), ["train", "small", "idle-one", "far"]);
    key(&mut app, KeyCode::Down);
    keys(&mut app, "s");
    assert_eq!(app.sort, Sort::Memory);
    assert_eq!(names(&app), ["idle-one", "small", "train", "far"]);
    assert_eq!(app.row().unwrap().tenant, "small");
    keys(&mut app, "ss");
    assert_eq!((app.sort, names(&app)), (Sort::Name, vec!["idle-one", "small", "train", "far"]));
    keys(&mut app, "r");
    assert_eq!(names(&app), ["train", "small", "idle-one", "far"]);
    assert_eq!(app.row().unwrap().tenant, "small");
    key(&mut app, KeyCode::End);
    key(&mut app, KeyCode::Down);
    assert_eq!(app.row().unwrap().tenant, "far");
    key(&mut app, KeyCode::PageUp);
    assert_eq!(app.row().unwrap().tenant, "train");
    app.update(Picture::of(None, &sampled(1, 1, vec![tenant("only", 0, 1)])), 1);
    assert_eq!(app.row().unwrap().tenant, "only");
    app.update(Picture::default(), 2);
    assert_eq!(keys(&mut app, "p"), Action::None);
    assert_eq!(app.mode, Mode::Rows, "there is nothing to ask about");
}

/// The first row is chosen until the user chooses one, whatever order rates bring; what is written stays a tenant's.
#[test]
fn the_choice_is_the_first_row_until_the_user_chooses() {
    let mut app =
        App::new(Picture::of(None, &sampled(1, 1, vec![tenant("aaa", 0, 0), tenant("zzz", 0, 0)])));
    assert_eq!(app.row().unwrap().tenant, "aaa");
    app.update(picture(), 2);
    assert_eq!(app.row().unwrap().tenant, names(&app)[0], "as the rates have it");
    keys(&mut app, "s");
    assert_eq!((app.chosen, app.row().unwrap().tenant.as_str()), (0, "idle-one"));
    keys(&mut app, "e5");
    app.update(Picture::of(None, &sampled(3, 1, vec![tenant("other", 0, 0)])), 3);
    assert_eq!(app.mode, Mode::Rows, "the tenant has ended");
    assert!(app.message.is_error);
    keys(&mut app, "eabc");
    key(&mut app, KeyCode::Enter);
    assert_eq!(app.mode, Mode::Rows, "what is no limit is not asked about");
    assert!(app.message.is_error && app.message.words.contains("abc"), "{:?}", app.message);
}

#[test]
fn a_filter_shows_those_whose_name_has_it() {
    let mut app = App::new(picture());
    key(&mut app, KeyCode::End);
    keys(&mut app, "/A");
    assert_eq!(names(&app), ["train", "small", "far"]);
    assert_eq!(app.row().unwrap().tenant, "far", "the choice stays");
    keys(&mut app, "Rq");
    assert_eq!((names(&app).len(), app.row().is_none()), (0, true));
    key(&mut app, KeyCode::Backspace);
    assert_eq!(names(&app), ["far"]);
    key(&mut app, KeyCode::Enter);
    assert_eq!((app.mode.clone(), names(&app)), (Mode::Rows, vec!["far"]));
    assert_eq!(key(&mut app, KeyCode::Esc), Action::None, "it shows all before it ends");
    assert_eq!(names(&app).len(), 4);
    keys(&mut app, "/tr");
    key(&mut app, KeyCode::Esc);
    assert_eq!((app.filter.as_str(), app.mode.clone()), ("", Mode::Rows));
    assert_eq!(key(&mut app, KeyCode::Esc), Action::Quit);
}

#[test]
fn the_list_of_keys_comes_and_goes() {
    let mut app = App::new(picture());
    keys(&mut app, "?");
    assert_eq!(app.mode, Mode::Help);
    assert_eq!(keys(&mut app, "p"), Action::None, "it only leaves the list");
    assert_eq!(app.mode, Mode::Rows);
    keys(&mut app, "?");
    assert_eq!(keys(&mut app, "q"), Action::Quit);
}

#[test]
fn a_pause_and_a_step_are_asked_about() {
    let mut app = App::new(picture());
    let pause = LimitChange { paused: Some(true), ..LimitChange::default() };
    assert_eq!(keys(&mut app, "p"), Action::None);
    assert!(
        matches!(&app.mode, Mode::Confirm { question, .. } if question.contains("train: pause;"))
    );
    assert_eq!(keys(&mut app, "n"), Action::None);
    assert_eq!((app.mode.clone(), &*app.message.words), (Mode::Rows, "nothing was changed"));
    assert_eq!(keys(&mut app, "py"), changed("/d/train", pause));
    app.picture.rows[0].paused = true;
    let resume = LimitChange { paused: Some(false), ..LimitChange::default() };
    assert_eq!(keys(&mut app, "p"), changed("/d/train", resume));
    for pressed in ["+", "-", "=", "+n", "-x"] {
        assert_eq!(keys(&mut app, pressed), Action::None, "one key changes nothing");
        key(&mut app, KeyCode::Enter);
        assert_eq!(app.mode, Mode::Rows);
    }
    assert_eq!(keys(&mut app, "+y"), changed("/d/train", compute("GPU-0=35%")));
    assert_eq!(keys(&mut app, "-"), Action::None);
    let asked = "train on GPU 0: cap 30% -> 25%";
    assert!(matches!(&app.mode, Mode::Confirm { question, .. } if question == asked));
    assert_eq!(keys(&mut app, "y"), changed("/d/train", compute("GPU-0=25%")));
    app.picture.rows[0].share_ppm = Some(60_000);
    assert_eq!(keys(&mut app, "-y"), changed("/d/train", compute("GPU-0=5%")));
    app.picture.rows[0].share_ppm = None;
    assert_eq!(keys(&mut app, "-y"), changed("/d/train", compute("GPU-0=95%")));
    keys(&mut app, "+");
    let unchanged = "train on GPU 0: unchanged, already without a cap";
    assert_eq!((app.mode.clone(), &*app.message.words), (Mode::Rows, unchanged));
}

#[test]
fn what_is_written_is_asked_about_and_set() {
    let mut app = App::new(picture());
    assert_eq!(keys(&mut app, "e12x"), Action::None);
    key(&mut app, KeyCode::Backspace);
    keys(&mut app, "%");
    assert_eq!(key(&mut app, KeyCode::Enter), Action::None);
    let asked = "train on GPU 0: cap 30% -> 12%";
    assert!(matches!(&app.mode, Mode::Confirm { question, .. } if question == asked));
    assert_eq!(keys(&mut app, "y"), changed("/d/train", compute("GPU-0=12%")));
    assert_eq!(app.mode, Mode::Rows);
    keys(&mut app, "m0=1g");
    key(&mut app, KeyCode::Enter);
    let memory = LimitChange { memory: vec!["0=1g".to_owned()], ..LimitChange::default() };
    assert_eq!(keys(&mut app, "y"), changed("/d/train", memory));
    keys(&mut app, "w5");
    key(&mut app, KeyCode::Enter);
    let weight = LimitChange { weight: Some("5".to_owned()), ..LimitChange::default() };
    assert_eq!(keys(&mut app, "y"), changed("/d/train", weight));
    keys(&mut app, "e");
    assert_eq!(keys(&mut app, "q"), Action::None, "a letter of the line");
    assert_eq!(key(&mut app, KeyCode::Esc), Action::None);
    keys(&mut app, "e");
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.key(control_c), Action::Quit);
}

#[test]
fn every_change_of_the_keys_is_understood_and_told() {
    let base = std::env::temp_dir().join(format!("divvy-top-{}", std::process::id()));
    std::fs::create_dir_all(&base).unwrap();
    let config =
        crate::tenants::limits::config("x", &divvy_policy::limit::Rules::new(), false, false);
    crate::tenants::ledger::write_config(&base, &config).unwrap();
    let mut app = App::new(picture());
    app.picture.rows[0].gpu = "GPU-00112233-4455-6677-8899-aabbccddeeff".to_owned();
    app.picture.rows[0].share_ppm = Some(950_000);
    let directory = base.display().to_string();
    let mut told = Vec::new();
    for pressed in ["-y", "+y", "py"] {
        let Action::Change(_, change) = keys(&mut app, pressed) else { panic!("no change") };
        told.push(change_limits(&directory, &change, app.row().unwrap()).unwrap());
    }
    assert_eq!(told[2], "train on GPU 0: paused", "{told:?}");
    let wrong = change_limits("/nonexistent", &LimitChange::default(), app.row().unwrap());
    assert!(wrong.is_err(), "{wrong:?}");
    std::fs::remove_dir_all(&base).unwrap();
}
