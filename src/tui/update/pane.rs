//! Keys of the panes: scrolling, searching, steering the session, and actions on runs and items.

use super::{ScreenRequest, lay_over, task};
use crate::{
    engine::{
        event::{Event, PendingEvent},
        hooks::{point::HookPoint, resolve::HookRef},
        ids::{ItemId, RunId},
        input::SessionCommand,
        pending::ItemState,
    },
    present::{hook_stats, stop_decisions, text::counted},
    tui::{
        keymap::KeyAction,
        modals::{
            Modal,
            editor::{EditorModal, EditorPurpose},
            quit::QuitModal,
            viewer::ViewerModal,
        },
        model::{CloseBehavior, Pane, ScreenMode, ScreenModel},
        replay::ReplayPlayer,
        runs::{HookRow, RunSubject},
        stream::{BlockKind, RecordLoader, StreamBlock},
        theme::ThemeRole,
        view,
    },
};

pub(super) fn focus(model: &mut ScreenModel, pane: Pane) -> Vec<ScreenRequest> {
    // In the pending pane, the user looks for items that wait, not for delivered ones.
    let items = model.session.as_ref().map_or(&[][..], |state| state.pending.items());
    let gone = items.get(model.chosen_item).is_some_and(|item| item.state == ItemState::Delivered);
    if pane == Pane::Pending && model.focus != pane && gone {
        let waits = items.iter().position(|item| item.state == ItemState::Pending);
        model.chosen_item = waits.unwrap_or(model.chosen_item);
    }
    model.focus = pane;
    Vec::new()
}

pub(super) fn focus_by(model: &mut ScreenModel, by: usize) -> Vec<ScreenRequest> {
    let at = Pane::ALL.iter().position(|pane| *pane == model.focus).unwrap_or(0);
    focus(model, Pane::ALL[(at + by) % Pane::ALL.len()])
}

pub(super) fn is_live(model: &mut ScreenModel) -> bool {
    let live = matches!(model.mode, ScreenMode::Live);
    if !live {
        model.say(ThemeRole::Faint, "this is a replay: you cannot control it");
    }
    live
}

pub(super) fn quit(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    if is_past(model) {
        return vec![ScreenRequest::Leave];
    }
    let keys = model.keymap.keys(KeyAction::Quit);
    let again = keys.split(' ').find(|key| key.contains('-')).map(str::to_owned);
    lay_over(model, Modal::Quit(QuitModal { tie: model.tie, again }))
}

/// Leaves without asking, since nothing is lost.
pub(super) fn leave(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    match model.tie {
        CloseBehavior::Close | CloseBehavior::Loose if is_past(model) => vec![ScreenRequest::Leave],
        CloseBehavior::Loose => vec![ScreenRequest::LeaveRunning],
        CloseBehavior::Close => {
            model.say(ThemeRole::Warning, "this session ends with its screen: you cannot leave it running");
            Vec::new()
        }
    }
}

/// Whether there is no running session to stop or leave.
fn is_past(model: &ScreenModel) -> bool {
    let over = model.session.as_ref().is_none_or(|state| state.phase.outcome().is_some());
    over || matches!(model.mode, ScreenMode::Replay(_))
}

pub(super) fn write(model: &mut ScreenModel, purpose: EditorPurpose) -> Vec<ScreenRequest> {
    if is_live(model) {
        let editor = EditorModal::new(purpose, &std::mem::take(&mut model.draft));
        model.modals.push(Modal::Editor(Box::new(editor)));
    }
    Vec::new()
}

pub(super) fn zoom(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    model.zoomed = !model.zoomed;
    Vec::new()
}

/// Sends a command to a live session.
pub(super) fn steer(model: &mut ScreenModel, command: SessionCommand) -> Vec<ScreenRequest> {
    if is_live(model) { vec![ScreenRequest::Command(command)] } else { Vec::new() }
}

pub(super) fn pause(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let paused = model.session.as_ref().is_some_and(|state| state.steering.paused);
    steer(model, if paused { SessionCommand::Unpause } else { SessionCommand::Pause })
}

/// How far a key or the wheel scrolls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScrollStep {
    LineUp,
    LineDown,
    PageUp,
    PageDown,
    Top,
    Bottom,
}

impl ScrollStep {
    /// In rows. The two ends are further away than any text is long.
    fn rows(self, page: isize) -> isize {
        match self {
            Self::LineUp => -1,
            Self::LineDown => 1,
            Self::PageUp => -page,
            Self::PageDown => page,
            Self::Top => isize::MIN / 2,
            Self::Bottom => isize::MAX / 2,
        }
    }
}

pub(super) fn scroll(model: &mut ScreenModel, step: ScrollStep, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    let page = isize::try_from(model.stream_size.1.saturating_sub(1).max(1)).unwrap_or(1);
    let by = step.rows(page);
    match model.focus {
        Pane::Stream => match step {
            ScrollStep::Top => model.stream.to_top(),
            ScrollStep::Bottom => model.stream.to_end(),
            ScrollStep::LineUp | ScrollStep::LineDown | ScrollStep::PageUp | ScrollStep::PageDown => {
                model.stream.scroll(by, model.stream_size, &model.theme, reload);
            }
        },
        Pane::Hooks => model.chosen_hook = moved(model.chosen_hook, by, model.hook_rows().len()),
        Pane::Pending => {
            let count = model.session.as_ref().map_or(0, |state| state.pending.items().len());
            model.chosen_item = moved(model.chosen_item, by, count);
        }
        Pane::Retries => model.skipped_attempts = moved(model.skipped_attempts, by, model.attempts.len()),
        Pane::Tasks => task::scroll(model, by),
    }
    Vec::new()
}

pub(super) fn moved(at: usize, by: isize, count: usize) -> usize {
    at.saturating_add_signed(by).min(count.saturating_sub(1))
}

pub(super) fn search(model: &mut ScreenModel, forward: bool, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    if model.query.is_empty() {
        model.say(ThemeRole::Faint, "you have not searched for anything yet");
        return Vec::new();
    }
    let query = model.query.clone();
    let found = match (model.modals.last_mut(), model.focus) {
        (Some(Modal::Viewer(viewer)), _) => viewer.search(&query, forward),
        (_, Pane::Hooks) => search_hooks(model, &query, forward),
        (_, Pane::Pending) => search_items(model, &query, forward),
        (_, Pane::Retries) => search_attempts(model, &query, forward),
        (_, Pane::Tasks) => task::search(model, &query, forward),
        (_, Pane::Stream) => model.stream.search(&query, forward, model.stream_size, &model.theme, reload),
    };
    if !found {
        model.say(ThemeRole::Warning, format!("not found: {query}"));
    }
    Vec::new()
}

/// The next of `count` entries after `from` that fits, going around.
pub(super) fn next_fit(from: usize, count: usize, forward: bool, fits: impl Fn(usize) -> bool) -> Option<usize> {
    (1..=count)
        .map(|n| if forward { (from + n) % count } else { (from + count - n % count) % count })
        .find(|n| fits(*n))
}

pub(super) fn search_hooks(model: &mut ScreenModel, query: &str, forward: bool) -> bool {
    let query = query.to_lowercase();
    let rows = model.hook_rows();
    let fits = |n| rows.nth(n).is_some_and(|row| row.name().to_lowercase().contains(&query));
    let found = next_fit(model.chosen_hook, rows.len(), forward, fits);
    model.chosen_hook = found.unwrap_or(model.chosen_hook);
    found.is_some()
}

pub(super) fn search_attempts(model: &mut ScreenModel, query: &str, forward: bool) -> bool {
    let query = query.to_lowercase();
    let newest_first: Vec<String> =
        model.attempts.iter().rev().map(|attempt| attempt.feedback.to_lowercase()).collect();
    let fits = |n: usize| newest_first[n].contains(&query);
    let found = next_fit(model.skipped_attempts, newest_first.len(), forward, fits);
    model.skipped_attempts = found.unwrap_or(model.skipped_attempts);
    found.is_some()
}

pub(super) fn search_items(model: &mut ScreenModel, query: &str, forward: bool) -> bool {
    let query = query.to_lowercase();
    let Some(state) = &model.session else { return false };
    let items = state.pending.items();
    let fits = |n: usize| {
        items[n].text.to_lowercase().contains(&query) || items[n].source.hook.to_lowercase().contains(&query)
    };
    let found = next_fit(model.chosen_item, items.len(), forward, fits);
    model.chosen_item = found.unwrap_or(model.chosen_item);
    found.is_some()
}

pub(super) fn copy(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let text = match model.focus {
        Pane::Stream | Pane::Retries => {
            model.stream_lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
        Pane::Hooks => match model.hook_rows().nth(model.chosen_hook) {
            Some(HookRow::Ran(run)) => view::run_text(run),
            Some(HookRow::Waits(_, spec)) => spec.action.describe(),
            Some(HookRow::Decides(hook)) => stop_decisions::judge(hook),
            Some(HookRow::Rule(rule)) => rule.check.describe(),
            None => String::new(),
        },
        Pane::Pending => chosen_item(model).map(|(_, text)| text).unwrap_or_default(),
        Pane::Tasks => task::text_of_chosen(model),
    };
    model.say(ThemeRole::Good, format!("copied {}", counted(text.len(), "byte")));
    vec![ScreenRequest::Copy(text)]
}

pub(super) fn jump_to_iteration(
    model: &mut ScreenModel,
    forward: bool,
    reload: RecordLoader<'_>,
) -> Vec<ScreenRequest> {
    jump(model, forward, reload, &|block| block.kind == BlockKind::Iteration)
}

pub(super) fn jump_to_error(model: &mut ScreenModel, forward: bool, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    jump(model, forward, reload, &|block| block.error)
}

fn jump(
    model: &mut ScreenModel,
    forward: bool,
    reload: RecordLoader<'_>,
    fits: &dyn Fn(&StreamBlock) -> bool,
) -> Vec<ScreenRequest> {
    if !model.stream.jump(forward, model.stream_size, &model.theme, reload, fits) {
        model.say(ThemeRole::Faint, "there are no more");
    }
    Vec::new()
}

pub(super) fn fold(model: &mut ScreenModel, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    model.stream.fold(model.stream_size, &model.theme, reload);
    Vec::new()
}

pub(super) fn fold_thoughts(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    model.stream.fold_thoughts();
    Vec::new()
}

/// Shows what a run printed, or what a hook that has not run would do.
pub(super) fn open_hook(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    match model.hook_rows().nth(model.chosen_hook) {
        Some(HookRow::Ran(run)) => {
            let what = if run.kind == RunSubject::Rule { "rule" } else { run.point.name() };
            let title = format!("run {} · {what} · {}", run.run, run.name());
            let file = run.ended.as_ref().and_then(|finished| finished.file.clone());
            vec![ScreenRequest::ReadOutput { title, file, otherwise: view::run_text(run) }]
        }
        Some(row @ HookRow::Waits(point, spec)) => {
            let piped = if spec.pipe_output { "; the agent gets its output" } else { "" };
            let about = format!("it would run for at most {}{piped}", spec.timeout);
            let viewer = ViewerModal::new(format!("{point} · {}", row.name()), &spec.action.describe(), about);
            lay_over(model, Modal::Viewer(viewer))
        }
        Some(row @ HookRow::Decides(hook)) => {
            let title = format!("{} · {}", HookPoint::StopDecision, row.name());
            let about = "creel asks it after each iteration whether the session is complete";
            lay_over(model, Modal::Viewer(ViewerModal::new(title, &stop_decisions::judge(hook), about)))
        }
        Some(row @ HookRow::Rule(rule)) => {
            let about = format!("creel checks it after each iteration, for at most {}", rule.timeout);
            let viewer = ViewerModal::new(format!("rule · {}", row.name()), &rule.check.describe(), about);
            lay_over(model, Modal::Viewer(viewer))
        }
        None => Vec::new(),
    }
}

/// The selected hook, if the session is live.
fn chosen_hook(model: &mut ScreenModel) -> Option<HookRef> {
    let chosen = model.hook_rows().nth(model.chosen_hook)?.hook();
    is_live(model).then_some(chosen)
}

pub(super) fn switch_hook(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let Some(HookRef { point, hook }) = chosen_hook(model) else { return Vec::new() };
    let Some(state) = &model.session else { return Vec::new() };
    let planned = state.plan().hook(point, &hook).is_some_and(|spec| state.hooks.is_enabled(point, spec));
    let decides = || state.agent_loops().stop_hook(&hook).is_some_and(|hook| state.hooks.stop_hook_is_on(hook));
    let on = planned || (point == HookPoint::StopDecision && decides());
    let command = if on {
        SessionCommand::DisableHook { point: Some(point), hook }
    } else {
        SessionCommand::EnableHook { point: Some(point), hook }
    };
    vec![ScreenRequest::Command(command)]
}

pub(super) fn run_hook(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let chosen = chosen_hook(model);
    chosen
        .map(|HookRef { point, hook }| ScreenRequest::Command(SessionCommand::RunHook { point: Some(point), hook }))
        .into_iter()
        .collect()
}

/// Cancels the selected run, or another running one if the selected run has ended.
pub(super) fn cancel_hook(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let chosen = match model.hook_rows().nth(model.chosen_hook) {
        Some(HookRow::Ran(run)) => Some(run.run),
        Some(HookRow::Waits(..) | HookRow::Decides(_) | HookRow::Rule(_)) | None => None,
    };
    let running = model.session.as_ref().and_then(|state| {
        let runs = |run: &RunId| state.commands().running().any(|running| running == *run);
        chosen.filter(runs).or_else(|| state.commands().running().next())
    });
    match running {
        Some(run) if is_live(model) => vec![ScreenRequest::Command(SessionCommand::CancelHook { run })],
        Some(_) => Vec::new(),
        None => {
            model.say(ThemeRole::Faint, "no hook is running");
            Vec::new()
        }
    }
}

pub(super) fn show_stats(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    if model.tallies.is_empty() {
        model.say(ThemeRole::Faint, "no hook has run yet");
        return Vec::new();
    }
    let table = hook_stats::table(&model.tallies.stats());
    let about = "half of the runs took at most p50, 95 of 100 at most p95; piped: bytes";
    lay_over(model, Modal::Viewer(ViewerModal::new("statistics of the hooks", &table, about)))
}

pub(super) fn chosen_item(model: &ScreenModel) -> Option<(ItemId, String)> {
    let items = model.session.as_ref()?.pending.items();
    items.get(model.chosen_item).map(|item| (item.id, item.text.clone()))
}

/// The text of a delivered item, which only the journal still has.
pub(super) fn text_on_disk(model: &ScreenModel, id: ItemId, reload: RecordLoader<'_>) -> String {
    let record = model.item_spots.get(&id).and_then(|spot| reload(*spot));
    match record.map(|record| record.event) {
        Some(Event::Pending(PendingEvent::Added { text, .. } | PendingEvent::Edited { text, .. })) => text,
        Some(_) | None => String::new(),
    }
}

pub(super) fn preview(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let text = model.session.as_ref().map(|session| session.prompts().preview()).unwrap_or_default();
    let about = format!("{} B, as creel would send it now; hooks at pre_iteration can add to it", text.len());
    lay_over(model, Modal::Viewer(ViewerModal::new("the next prompt", &text, about)))
}

pub(super) fn open_item(model: &mut ScreenModel, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    let Some((id, text)) = item_to_use(model) else { return Vec::new() };
    let text = if text.is_empty() { text_on_disk(model, id, reload) } else { text };
    let about = counted(text.len(), "byte");
    lay_over(model, Modal::Viewer(ViewerModal::new(format!("item {id}"), &text, about)))
}

pub(super) fn edit_item(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    match item_to_use(model) {
        Some((id, text)) if is_live(model) => {
            lay_over(model, Modal::Editor(Box::new(EditorModal::new(EditorPurpose::Item(id), &text))))
        }
        Some(_) | None => Vec::new(),
    }
}

/// Skips the selected item, or restores it.
pub(super) fn skip_item(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let Some((id, _)) = item_to_use(model) else { return Vec::new() };
    let item = model.session.as_ref().and_then(|state| state.pending.get(id));
    let skipped = item.is_some_and(|item| item.state == ItemState::Skipped);
    steer(model, if skipped { SessionCommand::RestoreItem { item: id } } else { SessionCommand::SkipItem { item: id } })
}

/// The selected item. If there is none, the screen says so.
fn item_to_use(model: &mut ScreenModel) -> Option<(ItemId, String)> {
    let chosen = chosen_item(model);
    if chosen.is_none() {
        model.say(ThemeRole::Faint, "no pending items");
    }
    chosen
}

/// Moves a replay to the record that `target` finds.
pub(super) fn seek(model: &mut ScreenModel, target: impl FnOnce(&ReplayPlayer) -> usize) -> Vec<ScreenRequest> {
    match &model.mode {
        ScreenMode::Replay(player) => vec![ScreenRequest::Seek(target(player))],
        ScreenMode::Live => Vec::new(),
    }
}

/// Plays or pauses a replay.
pub(super) fn play(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let now = model.now;
    if let ScreenMode::Replay(player) = &mut model.mode {
        player.toggle(now);
    }
    Vec::new()
}

/// Doubles (1) or halves (-1) the speed of a replay.
pub(super) fn change_speed(model: &mut ScreenModel, by: i32) -> Vec<ScreenRequest> {
    let now = model.now;
    if let ScreenMode::Replay(player) = &mut model.mode {
        player.change_speed(by, now);
    }
    Vec::new()
}
