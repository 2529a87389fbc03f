//! The header: the session's name, its state as a chip, and the figures that last.
//!
//! # Invariants
//! - The chip is visible at any width. Progress comes next, then the session's name, then usage.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Modifier,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr as _;

use super::facts;
use crate::{
    config::MotionMode,
    engine::SessionState,
    present::{
        session_chip::{ChipRole, StateChip, session_chip},
        style::spinner_frame,
        text::plain,
        usage,
    },
    protocol::NatsStatus,
    tui::{
        model::{ScreenMode, ScreenModel},
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The width that the name keeps before usage is shown.
const NAME: usize = 14;
/// A name that is cut to less than this says nothing.
const SHORTEST: usize = 6;
pub(super) fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let Some(state) = &model.session else {
        theme
            .line(ThemeRole::Heading, " creel")
            .render(area, buffer);
        return;
    };
    let width = usize::from(area.width);
    let chip = chip_spans(model, state, theme, width.saturating_sub(1));
    let is_alert = chip
        .first()
        .is_some_and(|label| label.content.starts_with(' '));
    let chip_width: usize = chip.iter().map(Span::width).sum();
    let room = width.saturating_sub(chip_width + 1);
    let figures = HeaderFigures::of(model, state);
    let with_agent = format!("{} · {}", state.name, state.agent_choice().agent());
    let with_model = state.turns.model.as_ref();
    let with_model = with_model.map(|model| plain(&format!("{with_agent} · {model}")));
    let (with_agent, name) = (plain(&with_agent), plain(&state.name));
    let right = figures.that_fit(room, with_agent.width().min(NAME));
    let names = with_model.into_iter().chain([with_agent, name]);
    let name = fitting_name(names, room.saturating_sub(right.width() + 3));
    let mut spans = vec![Span::raw(" ")];
    if !name.is_empty() {
        spans.push(theme.span(ThemeRole::Heading, name));
        // The chip of a gate has a space of its own.
        spans.push(Span::raw(if is_alert { "  " } else { "   " }));
    }
    spans.extend(chip);
    Line::from(spans).render(area, buffer);
    let at = Rect {
        x: area
            .right()
            .saturating_sub(u16::try_from(right.width()).unwrap_or(area.width)),
        width: u16::try_from(right.width())
            .unwrap_or(area.width)
            .min(area.width),
        ..area
    };
    Line::from(facts::coloured(&right, theme.style(ThemeRole::Text), theme)).render(at, buffer);
}

/// The first of the names that fits, else the beginning of the last; nothing if too little of it
/// fits.
fn fitting_name(names: impl Iterator<Item = String>, room: usize) -> String {
    let mut last = String::new();
    for name in names {
        if name.width() <= room {
            return name;
        }
        last = name;
    }
    match room {
        0..SHORTEST => String::new(),
        SHORTEST.. => fit(&last, room),
    }
}

/// The chip of the shown session at the shown moment.
pub fn chip(model: &ScreenModel, state: &SessionState) -> StateChip {
    session_chip(
        state,
        &model.tallies.times,
        model.moment(),
        &model.look.zone,
    )
}

/// The role of a chip's colours.
pub const fn role(role: ChipRole) -> ThemeRole {
    match role {
        ChipRole::Working => ThemeRole::Accent,
        ChipRole::Hook => ThemeRole::Running,
        ChipRole::Waiting | ChipRole::Paused | ChipRole::Forced | ChipRole::Limit => {
            ThemeRole::Warning
        }
        ChipRole::NeedsUser => ThemeRole::Alert,
        ChipRole::Complete => ThemeRole::Good,
        ChipRole::Failed => ThemeRole::Bad,
        ChipRole::Stopped => ThemeRole::Heading,
    }
}

/// The frame of the spinner at this moment. None if nothing is to move.
pub(super) fn spinner(model: &ScreenModel) -> Option<&'static str> {
    let plays = match &model.link.mode {
        ScreenMode::Live => true,
        ScreenMode::Replay(player) => player.is_playing(),
    };
    let moves = model.look.motion == MotionMode::Full && plays;
    moves.then(|| spinner_frame(model.now))
}

fn chip_spans(
    model: &ScreenModel,
    state: &SessionState,
    theme: &ScreenTheme,
    room: usize,
) -> Vec<Span<'static>> {
    let chip = chip(model, state);
    let works = chip.role.is_active() && model.works();
    let moving = spinner(model).filter(|_| works);
    let sign = moving
        .filter(|_| chip.role == ChipRole::Working)
        .unwrap_or(chip.sign);
    let label = StateChip {
        sign,
        ..chip.clone()
    }
    .label();
    let style = theme.style(role(chip.role)).add_modifier(Modifier::BOLD);
    let mut spans = if chip.role == ChipRole::NeedsUser {
        // Where there is no room for both, the reason is more important than the time.
        let full = format!(" {label} ");
        let short = format!(" {} {} ", chip.sign, chip.word);
        vec![Span::styled(
            fit(if full.width() <= room { &full } else { &short }, room),
            style,
        )]
    } else {
        vec![Span::styled(fit(&label, room), style)]
    };
    let left = room.saturating_sub(spans.iter().map(Span::width).sum::<usize>());
    if let Some(frame) = moving.filter(|_| chip.role == ChipRole::Hook && left >= 2) {
        spans.push(Span::styled(format!(" {frame}"), style));
    }
    let left = room.saturating_sub(spans.iter().map(Span::width).sum::<usize>());
    if !chip.note.is_empty() && left > chip.note.width() + 3 {
        spans.push(theme.span(ThemeRole::Warning, format!(" · {}", chip.note)));
    }
    spans
}

/// The figures in their order on the line, each with a rank. The highest rank is dropped first.
struct HeaderFigures {
    all: Vec<(String, u8)>,
    /// The short form of the NATS status, for when the long one does not fit.
    nats: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NatsDetail {
    All,
    Few,
}

/// Figures up to this rank show progress; the others show usage.
const HOW_FAR: u8 = 4;
/// A lag behind the NATS server is more important than usage.
const NATS: u8 = 5;
const LAST: u8 = 8;

impl HeaderFigures {
    fn of(model: &ScreenModel, state: &SessionState) -> Self {
        let account = &state.account;
        let iteration = format!(
            "iteration {}/{}",
            state.iterations.current,
            state.max_iterations()
        );
        let context = state.turns.context.filter(|context| context.size > 0);
        let nats = model
            .link
            .nats
            .as_ref()
            .map(|link| plain(&format!("nats: {link}")));
        let replay = if let ScreenMode::Replay(player) = &model.link.mode {
            Some(player.describe())
        } else {
            None
        };
        // Where there are tabs, they carry these counts.
        let counted = !super::has_tabs(model);
        let cost = usage::cost(account.used.cost).filter(|_| !super::layout::has_lines(model));
        let all = [
            (Some(iteration), 1),
            (
                facts::retries(state)
                    .filter(|_| counted)
                    .map(|dots| format!("retries {dots}")),
                2,
            ),
            (
                counted.then(|| format!("pending {}", facts::pending(state))),
                3,
            ),
            (facts::messages(state).filter(|_| counted), 2),
            (
                facts::tasks(model)
                    .filter(|_| counted)
                    .map(|tasks| format!("tasks {tasks}")),
                HOW_FAR,
            ),
            (
                context.map(|context| {
                    format!(
                        "context {}%",
                        context.used.saturating_mul(100) / context.size
                    )
                }),
                LAST,
            ),
            (
                (account.used.tokens > 0).then(|| usage::short_tokens(account.used.tokens)),
                7,
            ),
            (cost, 6),
            (nats, NATS),
            (replay, 0),
        ];
        let all = all
            .into_iter()
            .filter_map(|(text, rank)| Some((text?, rank)))
            .collect();
        Self {
            all,
            nats: model.link.nats.as_ref().map(in_few_words),
        }
    }

    fn up_to(&self, rank: u8, words: NatsDetail) -> String {
        let few = self.nats.as_deref().filter(|_| words == NatsDetail::Few);
        let figures = self.all.iter().filter(|(_, own)| *own <= rank);
        let figures = figures.map(|(text, own)| few.filter(|_| *own == NATS).unwrap_or(text));
        let text = figures.collect::<Vec<_>>().join("  ");
        if text.is_empty() {
            text
        } else {
            format!(" {text} ")
        }
    }

    /// As many figures as fit. A short NATS status is better than none.
    fn that_fit(&self, room: usize, name: usize) -> String {
        let fits =
            |rank: u8, text: &String| text.width() + if rank > HOW_FAR { name } else { 0 } <= room;
        let from = |words, ranks: std::ops::RangeInclusive<u8>| {
            ranks.rev().map(move |rank| (rank, self.up_to(rank, words)))
        };
        let texts = from(NatsDetail::All, NATS..=LAST).chain(from(NatsDetail::Few, 0..=LAST));
        texts
            .into_iter()
            .find(|(rank, text)| fits(*rank, text))
            .map(|(_, text)| text)
            .unwrap_or_default()
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
