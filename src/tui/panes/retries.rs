//! The retries pane: a large gauge, and the reason of each attempt.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};

use crate::{
    engine::{SessionState, retry::RetryWait},
    present::{
        text::{plain, plain_line},
        usage_limits,
    },
    tui::{
        model::ScreenModel,
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

pub fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let Some(state) = &model.session else { return };
    let width = usize::from(area.width);
    let used = state.retry.used;
    let limit = state.retries().retry_limit();
    // As tall as the pane allows, so that the count is readable from a distance.
    let tall = usize::from((area.height / 3).clamp(1, 3));
    let mut lines = gauge("retries", used, limit, (width, tall), theme);
    lines.extend(gauge("errors ", state.retry.errors, state.plan().max_consecutive_errors, (width, 1), theme));
    if let Some(wait) = waits(state, model) {
        lines.push(Line::styled(fit(&wait, width), theme.style(ThemeRole::Accent)));
    }
    for attempt in model.attempts.iter().rev().skip(model.skipped_attempts) {
        let same = if attempt.no_progress { " · same as before" } else { "" };
        let role = if attempt.no_progress { ThemeRole::Bad } else { ThemeRole::Text };
        let text = format!("{}. {}{same}: {}", attempt.used, plain(&attempt.hook), plain_line(&attempt.reason, 200));
        lines.push(Line::styled(fit(&text, width), theme.style(role)));
    }
    Paragraph::new(lines).render(area, buffer);
}

fn gauge(name: &str, used: u32, limit: u32, (width, rows): (usize, usize), theme: &ScreenTheme) -> Vec<Line<'static>> {
    let label = format!("{name} {used}/{limit} ");
    let room = width.saturating_sub(label.len());
    let parts = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let full = (parts(used.min(limit)) * room).checked_div(parts(limit)).unwrap_or(0);
    let role = if used == 0 {
        ThemeRole::Good
    } else if used >= limit {
        ThemeRole::Bad
    } else {
        ThemeRole::Warning
    };
    let row = |n: usize| {
        let label = if n == 0 { label.clone() } else { " ".repeat(label.len()) };
        Line::from(vec![
            Span::styled(label, theme.style(role)),
            Span::styled("█".repeat(full), theme.style(role)),
            Span::styled("░".repeat(room - full), theme.style(ThemeRole::Faint)),
        ])
    };
    (0..rows).map(row).collect()
}

/// The wait before the next attempt, if there is one.
pub fn waits(state: &SessionState, model: &ScreenModel) -> Option<String> {
    let RetryWait::Until(until) = state.retry.wait else { return None };
    let left = until.since(model.moment());
    if let Some(hold) = &state.limits.hold {
        return Some(usage_limits::waiting(hold, model.moment()));
    }
    (left.0 > 0).then(|| format!("next retry in {} s", left.0.div_ceil(1_000)))
}
