//! The hooks pane: running hooks with their live output, past runs, and hooks that have not run. Every hook of the
//! session has a row.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use crate::{
    engine::{
        SessionState,
        hooks::{point::HookPoint, verdict::Verdict},
        policy::StopHook,
        session::phase::Phase,
        time::TimeSpan,
    },
    present::{
        hook_stats::DecisionCounts,
        text::{plain, plain_line},
    },
    tui::{
        model::ScreenModel,
        runs::{HookRow, RunEntry, RunSubject},
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The list, the live output, and the next hooks.
fn parts(model: &ScreenModel, area: Rect) -> [Rect; 3] {
    let live_rows = if model.runs.running().is_some() { (area.height / 3).max(1) } else { 0 };
    Layout::vertical([Constraint::Min(1), Constraint::Length(live_rows), Constraint::Length(1)]).areas(area)
}

pub fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let [list, live, next] = parts(model, area);
    draw_list(model, theme, list, buffer);
    if let Some(run) = model.runs.running() {
        let height = usize::from(live.height);
        let lines: Vec<&str> = run.live.lines().collect();
        let tail = lines[lines.len().saturating_sub(height)..].iter();
        let shown = tail.map(|line| {
            Line::styled(fit(&format!("│ {line}"), usize::from(live.width)), theme.style(ThemeRole::Faint))
        });
        Paragraph::new(shown.collect::<Vec<_>>()).render(live, buffer);
    }
    let upcoming = model.session.as_ref().map(upcoming).unwrap_or_default();
    Line::styled(fit(&upcoming, usize::from(next.width)), theme.style(ThemeRole::Faint)).render(next, buffer);
}

fn first_row(model: &ScreenModel, height: usize) -> usize {
    model.chosen_hook.saturating_sub(height.saturating_sub(1))
}

fn draw_list(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let rows = model.hook_rows();
    if rows.is_empty() {
        Line::styled("No hooks.", theme.style(ThemeRole::Faint)).render(area, buffer);
        return;
    }
    let height = usize::from(area.height);
    let focused = model.focus == crate::tui::model::Pane::Hooks;
    let first = first_row(model, height);
    let shown = (first..rows.len()).take(height).filter_map(|n| rows.nth(n).map(|row| (n, row)));
    let lines: Vec<Line<'_>> = shown
        .map(|(n, row)| {
            let (text, role) = match row {
                HookRow::Ran(run) => ran(model, run),
                HookRow::Waits(point, _) => {
                    (format!("○ {point} {}{}", row.name(), waits(model, row)), ThemeRole::Faint)
                }
                HookRow::Decides(hook) => (decides(model, hook), ThemeRole::Faint),
                HookRow::Rule(rule) => {
                    let off = if rule.enabled { "" } else { " · disabled" };
                    (format!("☐ rule {}{off}", row.name()), ThemeRole::Faint)
                }
            };
            let role = if n == model.chosen_hook && focused { ThemeRole::Selected } else { role };
            Line::styled(fit(&text, usize::from(area.width)), theme.style(role))
        })
        .collect();
    Paragraph::new(lines).render(area, buffer);
}

/// The note behind a hook without a listed run.
fn waits(model: &ScreenModel, row: HookRow<'_>) -> &'static str {
    let over = model.session.as_ref().is_some_and(|state| state.phase.outcome().is_some());
    match switched_off(model, row) {
        "" if over => "",
        "" => " · waits for its point",
        off => off,
    }
}

fn switched_off(model: &ScreenModel, row: HookRow<'_>) -> &'static str {
    let hook = row.hook();
    let state = model.session.as_ref();
    let spec = state.and_then(|state| state.plan().hook(hook.point, &hook.hook).map(|spec| (state, spec)));
    let off = spec.is_some_and(|(state, spec)| !state.hooks.is_enabled(hook.point, spec));
    let decides = state
        .and_then(|state| state.agent_loops().stop_hook(&hook.hook).map(|hook| !state.hooks.stop_hook_is_on(hook)));
    let off = off || (hook.point == HookPoint::StopDecision && decides == Some(true));
    if off { " · disabled" } else { "" }
}

/// A stop decision hook, with how often it decided what.
fn decides(model: &ScreenModel, hook: &StopHook) -> String {
    let off = switched_off(model, HookRow::Decides(hook));
    let stats = model.tallies.decisions(&hook.name);
    let said = stats.map(|DecisionCounts { complete, go_on, escalate }| {
        format!(" · complete {complete}, continue {go_on}, escalate {escalate}")
    });
    let name = plain_line(&hook.name, 80);
    format!("◇ {} {name}{off}{}", HookPoint::StopDecision, said.unwrap_or_default())
}

/// One rule check; together they read as a checklist.
fn checked(run: &RunEntry, took: TimeSpan) -> (String, ThemeRole) {
    let Some(finished) = &run.ended else {
        return (format!("▸ rule {} · {} s", run.name(), took.0 / 1_000), ThemeRole::Accent);
    };
    let (sign, role) =
        if finished.verdict == Verdict::Pass { ("☑", ThemeRole::Good) } else { ("☐", ThemeRole::Warning) };
    let message = plain_line(&finished.stdout, 80);
    (format!("{sign} rule {} · {message} · iteration {} · {took}", run.name(), run.iteration), role)
}

/// One run.
fn ran(model: &ScreenModel, run: &RunEntry) -> (String, ThemeRole) {
    let took = run.took(model.moment());
    if run.kind == RunSubject::Rule {
        return checked(run, took);
    }
    let again = if run.attempt > 0 { format!(" · retry {}", run.attempt) } else { String::new() };
    let Some(finished) = &run.ended else {
        let left = model.session.as_ref().and_then(|state| state.plan().hook(run.point, &run.hook)).map(|spec| {
            let left = spec.timeout.0.saturating_sub(took.0) / 1_000;
            format!(" · {left} s left")
        });
        return (
            format!("▸ {} {} · {} s{}{again}", run.point, run.name(), took.0 / 1_000, left.unwrap_or_default()),
            ThemeRole::Accent,
        );
    };
    let (sign, role) = match finished.verdict {
        Verdict::Pass => ("✓", ThemeRole::Good),
        Verdict::Block => ("✗", ThemeRole::Bad),
        Verdict::Fail => ("!", ThemeRole::Warning),
    };
    let piped = if finished.piped { " · piped" } else { "" };
    let off = switched_off(model, HookRow::Ran(run));
    (format!("{sign} {} {} · {}{off}{piped}{again} · {took}", run.point, run.name(), finished.end.describe()), role)
}

/// The next hooks, by name.
fn upcoming(state: &SessionState) -> String {
    let queued = state.phase.dispatch().and_then(|dispatch| dispatch.queue.as_ref());
    let here: Vec<String> = queued.into_iter().flatten().map(|hook| plain(hook)).collect();
    if !here.is_empty() {
        return format!("next: {}", here.join(", "));
    }
    if matches!(state.phase, Phase::Ended(_)) {
        return String::new();
    }
    let soon = [HookPoint::Stop, HookPoint::PostIteration, HookPoint::PreIteration, HookPoint::SessionEnd];
    let from = match state.phase.dispatch().map(|dispatch| dispatch.point) {
        Some(HookPoint::Stop) => 1,
        Some(HookPoint::PostIteration) => 2,
        Some(_) | None if matches!(state.phase, Phase::Delivering | Phase::Exit(_)) => 3,
        Some(_) | None => 0,
    };
    let next = soon[from..].iter().find_map(|point| {
        let names: Vec<String> = state
            .plan()
            .hooks_at(*point)
            .iter()
            .filter(|spec| state.hooks.is_enabled(*point, spec))
            .map(|spec| plain(&spec.name))
            .collect();
        (!names.is_empty()).then(|| format!("then {point}: {}", names.join(", ")))
    });
    next.unwrap_or_default()
}

/// Selects the clicked row.
pub fn choose(model: &mut ScreenModel, area: Rect, nth: usize) {
    let height = usize::from(parts(model, area)[0].height);
    let chosen = first_row(model, height) + nth;
    if nth < height && chosen < model.hook_rows().len() {
        model.chosen_hook = chosen;
    }
}
