//! The retries pane: one dot per retry, what comes next, and one row per attempt with its reason.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};

use super::with_cursor;
use crate::{
    engine::{SessionState, event::UserPresence},
    present::{
        session_chip::next_attempt,
        text::{plain, plain_line, time_of_day},
    },
    tui::{
        model::{Pane, ScreenModel},
        runs::RetryAttempt,
        text::fit,
        theme::{ScreenTheme, ThemeRole},
        view::facts,
    },
};

/// How many rows the pane needs. 0 if nothing was retried.
pub fn wanted(model: &ScreenModel) -> usize {
    let Some(state) = &model.session else {
        return 0;
    };
    let waits = usize::from(next_attempt(state, model.moment()).is_some());
    if model.attempts.is_empty() && state.retry.errors == 0 && waits == 0 {
        return 0;
    }
    1 + waits + model.attempts.len() + 1
}

pub fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let Some(state) = &model.session else { return };
    let width = usize::from(area.width);
    let mut lines = head(model, state, theme, width);
    let focused = model.panes.focus == Pane::Retries;
    let rows = usize::from(area.height).saturating_sub(lines.len() + 1);
    let first = first_attempt(model, rows);
    for (n, attempt) in model
        .attempts
        .iter()
        .rev()
        .enumerate()
        .skip(first)
        .take(rows)
    {
        lines.push(with_cursor(
            row(model, attempt, theme, width),
            n == model.panes.attempt,
            focused,
            theme,
        ));
    }
    let (errors, most) = (state.retry.errors, state.plan().max_consecutive_errors);
    let role = match errors {
        0 => ThemeRole::Faint,
        n if n >= most => ThemeRole::Bad,
        _ => ThemeRole::Warning,
    };
    lines.push(theme.line(role, fit(&format!("errors {errors} of {most}"), width)));
    Paragraph::new(lines).render(area, buffer);
}

fn first_attempt(model: &ScreenModel, rows: usize) -> usize {
    (model.panes.attempt + 1).saturating_sub(rows.max(1))
}

/// The counter, what the next blocked turn leads to, and the wait before the next attempt.
fn head(
    model: &ScreenModel,
    state: &SessionState,
    theme: &ScreenTheme,
    width: usize,
) -> Vec<Line<'static>> {
    let (used, limit) = (state.retry.used, state.retries().retry_limit());
    let dots = facts::dots(used, limit);
    let role = match used {
        0 => ThemeRole::Text,
        n if n >= limit => ThemeRole::Bad,
        _ => ThemeRole::Warning,
    };
    let hook = model.attempts.last().map_or_else(
        || "retries".to_owned(),
        |attempt| plain_line(&attempt.hook, 30),
    );
    let next = match state.presence {
        _ if state.phase.outcome().is_some() => "",
        _ if used < limit => "next: sent back",
        UserPresence::Attended => "next: creel asks you",
        UserPresence::Unattended => "next: the retry limit decides",
    };
    let text = fit(&format!("{hook}  {dots}"), width);
    let left = width.saturating_sub(unicode_width::UnicodeWidthStr::width(text.as_str()) + 3);
    let mut lines = vec![Line::from(vec![
        theme.span(role, text),
        theme.span(ThemeRole::Faint, format!("   {}", fit(next, left))),
    ])];
    if let Some(wait) = next_attempt(state, model.moment()) {
        lines.push(theme.line(ThemeRole::Warning, fit(&wait, width)));
    }
    lines
}

fn row(
    model: &ScreenModel,
    attempt: &RetryAttempt,
    theme: &ScreenTheme,
    width: usize,
) -> Vec<Span<'static>> {
    let same = if attempt.is_repeated { "= " } else { "" };
    let head = format!(
        "{}  {}  ",
        attempt.used,
        time_of_day(attempt.at, &model.look.zone)
    );
    let reason = format!("{same}{}", plain(&plain_line(&attempt.reason, 200)));
    let role = if attempt.is_repeated {
        ThemeRole::Bad
    } else {
        ThemeRole::Text
    };
    let room = width.saturating_sub(2 + head.len());
    vec![
        theme.span(ThemeRole::Faint, head),
        theme.span(role, fit(&reason, room)),
    ]
}

/// The attempt at a row of the pane.
pub fn row_at(model: &ScreenModel, area: Rect, nth: usize) -> Option<usize> {
    let state = model.session.as_ref()?;
    let head = 1 + usize::from(next_attempt(state, model.moment()).is_some());
    let rows = usize::from(area.height).saturating_sub(head + 1);
    let at = first_attempt(model, rows) + nth.checked_sub(head)?;
    (nth - head < rows && at < model.attempts.len()).then_some(at)
}
