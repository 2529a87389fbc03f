//! What is beside the panes of a wide screen. It never repeats the stream.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Block, BorderType, Paragraph, Widget as _},
};

use super::layout;
use crate::{
    present::text::plain_line,
    tui::{
        ansi::coloured_lines,
        hook_rows::{HookRow, HookRowKind},
        model::{Pane, RowDetail, ScreenModel},
        panes::{self, PendingRow},
        patch::PatchForm,
        runs::RunEntry,
        task_board::details,
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// Which part of a text is visible if it does not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownPart {
    Beginning,
    /// Of output, the end says most.
    End,
}

/// In bytes. More of a text is not looked at.
const MOST: usize = 64 << 10;

/// What is beside the panes: for the stream the hook that runs, else the changes of the turn, else
/// the goal; for the other panes the selected row. None if no row is selected.
pub(super) fn of(model: &ScreenModel, area: Rect) -> Option<RowDetail> {
    let (width, height) = (
        usize::from(area.width.saturating_sub(4)),
        usize::from(area.height.saturating_sub(2)),
    );
    let is_stream = model.panes.focus == Pane::Stream;
    let changes = model
        .changes
        .of_turn()
        .filter(|_| is_stream && model.runs.running().is_none());
    if let Some(rows) = changes {
        let form = PatchForm::Stacked;
        let title = format!("Changes of the turn · {}", rows.summary);
        return Some(RowDetail {
            title: fit(&title, width.saturating_sub(2)),
            lines: (0..rows.len(form).min(height))
                .map(|row| rows.row(form, row, (0, width), &model.look.theme))
                .collect(),
        });
    }
    let (title, text, part) = text(model)?;
    let text = match part {
        ShownPart::Beginning => &text[..text.floor_char_boundary(MOST)],
        ShownPart::End => &text[text.ceil_char_boundary(text.len().saturating_sub(MOST))..],
    };
    let style = model.look.theme.style(ThemeRole::Text);
    let pieces = coloured_lines(text.trim_end(), style, model.look.theme.keeps_colours);
    let mut lines: Vec<Line<'static>> = match part {
        ShownPart::Beginning => pieces
            .iter()
            .take(height)
            .flat_map(|line| wrap(line, width, 0))
            .collect(),
        ShownPart::End => {
            let from = pieces.len().saturating_sub(height);
            pieces[from..]
                .iter()
                .flat_map(|line| wrap(line, width, 0))
                .collect()
        }
    };
    if part == ShownPart::End {
        lines.drain(..lines.len().saturating_sub(height));
    }
    Some(RowDetail {
        title: fit(&plain_line(&title, 200), width.saturating_sub(2)),
        lines,
    })
}

/// The title and the text of the selected row, and which part of it matters.
fn text(model: &ScreenModel) -> Option<(String, String, ShownPart)> {
    match model.panes.focus {
        // The stream has its own rows; here is what it cannot show.
        Pane::Stream => {
            if let Some(run) = model.runs.running() {
                let title = format!("{}: {}", run.point, run.name());
                return Some((title, printed(run), ShownPart::End));
            }
            let goal = model.session.as_ref()?.began.prompt.clone();
            Some(("Goal".to_owned(), goal, ShownPart::Beginning))
        }
        Pane::Hooks => {
            let row = model.hook_rows().nth(model.panes.hook)?;
            Some((
                format!("{}: {}", row.point, row.name()),
                hook_text(&row),
                ShownPart::End,
            ))
        }
        Pane::Pending => {
            let items = model.session.as_ref()?.pending.items();
            let item = match panes::pending_row(model)? {
                PendingRow::Item(n) => items.get(n)?,
                PendingRow::Delivered(_) => return None,
            };
            let gone = "The agent has received this item.";
            let text = if item.text.is_empty() {
                gone.to_owned()
            } else {
                item.text.clone()
            };
            Some((
                format!("Item {} · {}", item.id, item.source.hook),
                text,
                ShownPart::Beginning,
            ))
        }
        Pane::Retries => {
            let attempt = model.attempts.iter().rev().nth(model.panes.attempt)?;
            Some((
                format!("Retry {} · {}", attempt.used, attempt.hook),
                attempt.feedback.clone(),
                ShownPart::End,
            ))
        }
        Pane::Tasks => {
            let task = model.chosen_task()?;
            let text = details::text(model.graph()?, task, model.moment());
            Some((task.id.clone(), text, ShownPart::Beginning))
        }
    }
}

/// What a run printed, or that it printed nothing.
fn printed(run: &RunEntry) -> String {
    let text = run.output();
    match &run.ended {
        _ if !text.trim().is_empty() => text,
        Some(finished) => format!("It printed nothing ({}).", finished.end.describe()),
        None => "It has printed nothing yet.".to_owned(),
    }
}

fn hook_text(row: &HookRow<'_>) -> String {
    match (row.latest(), row.kind) {
        (Some(run), _) => printed(run),
        (None, HookRowKind::Hook(spec)) => {
            format!("It has not run yet.\n\n{}", spec.action.describe())
        }
        (None, HookRowKind::Rule(rule)) => {
            format!("creel has not checked it yet.\n\n{}", rule.check.describe())
        }
        (None, HookRowKind::Decides(_) | HookRowKind::Unplanned(_)) => {
            "It has not run yet.".to_owned()
        }
    }
}

pub(super) fn draw(detail: &RowDetail, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.style(ThemeRole::Border))
        .title(theme.line(ThemeRole::Text, format!(" {} ", detail.title)));
    let inside = layout::padded(block.inner(area));
    block.render(area, buffer);
    Paragraph::new(detail.lines.clone()).render(inside, buffer);
}
