//! Questions: a numbered list in which each answer says what happens. Among them those before creel
//! cancels a turn, removes a task or leaves a session.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::{
        input::SessionCommand,
        tasks::{
            command::TaskCommand,
            graph::{Task, TaskGraph},
        },
    },
    present::text::{plain, plain_line},
    tui::{
        modals::frame::{dialog, keys_that_fit, middle},
        request::CloseBehavior,
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// In columns. With less room, a part of an effect says nothing.
const NARROWEST: usize = 16;
/// In columns. A narrower question would be hard to notice.
const NARROWEST_FRAME: usize = 44;
/// The columns around a label: the cursor, the number and two gaps.
const BESIDE_LABEL: usize = 7;

/// An answer: what it is called, what follows, and what creel then does. Without a request, nothing
/// happens.
#[derive(Debug, Clone)]
pub struct OfferedChoice<R> {
    pub label: String,
    pub effect: String,
    pub request: Option<R>,
}

#[derive(Debug)]
pub struct ChoiceQuestion<R> {
    pub title: String,
    /// What the user should know first.
    pub text: Vec<String>,
    pub choices: Vec<OfferedChoice<R>>,
    pub chosen: usize,
}

impl<R> ChoiceQuestion<R> {
    pub fn move_by(&mut self, by: isize) {
        let last = self.choices.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(last);
    }

    /// The answer with this number, from 1.
    pub fn numbered(&self, number: usize) -> Option<&OfferedChoice<R>> {
        self.choices.get(number.checked_sub(1)?)
    }

    /// As wide as its content and no wider.
    fn frame(&self, area: Rect) -> Rect {
        let margin = margin(area);
        let texts = self.text.iter().map(|line| line.width());
        let labels = self.labels();
        let choices = self
            .choices
            .iter()
            .map(|choice| labels + choice.effect.width() + BESIDE_LABEL);
        let others = [self.title.width() + 2, self.hints().join("  ").width()];
        let content = texts
            .chain(choices)
            .chain(others)
            .max()
            .unwrap_or(0)
            .max(NARROWEST_FRAME);
        let edge = 2 + 2 * margin;
        let width = u16::try_from(content)
            .unwrap_or(u16::MAX)
            .saturating_add(edge)
            .min(area.width);
        let text: usize = self
            .text
            .iter()
            .map(|line| lines_of(line, usize::from(width.saturating_sub(edge))))
            .sum();
        let height = u16::try_from(text + self.choices.len() + 5).unwrap_or(area.height);
        middle(area, width, height)
    }

    /// The area of the text and the answers.
    fn inside(&self, area: Rect) -> Rect {
        let (frame, margin) = (self.frame(area), margin(area));
        Rect {
            x: frame.x + 1 + margin,
            y: frame.y + 1,
            width: frame.width.saturating_sub(2 + 2 * margin),
            height: frame.height.saturating_sub(2),
        }
    }

    fn labels(&self) -> usize {
        self.choices
            .iter()
            .map(|choice| choice.label.width())
            .max()
            .unwrap_or(0)
    }

    fn hints(&self) -> [String; 4] {
        let numbers = format!("1-{} choose", self.choices.len());
        [
            "enter answer".to_owned(),
            numbers,
            "↑↓ move".to_owned(),
            "esc close".to_owned(),
        ]
    }

    /// The row of the screen that has the keys, if there is room for it.
    pub fn hint_row(&self, area: Rect) -> u16 {
        let inside = self.inside(area);
        let above = self.text_rows(inside) + 1 + self.choices.len();
        let blank = usize::from(usize::from(inside.height) > above + 1);
        inside
            .y
            .saturating_add(u16::try_from(above + blank).unwrap_or(u16::MAX))
    }

    fn text_rows(&self, inside: Rect) -> usize {
        self.text
            .iter()
            .map(|line| lines_of(line, usize::from(inside.width)))
            .sum()
    }

    /// The answer on a row of the screen.
    pub fn choice_at(&self, area: Rect, column: u16, row: u16) -> Option<usize> {
        let inside = self.inside(area);
        let first = inside.y + u16::try_from(self.text_rows(inside) + 1).unwrap_or(u16::MAX);
        let nth = usize::from(row.checked_sub(first)?);
        (nth < self.choices.len() && inside.contains((column, row).into())).then_some(nth)
    }

    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        dialog(
            self.frame(area),
            &self.title,
            ThemeRole::Warning,
            theme,
            buffer,
        );
        let inside = self.inside(area);
        let width = usize::from(inside.width);
        let plain = theme.style(ThemeRole::Text);
        let mut lines: Vec<Line<'static>> = self
            .text
            .iter()
            .flat_map(|text| wrap(&[(text.clone(), plain)], width, 0))
            .collect();
        lines.push(Line::default());
        let labels = self.labels();
        for (n, choice) in self.choices.iter().enumerate() {
            let is_chosen = n == self.chosen;
            let sign = if is_chosen { "▌" } else { " " };
            let room = width.saturating_sub(labels + BESIDE_LABEL);
            let effect = if room < NARROWEST {
                String::new()
            } else {
                fit(&choice.effect, room)
            };
            let line = Line::from(vec![
                theme.span(ThemeRole::BorderFocused, sign),
                theme.span(ThemeRole::Key, format!("{}  ", n + 1)),
                Span::styled(format!("{:labels$}   ", choice.label), plain),
                Span::styled(effect, plain),
            ]);
            lines.push(if is_chosen {
                theme.selected(line)
            } else {
                line
            });
        }
        if usize::from(inside.height) > lines.len() + 1 {
            lines.push(Line::default());
        }
        lines.push(theme.line(ThemeRole::Faint, keys_that_fit(&self.hints(), width)));
        Paragraph::new(lines).render(inside, buffer);
    }
}

/// The columns between the frame and its content. Small screens have none.
fn margin(area: Rect) -> u16 {
    u16::from(area.width >= 60)
}

fn lines_of(text: &str, width: usize) -> usize {
    wrap(&[(text.to_owned(), Style::default())], width, 0).len()
}

pub fn cancel_question() -> ChoiceQuestion<SessionCommand> {
    let choice = |label: &str, effect: &str, request| OfferedChoice {
        label: label.to_owned(),
        effect: effect.to_owned(),
        request,
    };
    ChoiceQuestion {
        title: "Cancel the turn?".to_owned(),
        text: vec!["The agent stops what it is doing.".to_owned()],
        choices: vec![
            choice(
                "Cancel it",
                "and pause, so that you can write to the agent",
                Some(SessionCommand::CancelTurn),
            ),
            choice("Let it work", "", None),
        ],
        chosen: 1,
    }
}

pub fn remove_question(graph: &TaskGraph, task: &Task) -> ChoiceQuestion<SessionCommand> {
    let effect = match graph.dependents(&task.id).len() {
        0 => "no task depends on it".to_owned(),
        1 => "and the dependency of 1 task on it".to_owned(),
        n => format!("and the dependencies of {n} tasks on it"),
    };
    let remove = SessionCommand::Task {
        task: TaskCommand::Remove {
            id: task.id.clone(),
        },
    };
    let (label, request) = ("Remove it".to_owned(), Some(remove));
    let keep = OfferedChoice {
        label: "Keep it".to_owned(),
        effect: String::new(),
        request: None,
    };
    ChoiceQuestion {
        title: format!("Remove {}?", plain(&task.id)),
        text: vec![plain_line(&task.goal, 200)],
        choices: vec![
            OfferedChoice {
                label,
                effect,
                request,
            },
            keep,
        ],
        chosen: 1,
    }
}

/// What the user wants to happen to a running session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveChoice {
    LeaveRunning,
    StopAfterIteration,
    StopNow,
}

/// Asks before a demo ends: nothing of it stays.
pub fn leave_demo_question() -> ChoiceQuestion<LeaveChoice> {
    let choice = |label: &str, effect: &str, request| OfferedChoice {
        label: label.to_owned(),
        effect: effect.to_owned(),
        request,
    };
    ChoiceQuestion {
        title: "Leave the demo?".to_owned(),
        text: vec!["It is still playing.".to_owned()],
        choices: vec![
            choice(
                "Leave",
                "creel removes the demo's folder",
                Some(LeaveChoice::StopNow),
            ),
            choice("Keep watching", "", None),
        ],
        chosen: 0,
    }
}

/// Asks what should happen to the session. `again` is the quit key with a modifier, such as
/// `ctrl-c`: pressed at the question, it leaves immediately.
pub fn leave_question(tie: CloseBehavior, again: Option<&str>) -> ChoiceQuestion<LeaveChoice> {
    let choice = |label: &str, effect: &str, request| OfferedChoice {
        label: label.to_owned(),
        effect: effect.to_owned(),
        request,
    };
    let leave = choice(
        "Leave it running",
        "`creel attach` shows it",
        Some(LeaveChoice::LeaveRunning),
    );
    let others = [
        choice(
            "Stop after this iteration",
            "the turn finishes first",
            Some(LeaveChoice::StopAfterIteration),
        ),
        choice(
            "Stop now",
            "cancels the turn and leaves",
            Some(LeaveChoice::StopNow),
        ),
        choice("Stay", "", None),
    ];
    let at_once = again.map(|again| format!("Press {again} again to leave immediately."));
    ChoiceQuestion {
        title: "Leave?".to_owned(),
        text: ["The session is still running.".to_owned()]
            .into_iter()
            .chain(at_once)
            .collect(),
        choices: Some(leave)
            .filter(|_| tie == CloseBehavior::Loose)
            .into_iter()
            .chain(others)
            .collect(),
        chosen: 0,
    }
}
