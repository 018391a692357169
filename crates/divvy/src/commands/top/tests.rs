//! Pictures of known samples, keys, and a screen of a terminal that is none.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::Sort;
use super::*;
use crate::tenants::ledger::{DeviceUse, LedgerTenant, ResidenceUse};
use crate::wire::{DeviceView, LimitChange, MemoryView, View};

const SECOND_NS: u64 = 1_000_000_000;

fn tenant(name: &str, gpu: u32, used_ns: u64) -> LedgerTenant {
    let device = DeviceUse {
        uuid: format!("GPU-{gpu}"),
        index: Some(gpu),
        name: "H200".to_owned(),
        card_bytes: 141 << 30,
        limit_bytes: Some(8 << 30),
        held_bytes: (name.len() as u64) << 30,
        share_ppm: Some(300_000),
        used_ns,
        throttled_ns: used_ns / 2,
        launches: used_ns / 1000,
        queued_ns: 1_500_000,
        gate: "timed",
        ..DeviceUse::default()
    };
    LedgerTenant {
        name: name.to_owned(),
        directory: format!("/d/{name}"),
        priority: "normal",
        class: "normal",
        devices: vec![device],
        ..LedgerTenant::default()
    }
}

fn sampled(at_ns: u64, turns: u64, tenants: Vec<LedgerTenant>) -> Moment {
    let device = DeviceView {
        uuid: "GPU-0".to_owned(),
        mode: "held".to_owned(),
        turns,
        ..DeviceView::default()
    };
    let views = vec![View { pid: 1, devices: vec![device], ..View::default() }];
    Moment { at_ns, tenants, unreadable: 0, views }
}

fn picture() -> Picture {
    let before = sampled(
        SECOND_NS,
        100,
        vec![tenant("small", 0, 0), tenant("train", 0, SECOND_NS), tenant("far", 1, 5)],
    );
    let mut idle = tenant("idle-one", 0, 0);
    idle.devices[0].share_ppm = None;
    idle.devices[0].gate = "free";
    idle.weight = 3;
    let now = sampled(
        3 * SECOND_NS,
        300,
        vec![
            tenant("small", 0, SECOND_NS / 2),
            tenant("train", 0, 2 * SECOND_NS),
            // Runs backwards.
            tenant("far", 1, 1),
            idle,
        ],
    );
    Picture::of(Some(&before), &now)
}

fn key(app: &mut App, code: KeyCode) -> Action {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn names(app: &App) -> Vec<&str> {
    app.picture.rows.iter().map(|row| row.tenant.as_str()).collect()
}

#[test]
fn two_samples_give_shares_and_rates() {
    let picture = picture();
    let row = |name: &str| picture.rows.iter().find(|row| row.tenant == name).unwrap();
    assert_eq!(row("train").reached_ratio, Some(0.5));
    assert_eq!(
        (row("small").reached_ratio, row("small").throttled_ratio),
        (Some(0.25), Some(0.125))
    );
    assert_eq!(row("small").launches_per_second, Some(250_000.0));
    assert_eq!(row("far").reached_ratio, Some(0.0));
    assert_eq!(row("idle-one").reached_ratio, None, "it was not there before");
    assert_eq!(picture.over_ns, 2 * SECOND_NS);
    let gpu = &picture.gpus[0];
    assert_eq!((gpu.used_ratio, gpu.turns_per_second), (Some(0.75), Some(100.0)));
    assert_eq!((gpu.mode.as_deref(), picture.gpus[1].mode.as_deref()), (Some("held"), None));
    let first = Picture::of(None, &sampled(1, 1, vec![tenant("a", 0, 1)]));
    assert_eq!((first.rows[0].reached_ratio, first.gpus[0].turns_per_second), (None, None));
}

#[test]
fn a_daemon_that_divides_a_device_is_believed_before_one_that_does_not() {
    let mut now = sampled(SECOND_NS, 5, vec![tenant("a", 0, 1)]);
    let other = DeviceView {
        uuid: "GPU-0".to_owned(),
        mode: "counted".to_owned(),
        reason: Some("DV061".to_owned()),
        ..DeviceView::default()
    };
    now.views.push(View { pid: 2, devices: vec![other], ..View::default() });
    assert_eq!(Picture::of(None, &now).gpus[0].mode.as_deref(), Some("held"));
    now.views.reverse();
    let gpu = Picture::of(None, &now).gpus.remove(0);
    assert_eq!((gpu.mode.as_deref(), gpu.reason), (Some("held"), None));
}

#[test]
fn rows_are_sorted_within_their_device_and_the_choice_stays() {
    let mut app = App::new(picture());
    assert_eq!(names(&app), ["train", "small", "idle-one", "far"]);
    key(&mut app, KeyCode::Down);
    key(&mut app, KeyCode::Char('s'));
    assert_eq!(app.sort, Sort::Memory);
    assert_eq!(names(&app), ["idle-one", "small", "train", "far"]);
    assert_eq!(app.row().unwrap().tenant, "small");
    key(&mut app, KeyCode::Char('s'));
    key(&mut app, KeyCode::Char('s'));
    assert_eq!((app.sort, names(&app)), (Sort::Name, vec!["idle-one", "small", "train", "far"]));
    key(&mut app, KeyCode::End);
    key(&mut app, KeyCode::Down);
    assert_eq!(app.row().unwrap().tenant, "far");
    app.update(Picture::of(None, &sampled(1, 1, vec![tenant("only", 0, 1)])));
    assert_eq!(app.row().unwrap().tenant, "only");
    app.update(Picture::default());
    assert_eq!(key(&mut app, KeyCode::Char('p')), Action::None);
}

#[test]
fn keys_ask_for_the_changes_that_set_would_make() {
    let mut app = App::new(picture());
    let changed =
        |directory: &str, change: LimitChange| Action::Change(directory.to_owned(), change);
    let compute =
        |spec: &str| LimitChange { compute: vec![spec.to_owned()], ..LimitChange::default() };
    let pause = LimitChange { paused: Some(true), ..LimitChange::default() };
    assert_eq!(key(&mut app, KeyCode::Char('p')), changed("/d/train", pause));
    assert_eq!(key(&mut app, KeyCode::Char('+')), changed("/d/train", compute("GPU-0=35%")));
    assert_eq!(key(&mut app, KeyCode::Char('-')), changed("/d/train", compute("GPU-0=25%")));
    app.picture.rows[0].share_ppm = Some(60_000);
    assert_eq!(key(&mut app, KeyCode::Char('-')), changed("/d/train", compute("GPU-0=5%")));
    app.picture.rows[0].share_ppm = None;
    assert_eq!(key(&mut app, KeyCode::Char('-')), changed("/d/train", compute("GPU-0=95%")));
    for c in "e12x".chars() {
        assert_eq!(key(&mut app, KeyCode::Char(c)), Action::None);
    }
    key(&mut app, KeyCode::Backspace);
    key(&mut app, KeyCode::Char('%'));
    assert_eq!(key(&mut app, KeyCode::Enter), changed("/d/train", compute("GPU-0=12%")));
    assert!(app.input.is_none());
    for c in "m0=1g".chars() {
        key(&mut app, KeyCode::Char(c));
    }
    let memory = LimitChange { memory: vec!["0=1g".to_owned()], ..LimitChange::default() };
    assert_eq!(key(&mut app, KeyCode::Enter), changed("/d/train", memory));
    key(&mut app, KeyCode::Char('e'));
    assert_eq!(key(&mut app, KeyCode::Char('q')), Action::None, "a letter of the line");
    assert_eq!(key(&mut app, KeyCode::Esc), Action::None);
    assert_eq!(key(&mut app, KeyCode::Esc), Action::Quit);
    key(&mut app, KeyCode::Char('e'));
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.key(control_c), Action::Quit);
}

#[test]
fn every_change_of_the_keys_is_understood() {
    let base = std::env::temp_dir().join(format!("divvy-top-{}", std::process::id()));
    std::fs::create_dir_all(&base).unwrap();
    let config =
        crate::tenants::limits::config("x", &divvy_policy::limit::Rules::new(), false, false);
    crate::tenants::ledger::write_config(&base, &config).unwrap();
    let mut app = App::new(picture());
    app.picture.rows[0].gpu = "GPU-00112233-4455-6677-8899-aabbccddeeff".to_owned();
    app.picture.rows[0].share_ppm = Some(950_000);
    for code in [KeyCode::Char('-'), KeyCode::Char('+'), KeyCode::Char('p')] {
        let Action::Change(_, change) = key(&mut app, code) else { panic!("no change") };
        set::apply(&base, &change).unwrap();
    }
    std::fs::remove_dir_all(&base).unwrap();
}

fn screen_of(app: &App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| -> String {
        let cells = (0..width).map(|x| buffer.cell((x, y)).map_or(" ", |cell| cell.symbol()));
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

#[test]
fn the_screen_shows_devices_rows_and_keys() {
    let mut app = App::new(picture());
    let lines = screen_of(&app, 130, 14);
    assert_eq!(
        lines.join("\n"),
        "\
divvy top: 4 tenants on 2 GPUs; by share reached
GPU  NAME    HELD       OF   USED  TIME  TURNS/S  FOREIGN
0    H200  18 GiB  141 GiB  75.0%  held      100        0
1    H200   3 GiB  141 GiB   0.0%  -           -        0

GPU  TENANT     HELD  LIMIT  ASKED  REACHED  THROTTLED  WAITING   QUEUE  LAUNCHES/S  GATE   PRIORITY
0    train     5 GiB  8 GiB    30%    50.0%      25.0%     0.0%  1.5 ms      500000  timed  normal
0    small     5 GiB  8 GiB    30%    25.0%      12.5%     0.0%  1.5 ms      250000  timed  normal
0    idle-one  8 GiB  8 GiB     w3        -          -        -  1.5 ms           -  free   normal
1    far       3 GiB  8 GiB    30%     0.0%       0.0%     0.0%  1.5 ms           0  timed  normal



q quit  s sort  p pause/resume  +/- cap  e set cap  m set memory"
    );
    assert!(screen::text(&app).starts_with(&lines[..4].join("\n")));
    key(&mut app, KeyCode::Char('e'));
    key(&mut app, KeyCode::Char('7'));
    assert!(
        screen_of(&app, 130, 14)[13]
            .starts_with("compute share (30%, 0 for no cap, or default): 7_")
    );
    key(&mut app, KeyCode::Esc);
    app.tell("it is not yours".to_owned());
    assert_eq!(screen_of(&app, 130, 14)[13], "it is not yours");
}

#[test]
fn a_small_screen_scrolls_to_the_choice_and_no_size_is_too_small() {
    let mut app = App::new(picture());
    key(&mut app, KeyCode::End);
    let lines = screen_of(&app, 60, 9);
    assert!(lines[7].contains("far"), "{lines:?}");
    for (width, height) in [(1, 1), (3, 2), (200, 5)] {
        screen_of(&app, width, height);
        screen_of(&App::new(Picture::default()), width, height);
    }
}

#[test]
fn memory_that_may_leave_has_columns_where_a_tenant_has_such() {
    let moved = |out_bytes, out_ns, away_bytes| ResidenceUse {
        resident_bytes: 3 << 30,
        away_bytes,
        out_bytes,
        out_ns,
        ..ResidenceUse::default()
    };
    let with = |residence: ResidenceUse, status: &str| {
        let mut tenant = tenant("train", 0, 0);
        tenant.devices[0].residence = Some(residence);
        tenant.devices[0].memory_status = Some(status.to_owned());
        tenant
    };
    let before = sampled(SECOND_NS, 0, vec![with(moved(0, 0, 0), "runs")]);
    let waits =
        ResidenceUse { waiting_ns: 3 * SECOND_NS, ..moved(24 * SECOND_NS, SECOND_NS / 2, 2 << 30) };
    let mut now = sampled(2 * SECOND_NS, 0, vec![with(waits, "waits"), tenant("plain", 0, 0)]);
    now.views[0].devices[0].memory = Some(MemoryView {
        capacity_bytes: 138 << 30,
        resident_bytes: 137 << 30,
        away_bytes: 2 << 30,
        hand_overs: 7,
        longest_wait_ns: 31_300_000_000,
        ..MemoryView::default()
    });
    let app = App::new(Picture::of(Some(&before), &now));
    let lines = screen_of(&app, 150, 9);
    assert_eq!(
        lines.join("\n"),
        "\
divvy top: 2 tenants on 1 GPUs; by share reached
GPU  NAME    HELD       OF  USED  TIME  TURNS/S  FOREIGN
0    H200  10 GiB  141 GiB  0.0%  held        0        0
GPU 0: 137 GiB on the card where 138 GiB may be, 2 GiB away; 7 hand-overs, longest wait 31.3 s

GPU  TENANT   HELD  LIMIT  ON CARD   AWAY  MEMORY           GB/S  ASKED  REACHED  THROTTLED  WAITING   QUEUE  LAUNCHES/S  GATE   PRIORITY
0    train   5 GiB  8 GiB    3 GiB  2 GiB  waits 3.0 s  out 48.0    30%     0.0%       0.0%     0.0%  1.5 ms           0  timed  normal
0    plain   5 GiB  8 GiB        -      -  -                   -    30%        -          -        -  1.5 ms           -  timed  normal
q quit  s sort  p pause/resume  +/- cap  e set cap  m set memory"
    );
    assert!(screen::text(&app).starts_with(&lines[..4].join("\n")));
}
