//! The text of every refusal.

use crate::{
    engine::{
        actor::{ActorKind, UserCommand},
        event::SessionOutcome,
        gate::kind::GateChoice,
        ids::{GateId, ItemId},
        refusal::{ByHandObstacle, Refusal},
        stop::{agent_loop::LoopRefusal, context::Promise},
        submit::kind::PipelineKind,
    },
    text::counted,
};

/// Why the session refused a command, for people.
pub fn text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::StaleTicket(ticket) => format!("the session does not wait for an answer with ticket {ticket}"),
        Refusal::SessionEnded(Some(outcome)) => {
            format!("the session has ended ({})", outcome_name(*outcome))
        }
        Refusal::SessionEnded(None) => "the session has ended".into(),
        Refusal::SessionEnding => "the session is ending and will not prompt the agent again".into(),
        Refusal::NotAllowed { actor, command } => not_allowed(*actor, *command),
        Refusal::AlreadyPaused => "the session is already paused".into(),
        Refusal::NotPaused => "the session is not paused".into(),
        Refusal::NotTheAgent => {
            "only the session's own agent asks this, through the hook that creel added to it".into()
        }
        Refusal::AlreadyStopping => "the session is already stopping".into(),
        Refusal::AlreadyCompleting => "the session is already completing".into(),
        Refusal::NoTurn => "no turn is running".into(),
        Refusal::NoSuchRun(run) => format!("run {run} is not running"),
        Refusal::EmptyMessage => "the message is empty".into(),
        Refusal::EmptyGateMessage => "the message is empty; write it in quotes after the answer".into(),
        Refusal::SelfDriven => "the agent of this session drives itself and gets no prompts".into(),
        Refusal::NoSuchItem(id) => format!("there is no pending item {id}"),
        Refusal::ItemInFlight(id) => format!("item {id} is already with the agent"),
        Refusal::ItemDelivered(id) => format!("item {id} was already delivered"),
        Refusal::ItemAlreadySkipped(id) => format!("item {id} is already skipped"),
        Refusal::ItemNotSkipped(id) => format!("item {id} is not skipped"),
        Refusal::NoSuchHook(hook) => format!("unknown hook `{hook}`"),
        Refusal::NotRunByHand { hook, why } => not_by_hand(hook, *why),
        Refusal::NoSuchGate(id) => format!("there is no gate {id}"),
        Refusal::GateAlreadyAnswered(id) => format!("gate {id} was already answered"),
        Refusal::ChoiceNotOffered { gate, choice, offered } => not_offered(*gate, *choice, offered),
        Refusal::ItemNotAtGate { gate, item } => item_not_at_gate(*gate, *item),
        Refusal::NoSuchOption { gate, choice, option, known } => {
            format!("gate {gate} has no option `{option}` to {}; use one of: {}", choice.name(), known.join(", "))
        }
        Refusal::BadAnswer { gate, why } => format!("this is no answer to gate {gate}: {why}"),
        Refusal::BadProposal(mistakes) => {
            let mistakes = mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            format!("these tasks cannot be queued: {mistakes}")
        }
        Refusal::NoUsageLimit => "the session does not wait for a usage limit".into(),
        Refusal::UsageLimitGate(id) => format!("gate {id} asks about this; answer it"),
        Refusal::AgentWorksAlready(agent) => format!("`{agent}` is already working"),
        Refusal::NoFallbackAgent => {
            "there is no other agent to switch to; add agents in `limits: { fallback: [AGENT] }` or with `--agent A,B`"
                .into()
        }
        Refusal::NoSuchModel { model, offered } if offered.is_empty() => {
            format!("creel cannot choose the model `{model}` for this agent; add `flags: {{ model: … }}` to its entry")
        }
        Refusal::NoSuchModel { model, offered } => {
            format!("the agent has no model `{model}`; use one of: {}", offered.join(", "))
        }
        Refusal::UnknownFallbackAgent { agent, known } => {
            format!("there is no fallback agent `{agent}`; use one of: {}", known.join(", "))
        }
        Refusal::PipelineRunning(pipeline) => format!("a {} is already running", pipeline.name()),
        Refusal::PipelineRequested(pipeline) => pipeline_requested(*pipeline),
        Refusal::PipelineWhileEnding(pipeline) => {
            format!("the session is ending; run `creel {}` again when it has ended", pipeline.name())
        }
        Refusal::SessionNotEnded => "the session has not ended; continue it with `creel resume`".into(),
        Refusal::SessionComplete => {
            "the session has ended, so there is nothing to resume; start a new one with `creel run`".into()
        }
        Refusal::NothingToAnswer => {
            "the session has not stopped at a gate, so there is nothing to answer; resume it without `--answer`".into()
        }
        Refusal::IterationLimitUsed(used) => {
            format!(
                "the session has used its limit of {}; raise it with `--max-iterations`",
                counted(*used, "iteration")
            )
        }
        Refusal::NoSuchCheckpoint { number, last } => {
            let known = last.map_or_else(|| "it has none".into(), |last| format!("the last one is {last}"));
            format!("the session has no checkpoint {number}; {known}")
        }
        Refusal::TooManyStopHooks { task, limit } => {
            format!("{task} already has {limit} stop hooks, the maximum; clear them first")
        }
        Refusal::Task(refusal) => refusal.to_string(),
        Refusal::Loop(refusal) => about_loop(refusal),
    }
}

const fn outcome_name(outcome: SessionOutcome) -> &'static str {
    match outcome {
        SessionOutcome::Complete => "complete",
        SessionOutcome::Forced => "forced",
        SessionOutcome::Unverified => "not verified",
        SessionOutcome::Limit => "limit",
        SessionOutcome::Escalated => "escalated",
        SessionOutcome::Aborted => "aborted",
        SessionOutcome::Failed => "failed",
        SessionOutcome::Cancelled => "cancelled",
    }
}

fn not_allowed(actor: ActorKind, command: UserCommand) -> String {
    let whom = [
        (ActorKind::Hook, "a hook"),
        (ActorKind::OtherSession, "the agent of another session"),
    ];
    let whom = whom
        .iter()
        .find(|(kind, _)| *kind == actor)
        .map_or("the agent", |(_, whom)| whom);
    let what = match command {
        UserCommand::Pause => "pause the session",
        UserCommand::Unpause => "unpause the session",
        UserCommand::Message if actor == ActorKind::OtherSession => "queue messages",
        UserCommand::Message => "queue more than one message per turn",
        UserCommand::Cancel => "cancel a turn",
        UserCommand::Stop => "stop the session",
        UserCommand::Pending => "change pending items",
        UserCommand::Gate => "answer gates",
        UserCommand::Hooks => "run, cancel, enable or disable hooks",
        UserCommand::Submit => "submit the work",
        UserCommand::Merge => "merge the work",
        UserCommand::Run => "start sessions",
        UserCommand::Worker => "start a worker",
        UserCommand::Init => "write the config",
        UserCommand::Task => "change tasks of the queue or of another session",
        UserCommand::Worktree => "remove worktrees",
        UserCommand::Prune => "delete sessions",
    };
    let name = command.name();
    format!(
        "{whom} may not {what}: only the user may. Allow it with `agent_may: [{name}]` in the config"
    )
}

fn not_by_hand(hook: &str, why: ByHandObstacle) -> String {
    let why = match why {
        ByHandObstacle::ChecksTurns => "checks each turn; you cannot run it by hand",
        ByHandObstacle::DecidesIterations => {
            "decides about an iteration; you cannot run it without one"
        }
        ByHandObstacle::AnswersTaskEvents => {
            "answers events of tasks; you cannot run it without one"
        }
        ByHandObstacle::SeesToolCalls => {
            "is for tool calls and questions of the agent; you cannot run it without one"
        }
        ByHandObstacle::ReviewsPipelines => {
            "is a review, and runs only as part of a submit or a merge"
        }
    };
    format!("`{hook}` {why}")
}

fn not_offered(gate: GateId, choice: GateChoice, offered: &[GateChoice]) -> String {
    let known = offered
        .iter()
        .map(|choice| choice.name())
        .collect::<Vec<_>>()
        .join(", ");
    format!(
        "gate {gate} does not accept `{}`; use one of: {known}",
        choice.name()
    )
}

fn item_not_at_gate(gate: GateId, item: ItemId) -> String {
    format!("gate {gate} does not include item {item}")
}

fn pipeline_requested(pipeline: PipelineKind) -> String {
    format!(
        "you already requested a {}; it starts after this iteration",
        pipeline.name()
    )
}

fn about_loop(refusal: &LoopRefusal) -> String {
    match refusal {
        LoopRefusal::NoIterations => "a loop needs at least one iteration".into(),
        LoopRefusal::UnknownTask {
            task,
            near,
            session,
        } => {
            let meant = near.as_ref().map_or_else(String::new, |near| {
                format!("did you mean `{near}`? Otherwise ")
            });
            format!(
                "there is no task {task}: {meant}create it with task_add first, or use `{session}` for the whole session"
            )
        }
        LoopRefusal::LoopExists {
            task,
            loop_id,
            iteration,
        } => {
            format!(
                "{task} already has a loop: {loop_id}, in iteration {iteration}; continue it, or complete it"
            )
        }
        LoopRefusal::NoSuchLoop(id) => {
            format!("there is no iteration {id}; start one first, and use its id")
        }
        LoopRefusal::LoopOver { loop_id, task } => {
            format!(
                "{loop_id} has ended: its task {task} needs no more iterations; start a new loop if it does"
            )
        }
        LoopRefusal::BeingJudged(id) => format!("{id} is being evaluated; wait for that answer"),
        LoopRefusal::LimitUsed { loop_id, limit } => format!(
            "{loop_id} has used its limit of {}, and the work is not done: report to the user what blocks you",
            counted(*limit, "iteration")
        ),
        LoopRefusal::Escalated(id) => format!("{id} waits for the user: its task is blocked"),
        LoopRefusal::NotCompletedWhileEscalated(id) => format!(
            "{id} waits for the user: its task is blocked and not completed; end your turn, or complete the iteration \
             with {}",
            Promise::Blocked
        ),
        LoopRefusal::JudgedComplete(id) => {
            format!("{id} is already evaluated as complete: complete it")
        }
        LoopRefusal::NotJudgedComplete { loop_id, last } => {
            let last = last.as_ref().map_or(
                "it has not been evaluated".to_owned(),
                |(action, reason)| {
                    format!(
                        "its last evaluation said {}: {reason}",
                        action.name().to_uppercase()
                    )
                },
            );
            format!(
                "{loop_id} is not complete: {last}. Evaluate the iteration with iteration_validate, and complete it \
                 when that says COMPLETE; hook_register sets what decides"
            )
        }
        LoopRefusal::EndedUnjudged(id) => format!("{id} ended before it was evaluated"),
        LoopRefusal::SessionOverUnjudged => "the session ended before it was evaluated".into(),
    }
}
