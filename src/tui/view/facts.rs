//! The figures that are visible at every size: retries, pending items, tasks, hooks.

use ratatui::{style::Style, text::Span};

use crate::{
    engine::{SessionState, hooks::verdict::Verdict},
    present::text::counted,
    tui::{
        model::ScreenModel,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// With a higher limit, the retries are a number.
const DOTS: u32 = 10;

/// The retries as dots, `●●○○○`. None if there are none to count.
pub fn retries(state: &SessionState) -> Option<String> {
    let (used, limit) = (state.retry.used, state.retries().retry_limit());
    (limit > 0).then(|| dots(used, limit))
}

/// The same as words, `2 of 5`.
pub fn retries_in_words(state: &SessionState) -> Option<String> {
    let limit = state.retries().retry_limit();
    (limit > 0).then(|| format!("{} of {limit}", state.retry.used))
}

/// One dot for each retry. Where there are too many of them, numbers.
pub fn dots(used: u32, limit: u32) -> String {
    if limit > DOTS {
        return format!("{used}/{limit}");
    }
    (0..limit)
        .map(|n| if n < used { '●' } else { '○' })
        .collect()
}

/// The number of pending items.
pub fn pending(state: &SessionState) -> usize {
    state.pending.waiting().count()
}

/// The messages that the agent has not received yet. None if there are none.
pub fn messages(state: &SessionState) -> Option<String> {
    match state.steering.messages.len() {
        0 => None,
        count => Some(format!("{} queued", counted(count, "message"))),
    }
}

/// The tasks that are done, of all: `3/7`.
pub fn tasks(model: &ScreenModel) -> Option<String> {
    let graph = model.graph().filter(|graph| !graph.is_empty())?;
    let open = model.board.rows(graph).open();
    Some(format!("{}/{}", graph.len() - open, graph.len()))
}

/// The hooks that blocked when they last ran, else those that could not run, and those that run
/// now: `✗1 ▸1`.
pub fn hooks(model: &ScreenModel) -> Option<String> {
    let (mut blocked, mut failed, mut running) = (0, 0, 0);
    for row in model.hook_rows().iter() {
        match row
            .latest()
            .map(|run| run.ended.as_ref().map(|finished| finished.verdict))
        {
            Some(None) => running += 1,
            Some(Some(Verdict::Block)) => blocked += 1,
            Some(Some(Verdict::Fail)) => failed += 1,
            Some(Some(Verdict::Pass)) | None => {}
        }
    }
    let failed = if blocked > 0 { 0 } else { failed };
    let counts = [("✗", blocked), ("!", failed), ("▸", running)]
        .into_iter()
        .filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(sign, count)| format!("{sign}{count}"))
        .collect();
    (!counts.is_empty()).then(|| counts.join(" "))
}

/// Figures in which what failed, what runs and used retries have their colours.
pub fn coloured(text: &str, style: Style, theme: &ScreenTheme) -> Vec<Span<'static>> {
    let role = |word: &str| match word.trim_end().chars().next()? {
        '!' => Some(ThemeRole::Warning),
        '▸' => Some(ThemeRole::Running),
        '●' if word.contains('○') => Some(ThemeRole::Warning),
        '✗' | '●' => Some(ThemeRole::Bad),
        _ => None,
    };
    let words = text.split_inclusive(' ');
    words
        .map(|word| {
            Span::styled(
                word.to_owned(),
                role(word).map_or(style, |role| theme.style(role)),
            )
        })
        .collect()
}
