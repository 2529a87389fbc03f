//! The hooks pane: one row per hook, by hook point, with its last runs, what it does now, and its
//! time. The running hook also shows its last lines, and so does the hook that ran last if it did
//! not pass.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use super::with_cursor;
use crate::{
    engine::{
        SessionState,
        hooks::{point::HookPoint, verdict::Verdict},
        session::phase::Phase,
    },
    present::{
        hook_stats::DecisionCounts,
        text::{against, brief_span, first_line, plain},
    },
    tui::{
        ansi::coloured_lines,
        hook_rows::{HookRow, HookRowKind, HookRows},
        model::{Pane, ScreenModel},
        runs::{RunEntry, RunSubject},
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// How many runs of a hook have a sign.
const RUNS_SHOWN: usize = 6;
/// The longest name of a hook, in columns.
const NAME: usize = 20;
/// How many lines of a hook's output are visible if there is room.
const LIVE: usize = 6;
/// The same for a run that has ended.
const ENDED: usize = 12;
/// The longest reason, in characters.
const REASON: usize = 120;

/// A line of the pane.
#[derive(Debug, Clone, Copy)]
enum HookLine {
    /// Its hooks follow.
    Point(HookPoint),
    /// The row of a hook, by its number.
    Hook(usize),
    /// A line of the output below its hook's row, counted from its end.
    Output(usize),
}

/// How many rows the pane needs.
pub fn wanted(model: &ScreenModel) -> usize {
    let rows = model.hook_rows();
    if rows.is_empty() {
        return 0;
    }
    lines(rows, &OutputTail::of(rows, LIVE)).len()
        + usize::from(model.session.as_ref().and_then(upcoming).is_some())
}

/// The last lines of the run that matters most now: one that runs, else the newest of the hooks that
/// did not pass last in this iteration, whatever passed after it.
#[derive(Default)]
struct OutputTail {
    /// The row of its hook.
    row: Option<usize>,
    /// In its own colours, newest first.
    lines: Vec<String>,
}

impl OutputTail {
    fn of(rows: HookRows<'_>, most: usize) -> Self {
        let running = rows
            .iter()
            .enumerate()
            .find_map(|(n, row)| Some((n, row.running()?)));
        let failed = || {
            let latest = || {
                rows.iter()
                    .enumerate()
                    .filter_map(|(n, row)| Some((n, row.latest()?)))
            };
            let iteration = latest().map(|(_, run)| run.iteration).max()?;
            latest()
                .filter(|(_, run)| run.has_failed() && run.iteration == iteration)
                .max_by_key(|(_, run)| (run.started, run.run))
        };
        let Some((row, run)) = running.or_else(failed) else {
            return Self::default();
        };
        // The stream has more of the output of a run that has ended.
        let most = if run.ended.is_some() {
            most.min(ENDED)
        } else {
            most
        };
        let text = run.output();
        let printed = text.lines().rev().skip_while(|line| line.trim().is_empty());
        let mut lines: Vec<String> = printed.take(most).map(str::to_owned).collect();
        // Why it failed is more important than the beginning of its last lines.
        let reason = first_line(&run.reason, REASON);
        let is_there = reason.is_empty()
            || lines
                .iter()
                .any(|line| plain(line).contains(reason.trim_end_matches('…')));
        if let Some(first) = lines
            .last_mut()
            .filter(|_| run.ended.is_some() && !is_there)
        {
            *first = reason;
        }
        Self {
            row: Some(row),
            lines,
        }
    }
}

fn lines(rows: HookRows<'_>, output: &OutputTail) -> Vec<HookLine> {
    let mut lines = Vec::new();
    let mut point = None;
    for (n, row) in rows.iter().enumerate() {
        if point != Some(row.point) {
            point = Some(row.point);
            lines.push(HookLine::Point(row.point));
        }
        lines.push(HookLine::Hook(n));
        if output.row == Some(n) {
            lines.extend((0..output.lines.len()).rev().map(HookLine::Output));
        }
    }
    lines
}

/// The visible lines: as much output as there is room for, but at least two lines of it.
fn visible(model: &ScreenModel, rows: HookRows<'_>, height: usize) -> (Vec<HookLine>, OutputTail) {
    let without = lines(rows, &OutputTail::default()).len();
    let output = OutputTail::of(
        rows,
        height
            .saturating_sub(without)
            .clamp(2, LIVE.max(height / 2)),
    );
    let all = lines(rows, &output);
    let shown = if model.panes.focus == Pane::Hooks {
        Some(model.panes.hook)
    } else {
        None
    };
    let wanted = shown.or(output.row).unwrap_or(0);
    let at = all
        .iter()
        .position(|line| matches!(line, HookLine::Hook(n) if *n == wanted))
        .unwrap_or(0);
    // The output below the row is visible with it.
    let below = all[at + 1..]
        .iter()
        .take_while(|line| matches!(line, HookLine::Output(_)))
        .count();
    let first = (at + below + 1).saturating_sub(height).min(at);
    (all.into_iter().skip(first).take(height).collect(), output)
}

pub fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let rows = model.hook_rows();
    if rows.is_empty() {
        let text = super::empty(model, Pane::Hooks, usize::from(area.width));
        theme.line(ThemeRole::Faint, text).render(area, buffer);
        return;
    }
    let (list, next) = parts(model, area);
    let columns = HookColumns::of(rows, usize::from(area.width));
    let (shown, output) = visible(model, rows, usize::from(list.height));
    let lines: Vec<Line<'static>> = shown
        .into_iter()
        .filter_map(|line| match line {
            HookLine::Point(point) => Some(theme.line(ThemeRole::Faint, point.name())),
            HookLine::Hook(n) => Some(columns.line(model, &rows.nth(n)?, n, theme)),
            HookLine::Output(n) => Some(output_line(
                output.lines.get(n)?,
                theme,
                usize::from(area.width),
            )),
        })
        .collect();
    let used = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    Paragraph::new(lines).render(list, buffer);
    if let (Some(last), Some(text)) = (next, model.session.as_ref().and_then(upcoming)) {
        // Below the list, set off by a blank row if there is one.
        let row = Rect {
            y: list.y.saturating_add(used).saturating_add(1).min(last.y),
            ..last
        };
        theme
            .line(ThemeRole::Faint, fit(&text, usize::from(row.width)))
            .render(row, buffer);
    }
}

/// The list, and the last row that the line about the next hooks can have.
fn parts(model: &ScreenModel, area: Rect) -> (Rect, Option<Rect>) {
    let has_next = model.session.as_ref().and_then(upcoming).is_some();
    if !has_next || area.height < 4 {
        return (area, None);
    }
    let list = Rect {
        height: area.height - 1,
        ..area
    };
    (
        list,
        Some(Rect {
            y: list.bottom(),
            height: 1,
            ..area
        }),
    )
}

/// A line of output in its own colours.
fn output_line(text: &str, theme: &ScreenTheme, width: usize) -> Line<'static> {
    let pieces = coloured_lines(text, theme.style(ThemeRole::Text), theme.keeps_colours);
    let inner = width.saturating_sub(4).max(1);
    let first = pieces
        .into_iter()
        .next()
        .and_then(|line| wrap(&line, inner, 0).into_iter().next());
    let mut line = first.unwrap_or_default();
    line.spans.insert(0, "    ".into());
    line
}

/// What all rows have in common.
struct HookColumns {
    width: usize,
    names: usize,
}

impl HookColumns {
    fn of(rows: HookRows<'_>, width: usize) -> Self {
        let names = rows
            .iter()
            .map(|row| row.name().width().min(NAME))
            .max()
            .unwrap_or(0);
        Self { width, names }
    }

    fn line(
        &self,
        model: &ScreenModel,
        row: &HookRow<'_>,
        n: usize,
        theme: &ScreenTheme,
    ) -> Line<'static> {
        let name = fit(&row.name(), self.names);
        let name = format!(
            "{name}{}  ",
            " ".repeat(self.names.saturating_sub(name.width()))
        );
        let (right, right_role) = right_of(model, row);
        let running = row.running().is_some();
        let name_role = if running {
            ThemeRole::Running
        } else {
            ThemeRole::Text
        };
        let mut spans = vec![theme.span(name_role, name)];
        let room = self
            .width
            .saturating_sub(2 + self.names + 2 + right.width() + 1);
        spans.extend(
            run_signs(model, row, theme)
                .into_iter()
                .rev()
                .take(room)
                .rev(),
        );
        let used: usize = spans.iter().map(Span::width).sum();
        let right = fit(&right, self.width.saturating_sub(used + 3));
        let gap = self.width.saturating_sub(2 + used + right.width());
        spans.push(Span::raw(" ".repeat(gap)));
        spans.push(theme.span(right_role, right));
        with_cursor(
            spans,
            n == model.panes.hook,
            model.panes.focus == Pane::Hooks,
            theme,
        )
    }
}

/// One sign per run, oldest first, and a dot if the hook is about to run.
fn run_signs(model: &ScreenModel, row: &HookRow<'_>, theme: &ScreenTheme) -> Vec<Span<'static>> {
    let sign = |run: &RunEntry| {
        let (sign, role) = match run.ended.as_ref().map(|finished| finished.verdict) {
            None => ("▸", ThemeRole::Running),
            Some(Verdict::Pass) => ("✓", ThemeRole::Good),
            Some(Verdict::Block) => ("✗", ThemeRole::Bad),
            Some(Verdict::Fail) => ("!", ThemeRole::Warning),
        };
        theme.span(role, sign)
    };
    let mut run_signs: Vec<Span<'static>> = row.last(RUNS_SHOWN).map(sign).collect();
    if run_signs.is_empty() || is_due(model, row) {
        run_signs.push(theme.span(ThemeRole::Faint, "·"));
    }
    run_signs
}

/// Whether the hook is about to run.
fn is_due(model: &ScreenModel, row: &HookRow<'_>) -> bool {
    let dispatch = model
        .session
        .as_ref()
        .and_then(|state| state.phase.dispatch());
    let queue = dispatch
        .filter(|dispatch| dispatch.point == row.point)
        .and_then(|dispatch| dispatch.queue.as_ref());
    queue.is_some_and(|queue| queue.iter().any(|due| *due == row.hook().hook))
}

/// The right end of a row: what the hook does now, or how its last run ended.
fn right_of(model: &ScreenModel, row: &HookRow<'_>) -> (String, ThemeRole) {
    if is_off(model, row) {
        return ("disabled".to_owned(), ThemeRole::Warning);
    }
    if let Some(run) = row.running() {
        let took = run.took(model.moment());
        let limit = model
            .session
            .as_ref()
            .and_then(|state| state.plan().hook(run.point, &run.hook));
        let time = limit.map_or_else(|| brief_span(took), |spec| against(took, spec.timeout));
        return (time, ThemeRole::Running);
    }
    if let HookRowKind::Decides(hook) = row.kind
        && let Some(DecisionCounts {
            complete,
            go_on,
            escalate,
        }) = model.tallies.hooks.decisions(&hook.name)
    {
        return (
            format!("complete {complete} · continue {go_on} · escalate {escalate}"),
            ThemeRole::Text,
        );
    }
    let Some(run) = row.latest() else {
        return (String::new(), ThemeRole::Faint);
    };
    let Some(finished) = &run.ended else {
        return (String::new(), ThemeRole::Faint);
    };
    let piped = if finished.piped { "  piped" } else { "" };
    let end = match (finished.verdict, run.kind) {
        (Verdict::Pass, _) | (_, RunSubject::Rule) => String::new(),
        (Verdict::Block | Verdict::Fail, RunSubject::Hook) => {
            format!("{}  ", plain(&finished.end.describe()))
        }
    };
    let role = if finished.verdict == Verdict::Pass {
        ThemeRole::Faint
    } else {
        ThemeRole::Text
    };
    (
        format!("{end}{}{piped}", brief_span(finished.took_ms)),
        role,
    )
}

fn is_off(model: &ScreenModel, row: &HookRow<'_>) -> bool {
    let Some(state) = &model.session else {
        return false;
    };
    match row.kind {
        HookRowKind::Hook(spec) => !state.hooks.is_enabled(row.point, spec),
        HookRowKind::Decides(hook) => !state.hooks.stop_hook_is_on(hook),
        HookRowKind::Rule(rule) => !rule.enabled,
        HookRowKind::Unplanned(_) => false,
    }
}

/// The next hooks, by name.
pub fn upcoming(state: &SessionState) -> Option<String> {
    if let Some(dispatch) = state.phase.dispatch() {
        let here: Vec<String> = dispatch
            .queue
            .iter()
            .flatten()
            .map(|hook| plain(hook))
            .collect();
        if !here.is_empty() {
            return Some(format!("next: {} → {}", dispatch.point, here.join(", ")));
        }
    }
    if matches!(state.phase, Phase::Ended(_)) {
        return None;
    }
    let soon = [
        HookPoint::Stop,
        HookPoint::PostIteration,
        HookPoint::PreIteration,
        HookPoint::SessionEnd,
    ];
    let from = match state.phase.dispatch().map(|dispatch| dispatch.point) {
        Some(HookPoint::Stop) => 1,
        Some(HookPoint::PostIteration) => 2,
        // The loop is over.
        Some(_) | None
            if state.ending.is_some()
                || matches!(state.phase, Phase::Delivering | Phase::Exit(_)) =>
        {
            3
        }
        Some(_) | None => 0,
    };
    soon[from..].iter().find_map(|point| {
        let enabled =
            |spec: &&crate::engine::policy::HookSpec| state.hooks.is_enabled(*point, spec);
        let names: Vec<String> = state
            .plan()
            .hooks_at(*point)
            .iter()
            .filter(enabled)
            .map(|spec| plain(&spec.name))
            .collect();
        (!names.is_empty()).then(|| format!("next: {point} → {}", names.join(", ")))
    })
}

/// The row at a line of the pane.
pub fn row_at(model: &ScreenModel, area: Rect, nth: usize) -> Option<usize> {
    let rows = model.hook_rows();
    let (list, _) = parts(model, area);
    match visible(model, rows, usize::from(list.height)).0.get(nth)? {
        HookLine::Hook(n) => Some(*n),
        HookLine::Point(_) | HookLine::Output(_) => None,
    }
}
