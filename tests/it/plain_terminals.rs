//! Terminals that can do less than others: without an alternate screen, or with another idea of how
//! wide a character is.

use std::num::NonZeroU16;

use crate::{
    support::terminal::Terminal,
    terminal::{COMPLETE, TWO_HELD, await_gate, leave, scripted},
};

/// What a terminal without an alternate screen shows after these bytes, if the shell has filled it
/// before.
fn without_alternate_screen(bytes: &[u8], (width, height): (u16, u16)) -> String {
    let cells = |n| NonZeroU16::new(n).expect("a terminal has a size");
    let mut parser = vt100::Parser::new(cells(height), cells(width), 0);
    for _ in 0..height {
        parser.process(b"text of the shell\r\n");
    }
    let text = String::from_utf8_lossy(bytes)
        .replace("\u{1b}[?1049h", "")
        .replace("\u{1b}[?1049l", "");
    parser.process(text.as_bytes());
    parser
        .screen()
        .rows(0, width)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn without_an_alternate_screen_neither_the_shells_text_nor_the_panes_stay() {
    let size = (100, 30);
    let project = scripted(TWO_HELD, COMPLETE);
    let mut terminal = Terminal::run(&project, size);
    await_gate(&terminal, "Finished. 2 items");
    let during = without_alternate_screen(&terminal.bytes(), size);
    assert!(
        during.contains("1 Stream") && !during.contains("text of the shell"),
        "{during}"
    );
    terminal.press("2");
    assert_eq!(leave(&mut terminal, "complete"), 0);
    let after = without_alternate_screen(&terminal.bytes(), size);
    assert!(
        after.contains("  took ") && !after.contains('┃') && !after.contains("1 Stream"),
        "{after}"
    );
    assert!(
        !after.starts_with('\n'),
        "the card begins at the top: {after}"
    );
}

#[test]
fn emoji_of_several_parts_leave_nothing_behind() {
    let flags = "flags 🇩🇪🇫🇷";
    let turns = format!(
        "  - say: \"{flags}\\n\\nfamily 👩‍👩‍👦\\n\\nthumb 👍🏽\\n\\nrainbow 🏳️‍🌈\\n\\nheart ❤️\\n\\nLast line.\"\n"
    );
    let project = scripted("", &turns);
    let mut terminal = Terminal::run(&project, (80, 30));
    terminal.wait_for_status("COMPLETE");
    // The first iteration is folded by then.
    terminal.wait_for_text("esc close");
    terminal.press("esc");
    terminal.wait_for("the card is gone", |shown| !shown.has("took  "));
    terminal.press("[ [ enter");
    terminal.wait_for_text("Last line.");
    let rows = |terminal: &Terminal| {
        let of = |text: &str| {
            text.lines()
                .filter_map(|row| row.split('┃').nth(1))
                .map(|row| row.trim().trim_start_matches("▎ ").to_owned())
                .collect::<Vec<_>>()
        };
        terminal.look(|shown| of(&shown.text()))
    };
    let shown = rows(&terminal);
    for row in [
        "flags DEFR",
        "family 👩",
        "thumb 👍",
        "rainbow 🏳",
        "heart ❤",
    ] {
        assert!(
            shown.iter().any(|shown| shown == row),
            "no row is exactly `{row}`: {shown:#?}"
        );
    }
    // Every row ends with the frame, in the last column.
    terminal.look(|shown| {
        for row in 3..20 {
            let last = shown
                .screen()
                .cell(row, 79)
                .map(|cell| cell.contents().to_owned());
            assert_eq!(last.as_deref(), Some("┃"), "row {row}: {}", shown.text());
        }
    });
    // The help page has other text in those cells, and after it they are as before.
    terminal.press("?");
    terminal.wait_for_text("Moving around");
    assert!(
        !terminal.text().contains(['👩', '👍', '🏳', '❤']),
        "{}",
        terminal.text()
    );
    terminal.press("esc");
    terminal.wait_for_text("Last line.");
    terminal.wait_for_status("COMPLETE");
    assert!(
        rows(&terminal).iter().any(|row| row == "family 👩"),
        "{}",
        terminal.text()
    );
    leave(&mut terminal, "complete");
}
