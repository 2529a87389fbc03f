//! Draws the cells of a screen as SVG: one frame, or frames that follow each other. The frames are
//! those of the dark theme; a reader that prefers light colors sees those of the light theme.
//!
//! # Invariants
//! - No script and nothing from outside, so that a forge shows the picture in a README.

use std::{
    collections::BTreeMap,
    fmt::{Result, Write as _},
    sync::LazyLock,
};

use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

/// The width of a character and the height of a line, in pixels.
const CELL: (u16, u16) = (8, 17);
const BACKGROUND: Tint = Tint {
    dark: "#20242c",
    light: "#f6f8fa",
};
const TEXT: Tint = Tint {
    dark: "#d8dee9",
    light: "#24292f",
};
const DARK: &str = include_str!("../../assets/themes/dark.yaml");
const LIGHT: &str = include_str!("../../assets/themes/light.yaml");
/// How long the last frame stays, in milliseconds.
const REST: usize = 4_000;

/// A color of the dark theme, and the one of the light theme for the same role.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tint {
    dark: &'static str,
    light: &'static str,
}

/// What a color is used for. The same dark color can be light in two ways.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Ink,
    Paper,
}

/// The colors of both themes. The place of a tint is its class in the picture.
static TINTS: LazyLock<Vec<(Layer, Tint)>> = LazyLock::new(|| {
    let mut found: Vec<(Layer, Tint)> = Vec::new();
    for (dark, light) in DARK.lines().zip(LIGHT.lines()) {
        for layer in [Layer::Ink, Layer::Paper] {
            let (Some(dark), Some(light)) = (theme_color(dark, layer), theme_color(light, layer))
            else {
                continue;
            };
            if !found
                .iter()
                .any(|(at, tint)| (*at, tint.dark) == (layer, dark))
            {
                found.push((layer, Tint { dark, light }));
            }
        }
    }
    found
});

/// The color in a line of a theme, such as `alert: "#1b1f27 on-#ebcb8b bold"`.
fn theme_color(line: &'static str, layer: Layer) -> Option<&'static str> {
    let (_, value) = line.split_once('"')?;
    let mut words = value.trim_end_matches('"').split(' ');
    match layer {
        Layer::Ink => words.find(|word| word.starts_with('#')),
        Layer::Paper => words.find_map(|word| word.strip_prefix("on-")),
    }
}

/// The attribute that fills a shape with a color of the screen. None: the screen's own.
fn fill(color: Color, layer: Layer) -> Option<String> {
    let Color::Rgb(r, g, b) = color else {
        return None;
    };
    let hex = format!("#{r:02x}{g:02x}{b:02x}");
    let class = TINTS
        .iter()
        .position(|(at, tint)| (*at, tint.dark) == (layer, hex.as_str()));
    Some(class.map_or_else(
        || format!(r#" fill="{hex}""#),
        |class| format!(r#" class="c{class}""#),
    ))
}

/// A picture of one frame.
pub fn still(frame: &Buffer) -> std::result::Result<String, std::fmt::Error> {
    let mut out = String::new();
    open(&mut out, frame)?;
    for row in 0..frame.area.height {
        draw_row(&mut out, frame, row)?;
    }
    writeln!(out, "</svg>")?;
    Ok(out)
}

/// A picture that moves: one frame after the other, each for this many milliseconds, again and
/// again. A viewer that wants no motion sees the last frame.
pub fn moving(frames: &[Buffer], each: usize) -> std::result::Result<String, std::fmt::Error> {
    let mut out = String::new();
    let Some(first) = frames.first() else {
        return Ok(out);
    };
    open(&mut out, first)?;
    let whole = frames.len() * each + REST;
    let mut css = String::new();
    let mut body = String::new();
    for (n, (shown, rows)) in by_moments(frames)?.into_iter().enumerate() {
        if shown.iter().all(|shown| *shown) {
            writeln!(body, "<g>\n{rows}</g>")?;
            continue;
        }
        let base = if shown.last() == Some(&true) {
            ""
        } else {
            r#" opacity="0""#
        };
        writeln!(body, r#"<g class="k{n}"{base}>"#)?;
        writeln!(body, "{rows}</g>")?;
        write!(
            css,
            ".k{n}{{animation:k{n} {whole}ms step-end infinite}}@keyframes k{n}{{"
        )?;
        for (at, is_shown) in shown
            .iter()
            .enumerate()
            .filter(|(at, is)| *at == 0 || shown[at - 1] != **is)
        {
            let share = at * each * 10_000 / whole;
            write!(
                css,
                "{}.{:02}%{{opacity:{}}}",
                share / 100,
                share % 100,
                u8::from(*is_shown)
            )?;
        }
        writeln!(css, "}}")?;
    }
    writeln!(
        out,
        "<style>\n{css}@media (prefers-reduced-motion:reduce){{g{{animation:none!important}}}}\n</style>"
    )?;
    writeln!(out, "{body}</svg>")?;
    Ok(out)
}

/// The rows that differ between frames, together with all others that are visible in exactly the
/// same frames.
fn by_moments(frames: &[Buffer]) -> std::result::Result<Vec<(Vec<bool>, String)>, std::fmt::Error> {
    let mut rows: BTreeMap<(u16, String), Vec<bool>> = BTreeMap::new();
    for (at, frame) in frames.iter().enumerate() {
        for row in 0..frame.area.height {
            let mut text = String::new();
            draw_row(&mut text, frame, row)?;
            if !text.is_empty() {
                rows.entry((row, text))
                    .or_insert_with(|| vec![false; frames.len()])[at] = true;
            }
        }
    }
    let mut groups: BTreeMap<Vec<bool>, String> = BTreeMap::new();
    for ((_, text), shown) in rows {
        groups.entry(shown).or_default().push_str(&text);
    }
    Ok(groups.into_iter().collect())
}

fn open(out: &mut String, frame: &Buffer) -> Result {
    let (width, height) = (
        frame.area.width * CELL.0 + 16,
        frame.area.height * CELL.1 + 16,
    );
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="13.29" class="t">"#
    )?;
    writeln!(out, "<style>")?;
    write!(
        out,
        ".t{{fill:{}}}.b{{fill:{}}}",
        TEXT.dark, BACKGROUND.dark
    )?;
    for (class, (_, tint)) in TINTS.iter().enumerate() {
        write!(out, ".c{class}{{fill:{}}}", tint.dark)?;
    }
    writeln!(out)?;
    write!(out, "@media(prefers-color-scheme:light){{")?;
    write!(
        out,
        ".t{{fill:{}}}.b{{fill:{}}}",
        TEXT.light, BACKGROUND.light
    )?;
    for (class, (_, tint)) in TINTS.iter().enumerate() {
        write!(out, ".c{class}{{fill:{}}}", tint.light)?;
    }
    writeln!(out, "}}\n</style>")?;
    writeln!(
        out,
        r#"<rect width="{width}" height="{height}" rx="6" class="b"/>"#
    )
}

fn draw_row(out: &mut String, frame: &Buffer, row: u16) -> Result {
    let mut column = 0;
    while column < frame.area.width {
        let first = &frame[(column, row)];
        let mut text = String::new();
        let start = column;
        while column < frame.area.width && same_look(first, &frame[(column, row)]) {
            let symbol = frame[(column, row)].symbol();
            text.push_str(if vertical(symbol).is_some() {
                " "
            } else {
                symbol
            });
            column += 1;
        }
        draw_run(out, first, &text, (start, row, column - start))?;
        for column in start..column {
            if let Some(width) = vertical(frame[(column, row)].symbol()) {
                draw_vertical(out, first, (column, row), width)?;
            }
        }
    }
    Ok(())
}

/// The width of a vertical line, in pixels.
fn vertical(symbol: &str) -> Option<u16> {
    match symbol {
        "│" => Some(1),
        "┃" => Some(2),
        _ => None,
    }
}

/// Draws a vertical line over the whole height of its cell: as text, it would have gaps between two
/// rows.
fn draw_vertical(out: &mut String, cell: &Cell, (column, row): (u16, u16), width: u16) -> Result {
    let (x, y) = (8 + column * CELL.0 + (CELL.0 - width) / 2, 8 + row * CELL.1);
    let (ink, dim) = (fill(cell.fg, Layer::Ink).unwrap_or_default(), dim(cell));
    writeln!(
        out,
        r#"<rect x="{x}" y="{y}" width="{width}" height="{}"{ink}{dim}/>"#,
        CELL.1
    )
}

fn same_look(one: &Cell, other: &Cell) -> bool {
    one.fg == other.fg && one.bg == other.bg && one.modifier == other.modifier
}

fn draw_run(
    out: &mut String,
    cell: &Cell,
    text: &str,
    (column, row, cells): (u16, u16, u16),
) -> Result {
    let (mut ink, mut paper) = (fill(cell.fg, Layer::Ink), fill(cell.bg, Layer::Paper));
    if cell.modifier.contains(Modifier::REVERSED) {
        let own = |class: &str| Some(format!(r#" class="{class}""#));
        (ink, paper) = (paper.or_else(|| own("b")), ink.or_else(|| own("t")));
    }
    let (x, y) = (8 + column * CELL.0, 8 + row * CELL.1);
    if let Some(paper) = paper {
        writeln!(
            out,
            r#"<rect x="{x}" y="{y}" width="{}" height="{}"{paper}/>"#,
            cells * CELL.0,
            CELL.1
        )?;
    }
    // Spaces at the ends are not part of the text that is stretched to the cells' width.
    let inner = text.trim();
    if inner.is_empty() {
        return Ok(());
    }
    let before = u16::try_from(text.chars().take_while(|c| *c == ' ').count()).unwrap_or(0);
    let after = u16::try_from(text.chars().rev().take_while(|c| *c == ' ').count()).unwrap_or(0);
    let x = x + before * CELL.0;
    let weight = if cell.modifier.contains(Modifier::BOLD) {
        r#" font-weight="bold""#
    } else {
        ""
    };
    let dim = dim(cell);
    let fill = ink.unwrap_or_default();
    // Viewers shorten several spaces to one, but not these.
    let text = inner
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace(' ', "\u{a0}");
    let length = (cells - before - after) * CELL.0;
    // Lines of a border would have gaps between their characters.
    let is_line = |c: char| ('\u{2500}'..='\u{259f}').contains(&c);
    let adjust = if text.contains(is_line) {
        r#" lengthAdjust="spacingAndGlyphs""#
    } else {
        ""
    };
    writeln!(
        out,
        r#"<text x="{x}" y="{}"{fill}{weight}{dim} textLength="{length}"{adjust}>{text}</text>"#,
        y + 13
    )
}

/// A gate dims everything else.
fn dim(cell: &Cell) -> &'static str {
    if cell.modifier.contains(Modifier::DIM) {
        r#" opacity="0.5""#
    } else {
        ""
    }
}
