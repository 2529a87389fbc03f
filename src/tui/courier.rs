//! Carries what is asked to the session, and what it says back to the screen.
//!
//! # Invariants
//! - In the order in which it was asked for, one at a time.
//! - The screen never waits: a session that does not answer takes no key away, and no signal.

use std::time::Duration;

use tokio::{sync::mpsc, task::JoinHandle};

use super::update::Msg;
use crate::{
    control::helm::{Helm, Unheeded},
    engine::input::Command,
};

/// Who leaves, waits so long for what was asked for last.
const FAREWELL: Duration = Duration::from_secs(1);

/// Whoever carries it.
#[derive(Debug)]
pub(super) struct Courier {
    asked: mpsc::UnboundedSender<Vec<Command>>,
    told: mpsc::UnboundedReceiver<Msg>,
    way: JoinHandle<()>,
}

impl Courier {
    /// Between the screen and this session; of a past one nothing can be asked.
    pub(super) fn new(helm: Option<Helm>) -> Self {
        let (asked, to_carry) = mpsc::unbounded_channel();
        let (tell, told) = mpsc::unbounded_channel();
        let way = tokio::spawn(async move {
            if let Some(helm) = helm {
                carry(helm, to_carry, tell).await;
            }
        });
        Self { asked, told, way }
    }

    /// Asks for these things, one after the other, until one is refused.
    pub(super) fn ask(&self, commands: Vec<Command>) {
        // Nobody takes what is asked of a past session.
        let _ = self.asked.send(commands);
    }

    /// What became of something that was asked for.
    pub(super) async fn told(&mut self) -> Msg {
        match self.told.recv().await {
            Some(msg) => msg,
            None => std::future::pending().await,
        }
    }

    /// The screen is about to leave. What was asked for last is still on its way.
    pub(super) async fn part(self) {
        drop(self.asked);
        let _ = tokio::time::timeout(FAREWELL, self.way).await;
    }
}

async fn carry(helm: Helm, mut asked: mpsc::UnboundedReceiver<Vec<Command>>, tell: mpsc::UnboundedSender<Msg>) {
    while let Some(commands) = asked.recv().await {
        for command in commands {
            let answer = helm.command(command.clone()).await;
            let goes_on = answer.is_ok();
            // A screen that has left wants no answer.
            let _ = tell.send(match answer {
                Ok(()) => Msg::Accepted(command),
                Err(Unheeded::Refused(why)) => Msg::Refused(command, why),
                Err(Unheeded::Unanswered(why)) => Msg::Unanswered(command, why),
            });
            if !goes_on {
                break;
            }
        }
    }
}
