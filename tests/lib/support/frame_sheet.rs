//! One text for one state of the screen: what it shows at every size, and in which styles.
//!
//! The styles of all themes share one map: each letter stands for one role on the screen, and a
//! legend says how it looks in each theme. Rows that repeat are counted instead of shown.

use std::collections::BTreeMap;

use creel::{config::ThemeName, tui::theme::ScreenTheme};

use super::screen::{Screen, look};

pub const SIZES: [(u16, u16); 4] = [(60, 16), (80, 24), (120, 40), (200, 50)];

/// The themes of a sheet, with their names in the legend.
pub fn themes() -> [(&'static str, ScreenTheme); 3] {
    [
        ("dark", ScreenTheme::chosen(ThemeName::Dark, false)),
        ("light", ScreenTheme::chosen(ThemeName::Light, false)),
        ("no color", ScreenTheme::chosen(ThemeName::Dark, true)),
    ]
}

/// The frames and the styles of a state. `screen` makes it at a size and in a theme.
pub fn sheet(screen: impl Fn((u16, u16), ScreenTheme) -> Screen) -> String {
    let mut legend = StyleLegend::default();
    let mut out = String::new();
    for size in SIZES {
        let mut screens = themes().map(|(_, theme)| screen(size, theme));
        let frames = screens.each_mut().map(Screen::frame);
        assert!(
            frames.iter().all(|frame| *frame == frames[0]),
            "a theme changes only styles:\n{}",
            frames[0]
        );
        out += &format!("== {}x{} ==\n{}", size.0, size.1, counted_rows(&frames[0]));
        out += &format!(
            "-- styles --\n{}\n",
            counted_rows(&style_map(&mut screens, &mut legend))
        );
    }
    out + &legend.text()
}

/// The letters of all cells: for each row, the letter and how many cells have it.
fn style_map(screens: &mut [Screen; 3], legend: &mut StyleLegend) -> String {
    let buffers = screens.each_mut().map(Screen::draw);
    let area = buffers[0].area;
    let letter = |column, row| {
        buffers
            .each_ref()
            .map(|buffer| look(&buffer[(column, row)]))
    };
    let mut out = String::new();
    for row in 0..area.height {
        let letters: Vec<char> = (0..area.width)
            .map(|column| legend.letter(letter(column, row)))
            .collect();
        let runs = letters
            .chunk_by(|a, b| a == b)
            .map(|run| format!("{}{}", run[0], run.len()));
        out += &(runs.collect::<Vec<_>>().join(" ") + "\n");
    }
    out
}

/// The rows, with a count after a row that repeats.
fn counted_rows(text: &str) -> String {
    let rows: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    for same in rows.chunk_by(|a, b| a == b) {
        out += &format!("{}\n", same[0]);
        match same.len() - 1 {
            0 => {}
            1 => out += &format!("{}\n", same[0]),
            more => out += &format!("  ({more} more such rows)\n"),
        }
    }
    out
}

/// The letters of the styles that a sheet uses, in the order in which they appear.
#[derive(Default)]
struct StyleLegend {
    letters: BTreeMap<[String; 3], char>,
    order: Vec<[String; 3]>,
}

impl StyleLegend {
    fn letter(&mut self, looks: [String; 3]) -> char {
        const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        if let Some(letter) = self.letters.get(&looks) {
            return *letter;
        }
        let letter = char::from(LETTERS[self.order.len()]);
        self.letters.insert(looks.clone(), letter);
        self.order.push(looks);
        letter
    }

    fn text(&self) -> String {
        let names = themes().map(|(name, _)| name);
        let mut out = format!("-- legend: {} --\n", names.join(" | "));
        for looks in &self.order {
            out += &format!("{} {}\n", self.letters[looks], looks.join(" | "));
        }
        out
    }
}
