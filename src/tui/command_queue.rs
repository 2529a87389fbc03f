//! Sends the user's commands to the session and returns the answers to the screen.
//!
//! # Invariants
//! - Commands are sent one at a time, in the order in which the user asked for them.
//! - The screen never waits: it handles keys and signals even if the session does not answer.
//! - No command is lost silently: [`CommandQueue::close`] returns every command that is not known to
//!   have arrived.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::model::SentDrafts;
use crate::{
    engine::input::SessionCommand,
    sessions::session_client::{CommandError, SessionAddress},
    tui::request::ScreenEvent,
};

/// How long a closing screen waits for the last commands.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct CommandQueue {
    queued: mpsc::UnboundedSender<Vec<SessionCommand>>,
    answers: mpsc::UnboundedReceiver<ScreenEvent>,
    sending: JoinHandle<Vec<UndeliveredCommand>>,
    /// Tells the sending task to stop waiting for an answer.
    enough: oneshot::Sender<()>,
}

/// A command that is not known to be done when the screen closes.
#[derive(Debug, PartialEq)]
pub(super) enum UndeliveredCommand {
    Unsent(SessionCommand),
    /// Sent, but the session did not answer.
    Unanswered(SessionCommand),
    /// With the reason.
    Refused(SessionCommand, String),
}

impl UndeliveredCommand {
    /// The message after the screen has closed, with the text that the user wrote, if any. A
    /// refused command without text needs none: a session that ends refuses what a key asked for.
    pub(super) fn words(&self, sent: &mut SentDrafts) -> Option<String> {
        let mut what = |command| sent.take(command).map(|draft| draft.text());
        match self {
            Self::Unsent(command) => Some(format!(
                "not sent: {}",
                what(command).unwrap_or_else(|| name(command))
            )),
            Self::Unanswered(command) => {
                let what = what(command).unwrap_or_else(|| name(command));
                Some(format!(
                    "no answer; the session may have run it or not: {what}"
                ))
            }
            Self::Refused(command, why) => {
                what(command).map(|text| format!("refused ({why}): {text}"))
            }
        }
    }
}

/// The command's name on the control socket.
fn name(command: &SessionCommand) -> String {
    let request = serde_json::to_value(command).unwrap_or_default();
    request["do"]
        .as_str()
        .unwrap_or("a command")
        .replace('_', " ")
}

impl CommandQueue {
    /// Without a session (a replay), every command is dropped.
    pub(super) fn new(session: Option<SessionAddress>) -> Self {
        let (queued, to_send) = mpsc::unbounded_channel();
        let (answered, answers) = mpsc::unbounded_channel();
        let (enough, no_longer) = oneshot::channel();
        let sending = tokio::spawn(async move {
            match session {
                Some(session) => send_all(session, to_send, answered, no_longer).await,
                None => Vec::new(),
            }
        });
        Self {
            queued,
            answers,
            sending,
            enough,
        }
    }

    /// Sends these commands one after the other, until one is refused.
    pub(super) fn send(&self, commands: Vec<SessionCommand>) {
        // Fails for a past session, which accepts no commands.
        let _ = self.queued.send(commands);
    }

    /// The next answer to a command.
    pub(super) async fn answer(&mut self) -> ScreenEvent {
        match self.answers.recv().await {
            Some(msg) => msg,
            None => std::future::pending().await,
        }
    }

    /// Called when the screen closes: waits a moment for the commands on their way, and returns
    /// those that did not arrive.
    pub(super) async fn close(self) -> Vec<UndeliveredCommand> {
        let Self {
            queued,
            mut answers,
            mut sending,
            enough,
        } = self;
        drop(queued);
        let unsent = if let Ok(unsent) = tokio::time::timeout(FAREWELL, &mut sending).await {
            unsent
        } else {
            // Fails if the task has just finished by itself.
            let _ = enough.send(());
            sending.await
        };
        let mut left = Vec::new();
        while let Ok(msg) = answers.try_recv() {
            if let ScreenEvent::Refused(command, why) = msg {
                left.push(UndeliveredCommand::Refused(command, why));
            } else if let ScreenEvent::Unanswered(command, _) = msg {
                left.push(UndeliveredCommand::Unanswered(command));
            }
        }
        // If the task panicked, the panic is in the log.
        left.extend(unsent.unwrap_or_default());
        left
    }
}

/// Sends commands until the queue is closed or `enough` fires; returns those that did not arrive.
async fn send_all(
    session: SessionAddress,
    mut queued: mpsc::UnboundedReceiver<Vec<SessionCommand>>,
    answered: mpsc::UnboundedSender<ScreenEvent>,
    mut enough: oneshot::Receiver<()>,
) -> Vec<UndeliveredCommand> {
    while let Some(commands) = queued.recv().await {
        let mut commands = commands.into_iter();
        while let Some(command) = commands.next() {
            let answer = tokio::select! {
                answer = session.command(command.clone()) => answer,
                _ = &mut enough => {
                    let others = std::iter::from_fn(|| queued.try_recv().ok()).flatten();
                    let unsent = commands.chain(others).map(UndeliveredCommand::Unsent);
                    return std::iter::once(UndeliveredCommand::Unanswered(command)).chain(unsent).collect();
                }
            };
            let goes_on = answer.is_ok();
            // Fails if the screen has closed, which needs no answer.
            let _ = answered.send(match answer {
                Ok(()) => ScreenEvent::Accepted(command),
                Err(CommandError::Refused(why)) => ScreenEvent::Refused(command, why),
                Err(CommandError::Unanswered(why)) => ScreenEvent::Unanswered(command, why),
            });
            if !goes_on {
                break;
            }
        }
    }
    Vec::new()
}
