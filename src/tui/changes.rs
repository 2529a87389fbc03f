//! Which changes the screen can show, and when they are to be read again.
//!
//! # Invariants
//! - Without a new record, nothing is read again.
//! - The lines of a finished iteration are read once, and only when its row is in sight.

use std::rc::Rc;

use super::{
    modals::{
        Modal,
        diff::{DiffChoice, DiffModal},
    },
    model::{Pane, ScreenModel},
    patch::PatchRows,
    request::ScreenRequest,
    view,
};
use crate::{
    engine::{
        conversation::ToolKind,
        event::{Event, SessionEvent, TurnEvent},
        ids::TurnId,
        time::{TimeSpan, UnixTime},
    },
    report::session_diff::DiffPart,
};

/// The shortest time between two readings of the same changes.
const PAUSE: TimeSpan = TimeSpan(2_000);

#[derive(Debug, Default)]
pub struct ChangesModel {
    /// The newest turn.
    turn: Option<TurnId>,
    iteration: u32,
    /// Whether a turn may have changed a file.
    has_some: bool,
    /// What the newest turn changed, as it was read last.
    shown: Option<Rc<PatchRows>>,
    /// Whether more can have changed since.
    is_stale: bool,
    is_asked: bool,
    read: UnixTime,
}

impl ChangesModel {
    pub fn take(&mut self, event: &Event) {
        if let Event::Session(SessionEvent::IterationStarted { iteration }) = event {
            self.iteration = *iteration;
        } else if let Event::Turn(TurnEvent::PromptSent(prompt)) = event {
            (self.turn, self.shown, self.is_stale) = (Some(prompt.turn), None, false);
        } else if let Event::Turn(TurnEvent::Ended { work, .. } | TurnEvent::Failed { work, .. }) =
            event
        {
            self.is_stale = true;
            self.has_some |= work
                .as_ref()
                .is_some_and(|work| !work.files_modified.is_empty() || work.more_modified > 0);
        } else if let Event::Turn(
            TurnEvent::ToolCalled { tool, .. } | TurnEvent::ToolUpdated { tool, .. },
        ) = event
        {
            let may_change = tool.status.has_ended() && may_change_files(tool.kind);
            self.is_stale |= may_change;
            self.has_some |= may_change;
        }
    }

    /// What the newest turn changed. None if nothing is known of it yet.
    pub fn of_turn(&self) -> Option<&Rc<PatchRows>> {
        self.shown.as_ref().filter(|rows| !rows.is_empty())
    }

    /// Whether the session may have changed a file.
    pub const fn has_some(&self) -> bool {
        self.has_some
    }

    fn choices(&self) -> Vec<DiffChoice> {
        let choice = |part, name: String| DiffChoice { part, name };
        let turn = self
            .turn
            .map(|turn| choice(DiffPart::Turn(turn), format!("Turn {turn}")));
        let iteration = (self.iteration > 0).then(|| {
            let name = format!("Iteration {}", self.iteration);
            choice(DiffPart::Iteration(self.iteration), name)
        });
        let session = choice(DiffPart::Session, "Session".to_owned());
        turn.into_iter().chain(iteration).chain([session]).collect()
    }
}

const fn may_change_files(kind: Option<ToolKind>) -> bool {
    match kind {
        None
        | Some(
            ToolKind::Edit
            | ToolKind::Delete
            | ToolKind::Move
            | ToolKind::Execute
            | ToolKind::Other,
        ) => true,
        Some(
            ToolKind::Read
            | ToolKind::Search
            | ToolKind::Think
            | ToolKind::Fetch
            | ToolKind::SwitchMode,
        ) => false,
    }
}

impl ScreenModel {
    /// Shows the changes: those of the turn, or after the end those of the session.
    pub(super) fn show_changes(&mut self) {
        let has_ended = self
            .session
            .as_ref()
            .is_some_and(|state| state.phase.outcome().is_some());
        let mut choices = self.changes.choices();
        if has_ended {
            choices.reverse();
        }
        let modal = DiffModal::new(choices);
        if let Some(part) = modal.part() {
            self.request(ScreenRequest::ReadDiff(part));
        }
        self.lay_over(Modal::Diff(Box::new(modal)));
    }

    /// Takes changes that were read.
    pub(super) fn take_changes(&mut self, part: DiffPart, read: Result<Box<PatchRows>, String>) {
        let read: Result<Rc<PatchRows>, String> = read.map(|rows| Rc::from(*rows));
        if let (DiffPart::Iteration(number), Ok(rows)) = (part, &read)
            && let Some(lines) = rows.counted
        {
            self.stream.count_lines(number, lines);
        }
        for modal in &mut self.modals {
            if let Modal::Diff(diff) = modal
                && diff.part() == Some(part)
            {
                diff.take(read.clone());
            }
        }
        if self.changes.turn.map(DiffPart::Turn) == Some(part) {
            self.changes.is_asked = false;
            match read {
                Ok(rows) => self.changes.shown = Some(rows),
                Err(why) => tracing::info!("the changes of the turn: {why}"),
            }
        }
    }

    /// Whether something on the screen shows the changes of the newest turn.
    fn shows_changes(&self) -> bool {
        let is_beside = || {
            self.panes.focus == Pane::Stream
                && view::places(self, self.area()).is_some_and(|places| places.detail.is_some())
        };
        let is_over = matches!(self.modals.last(), Some(Modal::Diff(_)));
        is_over || is_beside()
    }

    /// When to read the changes of the newest turn again.
    pub(super) fn changes_due(&self) -> Option<UnixTime> {
        let changes = &self.changes;
        let is_due = changes.is_stale && !changes.is_asked && changes.turn.is_some();
        (is_due && self.shows_changes()).then(|| changes.read.after(PAUSE))
    }

    /// The changes to read now, if any.
    pub fn due_changes(&mut self) -> Vec<DiffPart> {
        let (places, width) = (&self.frame.places, self.frame.size.0);
        let iteration = self.stream.uncounted_iteration(places, width);
        let iteration = iteration.map(DiffPart::Iteration);
        let is_due = self.changes_due().is_some_and(|due| due <= self.now);
        let Some(turn) = self.changes.turn.filter(|_| is_due) else {
            return iteration.into_iter().collect();
        };
        (self.changes.is_stale, self.changes.is_asked) = (false, true);
        self.changes.read = self.now;
        let over = match self.modals.last() {
            Some(Modal::Diff(diff)) => diff.part(),
            Some(_) | None => None,
        };
        let own = DiffPart::Turn(turn);
        let others = over.filter(|part| *part != own);
        [own].into_iter().chain(others).chain(iteration).collect()
    }
}
