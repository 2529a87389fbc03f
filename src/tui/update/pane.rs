//! Keys of the panes: scrolling, searching, steering the session, and actions on runs and items.

use super::{
    hook::{
        chosen_attempt, hook_text, latest_hook, moved, next_fit, open_run, search_attempts,
        search_hooks,
    },
    task,
};
use crate::{
    engine::{
        event::{Event, PendingEvent},
        ids::ItemId,
        input::SessionCommand,
        pending::{ItemState, PendingItem},
    },
    present::text::{plain, readable_size},
    tui::{
        keymap::{GlobalKey, PendingKey, ReplayKey, ScrollKey, StreamKey},
        modals::{
            Modal, SearchModal,
            editor::{EditorModal, EditorPurpose},
            question::{leave_demo_question, leave_question},
            viewer::{CopiedText, ViewerModal},
        },
        model::{Pane, ScreenMode, ScreenModel},
        panes::{self, PendingRow},
        request::{CloseBehavior, ScreenRequest},
        stream::{
            RecordLoader, SearchHit, SearchStep, SessionStream, StreamBlock, StreamJump,
            StreamViewport,
        },
        theme::ThemeRole,
    },
};

pub(super) fn focus(model: &mut ScreenModel, pane: Pane) {
    // In the pending pane, the user looks for items that wait, not for delivered ones.
    if pane == Pane::Pending && model.panes.focus != pane {
        let items = model
            .session
            .as_ref()
            .map_or(&[][..], |state| state.pending.items());
        let state = |row: PendingRow| match row {
            PendingRow::Delivered(_) => Some(ItemState::Delivered),
            PendingRow::Item(n) => items.get(n).map(|item| item.state),
        };
        let rows = panes::pending_rows(model);
        let gone = panes::pending_row(model).and_then(state) == Some(ItemState::Delivered);
        let waits = rows
            .iter()
            .position(|row| gone && state(*row) == Some(ItemState::Pending));
        model.panes.item = waits.unwrap_or(model.panes.item);
    }
    if pane == Pane::Hooks && model.panes.focus != pane && model.panes.hook == 0 {
        model.panes.hook = latest_hook(model);
    }
    model.panes.focus = pane;
}

pub(super) fn focus_by(model: &mut ScreenModel, by: usize) {
    let at = Pane::ALL
        .iter()
        .position(|pane| *pane == model.panes.focus)
        .unwrap_or(0);
    focus(model, Pane::ALL[(at + by) % Pane::ALL.len()]);
}

pub(super) fn quit(model: &mut ScreenModel) {
    if is_past(model) {
        return model.request(ScreenRequest::Leave);
    }
    if model.link.tie == CloseBehavior::Home {
        return model.request(ScreenRequest::LeaveRunning);
    }
    let keys = model.look.keymap.keys(GlobalKey::Quit);
    let again = keys.split(' ').find(|key| key.contains('-'));
    let question = if model.link.demo.is_some() {
        leave_demo_question()
    } else {
        leave_question(model.link.tie, again)
    };
    model.lay_over(Modal::Quit(Box::new(question)));
}

/// Leaves without asking, since nothing is lost.
pub(super) fn leave(model: &mut ScreenModel) {
    match model.link.tie {
        CloseBehavior::Close | CloseBehavior::Loose | CloseBehavior::Home if is_past(model) => {
            model.request(ScreenRequest::Leave);
        }
        CloseBehavior::Loose | CloseBehavior::Home => model.request(ScreenRequest::LeaveRunning),
        CloseBehavior::Close => {
            model.say(
                ThemeRole::Warning,
                "this session ends with its screen: you cannot leave it running",
            );
        }
    }
}

/// Whether there is no running session to stop or leave.
fn is_past(model: &ScreenModel) -> bool {
    !model.is_steered()
}

pub(super) fn write(model: &mut ScreenModel, purpose: EditorPurpose) {
    if model.is_live() {
        let editor = EditorModal::new(purpose, &std::mem::take(&mut model.drafts.unsent));
        model.modals.push(Modal::Editor(Box::new(editor)));
    }
}

/// Sends a command to a live session.
pub(super) fn steer(model: &mut ScreenModel, command: SessionCommand) {
    if model.is_live() {
        model.request(ScreenRequest::Command(command));
    }
}

pub(super) fn on_scroll_key(model: &mut ScreenModel, key: ScrollKey, reload: RecordLoader<'_>) {
    match key {
        ScrollKey::Search => model.lay_over(Modal::Search(SearchModal::default())),
        ScrollKey::SearchNext | ScrollKey::SearchPrevious => {
            let step = if key == ScrollKey::SearchNext {
                SearchStep::Next
            } else {
                SearchStep::Previous
            };
            search(model, step, reload);
        }
        ScrollKey::Copy => copy(model, reload),
        ScrollKey::Up
        | ScrollKey::Down
        | ScrollKey::PageUp
        | ScrollKey::PageDown
        | ScrollKey::Top
        | ScrollKey::Bottom => {
            scroll(model, key, reload);
        }
    }
}

fn scroll(model: &mut ScreenModel, key: ScrollKey, reload: RecordLoader<'_>) {
    let page = model.frame.size.1.saturating_sub(1).max(1);
    let Some(by) = key.rows(page) else { return };
    match model.panes.focus {
        Pane::Stream if key == ScrollKey::Top => model.stream.to_top(),
        Pane::Stream if key == ScrollKey::Bottom => model.stream.to_end(),
        Pane::Stream if matches!(key, ScrollKey::Up | ScrollKey::Down) => {
            on_stream(model, reload, |stream, view| stream.step(by, view));
        }
        Pane::Stream => on_stream(model, reload, |stream, view| stream.page(by, view)),
        Pane::Hooks => model.panes.hook = moved(model.panes.hook, by, model.hook_rows().len()),
        Pane::Pending => {
            let count = panes::pending_rows(model).len();
            model.panes.item = moved(model.panes.item, by, count);
        }
        Pane::Retries => {
            model.panes.attempt = moved(model.panes.attempt, by, model.attempts.len());
        }
        Pane::Tasks => task::scroll(model, by),
    }
}

/// Scrolls the pane under the wheel. In the stream the view moves, in a list the selection.
pub(super) fn wheel(model: &mut ScreenModel, down: bool, reload: RecordLoader<'_>) {
    if model.panes.focus == Pane::Stream {
        on_stream(model, reload, |stream, view| {
            stream.scroll(if down { 1 } else { -1 }, view);
        });
    } else {
        let key = if down { ScrollKey::Down } else { ScrollKey::Up };
        scroll(model, key, reload);
    }
}

/// Does something with the stream as it was last visible.
pub(super) fn on_stream<T>(
    model: &mut ScreenModel,
    reload: RecordLoader<'_>,
    act: impl FnOnce(&mut SessionStream, StreamViewport<'_>) -> T,
) -> T {
    let ((width, height), theme) = (model.frame.size, &model.look.theme);
    act(
        &mut model.stream,
        StreamViewport {
            width,
            height,
            theme,
            reload,
        },
    )
}

pub(super) fn search(model: &mut ScreenModel, step: SearchStep, reload: RecordLoader<'_>) {
    if model.query.is_empty() {
        model.say(ThemeRole::Faint, "you have not searched for anything yet");
        return;
    }
    let (query, forward) = (model.query.clone(), step != SearchStep::Previous);
    let found = match (model.modals.last_mut(), model.panes.focus) {
        (Some(Modal::Viewer(viewer)), _) => viewer.search(&query, step),
        (Some(Modal::Diff(diff)), _) => diff.search(&query, forward),
        (_, Pane::Hooks) => search_hooks(model, &query, forward),
        (_, Pane::Pending) => search_items(model, &query, forward),
        (_, Pane::Retries) => search_attempts(model, &query, forward),
        (_, Pane::Tasks) => task::search(model, &query, forward),
        (_, Pane::Stream) => on_stream(model, reload, |stream, view| {
            stream.search(&query, step, view)
        }),
    };
    let Some(hit) = found else {
        return model.say(ThemeRole::Warning, format!("not found: {query}"));
    };
    let (next, previous) = (
        model.look.keymap.key(ScrollKey::SearchNext),
        model.look.keymap.key(ScrollKey::SearchPrevious),
    );
    let place = hit.words();
    let gap = if place.is_empty() { "" } else { "  " };
    model.say(
        ThemeRole::Text,
        format!("{place}{gap}{next} next match  {previous} previous match  · {query}"),
    );
}

fn search_items(model: &mut ScreenModel, query: &str, forward: bool) -> Option<SearchHit> {
    let query = query.to_lowercase();
    let state = model.session.as_ref()?;
    let items = state.pending.items();
    let rows = panes::pending_rows(model);
    let holds = |item: &PendingItem| {
        item.text.to_lowercase().contains(&query)
            || item.source.hook.to_lowercase().contains(&query)
    };
    let fits = |n: usize| match rows[n] {
        PendingRow::Item(n) => holds(&items[n]),
        PendingRow::Delivered(_) => false,
    };
    let (found, hit) = next_fit(model.panes.item, rows.len(), forward, fits)?;
    model.panes.item = found;
    Some(hit)
}

/// Copies the selected row: of the stream, what the row under the cursor is about.
fn copy(model: &mut ScreenModel, reload: RecordLoader<'_>) {
    let text = match model.panes.focus {
        Pane::Retries => chosen_attempt(model)
            .map(|attempt| attempt.feedback.clone())
            .unwrap_or_default(),
        Pane::Stream => on_stream(model, reload, SessionStream::block_in_full)
            .map(|(head, text)| if text.trim().is_empty() { head } else { text })
            .unwrap_or_default(),
        Pane::Hooks => model
            .hook_rows()
            .nth(model.panes.hook)
            .map(|row| hook_text(&row))
            .unwrap_or_default(),
        Pane::Pending => chosen_item(model).map(|(_, text)| text).unwrap_or_default(),
        Pane::Tasks => task::text_of_chosen(model),
    };
    copy_text(model, CopiedText::whole(plain(&text)));
}

/// In bytes. Many terminals do not take more.
const LARGE_COPY: usize = 64 << 10;

/// Copies a text. A large one only after the key was pressed twice. Returns whether it did.
pub(super) fn copy_text(model: &mut ScreenModel, copied: CopiedText) -> bool {
    let CopiedText { text, is_cut } = copied;
    let size = readable_size(text.len() as u64);
    if text.len() > LARGE_COPY && model.copy_asked.replace(text.len()) != Some(text.len()) {
        let key = model.look.keymap.key(ScrollKey::Copy);
        model.say(
            ThemeRole::Warning,
            format!("this is {size}: {key} again copies it"),
        );
        return false;
    }
    model.copy_asked = None;
    let what = if is_cut { "only the first " } else { "" };
    model.say(ThemeRole::Good, format!("copied {what}{size}"));
    model.request(ScreenRequest::Copy(text));
    true
}

pub(super) fn on_stream_key(model: &mut ScreenModel, key: StreamKey, reload: RecordLoader<'_>) {
    match key {
        StreamKey::NextIteration | StreamKey::PreviousIteration => {
            let forward = key == StreamKey::NextIteration;
            jump(
                model,
                ("iteration", forward),
                reload,
                &StreamBlock::begins_part,
            );
        }
        StreamKey::NextError | StreamKey::PreviousError => {
            let forward = key == StreamKey::NextError;
            jump(model, ("error", forward), reload, &|block| block.error);
        }
        StreamKey::Fold => {
            if !open_row(model, reload) {
                model.say(ThemeRole::Faint, "this row has nothing to open");
            }
        }
        StreamKey::FoldThoughts => {
            model.stream.fold_thoughts();
        }
    }
}

/// Jumps to the next or previous block of a kind, and says so if it is not ahead.
fn jump(
    model: &mut ScreenModel,
    (what, forward): (&str, bool),
    reload: RecordLoader<'_>,
    fits: &dyn Fn(&StreamBlock) -> bool,
) {
    let note = match (
        on_stream(model, reload, |stream, view| {
            stream.jump(forward, view, fits)
        }),
        forward,
    ) {
        (StreamJump::Ahead, _) => return,
        (StreamJump::Around, true) => format!("No {what} after this point: this is the first one"),
        (StreamJump::Around, false) => format!("No {what} before this point: this is the last one"),
        (StreamJump::SameBlock, _) => format!("No other {what}"),
        (StreamJump::Nowhere, _) => format!("No {what} so far"),
    };
    model.say(ThemeRole::Faint, note);
}

/// Opens or closes the row under the cursor, or shows the output of its run. Returns whether it has
/// something to open.
pub(super) fn open_row(model: &mut ScreenModel, reload: RecordLoader<'_>) -> bool {
    let run = on_stream(model, reload, SessionStream::run_to_open);
    if let Some(request) = run.and_then(|run| open_run(model, run)) {
        on_stream(model, reload, SessionStream::close_block);
        model.request(request);
        return true;
    }
    on_stream(model, reload, SessionStream::fold)
}

fn chosen_item(model: &ScreenModel) -> Option<(ItemId, String)> {
    let items = model.session.as_ref()?.pending.items();
    let item = match panes::pending_row(model)? {
        PendingRow::Item(n) => items.get(n)?,
        PendingRow::Delivered(_) => return None,
    };
    Some((item.id, item.text.clone()))
}

/// The text of a delivered item, which only the journal still has.
fn text_on_disk(model: &ScreenModel, id: ItemId, reload: RecordLoader<'_>) -> String {
    let record = model.item_spots.get(&id).and_then(|spot| reload(*spot));
    match record.map(|record| record.event) {
        Some(Event::Pending(
            PendingEvent::Added { text, .. } | PendingEvent::Edited { text, .. },
        )) => text,
        Some(_) | None => String::new(),
    }
}

/// The items as they are ticked at the gate, whether it is visible or closed for later.
fn ticked(model: &ScreenModel) -> Option<Vec<ItemId>> {
    let shown = model.modals.iter().find_map(|modal| {
        if let Modal::Gate(gate) = modal {
            Some(gate)
        } else {
            None
        }
    });
    shown
        .or(model.later_gate.as_ref())
        .and_then(|gate| gate.ticked())
}

pub(super) fn preview(model: &mut ScreenModel) {
    let ticked = ticked(model);
    let text = model.session.as_ref().map(|session| match &ticked {
        Some(items) => session.prompts().preview_with(items),
        None => session.prompts().preview(),
    });
    let text = text.unwrap_or_default();
    let is_last = model
        .session
        .as_ref()
        .is_some_and(|state| state.ending.is_some());
    let (title, more) = if is_last {
        ("The last prompt", "")
    } else {
        ("The next prompt", "; hooks at pre_iteration can add to it")
    };
    let size = readable_size(text.len() as u64);
    let about = format!("{size}, as creel would send it now{more}");
    model.lay_over(Modal::Viewer(Box::new(ViewerModal::new(
        title, &text, about,
    ))));
}

pub(super) fn on_pending_key(model: &mut ScreenModel, key: PendingKey, reload: RecordLoader<'_>) {
    if key == PendingKey::Preview {
        return preview(model);
    }
    if let Some(PendingRow::Delivered(_)) = panes::pending_row(model) {
        model.panes.shows_delivered ^= key == PendingKey::Open;
        return;
    }
    let Some((id, text)) = chosen_item(model) else {
        model.say(ThemeRole::Faint, "no pending items");
        return;
    };
    match key {
        PendingKey::Open => {
            let text = if text.is_empty() {
                text_on_disk(model, id, reload)
            } else {
                text
            };
            let about = readable_size(text.len() as u64);
            let viewer = ViewerModal::new(format!("Item {id}"), &text, about);
            model.lay_over(Modal::Viewer(Box::new(viewer)));
        }
        PendingKey::Edit if model.is_live() => {
            let editor = EditorModal::new(EditorPurpose::Item(id), &text);
            model.lay_over(Modal::Editor(Box::new(editor)));
        }
        PendingKey::Edit | PendingKey::Preview => {}
        // Skips the item, or restores it.
        PendingKey::Skip => {
            let item = model
                .session
                .as_ref()
                .and_then(|state| state.pending.get(id));
            let skipped = item.is_some_and(|item| item.state == ItemState::Skipped);
            let command = if skipped {
                SessionCommand::RestoreItem { item: id }
            } else {
                SessionCommand::SkipItem { item: id }
            };
            steer(model, command);
        }
    }
}

pub(super) fn on_replay_key(model: &mut ScreenModel, key: ReplayKey) {
    let now = model.now;
    let ScreenMode::Replay(player) = &mut model.link.mode else {
        return;
    };
    let (what, found) = match key {
        ReplayKey::Play => {
            player.toggle(now);
            return;
        }
        ReplayKey::Faster | ReplayKey::Slower => {
            player.change_speed(if key == ReplayKey::Faster { 1 } else { -1 }, now);
            return;
        }
        ReplayKey::Step => ("record", Some(player.shown + 1)),
        // Before the first record there is nothing to show.
        ReplayKey::StepBack => ("record", Some(player.shown.saturating_sub(1).max(1))),
        ReplayKey::StepIteration => ("iteration", player.next_iteration()),
        ReplayKey::StepError => ("error", player.next_error()),
    };
    if let Some(target) = found {
        return model.request(ScreenRequest::Seek(target));
    }
    model.say(ThemeRole::Faint, format!("No {what} after this point"));
}
