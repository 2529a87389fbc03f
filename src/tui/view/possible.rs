//! Which commands do something now, for the palette.
//!
//! The session decides whether it accepts a command: this only leaves out what it would refuse in any
//! case, and keys that move where nothing is.

use super::footer;
use crate::tui::{
    keymap::{ACTIONS, GlobalKey, KeyAction, StreamKey},
    model::{Pane, ScreenMode, ScreenModel},
};

/// The commands that do something now, in the order of the key map.
pub fn possible(model: &ScreenModel) -> Vec<KeyAction> {
    ACTIONS
        .iter()
        .map(|(_, action, ..)| *action)
        .filter(|action| is_possible(model, *action))
        .collect()
}

fn is_possible(model: &ScreenModel, action: KeyAction) -> bool {
    let is_in = |pane| footer::in_pane(model, pane).contains(&action);
    match action {
        KeyAction::Global(key) => is_global_possible(model, key),
        KeyAction::Scroll(_) => true,
        KeyAction::Stream(key) => match key {
            StreamKey::NextError | StreamKey::PreviousError => model.stream.landmarks.errors > 0,
            StreamKey::NextIteration | StreamKey::PreviousIteration => {
                model.stream.landmarks.parts > 1
            }
            StreamKey::Fold | StreamKey::FoldThoughts => !model.stream.is_empty(),
        },
        KeyAction::Hooks(_) => is_in(Pane::Hooks),
        KeyAction::Pending(_) => is_in(Pane::Pending),
        KeyAction::Retries(_) => is_in(Pane::Retries),
        KeyAction::Tasks(_) => is_in(Pane::Tasks),
        // These are keys of dialogs, of a replay and of the home screen.
        KeyAction::Gate(_)
        | KeyAction::Viewer(_)
        | KeyAction::Diff(_)
        | KeyAction::Replay(_)
        | KeyAction::Home(_)
        | KeyAction::Worker(_) => false,
    }
}

fn is_global_possible(model: &ScreenModel, key: GlobalKey) -> bool {
    let steered = model.is_steered();
    let session = model.session.as_ref();
    match key {
        GlobalKey::ShowGate => session.is_some_and(|state| state.gates.open.is_some()),
        GlobalKey::Message
        | GlobalKey::MessageNow
        | GlobalKey::Pause
        | GlobalKey::Stop
        | GlobalKey::ChooseModel => steered,
        // An ended session can be submitted, too.
        GlobalKey::Submit | GlobalKey::Merge => matches!(model.link.mode, ScreenMode::Live),
        GlobalKey::CancelTurn => {
            steered && session.is_some_and(|state| state.phase.turn_in_flight().is_some())
        }
        GlobalKey::RetryNow | GlobalKey::SwitchAgent => {
            steered && session.is_some_and(|state| state.limits.hold.is_some())
        }
        GlobalKey::Leave => steered && model.link.demo.is_none(),
        // The palette is open already.
        GlobalKey::Palette => false,
        GlobalKey::Quit
        | GlobalKey::Help
        | GlobalKey::NextPane
        | GlobalKey::PreviousPane
        | GlobalKey::FocusStream
        | GlobalKey::FocusHooks
        | GlobalKey::FocusPending
        | GlobalKey::FocusRetries
        | GlobalKey::FocusTasks
        | GlobalKey::Zoom
        | GlobalKey::Wider
        | GlobalKey::Narrower
        | GlobalKey::Hints
        | GlobalKey::Diff
        | GlobalKey::Redraw
        | GlobalKey::Suspend => true,
    }
}
