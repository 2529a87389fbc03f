//! The panes, one file each.

pub mod hooks;
pub mod pending;
pub mod retries;
pub mod stream;
pub mod tasks;

use super::model::{Pane, ScreenModel};
use crate::engine::pending::ItemState;

/// The text in a pane's frame: its name and its most important number.
pub fn title(model: &ScreenModel, pane: Pane) -> String {
    let state = model.session.as_ref();
    let more = match pane {
        Pane::Stream => match model.stream.position() {
            super::stream::StreamPosition::Follow => String::new(),
            super::stream::StreamPosition::At { block, .. } => {
                format!(" · {}/{} · not following", block + 1, model.stream.len())
            }
        },
        Pane::Hooks => format!(" · {}", model.runs.len()),
        Pane::Pending => {
            let held = state.map_or(0, |state| state.pending.waiting().count());
            let with_agent = |state: &crate::engine::SessionState| {
                state.pending.items().iter().filter(|item| item.state == ItemState::InFlight).count()
            };
            match state.map_or(0, with_agent) {
                0 => format!(" · {held}"),
                n => format!(" · {held}, {n} with the agent"),
            }
        }
        Pane::Retries => {
            state.map_or_else(String::new, |state| format!(" · {}/{}", state.retry.used, state.retries().retry_limit()))
        }
        Pane::Tasks => state.map_or_else(String::new, |state| tasks::title(model, state)),
    };
    format!("{}{more}", pane.title())
}
