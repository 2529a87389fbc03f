//! The row of a submit or a merge: its checks with their states, the repairs, and the pull request.

use ratatui::{buffer::Buffer, layout::Rect, text::Line, widgets::Widget as _};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::{
        SessionState,
        submit::{
            kind::{PipelineKind, PipelineOutcome},
            state::{PipelineStep, PipelineStepState},
        },
    },
    present::{
        describe::pipeline_result,
        text::{plain, plain_line},
    },
    tui::{
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// How many characters of a check's name are shown.
const NAME: usize = 24;

struct PipelineRow<'a> {
    pipeline: PipelineKind,
    steps: &'a [PipelineStep],
    repairs: Option<(u32, u32)>,
    outcome: Option<PipelineOutcome>,
    link: Option<&'a str>,
}

/// Whether there is a row: while a pipeline runs, and at the end of a session.
pub fn is_shown(state: &SessionState) -> bool {
    row(state).is_some()
}

fn row(state: &SessionState) -> Option<PipelineRow<'_>> {
    if let Some(run) = &state.pipelines.pipeline_run {
        let limit = state.plan().submit.remediation_attempts;
        return Some(PipelineRow {
            pipeline: run.pipeline,
            steps: &run.steps,
            repairs: (run.used > 0).then_some((run.used, limit)),
            outcome: None,
            link: run.pull_request.as_deref(),
        });
    }
    let over = state.ending.is_some() || state.phase.outcome().is_some();
    let last = state.pipelines.last.as_deref().filter(|_| over)?;
    let (pipeline, steps, link) = (
        last.pipeline,
        last.steps.as_slice(),
        last.pull_request.as_deref(),
    );
    Some(PipelineRow {
        pipeline,
        steps,
        repairs: None,
        outcome: Some(last.outcome),
        link,
    })
}

pub(super) fn draw(state: &SessionState, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    if let Some(line) = line(state, theme, usize::from(area.width)) {
        line.render(area, buffer);
    }
}

/// The row for a width. With little room, only the running and the failed checks have names.
pub fn line(state: &SessionState, theme: &ScreenTheme, width: usize) -> Option<Line<'static>> {
    let row = row(state)?;
    let whole = pieces(&row, true);
    let long = whole.iter().map(|(text, _)| text.width()).sum::<usize>() <= width;
    let pieces = if long { whole } else { pieces(&row, false) };
    let mut room = width;
    let spans = pieces.into_iter().map(|(text, role)| {
        let text = fit(&text, room);
        room -= text.width().min(room);
        theme.span(role, text)
    });
    Some(Line::from(spans.collect::<Vec<_>>()))
}

fn pieces(row: &PipelineRow<'_>, names: bool) -> Vec<(String, ThemeRole)> {
    let mut pieces = vec![(format!(" {} ", row.pipeline.name()), ThemeRole::Heading)];
    for step in row.steps {
        let (sign, role) = sign(step.state);
        let counts = matches!(
            step.state,
            PipelineStepState::Running | PipelineStepState::Failed
        );
        let name = if names || counts {
            format!(" {}", plain_line(&step.hook, NAME))
        } else {
            String::new()
        };
        pieces.push((format!(" {sign}{name}"), role));
    }
    if let Some((used, limit)) = row.repairs {
        pieces.push((format!("  ↻ repair {used}/{limit}"), ThemeRole::Warning));
    }
    pieces.extend(row.outcome.map(|outcome| {
        let role = if outcome == PipelineOutcome::Done {
            ThemeRole::Good
        } else {
            ThemeRole::Warning
        };
        (format!("  {}", pipeline_result(outcome)), role)
    }));
    pieces.extend(
        row.link
            .map(|link| (format!("  {}", plain(link)), ThemeRole::Accent)),
    );
    pieces
}

const fn sign(state: PipelineStepState) -> (&'static str, ThemeRole) {
    match state {
        PipelineStepState::Waiting => ("·", ThemeRole::Faint),
        PipelineStepState::Running => ("▸", ThemeRole::Accent),
        PipelineStepState::Passed => ("✓", ThemeRole::Good),
        PipelineStepState::Idle => ("-", ThemeRole::Faint),
        PipelineStepState::Failed => ("✗", ThemeRole::Bad),
        PipelineStepState::Skipped => ("»", ThemeRole::Warning),
    }
}
