//! Keys of the screen: they choose a row or an order, write a line, make a change.
//!
//! Pure: a key comes in, an [`Action`] comes out. The chosen row is kept by tenant and device, so it
//! stays what it is when others come and go.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::{Picture, Sort, TenantRow};
use crate::tenants::limits;
use crate::wire::LimitChange;

/// Request of a key beyond the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Quit,
    /// A change of the tenant in this directory.
    Change(String, LimitChange),
}

/// Line that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Compute,
    Memory,
}

impl Field {
    pub(super) fn prompt(self) -> &'static str {
        match self {
            Self::Compute => "compute share (30%, 0 for no cap, or default)",
            Self::Memory => "memory limit (8GiB, 50%, 0 for none, or default)",
        }
    }
}

/// The longest line: any limit fits.
const MOST_CHARACTERS: usize = 120;
/// Step of + and - for a cap, in millionths; also the least cap they make.
const STEP_PPM: u32 = 50_000;
const WHOLE_PPM: u32 = 1_000_000;

/// The state of the screen.
#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) picture: Picture,
    pub(super) sort: Sort,
    /// Index of the chosen row.
    pub(super) chosen: usize,
    /// A line being written.
    pub(super) input: Option<(Field, String)>,
    /// Result of the last change.
    pub(super) message: String,
}

impl App {
    pub(super) fn new(picture: Picture) -> Self {
        let (sort, chosen, message) = (Sort::default(), 0, String::new());
        Self { picture, sort, chosen, input: None, message }
    }

    /// The chosen row.
    pub(super) fn row(&self) -> Option<&TenantRow> {
        self.picture.rows.get(self.chosen)
    }

    /// Shows a newer picture.
    pub(super) fn update(&mut self, picture: Picture) {
        let before = self.identity();
        self.picture = picture;
        self.arrange(before);
    }

    /// Says something below the rows.
    pub(super) fn tell(&mut self, message: String) {
        self.message = message;
    }

    fn identity(&self) -> Option<(String, String)> {
        self.row().map(|row| (row.directory.clone(), row.gpu.clone()))
    }

    /// Sorts, and chooses the row again that was chosen before.
    fn arrange(&mut self, chosen: Option<(String, String)>) {
        self.picture.sort(self.sort);
        let rows = &self.picture.rows;
        let same = chosen.and_then(|(directory, gpu)| {
            rows.iter().position(|row| row.directory == directory && row.gpu == gpu)
        });
        let last = rows.len().saturating_sub(1);
        self.chosen = same.unwrap_or(self.chosen).min(last);
    }

    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Action::Quit,
                _ => Action::None,
            };
        }
        match self.input.take() {
            Some((field, text)) => self.write(field, text, key.code),
            None => self.command(key.code),
        }
    }

    fn command(&mut self, code: KeyCode) -> Action {
        self.message.clear();
        let last = self.picture.rows.len().saturating_sub(1);
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.chosen = (self.chosen + 1).min(last),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.chosen = last,
            KeyCode::Char('s') => {
                let chosen = self.identity();
                self.sort = self.sort.next();
                self.arrange(chosen);
            }
            KeyCode::Char('p') => {
                return self.change(|row| LimitChange {
                    paused: Some(!row.paused),
                    ..LimitChange::default()
                });
            }
            KeyCode::Char('+' | '=') => return self.step(|ppm| ppm.saturating_add(STEP_PPM)),
            KeyCode::Char('-') => return self.step(|ppm| ppm.saturating_sub(STEP_PPM)),
            KeyCode::Char('e') => self.begin(Field::Compute),
            KeyCode::Char('m') => self.begin(Field::Memory),
            _ => {}
        }
        Action::None
    }

    fn begin(&mut self, field: Field) {
        if self.row().is_some() {
            self.input = Some((field, String::new()));
        }
    }

    fn write(&mut self, field: Field, mut text: String, code: KeyCode) -> Action {
        match code {
            KeyCode::Esc => return Action::None,
            KeyCode::Enter if text.trim().is_empty() => return Action::None,
            KeyCode::Enter => {
                return self.change(|row| {
                    let text = text.trim();
                    // A value alone is for the chosen device.
                    let spec = match text.contains('=') {
                        true => text.to_owned(),
                        false => format!("{}={text}", row.gpu),
                    };
                    match field {
                        Field::Compute => {
                            LimitChange { compute: vec![spec], ..LimitChange::default() }
                        }
                        Field::Memory => {
                            LimitChange { memory: vec![spec], ..LimitChange::default() }
                        }
                    }
                });
            }
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(c) if text.chars().count() < MOST_CHARACTERS => text.push(c),
            _ => {}
        }
        self.input = Some((field, text));
        Action::None
    }

    fn step(&self, change: impl Fn(u32) -> u32) -> Action {
        self.change(|row| {
            let ppm = change(row.share_ppm.unwrap_or(WHOLE_PPM)).clamp(STEP_PPM, WHOLE_PPM);
            // The whole is no cap, which is what the grammar takes it for.
            let spec = format!("{}={}", row.gpu, limits::percent(u64::from(ppm)));
            LimitChange { compute: vec![spec], ..LimitChange::default() }
        })
    }

    fn change(&self, change: impl Fn(&TenantRow) -> LimitChange) -> Action {
        match self.row() {
            Some(row) => Action::Change(row.directory.clone(), change(row)),
            None => Action::None,
        }
    }
}
