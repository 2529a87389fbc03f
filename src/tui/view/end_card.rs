//! The card at the end of a session, over the end of the stream.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    present::{end_card::AFTER_DEMO, session_chip::ChipRole},
    tui::{
        keymap::KeyAction,
        modals::framed,
        model::{CloseBehavior, ScreenModel},
        stream::StreamPosition,
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The widest card, in columns.
const WIDEST: u16 = 76;
/// How many rows of the stream stay visible above the card.
const ABOVE: u16 = 4;

/// Draws the card if the session has ended and there is room for it.
pub(super) fn draw(model: &ScreenModel, theme: &ScreenTheme, stream: Rect, buffer: &mut Buffer) {
    let (Some(card), Some(state)) = (model.end_card(), &model.session) else { return };
    // After scrolling back, the user reads something else.
    if model.stream.position() != StreamPosition::Follow {
        return;
    }
    let width = stream.width.saturating_sub(6).min(WIDEST);
    let inner = usize::from(width.saturating_sub(4));
    let style = theme.style(ThemeRole::Text);
    let mut lines = wrap(&[(card.head.clone(), theme.style(ThemeRole::Heading))], inner.max(1), 0);
    // A session that ends with its screen has no next command of its own.
    let next = match (model.tie, model.demo) {
        (CloseBehavior::Loose | CloseBehavior::Home, _) => Some(card.next.join(" · ")),
        (CloseBehavior::Close, Some(_)) => Some(AFTER_DEMO.to_owned()),
        (CloseBehavior::Close, None) => None,
    };
    let next = next.map(|next| ("next", next));
    for (name, fact) in card.facts.iter().cloned().chain(next) {
        let name = Span::styled(format!("{name:14}"), theme.style(ThemeRole::Faint));
        let room = inner.saturating_sub(name.content.width());
        lines.push(Line::from(vec![name, Span::styled(fit(&fact, room), style)]));
    }
    let close = format!("{} close", model.keymap.key(KeyAction::Aside));
    lines.push(Line::styled(close, theme.style(ThemeRole::Faint)));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    if height + ABOVE + 2 > stream.height || inner < 24 {
        return;
    }
    let frame = Rect { x: stream.x + 3, y: stream.bottom() - 1 - height, width, height };
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
    let inside = Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside };
    Paragraph::new(lines).render(inside, buffer);
}
