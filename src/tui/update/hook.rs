//! Keys of the hooks pane and of the retries pane.

use super::{
    ScreenRequest, lay_over,
    pane::{is_live, next_fit},
};
use crate::{
    engine::{
        hooks::{point::HookPoint, resolve::HookRef},
        input::SessionCommand,
        line_diff::line_changes,
    },
    present::{
        hook_stats, stop_decisions,
        text::{plain_line, readable_size},
    },
    tui::{
        hook_rows::{HookRow, HookRowKind},
        modals::{Modal, viewer::ViewerModal},
        model::{RetryAttempt, ScreenModel},
        runs::{RunEntry, RunSubject},
        theme::ThemeRole,
        view,
    },
};

pub(super) fn search_hooks(model: &mut ScreenModel, query: &str, forward: bool) -> bool {
    let query = query.to_lowercase();
    let rows = model.hook_rows();
    let fits = |n| rows.nth(n).is_some_and(|row| row.name().to_lowercase().contains(&query));
    let found = next_fit(model.chosen_hook, rows.len(), forward, fits);
    model.chosen_hook = found.unwrap_or(model.chosen_hook);
    found.is_some()
}

pub(super) fn search_attempts(model: &mut ScreenModel, query: &str, forward: bool) -> bool {
    let query = query.to_lowercase();
    let newest_first: Vec<String> =
        model.attempts.iter().rev().map(|attempt| attempt.feedback.to_lowercase()).collect();
    let fits = |n: usize| newest_first[n].contains(&query);
    let found = next_fit(model.chosen_attempt, newest_first.len(), forward, fits);
    model.chosen_attempt = found.unwrap_or(model.chosen_attempt);
    found.is_some()
}

/// Shows what a hook printed, newest run first, or what a hook that has not run would do.
pub(super) fn open_hook(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let Some(row) = model.hook_rows().nth(model.chosen_hook) else { return Vec::new() };
    if let Some(run) = row.latest() {
        let what = if run.kind == RunSubject::Rule { "rule" } else { run.point.name() };
        let title = format!("run {} · {what} · {}", run.run, run.name());
        let live = run.ended.is_none().then_some(run.run);
        let file = run.ended.as_ref().map_or_else(|| Some(run.run.output_file()), |finished| finished.file.clone());
        let earlier = row.newest_first().skip(1).map(earlier_run).collect();
        return vec![ScreenRequest::ReadOutput { title, file, otherwise: view::run_text(run), earlier, live }];
    }
    let about = match row.kind {
        HookRowKind::Hook(spec) => {
            let piped = if spec.pipe_output { "; the agent gets its output" } else { "" };
            format!("it would run for at most {}{piped}", spec.timeout)
        }
        HookRowKind::Decides(_) => "creel asks it after each iteration whether the session is complete".to_owned(),
        HookRowKind::Rule(rule) => format!("creel checks it after each iteration, for at most {}", rule.timeout),
        HookRowKind::Unplanned(_) => String::new(),
    };
    let viewer = ViewerModal::new(format!("{} · {}", row.point, row.name()), &hook_text(&row), about);
    lay_over(model, Modal::Viewer(Box::new(viewer)))
}

/// An earlier run of a hook, with a line that says how it ended.
fn earlier_run(run: &RunEntry) -> String {
    let end = run.ended.as_ref().map(|finished| finished.end.describe()).unwrap_or_default();
    format!("\n── run {} · iteration {} · {end} ──\n{}", run.run, run.iteration, view::run_text(run))
}

/// The output of a hook's last run, or what the hook would do.
pub(super) fn hook_text(row: &HookRow<'_>) -> String {
    match (row.latest(), row.kind) {
        (Some(run), _) => view::run_text(run),
        (None, HookRowKind::Hook(spec)) => spec.action.describe(),
        (None, HookRowKind::Decides(hook)) => stop_decisions::judge(hook),
        (None, HookRowKind::Rule(rule)) => rule.check.describe(),
        (None, HookRowKind::Unplanned(_)) => String::new(),
    }
}

pub(super) fn chosen_attempt(model: &ScreenModel) -> Option<&RetryAttempt> {
    model.attempts.iter().rev().nth(model.chosen_attempt)
}

/// Shows the feedback of a retry, and what changed since the one before.
pub(super) fn open_attempt(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let Some(attempt) = chosen_attempt(model) else {
        model.say(ThemeRole::Faint, "no retries in this iteration");
        return Vec::new();
    };
    let before = model.attempts.iter().rev().nth(model.chosen_attempt + 1);
    let changes = match before {
        Some(_) if attempt.no_progress => "= the same as the run before\n\n".to_owned(),
        Some(before) => format!("{}\n", changed_lines(&before.feedback, &attempt.feedback)),
        None => String::new(),
    };
    let text = format!("{changes}{}", attempt.feedback);
    let title = format!("retry {} · {}", attempt.used, plain_line(&attempt.hook, 80));
    let viewer = ViewerModal::new(title, &text, readable_size(attempt.feedback.len() as u64));
    lay_over(model, Modal::Viewer(Box::new(viewer)))
}

/// The lines that one text has and the other does not, with the signs of a diff.
fn changed_lines(before: &str, now: &str) -> String {
    let (before, now) = (before.lines().collect::<Vec<_>>(), now.lines().collect::<Vec<_>>());
    let mut text = "Changes since the run before:\n".to_owned();
    for change in line_changes(&before, &now) {
        text.extend(before[change.before].iter().map(|line| format!("- {line}\n")));
        text.extend(now[change.now].iter().map(|line| format!("+ {line}\n")));
    }
    text
}

/// The selected hook, if the session is live.
fn chosen_hook(model: &mut ScreenModel) -> Option<HookRef> {
    let chosen = model.hook_rows().nth(model.chosen_hook)?.hook();
    is_live(model).then_some(chosen)
}

pub(super) fn switch_hook(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let Some(HookRef { point, hook }) = chosen_hook(model) else { return Vec::new() };
    let Some(state) = &model.session else { return Vec::new() };
    let planned = state.plan().hook(point, &hook).is_some_and(|spec| state.hooks.is_enabled(point, spec));
    let decides = || state.agent_loops().stop_hook(&hook).is_some_and(|hook| state.hooks.stop_hook_is_on(hook));
    let on = planned || (point == HookPoint::StopDecision && decides());
    let command = if on {
        SessionCommand::DisableHook { point: Some(point), hook }
    } else {
        SessionCommand::EnableHook { point: Some(point), hook }
    };
    vec![ScreenRequest::Command(command)]
}

pub(super) fn run_hook(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let chosen = chosen_hook(model);
    chosen
        .map(|HookRef { point, hook }| ScreenRequest::Command(SessionCommand::RunHook { point: Some(point), hook }))
        .into_iter()
        .collect()
}

/// Cancels the run of the selected hook.
pub(super) fn cancel_hook(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let Some(row) = model.hook_rows().nth(model.chosen_hook) else { return Vec::new() };
    let name = row.name();
    let running = row.running().map(|run| run.run);
    match running {
        Some(run) if is_live(model) => vec![ScreenRequest::Command(SessionCommand::CancelHook { run })],
        Some(_) => Vec::new(),
        None => {
            model.say(ThemeRole::Faint, format!("`{name}` is not running"));
            Vec::new()
        }
    }
}

pub(super) fn show_stats(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    if model.tallies.is_empty() {
        model.say(ThemeRole::Faint, "no hook has run yet");
        return Vec::new();
    }
    let table = hook_stats::table(&model.tallies.stats());
    let about = "half of the runs took at most p50, 95 of 100 at most p95; piped: bytes";
    lay_over(model, Modal::Viewer(Box::new(ViewerModal::new("statistics of the hooks", &table, about))))
}

/// The row of the hook that runs, or ran last.
pub(super) fn latest_hook(model: &ScreenModel) -> usize {
    let latest = model.runs.running().or_else(|| model.runs.newest()).map(|run| run.run);
    let row = model.hook_rows().iter().position(|row| row.newest_first().any(|run| Some(run.run) == latest));
    row.unwrap_or(0)
}
