//! The card at the end of a session, over the end of the stream.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    present::{
        end_card::{AFTER_DEMO, EndCard, FILE},
        session_chip::ChipRole,
    },
    tui::{
        keymap::{GateKey, GlobalKey},
        modals::frame::framed,
        model::{Pane, ScreenModel},
        request::CloseBehavior,
        stream::StreamPosition,
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The widest card, in columns.
const WIDEST: u16 = 76;
/// In columns. A narrower card has no fixed column of names.
const NARROW: usize = 60;

/// Columns and rows. A smaller stream has no card.
const SMALLEST: (u16, u16) = (34, 7);
/// The facts that a small screen leaves out, the first one first. The outcome and the next command
/// stay.
const LEFT_OUT: [&str; 5] = [FILE, "used", "loop ended", "never passed", "changed"];
/// The columns of the names of facts, at most.
const NAMES: usize = 14;

/// Whether the card is visible: after scrolling back, and on another tab, the user reads something
/// else.
pub fn is_shown(model: &ScreenModel) -> bool {
    let follows = model.stream.position() == StreamPosition::Follow;
    follows && model.end_card().is_some() && place(model).is_some()
}

/// The stream, if the card has room in it.
fn place(model: &ScreenModel) -> Option<Rect> {
    let places = super::places(model, model.area())?;
    let stream = places
        .panes
        .into_iter()
        .find(|(pane, _)| *pane == Pane::Stream)
        .map(|(_, rect)| rect);
    stream.filter(|rect| rect.width >= SMALLEST.0 && rect.height >= SMALLEST.1)
}

/// Draws the card if the session has ended and there is room for it.
pub(super) fn draw(model: &ScreenModel, theme: &ScreenTheme, buffer: &mut Buffer) {
    if !is_shown(model) {
        return;
    }
    let (Some(card), Some(state), Some(stream)) = (model.end_card(), &model.session, place(model))
    else {
        return;
    };
    let width = stream.width.saturating_sub(6).min(WIDEST);
    let inner = usize::from(width.saturating_sub(4)).max(1);
    let room = stream.height.saturating_sub(2);
    let lines = lines(
        model,
        &card,
        theme,
        inner,
        usize::from(room.saturating_sub(2)),
    );
    let height = u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .saturating_add(2)
        .min(room);
    let frame = Rect {
        x: stream.x + 3,
        y: stream.bottom() - 1 - height,
        width,
        height,
    };
    let chip = super::chip(model, state);
    let role = match chip.role {
        ChipRole::Complete => ThemeRole::Good,
        ChipRole::Failed => ThemeRole::Bad,
        ChipRole::Working
        | ChipRole::Hook
        | ChipRole::Waiting
        | ChipRole::Paused
        | ChipRole::NeedsUser
        | ChipRole::Forced
        | ChipRole::Stopped
        | ChipRole::Limit => ThemeRole::Warning,
    };
    let inside = framed(frame, &chip.label(), role, theme, buffer);
    let inside = Rect {
        x: inside.x + 1,
        width: inside.width.saturating_sub(2),
        ..inside
    };
    Paragraph::new(lines).render(inside, buffer);
    let edge = Rect {
        x: frame.x + 1,
        y: frame.bottom().saturating_sub(1),
        width: frame.width.saturating_sub(2),
        height: 1,
    };
    let changes = if model.changes.has_some() {
        format!(" {} changes ", model.look.keymap.key(GlobalKey::Diff))
    } else {
        String::new()
    };
    let close = format!("{changes} {} close ", model.look.keymap.key(GateKey::Later));
    theme.line(role, close).right_aligned().render(edge, buffer);
}

/// The lines of the card, without the facts that have no room.
fn lines(
    model: &ScreenModel,
    card: &EndCard,
    theme: &ScreenTheme,
    width: usize,
    room: usize,
) -> Vec<Line<'static>> {
    let next = next(model, card);
    let mut facts: Vec<(&str, String)> = card.facts.clone();
    let mut head = wrap(
        &[(card.head.clone(), theme.style(ThemeRole::Heading))],
        width,
        0,
    );
    let wanted = |facts: &[(&str, String)], head: &[Line<'_>]| {
        head.len() + facts.len() + usize::from(next.is_some())
    };
    for name in LEFT_OUT {
        // Of the files, as many stay as have room.
        while wanted(&facts, &head) > room
            && let Some(at) = facts.iter().rposition(|(fact, _)| *fact == name)
        {
            facts.remove(at);
        }
    }
    while wanted(&facts, &head) > room && head.len() > 1 {
        head.pop();
    }
    let names = facts
        .iter()
        .map(|(name, _)| name.width() + 2)
        .max()
        .unwrap_or(0)
        .max(6);
    let names = if width < NARROW { names } else { NAMES };
    let commands = |commands: &[String]| joined(commands, width.saturating_sub(names));
    let facts = facts
        .into_iter()
        .chain(next.map(|next| ("next", commands(&next))));
    head.into_iter()
        .chain(facts.map(|(name, fact)| {
            let name = theme.span(ThemeRole::Faint, format!("{name:names$}"));
            let fact = fit(&fact, width.saturating_sub(names));
            Line::from(vec![name, theme.span(ThemeRole::Text, fact)])
        }))
        .collect()
}

/// The next commands. A session that ends with its screen has none of its own.
fn next(model: &ScreenModel, card: &EndCard) -> Option<Vec<String>> {
    match (model.link.tie, model.link.demo) {
        (CloseBehavior::Loose | CloseBehavior::Home, _) => Some(card.next.clone()),
        (CloseBehavior::Close, Some(_)) => Some(vec![AFTER_DEMO.to_owned()]),
        (CloseBehavior::Close, None) => None,
    }
}

/// As many of the commands as fit: half a command is no help.
fn joined(commands: &[String], width: usize) -> String {
    let up_to = |n: &usize| commands[..*n].join(" · ").width() <= width;
    let count = (1..=commands.len())
        .rev()
        .find(up_to)
        .unwrap_or(1.min(commands.len()));
    commands[..count].join(" · ")
}
