//! The retries: a gauge that one sees from across the room, and what each attempt said.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};

use crate::{
    control::text::{first_line, plain},
    engine::{State, session::retry::Wait},
    tui::{
        model::Model,
        text::fit,
        theme::{Role, Theme},
    },
};

/// Draws the pane.
pub fn draw(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let Some(state) = &model.session else { return };
    let width = usize::from(area.width);
    let used = state.retry.used;
    let limit = state.retry.limit(state.plan().max_hook_retries);
    let mut lines = vec![gauge("retries", used, limit, width, theme)];
    lines.push(gauge("errors ", state.retry.errors, state.plan().max_consecutive_errors, width, theme));
    if let Some(wait) = waits(state, model) {
        lines.push(Line::styled(fit(&wait, width), theme.style(Role::Accent)));
    }
    for attempt in model.attempts.iter().rev() {
        let same = if attempt.no_progress { " · same as before" } else { "" };
        let role = if attempt.no_progress { Role::Bad } else { Role::Text };
        let text =
            format!("{}. {}{same}: {}", attempt.used, plain(&attempt.hook), first_line(&plain(&attempt.reason), 200));
        lines.push(Line::styled(fit(&text, width), theme.style(role)));
    }
    Paragraph::new(lines).render(area, buffer);
}

fn gauge(name: &str, used: u32, limit: u32, width: usize, theme: &Theme) -> Line<'static> {
    let label = format!("{name} {used}/{limit} ");
    let room = width.saturating_sub(label.len()).min(40);
    let share = |n: u32| {
        if limit == 0 {
            0
        } else {
            usize::try_from(n.min(limit)).unwrap_or(0) * room / usize::try_from(limit).unwrap_or(1)
        }
    };
    let full = if limit == 0 && used == 0 { 0 } else { share(used) };
    let role = if used == 0 {
        Role::Good
    } else if used >= limit {
        Role::Bad
    } else {
        Role::Warning
    };
    Line::from(vec![
        Span::styled(label, theme.style(role)),
        Span::styled("█".repeat(full), theme.style(role)),
        Span::styled("░".repeat(room - full), theme.style(Role::Faint)),
    ])
}

/// The wait before the next try, if there is one.
pub fn waits(state: &State, model: &Model) -> Option<String> {
    let Wait::Until(until) = state.retry.wait else { return None };
    let left = until.since(model.moment());
    (left.0 > 0).then(|| format!("next try in {} s", left.0.div_ceil(1_000)))
}
