//! A session as clients see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{NatsStatus, request::ItemFilter};
use crate::{
    engine::{
        SessionState,
        conversation::{AgentPermissionRequest, PermissionAnswer},
        event::{Event, SessionOutcome, StopEvent, StopTiming},
        gate::{
            Gate,
            kind::{GateChoice, GateKind},
        },
        hooks::{HookState, point::HookPoint},
        ids::{GateId, ItemId, RunId, TurnId},
        pending::{ItemState, PendingItem},
        permission::{HookAnswer, OfferedAnswer},
        policy::{
            AutomationHook, HookAction, HookSpec, PipeOutput, StopHook, StopHookKind, StopPlan,
        },
        question::AgentQuestion,
        queue::task_proposal::ProposedTask,
        stop::{agent_loop::AgentLoop, context::Promise, decision::StopAction, event::Checkpoint},
        tasks::builtin::BuiltinAutomation,
        time::{TimeSpan, UnixTime, as_rfc3339, rfc3339_or_none},
        watch::forge::NewsSource,
    },
    present::{gate_words::GateFigures, policies, session_chip::doing},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    pub session: String,
    /// One word: running, paused, waiting (for the user), or how it ended.
    pub state: String,
    /// A short text.
    pub doing: String,
    pub iteration: u32,
    pub max_iterations: u32,
    /// The turn that is in flight.
    pub turn: Option<TurnId>,
    #[serde(flatten)]
    pub counts: StatusCounts,
    /// Whether no further prompt is sent.
    pub paused: bool,
    /// Set if the session was asked to stop.
    pub stopping: Option<StopTiming>,
    pub gate: Option<GateView>,
    /// The runs in progress.
    pub running: Vec<RunId>,
    pub agent: String,
    /// The model of the last prompt, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the agent is self-driven, and is sent no prompts.
    #[serde(default)]
    pub led_from_outside: bool,
    /// Why a self-driven agent could not complete the session: the feedback of a red check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_refused: Option<String>,
    /// The project's folder.
    pub cwd: String,
    pub started: String,
    /// The process that runs it.
    pub pid: u32,
    /// `None` while the session runs.
    pub outcome: Option<SessionOutcome>,
    /// The number of its last record.
    pub seq: u64,
    /// The branch that is checked out in its worktree, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// In dollars, as far as it is known.
    #[serde(default)]
    pub cost: f64,
    /// The part of it that creel estimated.
    #[serde(default)]
    pub cost_estimated: f64,
    /// How many turns have ended, and how many of them the cost lacks.
    #[serde(default)]
    pub turns: u32,
    #[serde(default)]
    pub turns_without_cost: u32,
    /// The usage limit that the session waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_limit: Option<LimitView>,
    /// `None` if the session has no NATS server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<NatsStatus>,
}

/// What has gone wrong lately, and what waits for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCounts {
    /// The retries since the last new message.
    pub retries: u32,
    pub max_retries: u32,
    /// The number of failed turns in a row.
    pub errors: u32,
    /// The number of items that go with the next prompt.
    pub pending: usize,
    /// The number of messages that wait for the agent.
    pub messages: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitView {
    /// The agent whose limit it is.
    pub agent: String,
    /// When it resets, if that is known.
    #[serde(
        default,
        with = "rfc3339_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub resets_at: Option<UnixTime>,
    /// When the session resumes.
    #[serde(with = "as_rfc3339")]
    pub until: UnixTime,
}

/// A gate that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateView {
    pub gate: GateId,
    pub about: GateKind,
    /// Why the session waits, as text for the user.
    pub reason: String,
    /// The answers that it accepts.
    pub choices: Vec<GateChoice>,
    /// How many retries `continue` grants at a retry limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// The prompt that hooks keep back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Whether a message is sent instead of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces_prompt: bool,
    /// The hook that it is about.
    pub hook: Option<String>,
    /// The pending items that it is about.
    pub items: Vec<ItemId>,
    /// The answers that the agent offers at a permission gate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<OptionView>,
    /// What the agent asks at a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<AgentQuestion>,
    /// The tasks that the agent proposes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<ProposedTask>,
    pub opened: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptionView {
    /// The agent's own name for it.
    pub id: String,
    /// The agent's text for the user.
    pub name: String,
    /// The choice that selects it.
    pub choice: GateChoice,
}

/// An item of pending hook output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemView {
    pub item: ItemId,
    pub state: ItemState,
    /// The hook point of the run that printed it.
    pub point: HookPoint,
    pub hook: String,
    /// Set if it is from a forge.
    #[serde(flatten)]
    pub news: Option<Box<NewsSource>>,
    pub run: RunId,
    pub iteration: u32,
    /// Whether the user changed it.
    pub edited: bool,
    /// The length of its text, in bytes.
    pub bytes: usize,
    /// The text for the agent. `None` in lists, and after it was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookView {
    pub point: HookPoint,
    pub hook: String,
    /// The command, or a description in parentheses.
    pub runs: String,
    /// Whether it runs when its point is reached.
    pub enabled: bool,
    /// Its order among the hooks of its point: lower runs first.
    pub priority: i64,
    pub timeout_ms: TimeSpan,
    /// Whether its output goes to the agent.
    pub pipe_output: PipeOutput,
}

impl StatusView {
    /// The session after the record `seq`, as far as its records say.
    pub fn of(state: &SessionState, seq: u64) -> Self {
        let total = state.account.used.cost;
        Self {
            session: state.name.clone(),
            state: word(state).to_owned(),
            doing: doing(state),
            iteration: state.iterations.current,
            max_iterations: state.max_iterations(),
            turn: state.phase.turn_in_flight().map(|prompt| prompt.turn),
            counts: StatusCounts {
                retries: state.retry.used,
                max_retries: state.retries().retry_limit(),
                errors: state.retry.errors,
                pending: state.pending.waiting().count(),
                messages: state.steering.messages.len(),
            },
            paused: state.steering.paused,
            stopping: state.steering.stop,
            gate: gates(state).into_iter().next(),
            running: state.commands().running().collect(),
            agent: state.agent_choice().agent().to_owned(),
            model: state.turns.model.clone(),
            led_from_outside: state.plan().is_led_from_outside(),
            completion_refused: state.completion_refused().map(str::to_owned),
            cwd: state.began.cwd.clone(),
            started: state.started.rfc3339(),
            pid: std::process::id(),
            outcome: state.phase.outcome(),
            seq,
            branch: None,
            cost: total.known,
            cost_estimated: total.estimated,
            turns: total.turns,
            turns_without_cost: total.unknown_turns,
            usage_limit: state.limits.hold.as_ref().map(|hold| LimitView {
                agent: hold.agent.clone(),
                resets_at: hold.resets_at,
                until: hold.until,
            }),
            nats: None,
        }
    }
}

fn word(state: &SessionState) -> &'static str {
    match state.phase.outcome() {
        Some(outcome) => outcome.name(),
        None if state.gates.open.is_some() => "waiting",
        None if state.steering.paused => "paused",
        None => "running",
    }
}

/// The open gates. There is at most one, but clients need not rely on that.
pub fn gates(state: &SessionState) -> Vec<GateView> {
    state
        .gates
        .open
        .iter()
        .map(|gate| gate_view(state, gate))
        .collect()
}

fn gate_view(state: &SessionState, gate: &Gate) -> GateView {
    let ask = state.permissions().asked_at(gate);
    let offered = ask.map(|ask| ask.offers(gate)).unwrap_or_default();
    let options = offered
        .into_iter()
        .map(|OfferedAnswer { id, name, choice }| OptionView { id, name, choice });
    let figures = GateFigures::of(state, gate);
    GateView {
        gate: gate.id,
        about: gate.kind(),
        reason: gate.reason.clone(),
        choices: gate.choices.clone(),
        retries: figures.retries,
        prompt: state
            .prompt_kept_back_at(gate)
            .map(|prompt| prompt.text.clone()),
        replaces_prompt: figures.replaces_prompt,
        hook: gate.subject.hook().map(str::to_owned),
        items: gate.subject.items().to_vec(),
        options: options.collect(),
        question: ask.and_then(AgentPermissionRequest::question).cloned(),
        tasks: gate
            .subject
            .proposal()
            .map(|proposal| proposal.tasks.clone())
            .unwrap_or_default(),
        opened: gate.opened.rfc3339(),
    }
}

/// The pending items, oldest first.
pub fn items(state: &SessionState, which: ItemFilter) -> Vec<ItemView> {
    let wanted =
        |item: &&PendingItem| which == ItemFilter::All || item.state != ItemState::Delivered;
    state
        .pending
        .items()
        .iter()
        .filter(wanted)
        .map(ItemView::of)
        .collect()
}

impl ItemView {
    /// An item without its text.
    pub fn of(item: &PendingItem) -> Self {
        Self {
            item: item.id,
            state: item.state,
            point: item.source.point,
            hook: item.source.hook.clone(),
            news: item.source.news.clone(),
            run: item.source.run,
            iteration: item.source.iteration,
            edited: item.edited,
            bytes: item.text.len(),
            text: None,
        }
    }

    /// An item with its text.
    pub fn whole(item: &PendingItem) -> Self {
        let text = (item.state != ItemState::Delivered).then(|| item.text.clone());
        Self {
            text,
            ..Self::of(item)
        }
    }
}

/// The hooks of a plan, point by point, in the order in which they run.
pub fn hooks(plan: &BTreeMap<HookPoint, Vec<HookSpec>>, book: &HookState) -> Vec<HookView> {
    let at = |point: HookPoint| {
        let mut specs: Vec<&HookSpec> = plan.get(&point).into_iter().flatten().collect();
        specs.sort_by_key(|spec| spec.priority);
        specs
            .into_iter()
            .map(move |spec| HookView::of(point, spec, book.is_enabled(point, spec)))
    };
    HookPoint::ALL.into_iter().flat_map(at).collect()
}

/// The automation hooks, in the order in which they run. Leaves out built-in ones that are as their
/// preset says.
pub fn automation_hooks(plan: &[AutomationHook], book: &HookState) -> Vec<HookView> {
    let mut specs: Vec<&HookSpec> = plan.iter().map(|hook| &hook.spec).collect();
    specs.sort_by_key(|spec| spec.priority);
    let views = specs
        .into_iter()
        .map(|spec| (spec, book.is_enabled(HookPoint::Automation, spec)));
    let unusual = views.filter(|(spec, enabled)| !is_as_always(spec, *enabled));
    unusual
        .map(|(spec, enabled)| HookView::of(HookPoint::Automation, spec, enabled))
        .collect()
}

fn is_as_always(spec: &HookSpec, enabled: bool) -> bool {
    let HookAction::Builtin(call) = &spec.action else {
        return false;
    };
    let preset = BuiltinAutomation::named(&call.name).map(BuiltinAutomation::preset);
    preset.is_some_and(|preset| preset.enabled == enabled && preset.priority == spec.priority)
}

/// The stop decision hooks: those of the config, then those that were registered.
pub fn stop_hooks(plan: &StopPlan, state: Option<&SessionState>) -> Vec<HookView> {
    let registered = state
        .into_iter()
        .flat_map(|state| &state.stop.registered)
        .map(|known| &known.hook);
    let is_on =
        |hook: &StopHook| state.map_or(hook.enabled, |state| state.hooks.stop_hook_is_on(hook));
    plan.listed()
        .iter()
        .chain(registered)
        .map(|hook| HookView::stop(hook, is_on(hook)))
        .collect()
}

impl HookView {
    fn stop(hook: &StopHook, enabled: bool) -> Self {
        let (runs, timeout_ms) = match &hook.judge {
            StopHookKind::Preset(preset) => {
                (format!("(preset: {})", preset.name()), TimeSpan::default())
            }
            StopHookKind::Command { command, timeout } => (command.clone(), *timeout),
            StopHookKind::Fixed(result) => (
                format!("({})", policies::action(result.action)),
                TimeSpan::default(),
            ),
            StopHookKind::All(parts) => (format!("(all of {})", named(parts)), TimeSpan::default()),
            StopHookKind::Any(parts) => (format!("(any of {})", named(parts)), TimeSpan::default()),
        };
        let (point, hook) = (HookPoint::StopDecision, hook.name.clone());
        Self {
            point,
            hook,
            runs,
            enabled,
            priority: 100,
            timeout_ms,
            pipe_output: PipeOutput::Never,
        }
    }

    pub fn of(point: HookPoint, spec: &HookSpec, enabled: bool) -> Self {
        let runs = match &spec.action {
            HookAction::Command(_) | HookAction::Exec(_) => spec.action.describe(),
            HookAction::Builtin(call) => format!("(built in: {})", call.describe()),
            HookAction::Gatekeeper(agents) => format!("(review by {})", agents.join(", ")),
        };
        Self {
            point,
            hook: spec.name.clone(),
            runs,
            enabled,
            priority: spec.priority,
            timeout_ms: spec.timeout,
            pipe_output: spec.pipe_output,
        }
    }
}

fn named(parts: &[StopHook]) -> String {
    parts
        .iter()
        .map(|part| part.name.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopHookView {
    pub id: String,
    /// The task's id, or the session's name if the hook is for the session.
    pub task: String,
    pub preset: String,
    pub enabled: bool,
    /// Data of the client that registered it. creel does not use it.
    pub metadata: Map<String, Value>,
}

/// A loop of a self-driven agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopView {
    pub id: String,
    pub task: String,
    /// The current iteration, from 1.
    pub iteration: u32,
    pub max_iterations: u32,
    /// The promises that count. Empty means all.
    pub promises: Vec<Promise>,
    pub is_over: bool,
    /// The last decision about the current iteration.
    pub decided: Option<StopAction>,
}

/// The result of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleView {
    pub rule: String,
    pub passed: bool,
    /// What the check found.
    pub message: String,
    pub took_ms: TimeSpan,
}

/// What the session decided about a call that its agent is about to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolDecisionView {
    Allow,
    /// Why the call must not run.
    Deny(String),
    /// The agent continues by its own rules.
    Undecided,
}

impl ToolDecisionView {
    pub fn of(answer: PermissionAnswer) -> Self {
        match answer {
            PermissionAnswer::Selected(option) if option == HookAnswer::ALLOW => Self::Allow,
            PermissionAnswer::Selected(_) => Self::Deny("the user does not allow it".to_owned()),
            PermissionAnswer::Refused(reason) => Self::Deny(reason),
            PermissionAnswer::Undecided => Self::Undecided,
            PermissionAnswer::Declined { .. } | PermissionAnswer::Cancelled => {
                Self::Deny("the turn was cancelled or has ended".to_owned())
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgementView {
    /// The stop hook that decided.
    pub hook: String,
    pub iteration: u32,
    pub action: StopAction,
    pub reason: String,
    /// What the agent is to do next.
    pub next_prompt: Option<String>,
    /// The results of the rules, if they were checked.
    pub rules: Vec<RuleView>,
    pub checkpoint_created: bool,
    /// Other data that the hook returned.
    pub metadata: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointView {
    pub at: String,
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
}

/// The stop hooks that were registered for a task, or all of them.
pub fn registered_stop_hooks(state: &SessionState, task: Option<&str>) -> Vec<StopHookView> {
    let wanted = state
        .stop
        .registered
        .iter()
        .filter(|known| task.is_none_or(|task| known.task == task));
    wanted
        .map(|known| StopHookView {
            id: known.id.clone(),
            task: known.task.clone(),
            preset: known.preset().to_owned(),
            enabled: state.hooks.stop_hook_is_on(&known.hook),
            metadata: known.metadata.clone(),
        })
        .collect()
}

pub fn agent_loop(known: &AgentLoop) -> LoopView {
    LoopView {
        id: known.id.clone(),
        task: known.task.clone(),
        iteration: known.iteration,
        max_iterations: known.max_iterations,
        promises: known.promises.clone(),
        is_over: known.is_over,
        decided: known.decided.as_ref().map(|decided| decided.action),
    }
}

/// Oldest first.
pub fn checkpoints(state: &SessionState) -> Vec<CheckpointView> {
    let kept = state.stop.checkpoints.iter();
    kept.map(|kept| CheckpointView {
        at: kept.at.rfc3339(),
        checkpoint: kept.checkpoint.clone(),
    })
    .collect()
}

impl JudgementView {
    /// The decision at the end of these events, which belong to one judgement.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Self> {
        let mut rules = Vec::new();
        let mut checkpoint_created = false;
        for event in events {
            if let Event::Stop(StopEvent::RuleChecked {
                rule,
                passed,
                message,
                took_ms,
                ..
            }) = event
            {
                let (rule, message) = (rule.clone(), message.clone());
                rules.push(RuleView {
                    rule,
                    passed: *passed,
                    message,
                    took_ms: *took_ms,
                });
            }
            checkpoint_created |= matches!(event, Event::Stop(StopEvent::CheckpointKept(_)));
            if let Event::Stop(StopEvent::Decided(decided)) = event {
                return Some(Self {
                    hook: decided.hook.clone(),
                    iteration: decided.iteration,
                    action: decided.action,
                    reason: decided.reason.clone(),
                    next_prompt: decided.next_prompt.clone(),
                    rules,
                    checkpoint_created,
                    metadata: decided.metadata.clone().unwrap_or_default(),
                });
            }
        }
        None
    }
}
