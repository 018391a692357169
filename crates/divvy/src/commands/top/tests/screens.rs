//! Screens of a terminal that is none, at widths that people have, as golden text; and at every width there is.

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};

use super::super::app::App;
use super::super::table;
use super::keys::{key, keys};
use super::*;
use crate::golden;

const LOOK: Look = Look { theme: Theme { has_color: false }, glyphs: Glyphs::Unicode };

pub(super) fn drawn(app: &App, look: Look, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, app, look)).unwrap();
    terminal.backend().buffer().clone()
}

pub(super) fn lines_of(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y: u16| -> String {
        let cells = (0..area.width).map(|x| buffer.cell((x, y)).map_or(" ", |cell| cell.symbol()));
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..area.height).map(line).collect()
}

fn screen_of(app: &App, width: u16, height: u16) -> Vec<String> {
    lines_of(&drawn(app, LOOK, width, height))
}

/// A minute of four tenants on two devices, of which one is at its cap, one at its limit and one paused.
fn busy() -> App {
    let mut app = App::new(Picture::default());
    let mut before: Option<Moment> = None;
    for second in 1..=60_u64 {
        let used = |part: f64| (part * second as f64 * SECOND_NS as f64) as u64;
        let wave = (second as f64 / 6.0).sin() * 0.5 + 0.5;
        let mut train = tenant("train", 0, used(0.3));
        train.devices[0].throttled_ns = used(0.6);
        train.devices[0].held_bytes = 40 << 30;
        train.devices[0].limit_bytes = Some(48 << 30);
        let mut serve = tenant("serve", 0, 0);
        // The sum of a wave.
        let sum: f64 = (1..=second).map(|at| (at as f64 / 6.0).sin() * 0.25 + 0.25).sum();
        serve.devices[0].used_ns = (sum * SECOND_NS as f64) as u64;
        serve.devices[0].share_ppm = None;
        serve.devices[0].limit_bytes = Some(64 << 30);
        serve.devices[0].held_bytes = (wave * 60.0) as u64 * (1 << 30);
        serve.weight = 2;
        serve.priority = "high";
        serve.class = "latency";
        serve.processes =
            vec![process(4711, "python3", 9 << 30), process(4720, "python3", 4 << 30)];
        let mut full = tenant("notebooks-of-a-long-name", 0, used(0.05));
        full.devices[0].held_bytes = (79 << 30) / 10;
        full.devices[0].refusals = second;
        full.devices[0].share_ppm = Some(50_000);
        let mut idle = tenant("idle", 1, 0);
        idle.devices[0].gate = "paused";
        idle.paused = true;
        let mut now = sampled(second * SECOND_NS, 98 * second, vec![train, serve, full, idle]);
        now.views[0].devices[0].foreign = 1;
        app.update(Picture::of(before.as_ref(), &now), now.at_ns);
        before = Some(now);
    }
    app
}

fn process(pid: u32, comm: &str, held_bytes: u64) -> Process {
    let uses = vec![Use {
        uuid: "GPU-0".to_owned(),
        held_bytes,
        refusals: 0,
        by_kind: [("blocks", held_bytes - (518 << 20)), ("contexts", 518 << 20)].into(),
    }];
    let comm = comm.to_owned();
    Process { pid, pid_namespace: 1, comm, starting: false, last_reason: 0, uses }
}

/// The same sorted by memory, with the processes of one that is chosen.
pub(super) fn busy_app() -> App {
    let mut app = busy();
    keys(&mut app, "s");
    let serve = app.rows().position(|row| row.tenant == "serve").unwrap();
    app.chosen = serve;
    key(&mut app, KeyCode::Enter);
    app
}

fn busy_screen(width: u16) -> String {
    screen_of(&busy_app(), width, 16).join("\n") + "\n"
}

/// The screen at a width, as `golden/WIDTH.txt` has it; the guide shows the one of 80 columns.
#[test]
fn the_screen_at_the_widths_that_people_have() {
    for width in [60, 80, 111, 140, 200] {
        let file = format!("crates/divvy/src/commands/top/golden/{width}.txt");
        golden::file(&file, &busy_screen(width));
    }
    golden::fenced("docs/guide/top.md", "$ divvy top\n", &busy_screen(80));
}

#[test]
fn the_list_of_keys_is_a_screen() {
    let mut app = busy();
    keys(&mut app, "?");
    let text = screen_of(&app, 60, 24).join("\n") + "\n";
    golden::file("crates/divvy/src/commands/top/golden/help.txt", &text);
}

#[test]
fn the_foot_is_keys_a_line_a_question_or_an_answer() {
    let mut app = App::new(picture());
    let foot = |app: &App, width| screen_of(app, width, 14).pop().unwrap();
    assert!(foot(&app, 130).starts_with("? help  q quit  Enter processes"), "{}", foot(&app, 130));
    keys(&mut app, "e7%");
    assert!(foot(&app, 130).starts_with("cap (30%, 0 for none, or default): 7%_"));
    key(&mut app, KeyCode::Enter);
    assert_eq!(foot(&app, 130), "train on GPU 0: cap 30% -> 7%  apply? [y/N]");
    assert!(foot(&app, 30).ends_with("…  apply? [y/N]"), "the way out is always said");
    key(&mut app, KeyCode::Esc);
    app.tell(Err("it is not yours".to_owned()));
    assert_eq!(foot(&app, 130), "it is not yours");
    keys(&mut app, "/mal");
    assert_eq!(foot(&app, 130), "name has: mal_   (Enter keeps, Esc shows all)");
    let title = screen_of(&app, 130, 14).remove(0);
    assert_eq!(title, "divvy top: 4 tenants on 2 GPUs; by share reached; 1 of 4 rows have \"mal\"");
}

#[test]
fn colours_say_what_stands_beside_them() {
    let app = busy();
    let look = Look { theme: Theme { has_color: true }, ..LOOK };
    let buffer = drawn(&app, look, 140, 16);
    let lines = lines_of(&buffer);
    let color = |name: &str, text: &str| {
        let y = lines.iter().rposition(|line| line.contains(name)).unwrap();
        let at = lines[y].find(text).unwrap_or_else(|| panic!("no {text} in {}", lines[y]));
        let x = lines[y][..at].chars().count();
        buffer.cell((u16::try_from(x).unwrap(), u16::try_from(y).unwrap())).unwrap().fg
    };
    assert_eq!(color("train", "30.0%"), Color::Yellow, "held back by its cap");
    assert_eq!(color("notebooks", "7.90 GiB"), Color::Red, "memory was refused");
    assert_eq!(color("idle", "paused"), Color::Magenta);
    assert_eq!(color("serve", "timed"), Color::Green);
    let plain = drawn(&app, LOOK, 140, 16);
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset));
    assert_eq!(lines_of(&plain), lines, "a colour takes no room");
}

/// A bar shows what is used, in the chosen row too: that one has a mark before it and is bold.
#[test]
fn the_chosen_row_is_marked_and_its_bars_are_not_turned_round() {
    let app = busy_app();
    let look = Look { theme: Theme { has_color: true }, ..LOOK };
    let buffer = drawn(&app, look, 111, 16);
    assert!(buffer.content.iter().all(|cell| !cell.modifier.contains(Modifier::REVERSED)));
    let lines = lines_of(&buffer);
    let chosen: Vec<_> = lines.iter().filter(|line| line.starts_with('>')).collect();
    assert_eq!(chosen.len(), 1, "{lines:#?}");
    assert!(chosen[0].contains("serve"), "{chosen:?}");
    let y = lines.iter().position(|line| line.starts_with('>')).unwrap();
    let cell = buffer.cell((3, u16::try_from(y).unwrap())).unwrap();
    assert!(cell.modifier.contains(Modifier::BOLD));
}

#[test]
fn a_small_screen_scrolls_to_the_choice_and_no_size_is_too_small() {
    let mut app = App::new(picture());
    key(&mut app, KeyCode::End);
    let lines = screen_of(&app, 60, 9);
    assert!(lines.iter().any(|line| line.contains("far")), "{lines:?}");
    for (width, height) in [(1, 1), (3, 2), (200, 5), (20, 3)] {
        screen_of(&app, width, height);
        screen_of(&App::new(Picture::default()), width, height);
        keys(&mut app, "?");
        screen_of(&app, width, height);
        key(&mut app, KeyCode::Esc);
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
    let picture = Picture::of(Some(&before), &now);
    assert_eq!(
        once::text(&picture),
        "\
divvy top: 2 tenants on 1 GPU; by share reached
GPU  NAME    HELD       OF  USED  TIME  TURNS/S  FOREIGN
0    H200  10 GiB  141 GiB  0.0%  held        0        0
GPU 0: 137 GiB on the card where 138 GiB may be, 2 GiB away; 7 hand-overs, longest wait 31.3 s

GPU  TENANT   HELD  LIMIT  ON CARD   AWAY  MEMORY           GB/S  ASKED  REACHED  THROTTLED  WAITING   QUEUE  LAUNCHES/S  GATE   PRIORITY
0    train   5 GiB  8 GiB    3 GiB  2 GiB  waits 3.0 s  out 48.0    30%     0.0%       0.0%     0.0%  1.5 ms           0  timed  normal
0    plain   5 GiB  8 GiB        -      -  -                   -    30%        -          -        -  1.5 ms           -  timed  normal
"
    );
    let lines = screen_of(&App::new(picture), 150, 10).join("\n");
    for words in ["ON CARD", "waits 3.0 s", "out 48.0", "7 hand-overs"] {
        assert!(lines.contains(words), "{words} is not in\n{lines}");
    }
}

#[test]
fn a_frame_without_a_terminal_is_two_whole_tables() {
    assert_eq!(
        once::text(&picture()),
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
"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// From 60 columns on every line is whole, and a name is there or cut where it can be told apart.
    #[test]
    fn no_width_cuts_a_name_to_nothing(
        width in 60_u16..240,
        height in 8_u16..40,
        names in proptest::collection::vec("[a-z漢é]{1,40}", 1..6),
        may_leave in any::<bool>(),
        chosen in 0_usize..6,
        glyphs in prop_oneof![Just(Glyphs::Unicode), Just(Glyphs::Ascii)],
    ) {
        let tenants: Vec<_> = names.iter().enumerate().map(|(at, name)| {
            let mut tenant = tenant(name, u32::try_from(at % 3).unwrap(), 0);
            tenant.directory = format!("/d/{at}");
            tenant.devices[0].held_bytes = u64::MAX;
            tenant.devices[0].residence = may_leave.then(ResidenceUse::default);
            tenant
        }).collect();
        let mut app = App::new(Picture::of(None, &sampled(1, 0, tenants)));
        app.chosen = chosen.min(names.len() - 1);
        let look = Look { glyphs, ..LOOK };
        // One column is the mark's.
        let of_rows = usize::from(width) - 1;
        for (line, row) in table::tenants(&app, look, of_rows).iter().skip(1).zip(app.rows()) {
            prop_assert!(line.width() <= of_rows, "{line}");
            let text = line.to_string();
            let shown = (1..=row.tenant.chars().count().min(3))
                .map(|count| row.tenant.chars().take(count).collect::<String>())
                .filter(|head| text.contains(head.as_str()))
                .count();
            prop_assert_eq!(shown, row.tenant.chars().count().min(3), "{} in {}", row.tenant, text);
        }
        for line in table::gpus(&app, look, width.into()) {
            prop_assert!(line.width() <= width.into(), "{line}");
        }
        drawn(&app, look, width, height);
    }
}
