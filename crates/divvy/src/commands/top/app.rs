//! Keys of the screen: they choose a row, an order or a filter, write a line, ask for a change.
//!
//! Pure: a key comes in, an [`Action`] comes out. The chosen row is kept by tenant and device, so it
//! stays what it is when others come and go. Promises: a tenant is changed only after a question
//! that says what changes was answered by `y`, but for one that is resumed.
//!
//! Nothing here outlives the screen.

use std::collections::BTreeSet;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::history::History;
use super::model::{Picture, Sort, TenantRow};
use super::questions::{self, Field};
use crate::tenants::change::Asked;
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

/// Meaning of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A command.
    Rows,
    /// A character of a limit.
    Write(Field, String),
    /// A character of the filter.
    Filter,
    /// An answer to the question about a change.
    Confirm { directory: String, change: LimitChange, question: String },
    /// A command, with the list of keys in the place of the rows.
    Help,
}

/// Result of the last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) words: String,
    pub(super) is_error: bool,
}

/// The longest line: any limit fits.
const MOST_CHARACTERS: usize = 120;
/// Step of + and - for a cap, in millionths; also the least cap they make.
const STEP_PPM: u32 = 50_000;
const WHOLE_PPM: u32 = 1_000_000;
/// Rows that a page key passes.
const PAGE: usize = 10;

/// The state of the screen.
#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) picture: Picture,
    pub(super) history: History,
    pub(super) sort: Sort,
    /// Whether the last comes first.
    pub(super) is_reversed: bool,
    /// Part of a tenant's name; rows of others are not shown.
    pub(super) filter: String,
    /// Index of the chosen row among those shown.
    pub(super) chosen: usize,
    /// Whether the user has chosen a row, by a key that goes to one or changes one. Until then it is the first row.
    has_chosen: bool,
    /// Rows, by directory and device, whose processes are shown.
    expanded: BTreeSet<(String, String)>,
    pub(super) mode: Mode,
    pub(super) message: Message,
}

impl App {
    pub(super) fn new(picture: Picture) -> Self {
        Self {
            picture,
            history: History::default(),
            sort: Sort::default(),
            is_reversed: false,
            filter: String::new(),
            chosen: 0,
            has_chosen: false,
            expanded: BTreeSet::new(),
            mode: Mode::Rows,
            message: Message::default(),
        }
    }

    /// The rows that are shown.
    pub(super) fn rows(&self) -> impl Iterator<Item = &TenantRow> {
        let filter = self.filter.to_lowercase();
        let rows = self.picture.rows.iter();
        rows.filter(move |row| filter.is_empty() || row.tenant.to_lowercase().contains(&filter))
    }

    /// The chosen row.
    pub(super) fn row(&self) -> Option<&TenantRow> {
        self.rows().nth(self.chosen)
    }

    /// Whether the row's processes are shown.
    pub(super) fn is_expanded(&self, row: &TenantRow) -> bool {
        self.expanded.contains(&identity(row))
    }

    /// Shows a newer picture, of the time `at_ns`.
    pub(super) fn update(&mut self, picture: Picture, at_ns: u64) {
        let before = self.row().map(identity);
        self.history.take(&picture, at_ns);
        self.picture = picture;
        let rows: BTreeSet<_> = self.picture.rows.iter().map(identity).collect();
        self.expanded.retain(|one| rows.contains(one));
        let has_ended = before.as_ref().is_some_and(|one| !rows.contains(one));
        if has_ended && matches!(self.mode, Mode::Write(..)) {
            // Text that is being written is for that tenant, and for no other.
            self.mode = Mode::Rows;
            self.tell(Err("the tenant has ended: nothing was changed".to_owned()));
        }
        self.arrange(before);
    }

    /// Says what came of a change.
    pub(super) fn tell(&mut self, words: Result<String, String>) {
        let is_error = words.is_err();
        self.message = Message { words: words.unwrap_or_else(|error| error), is_error };
    }

    /// Sorts, and chooses the row again that was chosen before.
    fn arrange(&mut self, chosen: Option<(String, String)>) {
        self.picture.sort(self.sort, self.is_reversed);
        let chosen = chosen.filter(|_| self.has_chosen);
        if !self.has_chosen {
            self.chosen = 0;
        }
        let same = chosen.and_then(|chosen| self.rows().position(|row| identity(row) == chosen));
        self.chosen = same.unwrap_or(self.chosen).min(self.last());
    }

    fn last(&self) -> usize {
        self.rows().count().saturating_sub(1)
    }

    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Action::Quit,
                _ => Action::None,
            };
        }
        match std::mem::replace(&mut self.mode, Mode::Rows) {
            Mode::Write(field, text) => self.write(field, text, key.code),
            Mode::Filter => self.filter_by(key.code),
            Mode::Confirm { directory, change, .. } => match key.code {
                KeyCode::Char('y' | 'Y') => return Action::Change(directory, change),
                _ => self.tell(Ok("nothing was changed".to_owned())),
            },
            // Any key leaves the help, and those that end the command do.
            Mode::Help if key.code == KeyCode::Char('q') => return Action::Quit,
            Mode::Help => {}
            Mode::Rows => return self.command(key.code),
        }
        Action::None
    }

    fn command(&mut self, code: KeyCode) -> Action {
        self.message = Message::default();
        let last = self.last();
        let is_of_all = matches!(code, KeyCode::Char('s' | 'r' | '/' | '?' | 'h') | KeyCode::Esc);
        self.has_chosen |= !is_of_all && self.row().is_some();
        match code {
            KeyCode::Esc if !self.filter.is_empty() => self.set_filter(String::new()),
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.chosen = (self.chosen + 1).min(last),
            KeyCode::PageUp => self.chosen = self.chosen.saturating_sub(PAGE),
            KeyCode::PageDown => self.chosen = (self.chosen + PAGE).min(last),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.chosen = last,
            KeyCode::Enter | KeyCode::Char(' ') => self.expand(),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.arrange(self.row().map(identity));
            }
            KeyCode::Char('r') => {
                self.is_reversed = !self.is_reversed;
                self.arrange(self.row().map(identity));
            }
            KeyCode::Char('p') => return self.pause(),
            KeyCode::Char('+' | '=') => self.step(|ppm| ppm.saturating_add(STEP_PPM)),
            KeyCode::Char('-') => self.step(|ppm| ppm.saturating_sub(STEP_PPM)),
            KeyCode::Char('e') => self.begin(Field::Compute),
            KeyCode::Char('m') => self.begin(Field::Memory),
            KeyCode::Char('w') => self.begin(Field::Weight),
            _ => {}
        }
        Action::None
    }

    fn expand(&mut self) {
        let Some(chosen) = self.row().map(identity) else { return };
        if !self.expanded.remove(&chosen) {
            self.expanded.insert(chosen);
        }
    }

    fn set_filter(&mut self, filter: String) {
        let chosen = self.row().map(identity);
        self.filter = filter;
        self.arrange(chosen);
    }

    fn filter_by(&mut self, code: KeyCode) {
        let mut filter = self.filter.clone();
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => return self.set_filter(String::new()),
            KeyCode::Backspace => {
                filter.pop();
            }
            KeyCode::Char(c) if filter.chars().count() < MOST_CHARACTERS => filter.push(c),
            _ => {}
        }
        self.set_filter(filter);
        self.mode = Mode::Filter;
    }

    fn begin(&mut self, field: Field) {
        if self.row().is_some() {
            self.mode = Mode::Write(field, String::new());
        }
    }

    fn write(&mut self, field: Field, mut text: String, code: KeyCode) {
        match code {
            KeyCode::Esc => return,
            KeyCode::Enter if text.trim().is_empty() => return,
            KeyCode::Enter => return self.ask(field, text.trim()),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(c) if text.chars().count() < MOST_CHARACTERS => text.push(c),
            _ => {}
        }
        self.mode = Mode::Write(field, text);
    }

    /// Asks whether what was written is to be set.
    fn ask(&mut self, field: Field, text: &str) {
        let Some(row) = self.row() else { return };
        // A value alone is for the chosen device.
        let spec = match text.contains('=') {
            true => text.to_owned(),
            false => format!("{}={text}", row.gpu),
        };
        let change = field.change(if field == Field::Weight { text.to_owned() } else { spec });
        let (directory, question) = (row.directory.clone(), questions::of_field(row, field, text));
        // The devices that it names are compared with the machine's when the change is made.
        let value = text.rsplit('=').next().unwrap_or(text).to_owned();
        match Asked::read(&field.change(value), &[]) {
            Ok(_) => self.mode = Mode::Confirm { directory, change, question },
            Err(error) => self.tell(Err(format!("{error:#}"))),
        }
    }

    /// Resumes what is paused; a tenant that runs is asked for first.
    fn pause(&mut self) -> Action {
        let Some(row) = self.row() else { return Action::None };
        let paused = Some(!row.paused);
        let change = LimitChange { paused, ..LimitChange::default() };
        let directory = row.directory.clone();
        if row.paused {
            return Action::Change(directory, change);
        }
        let question = questions::of_pause(row);
        self.mode = Mode::Confirm { directory, change, question };
        Action::None
    }

    /// Asks whether the cap is to be a step more or less.
    fn step(&mut self, change: impl Fn(u32) -> u32) {
        let Some(row) = self.row() else { return };
        let before = row.share_ppm.unwrap_or(WHOLE_PPM);
        let ppm = change(before).clamp(STEP_PPM, WHOLE_PPM);
        if ppm == before {
            let words = questions::of_no_step(row);
            return self.tell(Ok(words));
        }
        // The whole is no cap, which is what the grammar takes it for.
        let spec = format!("{}={}", row.gpu, limits::percent(u64::from(ppm)));
        let text = if ppm == WHOLE_PPM { "0".to_owned() } else { limits::percent(u64::from(ppm)) };
        let question = questions::of_field(row, Field::Compute, &text);
        let change = LimitChange { compute: vec![spec], ..LimitChange::default() };
        self.mode = Mode::Confirm { directory: row.directory.clone(), change, question };
    }
}

fn identity(row: &TenantRow) -> (String, String) {
    (row.directory.clone(), row.gpu.clone())
}
