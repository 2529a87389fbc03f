//! One turn: the agent runs in the wanted conversation, gets the prompt, and its end is judged.
//!
//! # Invariants
//! - Whatever the agent does or prints, a turn ends: well, cancelled, or failed with a helpful
//!   message.
//! - If a cancelled turn does not end, creel ends the process. The next turn starts another one.

use std::time::Duration;

use agent_client_protocol::v1::schema::{self as s, SessionId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    AcpAgent, AcpTurn, TurnAbortReason,
    exchange::{self, AcpAnswer, AcpExchange, AcpRequestError, UpdateOrigin},
    translate,
};
use crate::{
    agents::{
        AgentObserver, TurnRequest, cancelled,
        failure::{self, FailureKind},
        limit, too_late,
    },
    engine::{
        conversation::{ConversationMode, StopReason, TurnEnd, TurnFailure},
        ids::TurnId,
        policy::UsageScope,
    },
    process::trace_context::{self, TracedWork},
};

/// How long a cancelled turn gets to end before creel ends the process.
const CANCEL_GRACE: Duration = Duration::from_secs(3);

/// The trace of a turn, where the protocol has a place for it: the agent's variables are those of
/// the session.
fn trace_of_turn(turn: TurnId) -> Option<s::Meta> {
    let parent = trace_context::parent_of(TracedWork::Turn(turn.0))?;
    Some(
        [("traceparent".to_owned(), parent.into())]
            .into_iter()
            .collect(),
    )
}

impl AcpAgent {
    pub(super) async fn one_turn(
        &mut self,
        request: TurnRequest,
        updates: &mut dyn AgentObserver,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, TurnFailure> {
        let deadline = limit(request.timeout).and_then(|limit| Instant::now().checked_add(limit));
        let mut turn = AcpTurn {
            updates,
            cancel,
            deadline,
            lost: false,
        };
        let played = self.play(&request, &mut turn).await;
        if let Some(running) = &self.running {
            running.link.attention.turn_away();
        }
        match played {
            Ok(end) => Ok(end),
            Err(TurnAbortReason::Cancelled) => Ok(cancelled()),
            Err(TurnAbortReason::TooLate) => Err(too_late(request.timeout)),
            Err(TurnAbortReason::Failed(failure)) => Err(failure),
        }
    }

    async fn play(
        &mut self,
        request: &TurnRequest,
        turn: &mut AcpTurn<'_>,
    ) -> Result<TurnEnd, TurnAbortReason> {
        if turn.cancel.is_cancelled() {
            return Err(TurnAbortReason::Cancelled);
        }
        if self
            .running
            .as_mut()
            .is_some_and(|running| running.link.is_gone())
        {
            self.bury().await;
        }
        let model = self.model_flag(request.model.as_deref());
        if let Some(running) = &self.running
            && running.started_with != model
        {
            self.bury().await;
        }
        self.leave_the_past(request.conversation, turn).await;
        self.start(model, turn).await?;
        let conversation = self.converse(request.conversation, turn).await?;
        self.set_options(&conversation, request.model.as_deref(), turn)
            .await?;
        self.prompt(request, conversation, turn).await
    }

    /// Before a new conversation, drops what the agent sent since its last turn. If the same
    /// conversation continues, [`Self::prompt`] handles that, and answers pending requests in its
    /// turn.
    async fn leave_the_past(&mut self, wanted: ConversationMode, turn: &mut AcpTurn<'_>) {
        let Some(running) = &mut self.running else {
            return;
        };
        if wanted == ConversationMode::Same && running.conversation.is_some() {
            return;
        }
        let (conversation, link) = (running.conversation.clone(), &mut running.link);
        AcpExchange::new(
            link,
            turn.updates,
            &mut self.services,
            UpdateOrigin::Live,
            conversation,
        )
        .leave_the_past()
        .await;
    }

    /// Sends one prompt and waits for the end of the turn.
    async fn prompt(
        &mut self,
        request: &TurnRequest,
        conversation: SessionId,
        turn: &mut AcpTurn<'_>,
    ) -> Result<TurnEnd, TurnAbortReason> {
        let Some(running) = &mut self.running else {
            return Err(TurnAbortReason::Failed(TurnFailure::new(
                "the agent has exited",
            )));
        };
        let mut stage = AcpExchange::new(
            &mut running.link,
            turn.updates,
            &mut self.services,
            UpdateOrigin::Live,
            Some(conversation.clone()),
        );
        stage.begin_turn().await;
        let complained = stage.link.complaints();
        let text = if turn.lost {
            self.place.with_goal(&request.text)
        } else {
            request.text.clone()
        };
        let content = vec![s::ContentBlock::from(text)];
        let prompt =
            s::PromptRequest::new(conversation.clone(), content).meta(trace_of_turn(request.turn));
        let mut asked = Box::pin(stage.link.ask(prompt));
        let answered = stage
            .until(&mut asked, Some(turn.cancel), turn.deadline)
            .await;
        let late = match &answered {
            Err(AcpRequestError::Cancelled) => Some(TurnAbortReason::Cancelled),
            Err(AcpRequestError::TooLate) => Some(TurnAbortReason::TooLate),
            Ok(_) | Err(_) => None,
        };
        let Some(stop) = late else {
            let answer = stage.answer.clone();
            return match answered {
                Ok(response) => self.conclude(&response, &answer),
                Err(broken) => Err(self.fail(broken, "failed during its turn").await),
            };
        };
        let silent = !stage.answer.anything && !stage.has_calls();
        let complaints = exchange::newer(&complained, stage.link.complaints());
        stage.link.cancel(&conversation);
        stage.unask();
        let patience = Instant::now() + CANCEL_GRACE;
        let ended = stage.until(&mut asked, None, Some(patience)).await;
        self.services.end_all();
        if !matches!(ended, Ok(_) | Err(AcpRequestError::Answered(_))) {
            drop(asked);
            self.bury().await;
        }
        match stop {
            TurnAbortReason::TooLate => {
                let late = if silent {
                    exchange::not_a_word(request.timeout)
                } else {
                    too_late(request.timeout)
                };
                Err(TurnAbortReason::Failed(failure::after_server_errors(
                    late,
                    &complaints,
                )))
            }
            TurnAbortReason::Cancelled | TurnAbortReason::Failed(_) => Err(stop),
        }
    }

    /// The agent ended its turn. Checks whether it failed or did nothing.
    fn conclude(
        &mut self,
        response: &s::PromptResponse,
        answer: &AcpAnswer,
    ) -> Result<TurnEnd, TurnAbortReason> {
        let spent = self
            .services
            .book
            .spent(response, self.known.usage.unwrap_or(UsageScope::Turn));
        let mut stop_reason = translate::stop_reason(response.stop_reason);
        let failed =
            |failure: TurnFailure| Err(TurnAbortReason::Failed(TurnFailure { spent, ..failure }));
        if let Some(message) = self
            .disguise
            .as_ref()
            .and_then(|pattern| pattern.find(&answer.last))
        {
            let failure = failure::explain(
                "the agent's answer was an error message",
                message,
                &self.known,
            );
            self.forget_if_full(message);
            return failed(failure);
        }
        if stop_reason == StopReason::Cancelled {
            // creel did not cancel the turn. An agent can end its turn this way after a refused
            // permission or a declined question.
            if !self.services.was_refused() {
                return failed(TurnFailure::new(
                    "the agent cancelled its turn without a request from creel",
                ));
            }
            stop_reason = StopReason::EndTurn;
        }
        if stop_reason == StopReason::EndTurn && !answer.anything && !self.services.book.has_calls()
        {
            let complaints = self
                .running
                .as_ref()
                .map(|running| running.link.complaints())
                .unwrap_or_default();
            let what = "the agent ended its turn without an answer or a tool call";
            return failed(if complaints.trim().is_empty() {
                let login = self.known.login.as_deref();
                TurnFailure::new(format!(
                    "{what}. Its model's server may have refused the request or the key. Run the agent by hand to see \
                     why{}",
                    login
                        .map(|how| format!(" (to log in: {how})"))
                        .unwrap_or_default()
                ))
            } else {
                failure::explain(what, &complaints, &self.known)
            });
        }
        self.first = None;
        Ok(TurnEnd {
            spent,
            ..TurnEnd::new(stop_reason)
        })
    }

    /// A full conversation cannot be continued.
    fn forget_if_full(&mut self, message: &str) {
        if FailureKind::of(message) == FailureKind::ContextFull {
            self.forget();
        }
    }
}
