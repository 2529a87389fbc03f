//! The question whether to remove a task.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::{framed, middle};
use crate::{
    engine::tasks::{graph::TaskGraph, task::Task},
    present::text::{plain, plain_line},
    tui::{
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

#[derive(Debug)]
pub struct RemoveModal {
    pub task: String,
    goal: String,
    /// How many tasks wait for it.
    awaited_by: usize,
}

impl RemoveModal {
    pub fn new(graph: &TaskGraph, task: &Task) -> Self {
        let awaited_by = graph.dependents(&task.id).len();
        Self { task: task.id.clone(), goal: plain_line(&task.goal, 200), awaited_by }
    }

    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let title = format!("Remove {}?", plain(&self.task));
        let inside = framed(middle(area, 64, 8), &title, ThemeRole::Warning, theme, buffer);
        let width = usize::from(inside.width);
        let text = |text: &str| Line::styled(fit(text, width), theme.style(ThemeRole::Text));
        let key = |key: &str, about: &str| {
            let pieces =
                [(format!("{key:5}"), theme.style(ThemeRole::Key)), (about.to_owned(), theme.style(ThemeRole::Text))];
            wrap(&pieces, width, 5)
        };
        let awaited = match self.awaited_by {
            0 => "No task depends on it.".to_owned(),
            1 => "1 task depends on it. This removes the dependency too.".to_owned(),
            n => format!("{n} tasks depend on it. This removes the dependencies too."),
        };
        let question = [text(&self.goal), text(&awaited), Line::default()];
        let answers = [key("y", "remove it"), key("esc", "keep it")];
        let lines = question.into_iter().chain(answers.into_iter().flatten());
        Paragraph::new(lines.collect::<Vec<_>>()).render(inside, buffer);
    }
}
