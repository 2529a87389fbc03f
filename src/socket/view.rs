//! A session as it is told to those who ask: plain facts, no rules.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::message::ItemFilter;
use crate::{
    engine::{
        SessionState,
        conversation::AgentPermissionRequest,
        event::{SessionOutcome, StopTiming},
        hooks::{point::HookPoint, resolve::HookState},
        ids::{GateId, ItemId, RunId, TurnId},
        policy::{AutomationHook, HookAction, HookSpec, StopHook, StopHookKind, StopPlan},
        session::{
            gate::{Gate, GateChoice, GateKind},
            pending::{ItemState, PendingItem},
            permission::OfferedAnswer,
        },
        tasks::builtin::BuiltinAutomation,
        time::{TimeSpan, UnixTime, as_rfc3339, rfc3339_or_none},
    },
    journal::record::rfc3339,
    nats::status::NatsStatus,
    present::stop_decisions,
};

/// How a session is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// Its name.
    pub session: String,
    /// In a word: running, paused, waiting (for a person), or how it ended.
    pub state: String,
    /// In a few words.
    pub doing: String,
    /// The current iteration.
    pub iteration: u32,
    /// How many there may be.
    pub max_iterations: u32,
    /// The turn that is in flight.
    pub turn: Option<TurnId>,
    /// The retries since the last new message.
    pub retries: u32,
    /// How many there may be.
    pub max_retries: u32,
    /// The turns that failed in a row.
    pub errors: u32,
    /// How many items would go with the next prompt.
    pub pending: usize,
    /// How many messages wait for the agent.
    pub messages: usize,
    /// Whether no further prompt is sent.
    pub paused: bool,
    /// Whether it was told to stop, and how.
    pub stopping: Option<StopTiming>,
    /// The gate that waits.
    pub gate: Option<GateView>,
    /// The hooks that run.
    pub running: Vec<RunId>,
    /// The agent.
    pub agent: String,
    /// Whether the agent leads itself, and is sent no prompts.
    #[serde(default)]
    pub led_from_outside: bool,
    /// The project's folder.
    pub cwd: String,
    /// When it began.
    pub started: String,
    /// The process that runs it.
    pub pid: u32,
    /// How it ended, if it has.
    pub outcome: Option<SessionOutcome>,
    /// The number of its last record.
    pub seq: u64,
    /// The usage limit that it waits for, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_limit: Option<LimitView>,
    /// How it stands with its NATS server, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<NatsStatus>,
}

/// A usage limit that a session waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitView {
    /// Whose limit it is.
    pub agent: String,
    /// When it resets, if that is known.
    #[serde(default, with = "rfc3339_or_none", skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<UnixTime>,
    /// When the session resumes.
    #[serde(with = "as_rfc3339")]
    pub until: UnixTime,
}

/// A gate that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateView {
    /// Its number.
    pub gate: GateId,
    /// What it is about.
    pub about: GateKind,
    /// Why the session waits, in words.
    pub reason: String,
    /// The answers that it takes.
    pub choices: Vec<GateChoice>,
    /// The hook that it is about.
    pub hook: Option<String>,
    /// The held items that it is about.
    pub items: Vec<ItemId>,
    /// What the agent offers at a permission gate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<OptionView>,
    /// When it opened.
    pub opened: String,
}

/// One of several answers that an agent offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptionView {
    /// The agent's own name for it.
    pub id: String,
    /// What it says, for a person.
    pub name: String,
    /// The choice that takes it.
    pub choice: GateChoice,
}

/// A piece of held output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemView {
    /// Its number.
    pub item: ItemId,
    /// Where it is.
    pub state: ItemState,
    /// The point of the run that printed it.
    pub point: HookPoint,
    /// The hook.
    pub hook: String,
    /// The run.
    pub run: RunId,
    /// The iteration.
    pub iteration: u32,
    /// Whether a person changed it.
    pub edited: bool,
    /// How long its text is, while it is held.
    pub bytes: usize,
    /// What the agent will read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A hook of the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookView {
    /// Where it runs.
    pub point: HookPoint,
    /// What it is called.
    pub hook: String,
    /// The command, or what it is instead of one.
    pub runs: String,
    /// Whether it runs when its point is reached.
    pub enabled: bool,
    /// Its place among the hooks of its point: lower is first.
    pub priority: i64,
    /// How long it may take.
    pub timeout_ms: TimeSpan,
    /// Whether its output goes to the agent.
    pub pipe_output: bool,
}

impl StatusView {
    /// The session, after the record of that number.
    pub fn of(state: &SessionState, seq: u64) -> Self {
        Self {
            session: state.name.clone(),
            state: word(state).to_owned(),
            doing: state.doing(),
            iteration: state.iterations.current,
            max_iterations: state.max_iterations(),
            turn: state.turn_in_flight().map(|prompt| prompt.turn),
            retries: state.retry.used,
            max_retries: state.retry_limit(),
            errors: state.retry.errors,
            pending: state.pending.waiting().count(),
            messages: state.steering.messages.len(),
            paused: state.steering.paused,
            stopping: state.steering.stop,
            gate: gates(state).into_iter().next(),
            running: state.running().collect(),
            agent: state.agent().to_owned(),
            led_from_outside: state.is_led_from_outside(),
            cwd: state.began.cwd.clone(),
            started: rfc3339(state.started),
            pid: std::process::id(),
            outcome: state.outcome(),
            seq,
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
    match state.outcome() {
        Some(outcome) => outcome.name(),
        None if state.gates.open.is_some() => "waiting",
        None if state.steering.paused => "paused",
        None => "running",
    }
}

/// The gates that wait. One does at most; whoever asks need not know that.
pub fn gates(state: &SessionState) -> Vec<GateView> {
    state.gates.open.iter().map(|gate| gate_view(state, gate)).collect()
}

fn gate_view(state: &SessionState, gate: &Gate) -> GateView {
    let offered = state.asked_at(gate).map(AgentPermissionRequest::offers).unwrap_or_default();
    let options = offered.into_iter().map(|OfferedAnswer { id, name, choice }| OptionView { id, name, choice });
    GateView {
        gate: gate.id,
        about: gate.about,
        reason: gate.reason.clone(),
        choices: gate.choices.clone(),
        hook: gate.hook.clone(),
        items: gate.items.clone(),
        options: options.collect(),
        opened: rfc3339(gate.opened),
    }
}

/// What is held, oldest first.
pub fn items(state: &SessionState, which: ItemFilter) -> Vec<ItemView> {
    let wanted = |item: &&PendingItem| which == ItemFilter::All || item.state != ItemState::Delivered;
    state.pending.items().iter().filter(wanted).map(ItemView::of).collect()
}

impl ItemView {
    /// An item without its text.
    pub fn of(item: &PendingItem) -> Self {
        Self {
            item: item.id,
            state: item.state,
            point: item.source.point,
            hook: item.source.hook.clone(),
            run: item.source.run,
            iteration: item.source.iteration,
            edited: item.edited,
            bytes: item.text.len(),
            text: None,
        }
    }

    /// An item with what the agent will read.
    pub fn whole(item: &PendingItem) -> Self {
        let text = (item.state != ItemState::Delivered).then(|| item.text.clone());
        Self { text, ..Self::of(item) }
    }
}

/// The hooks of a plan, point by point, in the order in which they run.
pub fn hooks(plan: &BTreeMap<HookPoint, Vec<HookSpec>>, book: &HookState) -> Vec<HookView> {
    let at = |point: HookPoint| {
        let mut specs: Vec<&HookSpec> = plan.get(&point).into_iter().flatten().collect();
        specs.sort_by_key(|spec| spec.priority);
        specs.into_iter().map(move |spec| HookView::of(point, spec, book.is_enabled(point, spec)))
    };
    HookPoint::ALL.into_iter().flat_map(at).collect()
}

/// The automation hooks, in the order in which they run. What is built in and as it always is goes without saying.
pub fn automation_hooks(plan: &[AutomationHook], book: &HookState) -> Vec<HookView> {
    let mut specs: Vec<&HookSpec> = plan.iter().map(|hook| &hook.spec).collect();
    specs.sort_by_key(|spec| spec.priority);
    let views = specs.into_iter().map(|spec| (spec, book.is_enabled(HookPoint::Automation, spec)));
    let said = views.filter(|(spec, enabled)| !is_as_always(spec, *enabled));
    said.map(|(spec, enabled)| HookView::of(HookPoint::Automation, spec, enabled)).collect()
}

fn is_as_always(spec: &HookSpec, enabled: bool) -> bool {
    let HookAction::Builtin(call) = &spec.action else { return false };
    let preset = BuiltinAutomation::named(&call.name).map(BuiltinAutomation::preset);
    preset.is_some_and(|preset| preset.enabled == enabled && preset.priority == spec.priority)
}

/// The stop decision hooks: those of the config, then those that were registered.
pub fn stop_hooks(plan: &StopPlan, state: Option<&SessionState>) -> Vec<HookView> {
    let registered = state.into_iter().flat_map(|state| &state.stop.registered).map(|known| &known.hook);
    let is_on = |hook: &StopHook| state.map_or(hook.enabled, |state| state.stop_hook_is_on(hook));
    plan.said().iter().chain(registered).map(|hook| HookView::stop(hook, is_on(hook))).collect()
}

impl HookView {
    /// A stop decision hook, and whether it is asked.
    fn stop(hook: &StopHook, enabled: bool) -> Self {
        let (runs, timeout_ms) = match &hook.judge {
            StopHookKind::Preset(preset) => (format!("(preset: {})", preset.name()), TimeSpan::default()),
            StopHookKind::Command { command, timeout } => (command.clone(), *timeout),
            StopHookKind::Fixed(result) => {
                (format!("({})", stop_decisions::action(result.action)), TimeSpan::default())
            }
            StopHookKind::All(parts) => (format!("(all of {})", named(parts)), TimeSpan::default()),
            StopHookKind::Any(parts) => (format!("(any of {})", named(parts)), TimeSpan::default()),
        };
        let (point, hook) = (HookPoint::StopDecision, hook.name.clone());
        Self { point, hook, runs, enabled, priority: 100, timeout_ms, pipe_output: false }
    }

    /// A hook, and whether it runs.
    pub fn of(point: HookPoint, spec: &HookSpec, enabled: bool) -> Self {
        let runs = match &spec.action {
            HookAction::Command(command) => command.clone(),
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
    parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(", ")
}
