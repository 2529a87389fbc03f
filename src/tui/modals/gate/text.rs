//! The content of a gate as text: a permission request, a budget, proposed tasks, or what a hook
//! printed.

use ratatui::text::Line;
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::{
        SessionState,
        conversation::{AgentPermissionRequest, ToolKind},
        gate::{Gate, kind::GateKind},
        permission::tool_call,
        question::AgentQuestion,
        stop::context::Promise,
        time::TimeSpan,
    },
    present::{
        task_view::{TreeRow, tree_rows},
        text::{brief_span, grouped, plain, sentence_case},
        tool_calls, usage,
    },
    tui::{
        ansi::PrintedRows,
        diff::{self, FileDiff},
        model::ScreenModel,
        runs::RunEntry,
        text::{fit, plain_lines, wrap},
        theme::{ScreenTheme, ThemeRole},
        view::pipeline,
    },
};

pub(super) fn lines(
    gate: &Gate,
    ask: Option<&AgentPermissionRequest>,
    model: &ScreenModel,
    theme: &ScreenTheme,
    width: usize,
) -> Vec<Line<'static>> {
    match (ask, &model.session) {
        (Some(ask), Some(state)) => match ask.question() {
            Some(asked) => question(asked, theme, width),
            None => request(ask, &state.began.cwd, theme, width),
        },
        (_, Some(state)) if gate.kind() == GateKind::Budget => budget(state, theme, width),
        (_, Some(state)) if matches!(gate.kind(), GateKind::Submit | GateKind::Merge) => {
            held(gate, state, model, width)
        }
        (_, Some(state)) if gate.kind() == GateKind::Tampered => tampered(state, theme, width),
        (_, Some(_)) if gate.kind() == GateKind::Proposal => proposal(gate, theme, width),
        (_, Some(state)) if state.prompt_kept_back_at(gate).is_some() => {
            kept_back(gate, state, model, width)
        }
        (_, state) => {
            let text = state
                .as_ref()
                .map(|state| Promise::removed_from(&state.turns.agent_text))
                .unwrap_or_default();
            let text = if gate.reason.ends_with(text.trim()) {
                ""
            } else {
                text.trim()
            };
            let text = || plain_lines(text, theme.style(ThemeRole::Text), width);
            last_run(gate, model).map_or_else(text, |run| hook_run(run, theme, width))
        }
    }
}

/// What the agent wants to do, in full: the user can read a long command to its end before allowing
/// it.
fn request(
    ask: &AgentPermissionRequest,
    project: &str,
    theme: &ScreenTheme,
    width: usize,
) -> Vec<Line<'static>> {
    let call = &ask.tool;
    // Most titles begin with what the call does.
    let kind = Some(tool_call::kind(call)).filter(|kind| *kind != ToolKind::Other);
    let kind = kind.or(call.kind);
    let kind = kind.map(|kind| sentence_case(&kind.name().replace('_', " ")));
    let kind = kind.filter(|kind| !call.title.to_lowercase().starts_with(&kind.to_lowercase()));
    let kind = kind.map(|kind| format!("{kind}: ")).unwrap_or_default();
    let mut lines = Vec::new();
    for (n, line) in plain(&call.title).lines().enumerate() {
        let kind = if n == 0 { kind.clone() } else { String::new() };
        let pieces = [
            (kind, theme.style(ThemeRole::Accent)),
            (line.to_owned(), theme.style(ThemeRole::Heading)),
        ];
        lines.extend(wrap(&pieces, width, 2));
    }
    let file_diff = call
        .diff
        .as_deref()
        .and_then(|diff| FileDiff::of(diff, project, theme, width));
    let files = tool_calls::files(call, project);
    // The title of the change names its file.
    let is_named = matches!((&files[..], &file_diff), ([one], Some(diff)) if diff.is_of(one));
    if !files.is_empty() && !is_named {
        let files = format!("Files: {}", files.join(", "));
        lines.extend(wrap(&[(files, theme.style(ThemeRole::Accent))], width, 2));
    }
    let arguments = call
        .input
        .as_deref()
        .map(tool_calls::arguments)
        .unwrap_or_default();
    let arguments = plain_lines(&arguments, theme.style(ThemeRole::Text), width);
    let (head, change) = match file_diff {
        Some(FileDiff { path, hunk, lines }) => (format!("{path}  {hunk}"), lines),
        None => (
            "Changes".to_owned(),
            diff::lines(call.diff.as_deref().unwrap_or_default(), theme, width),
        ),
    };
    if change.is_empty() && arguments.is_empty() {
        lines.push(Line::default());
        lines.extend(plain_lines(
            "The agent gives no more details.",
            theme.style(ThemeRole::Faint),
            width,
        ));
    }
    // The change first: the arguments often repeat it in a form that is hard to read.
    if !change.is_empty() {
        lines.push(theme.line(ThemeRole::Accent, fit(&head, width)));
        lines.extend(change);
    }
    if !arguments.is_empty() {
        lines.extend([Line::default(), theme.line(ThemeRole::Faint, "Arguments")]);
        lines.extend(arguments);
    }
    lines
}

/// What the agent asks, with everything that an answer needs.
fn question(asked: &AgentQuestion, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let mut lines = plain_lines(&asked.message, theme.style(ThemeRole::Heading), width);
    let details = asked.details();
    lines.extend((!details.is_empty()).then(Line::default));
    for detail in details {
        lines.extend(plain_lines(&detail, theme.style(ThemeRole::Text), width));
    }
    lines
}

/// The checks, the text for the agent, and what the failed check printed.
fn held(
    gate: &Gate,
    state: &SessionState,
    model: &ScreenModel,
    width: usize,
) -> Vec<Line<'static>> {
    let theme = &model.look.theme;
    let mut lines: Vec<Line<'static>> = pipeline::line(state, theme, width).into_iter().collect();
    if let Some(text) = state.pipeline().remediation() {
        lines.extend([
            Line::default(),
            theme.line(ThemeRole::Faint, "For the agent"),
        ]);
        lines.extend(plain_lines(&text, theme.style(ThemeRole::Text), width));
    }
    if let Some(run) = last_run(gate, model) {
        lines.push(Line::default());
        lines.extend(hook_run(run, theme, width));
    }
    lines
}

/// The prompt that hooks keep back, and what the first of them printed.
fn kept_back(
    gate: &Gate,
    state: &SessionState,
    model: &ScreenModel,
    width: usize,
) -> Vec<Line<'static>> {
    let theme = &model.look.theme;
    let prompt = state.prompt_kept_back_at(gate);
    let text = prompt
        .map(|prompt| prompt.text.as_str())
        .unwrap_or_default();
    let mut lines = vec![theme.line(ThemeRole::Faint, "The prompt")];
    lines.extend(plain_lines(text, theme.style(ThemeRole::Text), width));
    if let Some(run) = last_run(gate, model) {
        lines.push(Line::default());
        lines.extend(hook_run(run, theme, width));
    }
    lines
}

/// The proposed tasks as a tree, each with its whole goal.
fn proposal(gate: &Gate, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let tasks = gate
        .subject
        .proposal()
        .map(|proposal| proposal.tasks.as_slice())
        .unwrap_or_default();
    let in_full = |goal: &str| plain(goal).split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = tree_rows(tasks, in_full)
        .into_iter()
        .flat_map(|TreeRow { indent, id, text }| {
            let below = indent.width() + 2;
            let pieces = [
                (indent, theme.style(ThemeRole::Faint)),
                (id, theme.style(ThemeRole::Accent)),
                (text, theme.style(ThemeRole::Text)),
            ];
            wrap(&pieces, width, below.min(width / 2))
        });
    rows.collect()
}

/// The files that changed during the agent's turn, and why that matters.
fn tampered(state: &SessionState, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let unsettled = &state.unsettled;
    for name in unsettled
        .tampered
        .iter()
        .chain(&unsettled.protected)
        .chain(&unsettled.unchecked)
    {
        lines.extend(wrap(
            &[(plain(name), theme.style(ThemeRole::Bad))],
            width,
            2,
        ));
    }
    for finding in &unsettled.tests {
        let text = plain(&finding.describe());
        lines.extend(wrap(&[(text, theme.style(ThemeRole::Bad))], width, 2));
    }
    lines.push(Line::default());
    if !unsettled.tests.is_empty() {
        lines.extend(plain_lines(
            "The tests may prove less than at the start. Look at each place before you continue.",
            theme.style(ThemeRole::Text),
            width,
        ));
        return lines;
    }
    lines.extend(plain_lines(
        "These files decide what creel and git do. Look at each of them before you continue.",
        theme.style(ThemeRole::Text),
        width,
    ));
    lines
}

/// What was used, and the limits.
fn budget(state: &SessionState, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let (account, budget) = (&state.account, &state.plan().budget);
    let used = account.used;
    let times = u64::from(account.granted) + 1;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a user does not grant 2^53 budgets"
    )]
    let cost = budget.cost.map(|cost| cost * times as f64);
    let tokens = budget.tokens.map(|tokens| tokens.saturating_mul(times));
    let time = budget
        .time
        .map(|time| TimeSpan(time.0.saturating_mul(times)));
    let row = |name: &str, used: String, limit: Option<(String, bool)>| {
        let (limit, role) = match limit {
            Some((limit, true)) => (format!(" of {limit}: used up"), ThemeRole::Bad),
            Some((limit, false)) => (format!(" of {limit}"), ThemeRole::Text),
            None => (", no limit".into(), ThemeRole::Text),
        };
        theme.line(role, fit(&format!("{name:11}{used}{limit}"), width))
    };
    let count = |tokens: u64| grouped(usize::try_from(tokens).unwrap_or(usize::MAX));
    let iterations = format!("{} of {}", state.iterations.current, state.max_iterations());
    vec![
        row(
            "tokens",
            count(used.tokens),
            tokens.map(|all| (count(all), used.tokens >= all)),
        ),
        row(
            "cost",
            usage::amount(
                used.cost.known,
                used.cost.estimated,
                used.cost.unknown_turns > 0,
            ),
            cost.map(|all| (usage::money(all), used.cost.known >= all)),
        ),
        row(
            "time",
            brief_span(account.time),
            time.map(|all| (brief_span(all), account.time >= all)),
        ),
        theme.line(
            ThemeRole::Faint,
            fit(&format!("{:11}{iterations}", "iterations"), width),
        ),
    ]
}

/// The last finished run of the hook that the gate is about.
fn last_run<'a>(gate: &Gate, model: &'a ScreenModel) -> Option<&'a RunEntry> {
    model.runs.last_ended(gate.subject.hook()?)
}

/// How a run ended, and what it printed.
fn hook_run(run: &RunEntry, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let end = run.ended.as_ref().map(|finished| {
        format!(
            " · {} · {}",
            finished.end.describe(),
            brief_span(finished.took_ms)
        )
    });
    let head = format!("{} {}{}", run.point, run.name(), end.unwrap_or_default());
    let mut lines = vec![theme.line(ThemeRole::Warning, fit(&head, width))];
    let printed = run.output();
    if printed.trim().is_empty() {
        lines.extend(plain_lines(
            "It printed nothing.",
            theme.style(ThemeRole::Faint),
            width,
        ));
    } else {
        lines.extend(PrintedRows::of(&printed, theme, width).rows);
    }
    lines
}
