//! The status line: what the session does, its progress, and its usage.
//!
//! # Invariants
//! - An open gate and what the session does are visible at any width. Progress comes next, then the session's name,
//!   then usage.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::SessionState,
    nats::status::NatsStatus,
    present::{text::plain, usage_totals},
    tui::{
        keymap::KeyAction,
        model::{ScreenMode, ScreenModel},
        panes,
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The width that the name keeps before usage is shown.
const NAME: usize = 14;
/// The width that the current activity keeps before progress is shown.
const DOING: usize = 16;

pub(super) fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let Some(state) = &model.session else {
        Line::styled(" creel", theme.style(ThemeRole::Heading)).render(area, buffer);
        return;
    };
    let gate = match &state.gates.open {
        Some(_) => format!(" ◆ gate: {} ", model.keymap.key(KeyAction::ShowGate)),
        None => String::new(),
    };
    let room = usize::from(area.width).saturating_sub(gate.width());
    let figures = StatusFigures::of(model, state);
    let doing = doing(model, state, room.saturating_sub(figures.how_far(room).width()));
    let left = room.saturating_sub(doing.width());
    let name = plain(&format!(" {} · {} ", state.name, state.agent_choice().agent()));
    let right = figures.that_fit(left, name.width().min(NAME));
    let name = fit(&name, left.saturating_sub(right.width()));
    let working = if state.phase.outcome().is_some() { ThemeRole::Faint } else { ThemeRole::Accent };
    let line = Line::from(vec![
        Span::styled(name, theme.style(ThemeRole::Heading)),
        Span::styled(doing, theme.style(working)),
        Span::styled(right, theme.style(ThemeRole::Faint)),
        Span::styled(gate, theme.style(ThemeRole::Gate)),
    ]);
    line.render(area, buffer);
}

/// The figures in their order on the line, each with a rank. The highest rank is dropped first.
struct StatusFigures {
    all: Vec<(String, u8)>,
    /// The short form of the NATS status, for when the long one does not fit.
    nats: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NatsDetail {
    All,
    Few,
}

/// A lag behind the NATS server is more important than usage.
const NATS: u8 = 2;
/// Figures up to this rank show progress; the others show usage.
const HOW_FAR: u8 = 1;
const LAST: u8 = 6;

impl StatusFigures {
    fn of(model: &ScreenModel, state: &SessionState) -> Self {
        let account = &state.account;
        let iteration = format!("iteration {}/{}", state.iterations.current, state.max_iterations());
        let runs = state.phase.outcome().is_none() && matches!(model.mode, ScreenMode::Live);
        let elapsed = model.now.since(state.started).0 / 1_000;
        let context = state.turns.context.filter(|context| context.size > 0);
        let nats = model.nats.as_ref().map(|link| plain(&format!("nats: {link}")));
        let replay = if let ScreenMode::Replay(player) = &model.mode { Some(player.describe()) } else { None };
        let all = [
            (Some(iteration), 1),
            (runs.then(|| format!("{}:{:02}", elapsed / 60, elapsed % 60)), LAST),
            ((account.tokens > 0).then(|| usage_totals::tokens(account.tokens)), 4),
            ((account.cost > 0.0).then(|| usage_totals::money(account.cost)), 3),
            (context.map(|context| format!("context {}%", context.used.saturating_mul(100) / context.size)), 5),
            (nats, NATS),
            (replay, 0),
        ];
        let all = all.into_iter().filter_map(|(text, rank)| Some((text?, rank))).collect();
        Self { all, nats: model.nats.as_ref().map(in_few_words) }
    }

    fn up_to(&self, rank: u8, words: NatsDetail) -> String {
        let few = self.nats.as_deref().filter(|_| words == NatsDetail::Few);
        let figures = self.all.iter().filter(|(_, own)| *own <= rank);
        let figures = figures.map(|(text, own)| few.filter(|_| *own == NATS).unwrap_or(text));
        let text = figures.collect::<Vec<_>>().join(" · ");
        if text.is_empty() { text } else { format!(" {text} ") }
    }

    /// The progress that is shown beside the current activity.
    fn how_far(&self, room: usize) -> String {
        let texts = (0..=HOW_FAR).rev().map(|rank| self.up_to(rank, NatsDetail::All));
        texts.into_iter().find(|text| text.width() + DOING <= room).unwrap_or_default()
    }

    /// As many figures as fit. A short NATS status is better than none.
    fn that_fit(&self, room: usize, name: usize) -> String {
        let fits = |rank: u8, text: &String| text.width() + if rank > HOW_FAR { name } else { 0 } <= room;
        let from =
            |words, ranks: std::ops::RangeInclusive<u8>| ranks.rev().map(move |rank| (rank, self.up_to(rank, words)));
        let texts = from(NatsDetail::All, NATS..=LAST).chain(from(NatsDetail::Few, 0..=LAST));
        texts.into_iter().find(|(rank, text)| fits(*rank, text)).map(|(_, text)| text).unwrap_or_default()
    }
}

/// The NATS status without the reason.
fn in_few_words(link: &NatsStatus) -> String {
    let state = match link {
        NatsStatus::Connecting { .. } => "connecting",
        NatsStatus::Connected { .. } => "connected",
        NatsStatus::Away { .. } => "away",
    };
    match link.behind() {
        0 => format!("nats: {state}"),
        behind => format!("nats: {state}, {behind} behind"),
    }
}

/// What the session is doing; while it only waits, until when. A shorter form is used if needed.
fn doing(model: &ScreenModel, state: &SessionState, room: usize) -> String {
    let idle = state.gates.open.is_none() && state.phase.turn_in_flight().is_none() && state.phase.outcome().is_none();
    let wait = panes::retries::waits(state, model).filter(|_| idle && !state.steering.paused);
    let long = format!(" {} ", plain(&wait.unwrap_or_else(|| state.doing())));
    // The gate's sign already says that the session waits for the user.
    let short = state.gates.open.as_ref().map(|gate| format!(" {} ", gate.kind().name().replace('_', " ")));
    fit(&short.filter(|_| long.width() > room).unwrap_or(long), room)
}
