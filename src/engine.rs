//! The rules of a session, as pure functions.
//!
//! ```text
//! Input ─▶ decide(&SessionState) ─▶ Event ─▶ journal ─▶ apply ─▶ SessionState
//!                               └─▶ Effect ─▶ runtime ─▶ result, as the next Input
//! ```
//!
//! The runtime passes an [`input`] to [`decide`], records and applies the [`event`]s that it
//! returns, performs the [`effect`]s, and then sends [`Input::Proceed`] until nothing is due. Each
//! step is small, so a session can resume after a crash from the state between any two steps.
//!
//! # Machines
//!
//! Each machine is a module with the same parts. Its state is a field of [`SessionState`]. Its
//! events are an enum of its own, which [`Event`] wraps. Its rules are the methods of
//! a context that [`session::contexts`] builds: a small struct of references to the parts of the
//! session that they depend on, for example [`verify::rules::VerifyRules`], or the whole session if
//! they depend on most of it, for example [`gate::answer::GateRules`]. Its `apply` stores what an
//! event says.
//!
//! - The main line: [`session`], [`turn`], [`hooks`], [`stop`], [`submit`], [`watch`].
//! - What goes into the next prompt, and when it is sent: [`pending`], [`retry`], [`usage_limit`],
//!   [`steering`].
//! - Where the user decides: [`gate`]. [`permission`], [`protect`] and [`budget`] open gates too;
//!   they have no events of their own and react to those of turns and gates.
//! - Beside the main line: [`tasks`], [`hooks::side_jobs`], [`gate::notices`],
//!   [`stop::agent_loop`].
//!
//! The other modules are types and texts that the machines share.
//!
//! # Invariants
//! - No I/O, no clock, no randomness: the same inputs give the same events and effects.
//! - Events are recorded and applied before the effects of their step are performed.
//! - A result with the ticket of an effect that the session no longer waits for changes nothing.

pub mod actor;
pub mod budget;
pub(crate) mod consequences;
pub mod conversation;
pub mod creel_tools;
pub mod effect;
pub mod event;
pub mod gate;
pub mod hooks;
pub mod ids;
pub mod input;
pub mod output;
pub mod pending;
pub mod permission;
pub mod policy;
pub mod protect;
pub mod question;
pub mod queue;
pub mod refusal;
pub mod retry;
pub mod session;
pub mod steering;
pub mod stop;
pub(crate) mod stored_form;
pub mod submit;
pub mod tasks;
pub mod time;
pub mod turn;
pub mod usage_limit;
pub mod verify;
pub mod watch;

use crate::engine::{
    conversation::ToolStatus,
    effect::Effect,
    event::{
        ActorKind, AutomationEvent, Event, FinalDeliveryMode, HookEvent, HookFinished,
        SessionEvent, SessionOutcome, SteeringEvent,
    },
    hooks::{
        dispatch::{self, HookDispatch},
        point::{BrokenHookPolicy, HookPoint},
        verdict::{self, HookReply, RunEnd, RunJudgement, RunResult},
    },
    ids::RunId,
    input::Input,
    tasks::record::HookErrorData,
    time::UnixTime,
    turn::{event::StoppedByHook, reports::CUT_OFF},
};

pub use crate::engine::output::EngineOutput;
pub use session::SessionState;

/// Decides what follows from an input. Pure: the state does not change, and the caller passes the
/// time.
pub fn decide(state: &SessionState, now: UnixTime, input: Input) -> EngineOutput {
    consequences::decided(state, now, step(state, now, input))
}

fn step(state: &SessionState, now: UnixTime, input: Input) -> EngineOutput {
    match input {
        Input::Proceed => state.proceed(now, None),
        Input::WorkMeasured(measured) => state.on_work_measured(now, &measured),
        Input::FilesCompared(found) => state.protect().on_compared(found),
        Input::HookFinished { run, result } => on_hook_finished(state, run, *result),
        Input::RuleChecked { run, result } => state.stop_rules().on_rule_checked(run, *result),
        Input::Agent { turn, update } => state.turn_rules().on_agent(turn, update),
        Input::PermissionAsked { turn, ask } => state.permissions().on_permission_asked(turn, ask),
        Input::ToolHookGone(ask) => state.permissions().on_tool_hook_gone(ask),
        Input::TurnEnded { turn, end } => state.turn_rules().on_turn_ended(turn, end),
        Input::TurnFailed { turn, failure } => {
            state.turn_rules().on_turn_failed(turn, failure, now)
        }
        Input::ProcessStarted { pid, started } => {
            EngineOutput::record(Event::Session(SessionEvent::ProcessStarted {
                pid,
                started,
            }))
        }
        Input::Warned(text) => EngineOutput::record(Event::warning(text)),
        Input::CannotContinue(reason) => on_cannot_continue(state, reason),
        Input::Command { by, command } => state.commands().on_command(&by, command, now),
        Input::Resume {
            presence,
            max_iterations,
            checkpoint,
            answer,
        } => {
            let resumed = state.on_resume(presence, max_iterations, checkpoint, answer.is_some());
            match answer {
                Some(answer) => state.answer_on_resume(now, resumed, answer),
                None => resumed,
            }
        }
        Input::ForgeRead {
            pull_request,
            result,
        } => state.watch_rules().on_read(now, &pull_request, *result),
        Input::NewsAnswered { answer, result } => {
            state.watch_rules().on_answered(now, &answer, result)
        }
        Input::Pipeline {
            pipeline,
            until_merged,
            presence,
        } => state
            .pipeline()
            .take_up_pipeline(pipeline, until_merged, presence),
    }
}

fn on_hook_finished(state: &SessionState, run: RunId, result: RunResult) -> EngineOutput {
    if state.tasks.automation.awaits(run) {
        return state.tasks.automation.on_automation_finished(run, result);
    }
    if state.tasks.flows.awaits(run) {
        return state.tasks.flows.on_step_finished(run, result);
    }
    if state.stop_rules().awaits_stop_hook(run) {
        return state.stop_rules().on_stop_hook_finished(run, result);
    }
    if let Some(step) = state.pipeline().review_read(run, &result) {
        return step;
    }
    let dispatches = state
        .phase
        .dispatch()
        .into_iter()
        .chain(state.beside().dispatches_beside());
    let awaited = |dispatch: &&HookDispatch| {
        dispatch
            .running
            .as_ref()
            .is_some_and(|running| running.run == run)
    };
    let Some((dispatch, running)) = dispatches
        .into_iter()
        .find(awaited)
        .and_then(|d| Some((d, d.running.as_ref()?)))
    else {
        return EngineOutput::stale(run);
    };
    let Some(spec) = state.plan().hook(dispatch.point, &running.hook) else {
        return EngineOutput::stale(run);
    };
    let again = state.beside().runs_again(dispatch, &result.end);
    let mut finished = HookFinished {
        run,
        point: dispatch.point,
        hook: running.hook.clone(),
        iteration: running.iteration,
        end: result.end,
        took_ms: result.took,
        verdict: verdict::Verdict::Pass,
        stdout: result.stdout,
        stderr: result.stderr,
        omitted_bytes: result.omitted_bytes,
        piped: false,
        reply: result.reply,
        decision: None,
        file: result.file,
        outcome: result.outcome,
        judged: None,
        tests: result.tests,
        tests_of: None,
        again,
    };
    let judged = verdict::judge(dispatch.point, spec, dispatch::view(&finished));
    if let Some(of) = dispatch.tests_of() {
        let ran = finished.in_clean_worktree(of, spec, &judged, result.changed_tests);
        return EngineOutput::record(Event::Hook(HookEvent::Finished(Box::new(ran))));
    }
    finished.verdict = judged.verdict;
    finished.judged = Some(judged.recorded());
    let by_hand = dispatch.cause == dispatch::DispatchCause::ByHand;
    // The agent's own hook gets the reason of a denial as its answer.
    let is_answered =
        judged.verdict == verdict::Verdict::Block && state.permissions().is_of_agent_hook(dispatch);
    finished.piped = !by_hand
        && !is_answered
        && dispatch::is_piped(
            spec,
            dispatch.point,
            dispatch::view(&finished),
            judged.verdict,
        );
    let broken_hook_event = broken_hook_event(dispatch, &finished, &judged);
    let stopped_by = (judged.stops && dispatch.point.is_in_turn()).then(|| StoppedByHook {
        point: dispatch.point,
        hook: finished.hook.clone(),
        run,
        reason: dispatch::needs_a_person(dispatch.point, &finished.hook, &judged),
    });
    let warning = state
        .beside()
        .escalation_warning(dispatch, &finished.hook, &judged);
    let messages = messages_of_hook(state, dispatch, &finished);
    let step = EngineOutput::record(Event::Hook(HookEvent::Finished(Box::new(finished))));
    let step = broken_hook_event
        .into_iter()
        .chain(warning)
        .chain(messages)
        .fold(step, EngineOutput::and);
    let last = (state.iterations.current, state.turns.last);
    match stopped_by {
        Some(by) => state.permissions().stop_turn(last, by, step),
        None => step,
    }
}

/// What a reply says to the user, and what the agent gets before the goal.
fn messages_of_hook(
    state: &SessionState,
    dispatch: &HookDispatch,
    finished: &HookFinished,
) -> Vec<Event> {
    let (hook, point) = (&finished.hook, finished.point);
    let reply = finished.reply.as_ref().filter(|reply| !reply.unreadable);
    let to_user = reply
        .and_then(|reply| reply.system_message.as_ref())
        .map(|text| Event::warning(format!("hook `{hook}` at {point} says: {text}")));
    let begins = point == HookPoint::SessionStart
        && dispatch.cause == dispatch::DispatchCause::Lifecycle
        && state.iterations.current == 0;
    let to_agent = reply
        .and_then(|reply| reply.initial_message.clone())
        .filter(|_| begins)
        .map(|text| {
            Event::Steering(SteeringEvent::MessageQueued {
                by: ActorKind::Hook.into(),
                text,
            })
        });
    to_user.into_iter().chain(to_agent).collect()
}

/// The additional event for a broken hook.
fn broken_hook_event(
    dispatch: &HookDispatch,
    finished: &HookFinished,
    judged: &RunJudgement,
) -> Option<Event> {
    if !judged.broken || finished.end == RunEnd::Cut {
        return None;
    }
    let HookFinished {
        hook, point, end, ..
    } = finished;
    let problem = finished.reply.as_ref().and_then(HookReply::problem);
    let what = match (end, problem) {
        (RunEnd::Exit(_), Some(problem)) => problem.to_owned(),
        (RunEnd::Exit(code), None) => format!("creel could not run its command (exit {code})"),
        (RunEnd::Signal(_) | RunEnd::TimedOut | RunEnd::SpawnFailed(_) | RunEnd::Cut, _) => {
            end.describe()
        }
    };
    match (point.rules().broken, &dispatch.cause) {
        (BrokenHookPolicy::HookError, dispatch::DispatchCause::Task(task)) => {
            Some(Event::Automation(AutomationEvent::HookError {
                task: task.id.clone(),
                data: HookErrorData {
                    hook_name: hook.clone(),
                    error: what,
                    original_event: None,
                },
                event: None,
            }))
        }
        (
            BrokenHookPolicy::Warn
            | BrokenHookPolicy::HookError
            | BrokenHookPolicy::Block
            | BrokenHookPolicy::Escalate,
            _,
        ) => Some(Event::warning(format!("hook `{hook}` at {point}: {what}"))),
    }
}

/// The project's folder or the disk is gone: the agent cannot work any more.
fn on_cannot_continue(state: &SessionState, reason: String) -> EngineOutput {
    if state.ending.is_some() || state.phase.outcome().is_some() {
        return EngineOutput::record(Event::warning(reason));
    }
    let cancel = state
        .phase
        .turn_in_flight()
        .map(|prompt| Effect::CancelTurn(prompt.turn));
    let closed = state
        .turn_rules()
        .close_calls(ToolStatus::Failed, CUT_OFF)
        .fold(EngineOutput::default(), EngineOutput::and);
    let step = closed.and(Event::Session(SessionEvent::LoopEnded {
        outcome: SessionOutcome::Failed,
        reason,
        delivery: FinalDeliveryMode::No,
    }));
    cancel.into_iter().fold(step, EngineOutput::then)
}
