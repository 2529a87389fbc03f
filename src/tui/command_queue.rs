//! Carries what is asked to the session, and what it says back to the screen.
//!
//! # Invariants
//! - In the order in which it was asked for, one at a time.
//! - The screen never waits: a session that does not answer takes no key away, and no signal.
//! - Nothing is dropped without a word: what is not known to have arrived when the screen leaves is handed back.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::{model::SentDrafts, update::ScreenEvent};
use crate::{
    engine::input::SessionCommand,
    socket::{
        message::SessionRequest,
        session_client::{CommandError, SessionClient},
    },
};

/// Who leaves, waits so long for what was asked for last.
const FAREWELL: Duration = Duration::from_secs(1);

/// Whoever carries it.
#[derive(Debug)]
pub(super) struct CommandQueue {
    asked: mpsc::UnboundedSender<Vec<SessionCommand>>,
    told: mpsc::UnboundedReceiver<ScreenEvent>,
    way: JoinHandle<Vec<UndeliveredCommand>>,
    /// Says that nobody waits any longer.
    enough: oneshot::Sender<()>,
}

/// Something that was asked for and is not known to be done, now that nobody waits for it any more.
#[derive(Debug, PartialEq)]
pub(super) enum UndeliveredCommand {
    /// It was not sent.
    Unsent(SessionCommand),
    /// It was sent, and nobody answered.
    Unanswered(SessionCommand),
    /// It was refused, and why.
    Refused(SessionCommand, String),
}

impl UndeliveredCommand {
    /// What a person who has left is told about it: with what they wrote, if they did. That a session did not do at its end
    /// what a key asked for is no news.
    pub(super) fn words(&self, sent: &mut SentDrafts) -> Option<String> {
        let mut what = |command| sent.take(command).map(|editor| editor.text());
        match self {
            Self::Unsent(command) => Some(format!("not sent: {}", what(command).unwrap_or_else(|| name(command)))),
            Self::Unanswered(command) => {
                let what = what(command).unwrap_or_else(|| name(command));
                Some(format!("not answered, and it is not known whether it was taken: {what}"))
            }
            Self::Refused(command, why) => what(command).map(|text| format!("not taken, {why}: {text}")),
        }
    }
}

/// A command by the name that it has on the control socket.
fn name(command: &SessionCommand) -> String {
    let request = serde_json::to_value(SessionRequest::from(command.clone())).unwrap_or_default();
    request["do"].as_str().unwrap_or("a command").replace('_', " ")
}

impl CommandQueue {
    /// Between the screen and this session; of a past one nothing can be asked.
    pub(super) fn new(helm: Option<SessionClient>) -> Self {
        let (asked, to_carry) = mpsc::unbounded_channel();
        let (tell, told) = mpsc::unbounded_channel();
        let (enough, no_longer) = oneshot::channel();
        let way = tokio::spawn(async move {
            match helm {
                Some(helm) => carry(helm, to_carry, tell, no_longer).await,
                None => Vec::new(),
            }
        });
        Self { asked, told, way, enough }
    }

    /// Asks for these things, one after the other, until one is refused.
    pub(super) fn ask(&self, commands: Vec<SessionCommand>) {
        // Nobody takes what is asked of a past session.
        let _ = self.asked.send(commands);
    }

    /// What became of something that was asked for.
    pub(super) async fn told(&mut self) -> ScreenEvent {
        match self.told.recv().await {
            Some(msg) => msg,
            None => std::future::pending().await,
        }
    }

    /// The screen is about to leave. What was asked for last is still on its way, for a moment; gives what has not arrived.
    pub(super) async fn part(self) -> Vec<UndeliveredCommand> {
        let Self { asked, mut told, mut way, enough } = self;
        drop(asked);
        let unsent = if let Ok(carried) = tokio::time::timeout(FAREWELL, &mut way).await {
            carried
        } else {
            // It may have come to its end just now.
            let _ = enough.send(());
            way.await
        };
        let mut left = Vec::new();
        while let Ok(msg) = told.try_recv() {
            if let ScreenEvent::Refused(command, why) = msg {
                left.push(UndeliveredCommand::Refused(command, why));
            } else if let ScreenEvent::Unanswered(command, _) = msg {
                left.push(UndeliveredCommand::Unanswered(command));
            }
        }
        // One who panicked has told the log.
        left.extend(unsent.unwrap_or_default());
        left
    }
}

/// Carries until nothing more can come, or it is enough; gives what has not arrived.
async fn carry(
    helm: SessionClient,
    mut asked: mpsc::UnboundedReceiver<Vec<SessionCommand>>,
    tell: mpsc::UnboundedSender<ScreenEvent>,
    mut enough: oneshot::Receiver<()>,
) -> Vec<UndeliveredCommand> {
    while let Some(commands) = asked.recv().await {
        let mut commands = commands.into_iter();
        while let Some(command) = commands.next() {
            let answer = tokio::select! {
                answer = helm.command(command.clone()) => answer,
                _ = &mut enough => {
                    let others = std::iter::from_fn(|| asked.try_recv().ok()).flatten();
                    let unsent = commands.chain(others).map(UndeliveredCommand::Unsent);
                    return std::iter::once(UndeliveredCommand::Unanswered(command)).chain(unsent).collect();
                }
            };
            let goes_on = answer.is_ok();
            // A screen that has left wants no answer.
            let _ = tell.send(match answer {
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
