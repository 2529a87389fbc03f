//! The tasks pane, as a list or a tree.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::tasks::graph::{Task, TaskGraph, TaskState},
    present::text::{plain, plain_line},
    tui::{
        keymap::TaskKey,
        model::{Pane, ScreenModel},
        panes::ClickedRow,
        task_board::{TaskFilter, TaskLayout, TaskRow, details::sign},
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
        view::facts,
    },
};

/// From this width on, there is room for priorities and labels.
const WITH_WORDS: u16 = 70;
/// A longer task id is cut.
const NAME: usize = 20;
/// How much of a goal, a label or a reason is shown.
const LINE: usize = 200;

pub fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let Some(rows) = model.task_rows().filter(|rows| !rows.is_empty()) else {
        draw_none(model, theme, area, buffer);
        return;
    };
    let height = usize::from(area.height);
    let chosen = model.board.position(rows);
    let first = super::first_row(chosen, area);
    let in_view = (first..first + height).filter_map(|n| Some((n, rows.get(n)?)));
    let names = in_view
        .clone()
        .map(|(_, row)| row.task.id.width().min(NAME))
        .max()
        .unwrap_or(0);
    let columns = TaskColumns {
        graph: model.graph(),
        width: area.width,
        names,
        marked: model.board.marked.as_deref(),
    };
    let focused = model.panes.focus == Pane::Tasks;
    let line = |(n, row): (usize, TaskRow<'_>)| {
        let text = columns.line(row, usize::from(area.width).saturating_sub(2));
        super::with_cursor(
            vec![theme.span(role(row.task.state), text)],
            n == chosen,
            focused,
            theme,
        )
    };
    Paragraph::new(in_view.map(line).collect::<Vec<_>>()).render(area, buffer);
}

const fn role(state: TaskState) -> ThemeRole {
    match state {
        TaskState::Created | TaskState::Ready => ThemeRole::Text,
        TaskState::Active => ThemeRole::Accent,
        TaskState::Blocked => ThemeRole::Warning,
        TaskState::Completed => ThemeRole::Good,
    }
}

/// What all rows have in common.
struct TaskColumns<'a> {
    graph: Option<&'a TaskGraph>,
    width: u16,
    names: usize,
    marked: Option<&'a str>,
}

impl TaskColumns<'_> {
    /// The state comes first as a sign and a word. Where there is little room, the word is at the
    /// right, and the details of the task have the rest.
    fn line(&self, row: TaskRow<'_>, width: usize) -> String {
        let TaskRow { task, branch } = row;
        let name = fit(&plain(&task.id), self.names);
        let room = " ".repeat(self.names.saturating_sub(name.width()));
        let goal = plain_line(&task.goal, LINE);
        let marked = if self.marked == Some(&task.id) {
            " · marked"
        } else {
            ""
        };
        let labels: String = task
            .labels
            .iter()
            .map(|label| format!(" #{}", plain_line(label, LINE)))
            .collect();
        let note = note(self.graph, task);
        let (sign, word, priority) = (sign(task.state), task.state.name(), task.priority);
        if self.width >= WITH_WORDS {
            return fit(
                &format!(
                    "{sign} {word:10}{name}{room} P{priority} {branch}{goal}{marked}{note}{labels}"
                ),
                width,
            );
        }
        let left = width.saturating_sub(word.width() + 2);
        let text = fit(
            &format!("{sign} {name}{room} {branch}{goal}{marked}{note}"),
            left,
        );
        format!(
            "{text}{}{word}",
            " ".repeat(left.saturating_sub(text.width()) + 2)
        )
    }
}

/// Why a task is not ready, or where it is worked on.
fn note(graph: Option<&TaskGraph>, task: &Task) -> String {
    match task.state {
        TaskState::Created if task.open_dependencies() == 0 => " · ready to start".into(),
        TaskState::Created => {
            let is_open = |id: &&String| {
                graph
                    .and_then(|graph| graph.get(id))
                    .is_some_and(Task::is_open)
            };
            let open: Vec<String> = task
                .dependencies
                .iter()
                .filter(is_open)
                .map(|id| plain(id))
                .collect();
            format!(" · after {}", open.join(", "))
        }
        TaskState::Blocked => {
            format!(
                " · {}",
                plain_line(task.reason.as_deref().unwrap_or("no reason"), LINE)
            )
        }
        TaskState::Ready if task.queue.is_some() => " · for the queue".into(),
        TaskState::Active if task.queue.is_some() => " · elsewhere".into(),
        TaskState::Ready | TaskState::Active | TaskState::Completed => String::new(),
    }
}

/// Explains how to add tasks, or how to show others.
fn draw_none(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let key = |action| model.look.keymap.key(action);
    let mut parts = if model.has_tasks() {
        vec![format!(
            "No task is {}. {} shows others.",
            model.board.filter().name(),
            key(TaskKey::Filter)
        )]
    } else if model.is_steered() {
        let how = format!(
            "No tasks. Press {} to add one, or use `creel task add`.",
            key(TaskKey::Add)
        );
        vec![how, "Agents and hooks can add tasks too.".to_owned()]
    } else {
        vec!["No tasks.".to_owned()]
    };
    parts.extend(elsewhere(model));
    let style = theme.style(ThemeRole::Faint);
    let lines = parts
        .into_iter()
        .flat_map(|line| wrap(&[(line, style)], usize::from(area.width), 0));
    Paragraph::new(lines.collect::<Vec<_>>()).render(area, buffer);
}

/// Counts completed tasks that were never in the graph.
fn elsewhere(model: &ScreenModel) -> Option<String> {
    let state = model.session.as_ref()?;
    let foreign = state
        .side
        .completed
        .iter()
        .filter(|id| state.tasks.graph.get(id).is_none())
        .count();
    match foreign {
        0 => None,
        1 => Some("1 completed task was not listed here.".into()),
        n => Some(format!("{n} completed tasks were not listed here.")),
    }
}

/// How many tasks are done, of all, and what the pane shows of them.
pub fn count(model: &ScreenModel) -> String {
    let Some(done) = facts::tasks(model) else {
        return String::new();
    };
    let shape = if model.board.shape() == TaskLayout::Tree {
        " · tree"
    } else {
        ""
    };
    let filter = model.board.filter();
    let filter = if filter == TaskFilter::All {
        String::new()
    } else {
        format!(" · only {}", filter.name())
    };
    format!("{done}{shape}{filter}")
}

/// Selects the clicked row.
pub fn choose(model: &mut ScreenModel, area: Rect, nth: usize) -> ClickedRow {
    let Some(rows) = model.task_rows() else {
        return ClickedRow::Nothing;
    };
    let before = model.board.position(rows);
    let at = super::first_row(before, area) + nth;
    let id = rows
        .get(at)
        .filter(|_| nth < usize::from(area.height))
        .map(|row| row.task.id.clone());
    match id {
        None => ClickedRow::Nothing,
        Some(_) if at == before => ClickedRow::Again,
        Some(id) => {
            model.board.choose(Some(id), at);
            ClickedRow::Chosen
        }
    }
}
