//! The screen without a terminal: a world's events go in as records, keys and clicks follow, frames
//! come out as text.
//!
//! The clock stands still unless a test moves it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::{
    buffer::{Buffer, Cell},
    layout::Rect,
    style::{Color, Modifier},
};

use super::world::World;
use creel::{
    config::ThemeName as Choice,
    engine::time::{TimeSpan, UnixTime},
    journal::{Record, RecordSpan},
    report::session_diff::DiffPart,
    tui::{
        keymap::Keymap,
        model::{ScreenMode, ScreenModel},
        replay::ReplayPlayer,
        request::{ScreenEvent, ScreenRequest},
        theme::ScreenTheme,
        update::update,
        view,
    },
};

/// The time between two records.
const BEAT: TimeSpan = TimeSpan(400);

/// A screen that shows a world.
pub struct Screen {
    pub model: ScreenModel,
    taken: usize,
}

impl Screen {
    /// A screen of this size that has seen everything in a world.
    pub fn of(world: &World, size: (u16, u16)) -> Self {
        let mut screen = Self::empty(ScreenMode::Live, size);
        screen.see(world);
        screen
    }

    /// A replay of a session, at this record.
    pub fn replay(world: &World, size: (u16, u16), shown: usize) -> Self {
        let mut player = ReplayPlayer::default();
        for record in records(world) {
            player.add(spot(&record), &record);
        }
        player.shown = shown;
        let mut screen = Self::empty(ScreenMode::Replay(player), size);
        for record in records(world).iter().take(shown) {
            screen.model.take(spot(record), record);
        }
        screen
    }

    fn empty(mode: ScreenMode, size: (u16, u16)) -> Self {
        let mut model = ScreenModel::new(
            Keymap::standard(),
            ScreenTheme::chosen(Choice::Dark, false),
            mode,
        );
        model.size = size;
        Self { model, taken: 0 }
    }

    /// The same in another theme.
    pub fn in_looks(world: &World, size: (u16, u16), theme: ScreenTheme) -> Self {
        let mut screen = Self::empty(ScreenMode::Live, size);
        screen.model.look.theme = theme;
        screen.see(world);
        screen
    }

    /// Applies what has happened since.
    pub fn see(&mut self, world: &World) {
        for record in &records(world)[self.taken..] {
            self.model.take(spot(record), record);
            self.model.now = self.model.now.max(record.at);
            self.taken += 1;
        }
        self.settle();
    }

    /// The changes that the screen wants to read now.
    pub fn due(&mut self) -> Vec<DiffPart> {
        self.model.due_changes()
    }

    /// Time passes.
    pub fn later(&mut self, ms: u64) -> &mut Self {
        self.model.now = self.model.now.after(TimeSpan(ms));
        self
    }

    /// Waits until a gate accepts answers.
    pub fn armed(mut self) -> Self {
        self.settle();
        self.later(600);
        self
    }

    /// What the main loop does before it draws.
    fn settle(&mut self) {
        self.model.look_after_the_gate();
        let area = self.area();
        view::prepare(&mut self.model, area, &|_| None);
    }

    fn area(&self) -> Rect {
        Rect {
            x: 0,
            y: 0,
            width: self.model.size.0,
            height: self.model.size.1,
        }
    }

    /// Sends an event to the screen.
    pub fn send(&mut self, msg: ScreenEvent) -> Vec<ScreenRequest> {
        let requests = update(&mut self.model, msg, &|_| None);
        self.settle();
        requests
    }

    /// Presses keys, by name, separated by spaces.
    pub fn press(&mut self, keys: &str) -> Vec<ScreenRequest> {
        keys.split_whitespace()
            .flat_map(|name| self.send(ScreenEvent::Key(key(name))))
            .collect()
    }

    /// Types a text, character by character.
    pub fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.send(ScreenEvent::Key(KeyEvent::new(
                KeyCode::Char(c),
                KeyModifiers::NONE,
            )));
        }
    }

    /// Clicks on the first cell of the first place with this text.
    pub fn click_on(&mut self, text: &str) -> Vec<ScreenRequest> {
        let (column, row) = self.find(text);
        self.mouse(MouseEventKind::Down(MouseButton::Left), column, row)
    }

    /// The position of a text.
    pub fn find(&mut self, text: &str) -> (u16, u16) {
        let buffer = self.draw();
        let width = buffer.area.width;
        let wanted: Vec<String> = text.chars().map(String::from).collect();
        for row in 0..buffer.area.height {
            for column in 0..width {
                let here = |n: usize| {
                    buffer
                        .cell((column + u16::try_from(n).unwrap_or(width), row))
                        .map(Cell::symbol)
                };
                if wanted.iter().enumerate().all(|(n, c)| here(n) == Some(c)) {
                    return (column, row);
                }
            }
        }
        panic!("`{text}` is not on the screen:\n{}", self.frame());
    }

    /// Sends a mouse event.
    pub fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) -> Vec<ScreenRequest> {
        self.send(ScreenEvent::Mouse(MouseEvent {
            kind,
            column,
            row,
            modifiers: KeyModifiers::NONE,
        }))
    }

    pub fn draw(&mut self) -> Buffer {
        self.settle();
        let area = self.area();
        let mut buffer = Buffer::empty(area);
        view::draw(&self.model, area, &mut buffer);
        buffer
    }

    /// The screen as text.
    pub fn frame(&mut self) -> String {
        frame_of(&self.draw())
    }

    /// The first row that contains this text.
    pub fn row(&mut self, holds: &str) -> String {
        let frame = self.frame();
        let row = frame.lines().find(|line| line.contains(holds));
        row.unwrap_or_else(|| panic!("`{holds}` is not on the screen:\n{frame}"))
            .to_owned()
    }

    /// Every run of cells with the same style, one per line, without the sides of frames.
    pub fn styles(&mut self) -> String {
        styles_of(&self.draw())
    }
}

/// The cells of a row that have their own content: the cell after a wide character has none.
fn cells(buffer: &Buffer, row: u16) -> Vec<Cell> {
    let mut found = Vec::new();
    let mut column = 0;
    while let Some(cell) = buffer
        .cell((column, row))
        .filter(|_| column < buffer.area.width)
    {
        column += u16::try_from(unicode_width::UnicodeWidthStr::width(cell.symbol()))
            .unwrap_or(1)
            .max(1);
        found.push(cell.clone());
    }
    found
}

fn text(cells: &[Cell]) -> String {
    cells.iter().map(Cell::symbol).collect()
}

/// The colours and the modifiers of a cell, in words.
pub fn look(cell: &Cell) -> String {
    let mut words = Vec::new();
    if cell.fg != Color::Reset {
        words.push(cell.fg.to_string());
    }
    if cell.bg != Color::Reset {
        words.push(format!("on-{}", cell.bg));
    }
    let modifiers = [
        (Modifier::BOLD, "bold"),
        (Modifier::DIM, "dim"),
        (Modifier::REVERSED, "reversed"),
        (Modifier::UNDERLINED, "underlined"),
    ];
    words.extend(
        modifiers
            .iter()
            .filter(|(one, _)| cell.modifier.contains(*one))
            .map(|(_, name)| (*name).to_owned()),
    );
    if words.is_empty() {
        "-".into()
    } else {
        words.join(" ")
    }
}

pub fn records(world: &World) -> Vec<Record> {
    let numbered = world.events.iter().zip(1..);
    let record = |(event, seq): (&creel::engine::event::Event, u64)| Record {
        v: 1,
        seq,
        at: UnixTime(0).after(TimeSpan(BEAT.0 * (seq - 1))),
        session: "story".into(),
        event: event.clone(),
        chain: None,
    };
    numbered.map(record).collect()
}

pub fn spot(record: &Record) -> RecordSpan {
    RecordSpan {
        offset: record.seq,
        length: 1,
    }
}

fn key(name: &str) -> KeyEvent {
    let held = [
        ("ctrl-", KeyModifiers::CONTROL),
        ("alt-", KeyModifiers::ALT),
        ("shift-", KeyModifiers::SHIFT),
    ];
    let held = held
        .into_iter()
        .filter(|_| name != "shift-tab")
        .find_map(|(prefix, modifier)| Some((modifier, name.strip_prefix(prefix)?)));
    let (modifiers, name) = held.unwrap_or((KeyModifiers::NONE, name));
    let code = match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "shift-tab" => KeyCode::BackTab,
        "space" => KeyCode::Char(' '),
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "page-up" => KeyCode::PageUp,
        "page-down" => KeyCode::PageDown,
        "backspace" => KeyCode::Backspace,
        one if one.chars().count() == 1 => {
            KeyCode::Char(one.chars().next().expect("one character"))
        }
        other => panic!("`{other}` is not a key"),
    };
    KeyEvent::new(code, modifiers)
}

/// A frame as text.
pub fn frame_of(buffer: &Buffer) -> String {
    (0..buffer.area.height)
        .map(|row| text(&cells(buffer, row)).trim_end().to_owned() + "\n")
        .collect()
}

/// Every run of cells with the same style, one per line, without the sides of frames.
pub fn styles_of(buffer: &Buffer) -> String {
    let mut out = String::new();
    for row in 0..buffer.area.height {
        for run in cells(buffer, row).chunk_by(|a, b| look(a) == look(b)) {
            let shown = text(run);
            if !shown.trim_matches([' ', '│', '┃', '║']).is_empty() {
                out += &format!("{row:>2} {:<28} {}\n", look(&run[0]), shown.trim());
            }
        }
    }
    out
}
