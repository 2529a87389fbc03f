//! What happens to the screen, and what it cannot do itself and requests.

use crossterm::event::{KeyEvent, MouseEvent};

use crate::{
    engine::input::SessionCommand,
    process::playback_pace::PlaybackPace,
    report::session_diff::DiffPart,
    tui::{
        modals::{
            editor::EditorPurpose,
            viewer::{RunOutput, ViewerModal},
        },
        patch::PatchRows,
    },
};

#[derive(Debug)]
pub enum ScreenEvent {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    /// The new size, in columns and rows.
    Resize(u16, u16),
    /// Whether the terminal has the focus.
    Focus(bool),
    Accepted(SessionCommand),
    /// With the reason.
    Refused(SessionCommand, String),
    /// The session did not say whether it accepted the command; with the reason.
    Unanswered(SessionCommand, String),
    /// Something else failed.
    Failed(String),
    /// A text for the viewer was read.
    Read(ViewerModal),
    /// The changes of a part were read, or why they were not.
    Diffed(DiffPart, Result<Box<PatchRows>, String>),
    /// The user's editor was closed.
    Edited {
        what: OutsideText,
        /// The text that the editor was opened with.
        before: String,
        text: String,
    },
}

/// What the user's own editor is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutsideText {
    Text(EditorPurpose),
    /// The field with the focus, of the form of a task.
    TaskField,
}

/// Something that the screen cannot do itself.
#[derive(Debug, PartialEq)]
pub enum ScreenRequest {
    Command(SessionCommand),
    /// Sent one after the other, until one is refused.
    InOrder(Vec<SessionCommand>),
    Leave,
    /// The session continues.
    LeaveRunning,
    /// Leave as soon as the session has ended.
    LeaveAtTheEnd,
    /// Leave without waiting for anything.
    LeaveAtOnce,
    Copy(String),
    /// Open a text in the user's editor.
    EditOutside(OutsideText, String),
    /// Stop the process until the shell continues it.
    Suspend,
    Redraw,
    /// Save what lasts longer than this screen.
    Remember,
    /// Pause a demo, resume it, or skip ahead in it.
    SetPace(PlaybackPace),
    /// Show the whole output of a run.
    ReadOutput(RunOutput),
    /// Read what a part of the session changed.
    ReadDiff(DiffPart),
    /// Show a past session up to this record.
    Seek(usize),
}

/// What happens to a running session when the screen closes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CloseBehavior {
    /// The session ends.
    #[default]
    Close,
    /// The session can continue.
    Loose,
    /// The session continues, and the home screen shows again.
    Home,
}
