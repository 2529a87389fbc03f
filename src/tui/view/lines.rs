//! The rows of a screen that shows one pane at a time: the tabs with the counts of the hidden panes,
//! the hook that runs or ran last, and what is counted and next.

use ratatui::{buffer::Buffer, layout::Rect, text::Line, widgets::Widget as _};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::{SessionState, hooks::verdict::Verdict},
    present::{
        text::{against, brief_span, plain, plain_line, some_names},
        usage,
    },
    tui::{
        model::{Pane, ScreenModel},
        panes,
        text::fit,
        theme::{ScreenTheme, ThemeRole},
        view::facts,
    },
};

pub(super) fn draw(
    model: &ScreenModel,
    theme: &ScreenTheme,
    hook: Rect,
    counts: Rect,
    buffer: &mut Buffer,
) {
    if hook.height > 0 {
        hook_line(model, theme, usize::from(hook.width)).render(hook, buffer);
    }
    if let Some(state) = model.session.as_ref().filter(|_| counts.height > 0) {
        fact_line(model, state, theme, usize::from(counts.width)).render(counts, buffer);
    }
}

/// The running hook with its last line; else the last one that did not pass, with its reason; else
/// the last one.
fn hook_line(model: &ScreenModel, theme: &ScreenTheme, width: usize) -> Line<'static> {
    let failed = || {
        model
            .hook_rows()
            .iter()
            .filter_map(|row| row.latest())
            .filter(|run| run.has_failed())
            .max_by_key(|run| (run.started, run.run))
    };
    let Some(run) = model
        .runs
        .running()
        .or_else(failed)
        .or_else(|| model.runs.newest())
    else {
        return theme.line(ThemeRole::Faint, " No hook has run yet");
    };
    let (sign, role) = run.sign();
    let took = run.took(model.moment());
    let (text, time) = if let Some(finished) = &run.ended {
        let why = if run.reason.is_empty() {
            finished.end.describe()
        } else {
            run.reason.clone()
        };
        (
            if finished.verdict == Verdict::Pass {
                String::new()
            } else {
                why
            },
            brief_span(took),
        )
    } else {
        let limit = model
            .session
            .as_ref()
            .and_then(|state| state.plan().hook(run.point, &run.hook));
        let time = limit.map_or_else(|| brief_span(took), |spec| against(took, spec.timeout));
        (
            plain(run.live.lines().next_back().unwrap_or_default()),
            time,
        )
    };
    let head = format!(" {sign} {}: {}", run.point, run.name());
    let room = width.saturating_sub(head.width() + time.width() + 5);
    let text = fit(&plain_line(&text, 200), room);
    let gap = " ".repeat((room + 1).saturating_sub(text.width()));
    Line::from(vec![
        theme.span(role, head),
        theme.span(ThemeRole::Text, format!("   {text}{gap}")),
        theme.span(ThemeRole::Text, format!("{time} ")),
    ])
}

/// `retries ●●○○○ 2/5 · 2 pending: clippy, tree · tasks 3/7 · next: stop → fmt`, and the cost.
fn fact_line(
    model: &ScreenModel,
    state: &SessionState,
    theme: &ScreenTheme,
    width: usize,
) -> Line<'static> {
    let limit = state.retries().retry_limit();
    let dots = facts::retries(state).map(|dots| {
        let numbers = format!("{}/{limit}", state.retry.used);
        if dots == numbers {
            format!("retries {dots}")
        } else {
            format!("retries {dots} {numbers}")
        }
    });
    let waiting: Vec<&str> = state
        .pending
        .waiting()
        .map(|item| item.source.hook.as_str())
        .collect();
    let pending = match waiting.len() {
        0 => "0 pending".to_owned(),
        n => format!("{n} pending: {}", plain(&some_names(&waiting, 3))),
    };
    let tasks = facts::tasks(model).map(|tasks| format!("tasks {tasks}"));
    let next = panes::hooks::upcoming(state);
    let cost = usage::cost(state.account.used.cost);
    let cost = cost.map_or_else(String::new, |cost| format!("{cost} "));
    let room = width.saturating_sub(cost.width() + 2);
    let errors = match (state.retry.errors, state.plan().max_consecutive_errors) {
        (0, _) => None,
        (errors, most) => Some(format!("✗ errors {errors}/{most}")),
    };
    let queued = facts::messages(state);
    let parts = dots
        .into_iter()
        .chain(errors)
        .chain(queued)
        .chain([pending])
        .chain(tasks)
        .chain(next);
    let parts = parts.collect::<Vec<_>>();
    let text = fit(&parts.join(" · "), room);
    let gap = " ".repeat(room.saturating_sub(text.width()) + 1);
    Line::from(facts::coloured(
        &format!(" {text}{gap}{cost}"),
        theme.style(ThemeRole::Text),
        theme,
    ))
}

pub(super) fn draw_tabs(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let tabs = tabs(model, area.width)
        .into_iter()
        .flat_map(|(pane, text)| {
            if pane == model.panes.focus {
                return vec![theme.span(ThemeRole::Selected, text)];
            }
            facts::coloured(&text, theme.style(ThemeRole::Text), theme)
        });
    Line::from(tabs.collect::<Vec<_>>()).render(area, buffer);
}

pub(super) fn tab_at(model: &ScreenModel, room: u16, column: u16) -> Option<Pane> {
    let mut from = 0;
    for (pane, text) in tabs(model, room) {
        let width = u16::try_from(text.width()).unwrap_or(0);
        if (from..from + width).contains(&column) {
            return Some(pane);
        }
        from += width;
    }
    None
}

/// The tabs, in the longest form that fits: with names and counts, with the name of the focused
/// pane only, and last without the counts.
fn tabs(model: &ScreenModel, room: u16) -> Vec<(Pane, String)> {
    let form = |names: bool, counts: bool, end: &str| -> Vec<(Pane, String)> {
        let tab = |pane: Pane| {
            let name = if names || pane == model.panes.focus {
                format!(" {}", pane.title())
            } else {
                String::new()
            };
            let count = if counts && pane != Pane::Stream {
                panes::count(model, pane)
            } else {
                String::new()
            };
            let count = if count.is_empty() {
                count
            } else {
                format!(" {count}")
            };
            (pane, format!(" {}{name}{count}{end}", pane.number()))
        };
        Pane::ALL.into_iter().map(tab).collect()
    };
    let fits = |tabs: &Vec<(Pane, String)>| {
        tabs.iter().map(|(_, text)| text.width()).sum::<usize>() <= usize::from(room)
    };
    let forms = [
        (true, true, " "),
        (true, true, ""),
        (false, true, " "),
        (true, false, " "),
    ];
    let found = forms
        .into_iter()
        .map(|(names, counts, end)| form(names, counts, end))
        .find(fits);
    found.unwrap_or_else(|| form(false, false, " "))
}
