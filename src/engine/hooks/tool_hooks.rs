//! The hooks of tool calls: `pre_tool` decides a request of the agent before you are asked,
//! `post_tool` sees a call that has ended.
//!
//! Owns the calls whose hooks run, one at each point at a time, and what hooks decided about a
//! request. Does not answer the request: see [`crate::engine::permission`].
//!
//! # Invariants
//! - A request is answered only when all of its hooks have ended. Deny beats ask, ask beats allow.
//! - A hook that failed decides nothing: you are asked, even where a rule allows.
//! - The hooks of a request end with its turn. No hook starts after a stop.
//! - The hooks of a call run once, however often the agent reports its end, whether its own hook
//!   asks or the agent asks as well, and whether creel does a part of it for the agent; again only if
//!   the agent itself reports another end than its hook did. None runs after a call that was denied.
//! - A hook is skipped at a second request only if it saw the same tool with the same whole input.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{
    conversation::{AgentPermissionRequest, PermissionSource, ToolCall},
    effect::Effect,
    event::{Event, HookEvent},
    hooks::{
        self, HookState,
        claude::{ClaudeEvent, ClaudeHandler},
        dispatch::{DispatchCause, FinishedRun, HookDispatch, QuestionFacts, ToolFacts},
        point::HookPoint,
    },
    ids::PermissionId,
    output::EngineOutput,
    permission::tool_call::{files, kind},
    policy::{PermissionPolicy, SessionPlan},
    question::{AgentQuestion, AnswerError, QuestionAnswer},
    session::SessionState,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolHooks {
    /// Oldest first; the hooks of the first one run.
    requests: VecDeque<HookDispatch>,
    /// The calls that ended, oldest first; the hooks of the first one run.
    ended: VecDeque<HookDispatch>,
    /// The requests that hooks decided and that are not answered yet.
    decided: Vec<ToolDecision>,
    /// The ended calls of this turn that hooks have seen.
    seen: BTreeSet<String>,
    /// The calls of this turn that were denied, by id.
    #[serde(default)]
    denied: BTreeSet<String>,
    /// The calls of this turn about which the agent's own hook has asked.
    #[serde(default)]
    before: Vec<AnnouncedCall>,
    /// The answers to questions that the agent does not have yet, although all of their hooks have
    /// run.
    #[serde(default)]
    answered: Vec<AnsweredQuestion>,
    /// The calls of this turn whose end the agent's own hook has reported, by id.
    #[serde(default)]
    reported: BTreeMap<String, ToolCall>,
}

/// A call about which the agent's own hook has asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AnnouncedCall {
    ask: PermissionId,
    call: ToolCall,
    /// Whether the call here is truncated.
    #[serde(default)]
    shortened: bool,
    #[serde(default)]
    digest: Option<String>,
    /// The hooks that decide it.
    hooks: Vec<String>,
}

/// The id of a call about which the agent's own hook asks without one.
pub fn unnamed(ask: PermissionId) -> String {
    format!("hook-{ask}")
}

impl AnnouncedCall {
    /// Whether its hooks saw all that hooks of this request would see: the same tool with the same
    /// whole input, and no other file. What one of both does not say is not the same.
    fn is_same(&self, ask: &AgentPermissionRequest, cwd: &str) -> bool {
        let (one, other) = (&self.call, &ask.tool);
        // Not where links lead: only one of both knows.
        let named = |call: &ToolCall| -> BTreeSet<String> {
            let bare = ToolCall {
                files: Vec::new(),
                ..call.clone()
            };
            files(&bare, cwd).into_iter().collect()
        };
        let is_unnamed = one.call == unnamed(self.ask);
        let same_name = one.name.is_some() && one.name == other.name;
        (one.call == other.call || is_unnamed)
            && (same_name || (is_unnamed && other.name.is_none()))
            && kind(one) == kind(other)
            && self.has_input_of(ask)
            && named(other).is_subset(&named(one))
    }

    fn has_input_of(&self, ask: &AgentPermissionRequest) -> bool {
        let read = |call: &ToolCall| {
            let text = call.input.as_deref()?;
            let read: Option<Value> = serde_json::from_str(text).ok();
            read.filter(|read| read.as_object().is_some_and(|fields| !fields.is_empty()))
        };
        let (one, other) = (read(&self.call), read(&ask.tool));
        if self.shortened || ask.shortened {
            one.is_some() && self.digest.is_some() && self.digest == ask.digest
        } else {
            one.is_some() && one == other
        }
    }
}

/// What the hooks of a request decided together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolDecision {
    ask: PermissionId,
    pub(crate) action: PermissionPolicy,
    pub(crate) hook: String,
    reason: Option<String>,
    /// The answer to a question, as a JSON object.
    #[serde(default)]
    pub(crate) answer: Option<String>,
}

/// An answer that hooks have seen, and what they decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnsweredQuestion {
    pub(crate) ask: PermissionId,
    pub(crate) question: AgentQuestion,
    pub(crate) given: QuestionAnswer,
    pub(crate) decision: Option<ToolDecision>,
}

/// Why a hook that passed decides nothing.
const SHORTENED: &str = "it got only a part of the call, which is too long";

impl ToolDecision {
    /// The strictest decision of these runs. None if they decided nothing about a call that they saw
    /// completely.
    fn of(ask: PermissionId, shortened: bool, runs: &[FinishedRun]) -> Option<Self> {
        let decisions = runs.iter().rev().filter_map(|run| {
            let decides = run.judgement.decides;
            let (hook, reason) = (run.hook.clone(), run.judgement.headline.clone());
            let is_blind = shortened && decides != Some(PermissionPolicy::Deny);
            let (action, reason) = if is_blind {
                (PermissionPolicy::Ask, Some(SHORTENED.to_owned()))
            } else {
                (decides?, reason)
            };
            Some(Self {
                ask,
                action,
                hook,
                reason,
                answer: run.answer.clone(),
            })
        });
        decisions.max_by_key(Self::strictness)
    }

    const fn strictness(&self) -> u8 {
        match self.action {
            PermissionPolicy::Allow => 0,
            PermissionPolicy::Ask => 1,
            PermissionPolicy::Deny => 2,
        }
    }

    /// The answer to a question. Without content: it is declined. None if the user decides.
    pub(crate) fn content(
        &self,
        question: &AgentQuestion,
    ) -> Option<Result<Option<String>, AnswerError>> {
        let content = || question.content(self.answer.as_deref());
        match self.action {
            PermissionPolicy::Allow => {
                Some(content().map(|content| Some(Value::Object(content).to_string())))
            }
            PermissionPolicy::Deny => Some(Ok(None)),
            PermissionPolicy::Ask => None,
        }
    }

    /// The decision in words, for the user.
    pub(crate) fn describe(&self) -> String {
        let Self { hook, .. } = self;
        let what = match self.action {
            PermissionPolicy::Allow => format!("the hook `{hook}` allows it"),
            PermissionPolicy::Deny => format!("the hook `{hook}` denies it"),
            PermissionPolicy::Ask => format!("the hook `{hook}` leaves it to you"),
        };
        match &self.reason {
            Some(reason) => format!("{what}: {reason}"),
            None => what,
        }
    }
}

impl ToolHooks {
    fn queue(&self, point: HookPoint) -> &VecDeque<HookDispatch> {
        if point == HookPoint::PostTool {
            &self.ended
        } else {
            &self.requests
        }
    }

    /// The calls whose hooks run now.
    pub(crate) fn dispatches(&self) -> impl Iterator<Item = &HookDispatch> {
        self.requests.front().into_iter().chain(self.ended.front())
    }

    pub(crate) fn dispatches_mut(&mut self) -> impl Iterator<Item = &mut HookDispatch> {
        let first = self.requests.front_mut().into_iter();
        first.chain(self.ended.front_mut())
    }

    pub fn is_busy(&self) -> bool {
        self.dispatches().next().is_some()
    }

    /// Whether hooks have not decided about a request yet.
    pub(crate) fn is_deciding(&self, ask: &AgentPermissionRequest) -> bool {
        let is_it = |dispatch: &HookDispatch| matches!(&dispatch.cause, DispatchCause::Tool(facts) if facts.ask.is_some_and(|it| ask.is_decided_with(it)));
        self.requests.iter().any(is_it)
    }

    /// What hooks decided about a request, and before it about the same call.
    pub(crate) fn decision(&self, ask: &AgentPermissionRequest) -> Option<&ToolDecision> {
        let decisions = self.decided.iter();
        let decisions = decisions.filter(|decision| ask.is_decided_with(decision.ask));
        decisions.max_by_key(|decision| decision.strictness())
    }

    /// The same without the questions about that call before, which the user has answered.
    pub(crate) fn decision_besides_answered(
        &self,
        ask: &AgentPermissionRequest,
    ) -> Option<&ToolDecision> {
        let is_open = |it: &&ToolDecision| {
            it.ask == ask.ask || (Some(it.ask) == ask.earlier && it.action != PermissionPolicy::Ask)
        };
        let decisions = self.decided.iter().filter(is_open);
        decisions.max_by_key(|decision| decision.strictness())
    }

    pub(crate) fn begin(&mut self, point: HookPoint, facts: ToolFacts, hooks: VecDeque<String>) {
        let call = facts.call.call.clone();
        let mut before = self.before.iter_mut();
        if let Some(known) = before.find(|known| Some(known.ask) == facts.ask) {
            known.hooks = hooks.iter().cloned().collect();
        }
        let dispatch = HookDispatch {
            queue: Some(hooks),
            ..HookDispatch::reached(point, DispatchCause::Tool(Box::new(facts)))
        };
        if point == HookPoint::PostTool {
            self.seen.insert(call);
            self.ended.push_back(dispatch);
        } else {
            self.requests.push_back(dispatch);
        }
        self.settle();
    }

    /// Removes the calls whose hooks have all run, and keeps what they decided.
    pub(crate) fn settle(&mut self) {
        for queue in [&mut self.requests, &mut self.ended] {
            while let Some(done) = queue.pop_front() {
                if done.running.is_some() || done.next().is_some() {
                    queue.push_front(done);
                    break;
                }
                if let DispatchCause::Tool(facts) = &done.cause
                    && let Some(ask) = facts.ask
                {
                    let decision = ToolDecision::of(ask, facts.shortened, &done.done);
                    match facts.question.as_deref() {
                        Some(QuestionFacts {
                            question,
                            answer: Some(given),
                        }) => self.answered.push(AnsweredQuestion {
                            ask,
                            question: question.clone(),
                            given: (**given).clone(),
                            decision,
                        }),
                        Some(QuestionFacts { answer: None, .. }) | None => {
                            self.decided.extend(decision);
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn drop_hook(&mut self, point: HookPoint, hook: &str) {
        let all = self.requests.iter_mut().chain(&mut self.ended);
        for dispatch in all.filter(|dispatch| dispatch.point == point) {
            dispatch.drop_from_queue(hook);
        }
        self.settle();
    }

    /// The requests are gone: their hooks decide nothing any more.
    pub(crate) fn forget_requests(&mut self) {
        self.requests.retain(|dispatch| dispatch.running.is_some());
        for dispatch in &mut self.requests {
            dispatch.queue = Some(VecDeque::new());
            if let DispatchCause::Tool(facts) = &mut dispatch.cause {
                facts.ask = None;
            }
        }
        self.decided.clear();
        self.settle();
        self.answered.clear();
    }

    /// An answer that the agent should get now.
    pub(crate) fn next_answer(&self) -> Option<&AnsweredQuestion> {
        self.answered.first()
    }

    /// The agent gets an answer. Returns the question.
    pub(crate) fn take_answer(&mut self, ask: PermissionId) -> Option<AgentQuestion> {
        let at = self.answered.iter().position(|known| known.ask == ask)?;
        Some(self.answered.remove(at).question)
    }

    /// One request is gone, or answered before its hooks have ended: they decide nothing any more.
    pub(crate) fn forget_request(&mut self, ask: PermissionId) {
        for dispatch in &mut self.requests {
            if let DispatchCause::Tool(facts) = &mut dispatch.cause
                && facts.ask == Some(ask)
            {
                facts.ask = None;
                dispatch.queue = Some(VecDeque::new());
            }
        }
        self.settle();
    }

    /// The session stops at once: no further hook starts.
    pub(crate) fn stop(&mut self) {
        self.forget_requests();
        self.ended.retain(|dispatch| dispatch.running.is_some());
        for dispatch in &mut self.ended {
            dispatch.queue = Some(VecDeque::new());
        }
    }

    /// The session continues after a kill or a stop. What runs again are the hooks of ended calls.
    pub(crate) fn resumed(&mut self) {
        self.requests.clear();
        self.decided.clear();
        self.answered.clear();
    }

    pub(crate) fn next_turn(&mut self) {
        self.seen.clear();
        self.before.clear();
        self.denied.clear();
        self.reported.clear();
    }

    /// A call was answered: denied, or not.
    pub(crate) fn answered(&mut self, call: &str, is_denied: bool) {
        if is_denied {
            self.denied.insert(call.to_owned());
        } else {
            self.denied.remove(call);
        }
    }

    /// The agent's own hook asks about a call.
    pub(crate) fn ask_before(&mut self, ask: &AgentPermissionRequest) {
        let call = ToolCall {
            diff: None,
            output: None,
            ..ask.tool.clone()
        };
        self.before.push(AnnouncedCall {
            ask: ask.ask,
            call,
            shortened: ask.shortened,
            digest: ask.digest.clone(),
            hooks: Vec::new(),
        });
    }

    /// The request of the agent's own hook about this call, and the hooks that have seen it.
    pub(crate) fn asked_before(
        &self,
        ask: &AgentPermissionRequest,
        cwd: &str,
    ) -> Option<(PermissionId, &[String])> {
        let mut before = self.before.iter().rev();
        let known = before.find(|known| known.is_same(ask, cwd))?;
        Some((known.ask, &known.hooks))
    }

    /// The agent's own hook has reported the end of a call.
    pub(crate) fn report(&mut self, tool: &ToolCall) {
        self.reported.insert(tool.call.clone(), tool.clone());
    }

    pub(crate) fn reported(&self, call: &str) -> Option<&ToolCall> {
        self.reported.get(call)
    }

    /// What the agent says about a call beyond the end that its hook reported, or against it: the
    /// agent itself is right. None if it is nothing new.
    pub(crate) fn more_about(&self, tool: ToolCall) -> Option<ToolCall> {
        let known = self.reported.get(&tool.call)?;
        let ends = tool.status.has_ended();
        let same_end = !ends || tool.status == known.status;
        let own_output = tool.output.clone().filter(|_| ends);
        let more = ToolCall {
            status: if ends { tool.status } else { known.status },
            output: own_output.or_else(|| known.output.clone().filter(|_| same_end)),
            input: tool.input.or_else(|| known.input.clone()),
            diff: tool.diff.or_else(|| known.diff.clone()),
            ..tool
        };
        let facts_of = |call: &ToolCall| (call.status, call.output.clone(), call.diff.clone());
        let adds = facts_of(&more) != facts_of(known) || more.locations != known.locations;
        adds.then_some(more)
    }
}

/// Which hooks a tool call is due.
#[derive(Debug, Clone, Copy)]
pub struct ToolRules<'a> {
    pub(crate) plan: &'a SessionPlan,
    pub(crate) cwd: &'a str,
    pub(crate) hooks: &'a HookState,
    pub(crate) tools: &'a ToolHooks,
    /// The agent that works for the session now.
    pub(crate) agent: &'a str,
}

impl ToolRules<'_> {
    fn due(self, point: HookPoint, call: &ToolCall) -> Vec<String> {
        let mut due = hooks::due(self.plan, self.hooks, point);
        due.retain(|name| {
            let spec = self.plan.hook(point, name);
            let is_left = |handler: &ClaudeHandler| handler.is_left_to(self.agent);
            spec.is_some_and(|spec| {
                let matcher = spec.matcher.as_ref();
                !spec.claude.as_deref().is_some_and(is_left)
                    && matcher.is_none_or(|matcher| matcher.fits(call, self.cwd))
            })
        });
        due
    }

    /// The hooks that decide a request. creel's own tools are no calls to guard.
    pub(crate) fn of_request(self, ask: &AgentPermissionRequest) -> Vec<String> {
        match ask.source {
            PermissionSource::Agent | PermissionSource::Service | PermissionSource::Hook => {
                self.due(HookPoint::PreTool, &ask.tool)
            }
            PermissionSource::Question(_) => self.of_question(&ask.tool, false),
            PermissionSource::CreelTool => Vec::new(),
        }
    }

    /// The hooks of a question: before you are asked, or those that see the answer.
    pub(crate) fn of_question(self, call: &ToolCall, is_answered: bool) -> Vec<String> {
        let mut due = self.due(HookPoint::OnQuestion, call);
        due.retain(|name| {
            let spec = self.plan.hook(HookPoint::OnQuestion, name);
            let event = spec.and_then(|spec| spec.claude.as_ref());
            let sees_answers =
                event.is_some_and(|handler| handler.event == ClaudeEvent::ElicitationResult);
            sees_answers == is_answered
        });
        due
    }

    /// The record that starts the hooks of a call that the agent reports as ended.
    pub(crate) fn of_ended_call(self, iteration: u32, call: &ToolCall) -> Option<Event> {
        let reported = self.tools.reported(&call.call);
        let corrects = reported.is_some_and(|known| known.status != call.status);
        let is_denied = self.tools.denied.contains(&call.call);
        let is_new = call.status.has_ended()
            && !is_denied
            && (corrects || !self.tools.seen.contains(&call.call));
        let hooks = is_new.then(|| self.due(HookPoint::PostTool, call))?;
        (!hooks.is_empty()).then(|| due(HookPoint::PostTool, iteration, hooks, None, None))
    }

    /// Starts the next hook of the calls that have hooks.
    pub(crate) fn proceed(self, session: &SessionState) -> EngineOutput {
        let mut waiting = self
            .tools
            .dispatches()
            .filter(|dispatch| dispatch.running.is_none());
        let next = waiting.find_map(|dispatch| Some((dispatch, dispatch.next()?)));
        next.map_or_else(EngineOutput::default, |(dispatch, hook)| {
            session.hook_rules().start_hook(dispatch, hook)
        })
    }

    /// Ends the hooks of a request that is gone.
    pub(crate) fn cancel_request(self, ask: PermissionId) -> impl Iterator<Item = Effect> {
        let running = self.tools.queue(HookPoint::PreTool).iter();
        let its = running.filter(move |dispatch| {
            matches!(&dispatch.cause, DispatchCause::Tool(facts) if facts.ask == Some(ask))
        });
        its.filter_map(|dispatch| Some(Effect::CancelHook(dispatch.running.as_ref()?.run)))
    }

    /// Ends the hooks of requests that are gone.
    pub(crate) fn cancel_requests(self) -> impl Iterator<Item = Effect> {
        let running = self.tools.queue(HookPoint::PreTool).iter();
        running.filter_map(|dispatch| Some(Effect::CancelHook(dispatch.running.as_ref()?.run)))
    }
}

/// The record of the hooks that a call is due.
pub(crate) fn due(
    point: HookPoint,
    iteration: u32,
    hooks: Vec<String>,
    ask: Option<PermissionId>,
    answer: Option<QuestionAnswer>,
) -> Event {
    Event::Hook(HookEvent::Due {
        point,
        iteration: Some(iteration),
        hooks,
        task: None,
        by_hand: false,
        ask,
        prompt: None,
        answer: answer.map(Box::new),
    })
}
