//! What happened last in the selected session, beside the list of a wide screen.

use std::path::Path;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Block, BorderType, Paragraph, Widget as _},
};

use super::model::HomeModel;
use crate::{
    engine::event::{Event, TurnEvent},
    journal,
    present::{
        describe::{EventContext, EventTone, describe},
        session_list::short_path,
        text::{plain, plain_line},
        usage,
    },
    tui::{
        stream::role_of,
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// In columns. A narrower screen has only the list.
pub(super) const WITH_PREVIEW: u16 = 120;
/// The widest preview.
const WIDEST: u16 = 76;
/// How much of a journal's end is read, in bytes.
const READ: u64 = 64 << 10;
/// How many lines are kept, and how long one is.
const KEPT: usize = 80;
const LINE: usize = 300;
/// The lines of the goal.
const GOAL: usize = 3;

/// A line about something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewLine {
    pub text: String,
    pub tone: EventTone,
}

/// The last lines of a journal. None of one that cannot be read.
pub fn last_lines(journal: &Path) -> Vec<PreviewLine> {
    let (mut lines, mut context) = (Vec::new(), EventContext::default());
    let read = journal::read_last(journal, READ, |record| {
        lines.extend(lines_of(&record.event, &context));
        context.follow(&record.event);
    });
    if let Err(error) = read {
        tracing::info!("no preview of {}: {error}", journal.display());
    }
    let from = lines.len().saturating_sub(KEPT);
    lines.split_off(from)
}

fn lines_of(event: &Event, context: &EventContext) -> Vec<PreviewLine> {
    let line = |text: String, tone| PreviewLine { text, tone };
    if let Event::Turn(TurnEvent::AgentThought { .. }) = event {
        return Vec::new();
    }
    if let Event::Turn(TurnEvent::AgentSaid { text, .. }) = event {
        let clean = plain(text);
        let answer = clean.lines().filter(|line| !line.trim().is_empty());
        return answer
            .map(|text| line(plain_line(text, LINE), EventTone::Plain))
            .collect();
    }
    let described = describe(event, context);
    described
        .map(|described| line(plain_line(&described.headline(), LINE), described.tone))
        .into_iter()
        .collect()
}

/// The list and the preview of a screen. None: there is no room for a preview.
pub(super) fn split(body: Rect) -> (Rect, Option<Rect>) {
    if body.width < WITH_PREVIEW {
        return (body, None);
    }
    let width = (body.width * 2 / 5).min(WIDEST);
    let list = Rect {
        width: body.width - width,
        ..body
    };
    let preview = Rect {
        x: list.right(),
        width,
        ..body
    };
    (list, Some(preview))
}

pub(super) fn draw(model: &HomeModel, area: Rect, buffer: &mut Buffer) {
    let theme = &model.look.theme;
    let Some(row) = model.chosen() else {
        return;
    };
    let session = &row.session;
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.style(ThemeRole::Border))
        .title(theme.line(
            ThemeRole::Heading,
            fit(
                &format!(" {} ", plain(&session.name)),
                usize::from(area.width.saturating_sub(2)),
            ),
        ));
    let inside = block.inner(area);
    block.render(area, buffer);
    let inside = Rect {
        x: inside.x + 1,
        width: inside.width.saturating_sub(2),
        ..inside
    };
    let (width, height) = (usize::from(inside.width), usize::from(inside.height));
    let mut head = wrap(
        &[(plain(&session.goal), theme.style(ThemeRole::Text))],
        width,
        0,
    );
    head.truncate(GOAL);
    head.extend(facts(model, width, theme));
    head.push(Line::default());
    let room = height.saturating_sub(head.len());
    let lines = model.preview_lines();
    let mut rows: Vec<Line<'static>> = lines
        .iter()
        .rev()
        .take(room)
        .rev()
        .flat_map(|line| {
            let style = theme.style(role_of(line.tone));
            wrap(&[(line.text.clone(), style)], width, 2)
        })
        .collect();
    rows.drain(..rows.len().saturating_sub(room));
    head.extend(rows);
    Paragraph::new(head).render(inside, buffer);
}

/// What the list has no room for: the folder, the branch, the agent and the cost.
fn facts(model: &HomeModel, width: usize, theme: &ScreenTheme) -> Vec<Line<'static>> {
    let Some(session) = model.chosen().map(|row| &row.session) else {
        return Vec::new();
    };
    let cost = usage::cost(session.cost).unwrap_or_default();
    let parts = [
        session.agent.clone(),
        session.user.clone(),
        session.host.clone(),
        session.branch.clone(),
        short_path(&session.project, model.home_dir.as_deref()),
        cost,
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let mut lines = vec![theme.line(ThemeRole::Faint, fit(&plain(&parts.join(" · ")), width))];
    let words = session.words(model.now, &model.look.zone);
    let text = format!("{} {}", words.sign, words.text);
    let role = crate::tui::view::chip_role(words.role);
    let role = if role == ThemeRole::Alert {
        ThemeRole::Gate
    } else {
        role
    };
    lines.extend(wrap(&[(text, theme.style(role))], width, 2));
    lines
}
