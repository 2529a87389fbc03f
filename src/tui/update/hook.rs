//! Keys of the hooks pane and of the retries pane.

use crate::{
    engine::{
        hooks::{HookRef, point::HookPoint},
        ids::RunId,
        input::SessionCommand,
        policy::PipeOutput,
    },
    present::{
        hook_stats, policies,
        text::{plain, plain_line, readable_size, time_of_day},
    },
    tui::{
        diff::OutputComparison,
        hook_rows::{HookRow, HookRowKind},
        keymap::HookKey,
        modals::{
            Modal,
            line_mark::MatchCount,
            viewer::{RunOutput, ViewerModal},
        },
        model::ScreenModel,
        request::ScreenRequest,
        runs::{HookRuns, RetryAttempt, RunEntry, RunSubject},
        stream::SearchHit,
        theme::ThemeRole,
    },
};

pub(super) fn moved(at: usize, by: isize, count: usize) -> usize {
    at.saturating_add_signed(by).min(count.saturating_sub(1))
}

/// The next of `count` entries after `from` that fits, going around, and which match it is.
pub(super) fn next_fit(
    from: usize,
    count: usize,
    forward: bool,
    fits: impl Fn(usize) -> bool,
) -> Option<(usize, SearchHit)> {
    let found = (1..=count)
        .map(|n| {
            if forward {
                (from + n) % count
            } else {
                (from + count - n % count) % count
            }
        })
        .find(|n| fits(*n))?;
    let mut matches = MatchCount::default();
    matches.advance(count, fits);
    Some((found, matches.hit(found, count)))
}

pub(super) fn search_hooks(
    model: &mut ScreenModel,
    query: &str,
    forward: bool,
) -> Option<SearchHit> {
    let query = query.to_lowercase();
    let rows = model.hook_rows();
    let fits = |n| {
        rows.nth(n)
            .is_some_and(|row| row.name().to_lowercase().contains(&query))
    };
    let (found, hit) = next_fit(model.panes.hook, rows.len(), forward, fits)?;
    model.panes.hook = found;
    Some(hit)
}

pub(super) fn search_attempts(
    model: &mut ScreenModel,
    query: &str,
    forward: bool,
) -> Option<SearchHit> {
    let query = query.to_lowercase();
    let newest_first: Vec<String> = model
        .attempts
        .iter()
        .rev()
        .map(|attempt| attempt.feedback.to_lowercase())
        .collect();
    let fits = |n: usize| newest_first[n].contains(&query);
    let (found, hit) = next_fit(model.panes.attempt, newest_first.len(), forward, fits)?;
    model.panes.attempt = found;
    Some(hit)
}

pub(super) fn on_hook_key(model: &mut ScreenModel, key: HookKey) {
    match key {
        HookKey::Open => open_hook(model),
        HookKey::Run => {
            let chosen =
                chosen_hook(model).map(|HookRef { point, hook }| SessionCommand::RunHook {
                    point: Some(point),
                    hook,
                });
            if let Some(command) = chosen {
                model.request(ScreenRequest::Command(command));
            }
        }
        HookKey::Switch => switch_hook(model),
        HookKey::Cancel => cancel_hook(model),
        HookKey::Stats => show_stats(model),
    }
}

/// Shows what a hook printed, newest run first, or what a hook that has not run would do.
fn open_hook(model: &mut ScreenModel) {
    let Some(row) = model.hook_rows().nth(model.panes.hook) else {
        return;
    };
    if let Some(run) = row.latest() {
        let earlier = row.newest_first().skip(1).map(earlier_run).collect();
        let output = read_output(run, earlier);
        return model.request(output);
    }
    let about = match row.kind {
        HookRowKind::Hook(spec) => {
            let piped = match spec.pipe_output {
                PipeOutput::Always => "; the agent gets its output",
                PipeOutput::OnFailure => "; the agent gets the output of failed runs",
                PipeOutput::Never => "",
            };
            format!("it would run for at most {}{piped}", spec.timeout)
        }
        HookRowKind::Decides(_) => {
            "creel asks it after each iteration whether the session is complete".to_owned()
        }
        HookRowKind::Rule(rule) => format!(
            "creel checks it after each iteration, for at most {}",
            rule.timeout
        ),
        HookRowKind::Unplanned(_) => String::new(),
    };
    let viewer = ViewerModal::new(
        format!("{} · {}", row.point, row.name()),
        &hook_text(&row),
        about,
    );
    model.lay_over(Modal::Viewer(Box::new(viewer)));
}

/// Shows the output of a run that the stream does not have. None if there is no more than the
/// stream shows.
pub(super) fn open_run(model: &ScreenModel, run: RunId) -> Option<ScreenRequest> {
    let run = model.runs.get(run)?;
    let is_complete = run
        .ended
        .as_ref()
        .is_some_and(|finished| finished.omitted_bytes == 0);
    (!is_complete).then(|| read_output(run, String::new()))
}

fn read_output(run: &RunEntry, earlier: String) -> ScreenRequest {
    let what = if run.kind == RunSubject::Rule {
        "rule"
    } else {
        run.point.name()
    };
    ScreenRequest::ReadOutput(RunOutput {
        title: format!("Run {} · {what} · {}", run.run, run.name()),
        file: run.ended.as_ref().map_or_else(
            || Some(run.run.output_file()),
            |finished| finished.file.clone(),
        ),
        otherwise: run.output(),
        earlier,
        live: run.ended.is_none().then_some(run.run),
        reason: run.has_failed().then(|| run.reason.clone()),
    })
}

/// An earlier run of a hook, with a line that says how it ended.
fn earlier_run(run: &RunEntry) -> String {
    let end = run
        .ended
        .as_ref()
        .map(|finished| finished.end.describe())
        .unwrap_or_default();
    format!(
        "\n── run {} · iteration {} · {end} ──\n{}",
        run.run,
        run.iteration,
        run.output()
    )
}

/// The output of a hook's last run, or what the hook would do.
pub(super) fn hook_text(row: &HookRow<'_>) -> String {
    match (row.latest(), row.kind) {
        (Some(run), _) => plain(&run.output()),
        (None, HookRowKind::Hook(spec)) => spec.action.describe(),
        (None, HookRowKind::Decides(hook)) => policies::judge(hook),
        (None, HookRowKind::Rule(rule)) => rule.check.describe(),
        (None, HookRowKind::Unplanned(_)) => String::new(),
    }
}

pub(super) fn chosen_attempt(model: &ScreenModel) -> Option<&RetryAttempt> {
    model.attempts.iter().rev().nth(model.panes.attempt)
}

/// Shows the output that led to a retry beside the output of the run before.
pub(super) fn open_attempt(model: &mut ScreenModel) {
    let Some(attempt) = chosen_attempt(model) else {
        model.say(ThemeRole::Faint, "no retries in this iteration");
        return;
    };
    let before = model.attempts.iter().rev().nth(model.panes.attempt + 1);
    let heading = |attempt: &RetryAttempt| {
        format!(
            "Run {}, {}",
            attempt.used,
            time_of_day(attempt.at, &model.look.zone)
        )
    };
    let title = format!("Retry {} · {}", attempt.used, plain_line(&attempt.hook, 80));
    let text = attempt_text(model, attempt);
    let viewer = match before {
        Some(before) => {
            let titles = [heading(before), heading(attempt)];
            ViewerModal::compared(
                title,
                OutputComparison::new(&attempt_text(model, before), &text, titles),
            )
        }
        None => ViewerModal::coloured(title, &text, readable_size(text.len() as u64)),
    };
    model.lay_over(Modal::Viewer(Box::new(viewer)));
}

/// What the hook printed in the run that led to a retry. Where creel itself blocked the turn, the
/// feedback.
fn attempt_text(model: &ScreenModel, attempt: &RetryAttempt) -> String {
    let iteration = model.session.as_ref().map(|state| state.iterations.current);
    let runs = model
        .runs
        .of(HookPoint::Stop, RunSubject::Hook, &attempt.hook);
    let runs = runs.into_iter().flat_map(HookRuns::newest_first);
    let mut runs =
        runs.filter(|run| Some(run.iteration) == iteration && run.attempt + 1 == attempt.used);
    runs.find(|run| run.ended.is_some())
        .map_or_else(|| attempt.feedback.clone(), RunEntry::output)
}

/// The selected hook, if the session is live.
fn chosen_hook(model: &mut ScreenModel) -> Option<HookRef> {
    let chosen = model.hook_rows().nth(model.panes.hook)?.hook();
    model.is_live().then_some(chosen)
}

fn switch_hook(model: &mut ScreenModel) {
    let Some(HookRef { point, hook }) = chosen_hook(model) else {
        return;
    };
    let Some(state) = &model.session else {
        return;
    };
    let planned = state
        .plan()
        .hook(point, &hook)
        .is_some_and(|spec| state.hooks.is_enabled(point, spec));
    let decides = || {
        state
            .agent_loops()
            .stop_hook(&hook)
            .is_some_and(|hook| state.hooks.stop_hook_is_on(hook))
    };
    let on = planned || (point == HookPoint::StopDecision && decides());
    let command = if on {
        SessionCommand::DisableHook {
            point: Some(point),
            hook,
        }
    } else {
        SessionCommand::EnableHook {
            point: Some(point),
            hook,
        }
    };
    model.request(ScreenRequest::Command(command));
}

/// Cancels the run of the selected hook.
fn cancel_hook(model: &mut ScreenModel) {
    let Some(row) = model.hook_rows().nth(model.panes.hook) else {
        return;
    };
    let name = row.name();
    let running = row.running().map(|run| run.run);
    match running {
        Some(run) if model.is_live() => {
            model.request(ScreenRequest::Command(SessionCommand::CancelHook { run }));
        }
        Some(_) => {}
        None => {
            model.say(ThemeRole::Faint, format!("`{name}` is not running"));
        }
    }
}

fn show_stats(model: &mut ScreenModel) {
    if model.tallies.hooks.is_empty() {
        model.say(ThemeRole::Faint, "no hook has run yet");
        return;
    }
    let table = hook_stats::table(&model.tallies.hooks.stats());
    let about = "half of the runs took at most p50, 95 of 100 at most p95; piped: bytes";
    model.lay_over(Modal::Viewer(Box::new(ViewerModal::new(
        "Statistics of the hooks",
        &table,
        about,
    ))));
}

/// The row of the hook that runs, or ran last.
pub(super) fn latest_hook(model: &ScreenModel) -> usize {
    let latest = model
        .runs
        .running()
        .or_else(|| model.runs.newest())
        .map(|run| run.run);
    let row = model
        .hook_rows()
        .iter()
        .position(|row| row.newest_first().any(|run| Some(run.run) == latest));
    row.unwrap_or(0)
}
