//! The figures that are visible at every size: retries, pending items, tasks, hooks.

use crate::{
    engine::{SessionState, hooks::verdict::Verdict},
    present::text::counted,
    tui::model::ScreenModel,
};

/// With a higher limit, the retries are a number.
const DOTS: u32 = 10;

/// The retries as dots, `●●○○○`. None if there are none to count.
pub fn retries(state: &SessionState) -> Option<String> {
    let (used, limit) = (state.retry.used, state.retries().retry_limit());
    (limit > 0).then(|| dots(used, limit))
}

/// One dot for each retry. Where there are too many of them, numbers.
pub fn dots(used: u32, limit: u32) -> String {
    if limit > DOTS {
        return format!("{used}/{limit}");
    }
    (0..limit).map(|n| if n < used { '●' } else { '○' }).collect()
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

/// The hooks that did not pass when they last ran, and those that run: `✗1 ▸1`.
pub fn hooks(model: &ScreenModel) -> Option<String> {
    let (mut failed, mut running) = (0, 0);
    for row in model.hook_rows().iter() {
        match row.latest().map(|run| run.ended.as_ref().map(|finished| finished.verdict)) {
            Some(None) => running += 1,
            Some(Some(Verdict::Block | Verdict::Fail)) => failed += 1,
            Some(Some(Verdict::Pass)) | None => {}
        }
    }
    let counts = [("✗", failed), ("▸", running)].into_iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(sign, count)| format!("{sign}{count}")).collect();
    (!counts.is_empty()).then(|| counts.join(" "))
}
