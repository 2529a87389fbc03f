//! A short description of what a session is doing, for lists and status lines.

use crate::engine::{
    conversation::LimitCause,
    event::{PromptReason, SessionOutcome, StopTiming},
    hooks::{dispatch::HookDispatch, point::HookPoint},
    session::{SessionState, phase::Phase},
};

impl SessionOutcome {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Forced => "forced",
            Self::Unverified => "unverified",
            Self::Limit => "limit",
            Self::Escalated => "escalated",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl SessionState {
    /// What an agent that drives itself has to mend before it can complete the session. None while
    /// the checks run, and if none of them is red.
    pub fn completion_refused(&self) -> Option<&str> {
        let decided = self.plan().is_led_from_outside() && !self.commands().is_being_completed();
        self.verify
            .feedback
            .as_ref()
            .filter(|_| decided)
            .map(|feedback| feedback.text.as_str())
    }

    /// What the session is doing, in words.
    pub fn doing(&self) -> String {
        if let Some(outcome) = self.phase.outcome() {
            return outcome.name().into();
        }
        if let Some(gate) = &self.gates.open {
            return format!("needs you: {}", gate.kind().name().replace('_', " "));
        }
        if self.steering.paused && self.phase.turn_in_flight().is_none() {
            return "paused".into();
        }
        let then = match (self.steering.paused, self.steering.stop) {
            (true, _) => "; pauses then",
            (false, Some(StopTiming::AfterIteration)) => "; stops after this iteration",
            (false, Some(StopTiming::Now)) => "; stops now",
            (false, None) => "",
        };
        let silent = if self.turns.silent {
            format!(", silent for more than {}", self.plan().limits.silence)
        } else {
            String::new()
        };
        format!("{}{silent}{then}", doing_now(self))
    }
}

fn repairs(session: &SessionState) -> String {
    let Some(course) = &session.pipelines.course else {
        return "the agent works".into();
    };
    let limit = session.plan().submit.remediation_attempts;
    format!(
        "the agent repairs what blocked the {}, {} of {limit}",
        course.pipeline.name(),
        course.used
    )
}

fn doing_now(session: &SessionState) -> String {
    match &session.phase {
        // creel has nothing to do until the agent that the user runs calls a tool.
        Phase::Hooks(HookDispatch {
            point: HookPoint::SessionStart,
            running: None,
            ..
        })
        | Phase::Between
            if session.plan().is_led_from_outside() =>
        {
            "the agent drives it".into()
        }
        Phase::Hooks(dispatch) => match &dispatch.running {
            Some(running) => format!("runs `{}` at {}", running.hook, dispatch.point),
            None => format!("at {}", dispatch.point),
        },
        Phase::Turn(prompt) => match prompt.reason {
            PromptReason::Iteration => "the agent works".into(),
            PromptReason::Feedback => {
                format!("the agent works on feedback, retry {}", session.retry.used)
            }
            PromptReason::Recovery => "the agent recovers from an error".into(),
            PromptReason::FinalDelivery => "the agent reads the final delivery".into(),
            PromptReason::Message => "the agent answers a message".into(),
            PromptReason::Remediation => repairs(session),
            PromptReason::Gatekeeper => {
                format!(
                    "`{}` reviews the change",
                    prompt.agent.as_deref().unwrap_or("a gatekeeper")
                )
            }
        },
        Phase::Judging(judging) => match (judging.checking.as_slice(), &judging.running) {
            (_, Some(running)) => format!("asks `{}` whether to continue", running.hook),
            ([one], None) => format!("checks the rule `{}`", one.hook),
            ([], None) => "evaluates the iteration".into(),
            (some, None) => format!("checks {} rules", some.len()),
        },
        Phase::Due(_)
            if session
                .limits
                .hold
                .as_ref()
                .is_some_and(|hold| hold.cause == LimitCause::Outage) =>
        {
            format!(
                "waits until `{}` reaches its server",
                session.agent_choice().agent()
            )
        }
        Phase::Due(_) if session.limits.hold.is_some() => {
            format!(
                "waits for the usage limit of `{}` to reset",
                session.agent_choice().agent()
            )
        }
        Phase::Due(_)
        | Phase::Settled(_)
        | Phase::Between
        | Phase::Escalated(_)
        | Phase::Exit(_)
        | Phase::Pipeline
        | Phase::Errand(_) => "continues".into(),
        Phase::Delivering => "sends pending items".into(),
        Phase::Ended(outcome) => outcome.name().into(),
    }
}
