//! A world without processes: it performs the engine's effects from a script, so that a whole
//! session is one value.
//!
//! The answer of a hook or the agent depends only on the number of its earlier answers, which is
//! counted in the records; so a world that was killed and resumed continues as the uncut one would
//! have.

use std::collections::BTreeMap;

use creel::engine::{
    self, SessionState,
    conversation::{
        AgentPermissionRequest, AgentUpdate, FileLocation, PermissionAnswer, PermissionOption,
        PermissionOptionKind, PermissionSource, StopReason, ToolCall, ToolKind, TurnEnd,
        TurnFailure, TurnUsage, WorktreeChanges,
    },
    effect::{Effect, ExitReason, HookJob, RuleJob},
    event::{
        ActorKind, Event, GateEvent, HookEvent, HookFinished, PendingEvent, PipelineEvent,
        RetryEvent, SessionEvent, SessionStarted, StopEvent, TurnEvent, UserPresence, WatchEvent,
    },
    gate::kind::{GateChoice, GateKind},
    hooks::{
        point::HookPoint,
        verdict::{BuiltinOutcome, BuiltinStatus, HookReply, RunEnd, RunResult},
    },
    ids::{PermissionId, RunId, TurnId},
    input::{Input, SessionCommand},
    output::EngineOutput,
    policy::{
        AgentAccess, AgentSpec, AutomationHook, Budget, CompletionInstructions, ContextPolicy,
        EvidencePolicy, GatePolicies, Gatekeeper, HookAction, HookSpec, LimitsPlan, MERGE,
        ModelPlan, OpenTasksPolicy, PipeOutput, RetryLimitPolicy, RuleCheck, RuleSpec, SessionPlan,
        SettledPolicy, StopHook, StopHookCondition, StopHookKind, StopPlan, StopPreset, SubmitPlan,
    },
    refusal::Refusal,
    session::event::ResumeAnswer,
    stop::context::RuleCheckResult,
    submit::kind::PipelineKind,
    tasks::{
        builtin::BuiltinAutomation,
        command::{TaskCommand, TaskCompletion},
        record::TaskEventKind,
    },
    time::{TimeSpan, UnixTime},
    verify::{
        MeasuredChanges, WorkChangedBy, WorkMeasurement, base_tests::TestSource,
        test_guard::TestComparison,
    },
    watch::forge::{ForgeFailure, ForgeReading},
};
use creel::text::TestCounts;
use proptest::test_runner::Config as ProptestConfig;

/// A request for something that the agent does itself.
pub fn permission_request(
    ask: PermissionId,
    tool: ToolCall,
    options: Vec<PermissionOption>,
) -> AgentPermissionRequest {
    AgentPermissionRequest {
        ask,
        tool,
        options,
        source: PermissionSource::Agent,
        shortened: false,
        whole: false,
        digest: None,
        earlier: None,
    }
}

/// How many random cases a property test has: `PROPTEST_CASES` sets another number.
pub fn random_cases(usual: u32) -> ProptestConfig {
    let set = ProptestConfig::default();
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => set.cases,
        None => usual,
    };
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..set
    }
}

/// A stop hook that is a command.
pub fn stop_command(name: &str) -> StopHook {
    let judge = StopHookKind::Command {
        command: name.to_owned(),
        timeout: TimeSpan::secs(60),
    };
    StopHook {
        name: name.to_owned(),
        judge,
        when: StopHookCondition::default(),
        enabled: true,
    }
}

/// How a hook answers.
#[derive(Debug, Clone)]
pub struct Ran {
    pub end: RunEnd,
    pub stdout: &'static str,
    pub stderr: &'static str,
    pub reply: Option<HookReply>,
    pub outcome: Option<BuiltinOutcome>,
    /// What it does with creel commands while it runs.
    pub deeds: &'static [Deed],
}

/// Something that a hook or the agent does with a creel command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Completes a task that is not in the session's graph.
    CompletesTask,
    /// Queues a message for the agent.
    SendsMessage,
}

pub fn exits(code: i32, stdout: &'static str, stderr: &'static str) -> Ran {
    Ran {
        end: RunEnd::Exit(code),
        stdout,
        stderr,
        reply: None,
        outcome: None,
        deeds: &[],
    }
}

pub fn passes() -> Ran {
    exits(0, "", "")
}

pub fn prints(text: &'static str) -> Ran {
    exits(0, text, "")
}

pub fn blocks(stderr: &'static str) -> Ran {
    exits(2, "", stderr)
}

/// A built-in hook that succeeded.
pub fn does(message: &str) -> Ran {
    let outcome = BuiltinOutcome {
        status: BuiltinStatus::Success,
        message: message.into(),
        remediation: None,
        pull_request: message.starts_with("https://").then(|| message.into()),
        merged: None,
        read: None,
    };
    Ran {
        outcome: Some(outcome),
        ..passes()
    }
}

/// A built-in hook that failed, and what the agent can do about it.
pub fn wants(remediation: Option<&str>) -> Ran {
    let outcome = BuiltinOutcome {
        status: BuiltinStatus::Failure,
        remediation: remediation.map(Into::into),
        ..does("red").outcome.expect("one")
    };
    Ran {
        outcome: Some(outcome),
        ..exits(1, "", "red")
    }
}

/// Prints something for the agent, and does this meanwhile.
pub fn acts(deeds: &'static [Deed]) -> Ran {
    Ran {
        deeds,
        ..prints("acted")
    }
}

pub fn breaks() -> Ran {
    Ran {
        end: RunEnd::TimedOut,
        ..exits(0, "", "")
    }
}

#[derive(Debug, Clone)]
pub enum Answer {
    Says(&'static str),
    Fails(&'static str),
    /// Requests permission to change these files, one request each, then says something.
    Asks(&'static [&'static str]),
    Refuses,
    /// Says something, and reaches its token limit.
    CutShort(&'static str),
    /// Says something and uses this many tokens.
    Spends(u64),
    /// Does this, says something and uses this many tokens.
    Acts(&'static [Deed], u64),
    /// The server asks for a pause of this many milliseconds.
    Overloads(u64),
}

pub const DONE: Answer = Answer::Says("All done. <promise>COMPLETE</promise>");

pub fn completes(id: &str, content: &str) -> SessionCommand {
    let completion = TaskCompletion {
        id: id.into(),
        content: Some(content.into()),
        ..TaskCompletion::default()
    };
    SessionCommand::Task {
        task: TaskCommand::Complete(completion),
    }
}

/// What the world will do.
#[derive(Debug, Clone)]
pub struct Script {
    pub plan: SessionPlan,
    pub presence: UserPresence,
    /// By hook name; the last answer repeats.
    pub hooks: BTreeMap<String, Vec<Ran>>,
    /// Whether each rule passes, by name; the last answer repeats. Unknown rules pass.
    pub rules: BTreeMap<String, Vec<bool>>,
    /// The last answer repeats.
    pub agent: Vec<Answer>,
    /// The user's answers, by gate; the last answer repeats.
    pub person: Vec<(GateKind, GateChoice)>,
    /// The gatekeepers' answers, by name; the last answer repeats.
    pub gatekeepers: BTreeMap<String, Vec<Answer>>,
    /// The pipeline that is all the session does, if it has no iterations.
    pub only_pipeline: Option<PipelineKind>,
    /// The conversation that it continues, if any.
    pub from: Option<String>,
    /// How often something changes the work beside the turns: the lower, the more often. Zero:
    /// never.
    pub unrest: usize,
    /// How many turns change a file before the rest changes nothing. None: creel cannot tell.
    pub works: Option<u32>,
    /// What the forge says at each look; the last answer repeats.
    pub forge: Vec<Result<ForgeReading, ForgeFailure>>,
    /// What the changed files say about the tests. If set, outputs of checks are counted, too.
    pub tests: Option<TestComparison>,
    /// How many test files differ from those of the base commit.
    pub changed_tests: usize,
}

pub fn plan() -> SessionPlan {
    SessionPlan {
        instructions: CompletionInstructions::None,
        limits: LimitsPlan::default(),
        max_iterations: 20,
        context: ContextPolicy::Fresh,
        max_hook_retries: 5,
        on_limit: RetryLimitPolicy::Complete,
        max_consecutive_errors: 3,
        turn_timeout: TimeSpan::secs(1_800),
        output_limit: 16_384,
        backoff: None,
        gates: GatePolicies::default(),
        hooks: BTreeMap::new(),
        automation: Vec::new(),
        workflows: BTreeMap::new(),
        stop: StopPlan {
            hooks: vec![StopHook::preset(StopPreset::Default)],
            rules: Vec::new(),
            settled: SettledPolicy::Continue,
            open_tasks: OpenTasksPolicy::Ignore,
            circuit_breaker: 3,
            thrashing: 0,
            no_progress: 0,
        },
        access: AgentAccess::default(),
        budget: Budget::default(),
        evidence: EvidencePolicy::None,
        agent: "demo".into(),
        models: ModelPlan::default(),
        agent_spec: AgentSpec::Scripted {
            script: String::new(),
        },
        task_type: None,
        task_types: BTreeMap::new(),
        submit: SubmitPlan::default(),
        worktree: None,
        proposal: None,
        gatekeepers: BTreeMap::new(),
    }
}

/// A hook with defaults.
/// A hook that runs the command of its name.
pub fn hook_command(name: &str) -> HookSpec {
    HookSpec::new(name, HookAction::Command(name.into()))
}

impl Script {
    pub fn new() -> Self {
        Self {
            plan: plan(),
            presence: UserPresence::Unattended,
            hooks: BTreeMap::new(),
            rules: BTreeMap::new(),
            agent: vec![DONE],
            person: Vec::new(),
            gatekeepers: BTreeMap::new(),
            only_pipeline: None,
            from: None,
            unrest: 0,
            works: None,
            forge: Vec::new(),
            tests: None,
            changed_tests: 1,
        }
    }

    pub fn attended(mut self, person: &[(GateKind, GateChoice)]) -> Self {
        self.presence = UserPresence::Attended;
        self.person = person.to_vec();
        self
    }

    pub fn plan(mut self, change: impl FnOnce(&mut SessionPlan)) -> Self {
        change(&mut self.plan);
        self
    }

    /// Adds a rule, and whether it passes each time.
    pub fn rule(mut self, name: &str, passed: &[bool]) -> Self {
        let check = RuleCheck::Command {
            command: name.to_owned(),
            expected_exit: 0,
            folder: None,
            env: BTreeMap::new(),
        };
        let rule = RuleSpec {
            name: name.to_owned(),
            check,
            timeout: TimeSpan::secs(60),
            enabled: true,
        };
        self.plan.stop.rules.push(rule);
        self.rules.insert(name.to_owned(), passed.to_vec());
        self
    }

    /// Adds stop hooks instead of the default preset.
    pub fn stop_hooks(mut self, hooks: impl IntoIterator<Item = StopHook>) -> Self {
        self.plan.stop.hooks = hooks.into_iter().collect();
        self
    }

    /// Adds a command that decides, and its answers.
    pub fn stop_command(mut self, name: &str, runs: impl Into<Vec<Ran>>) -> Self {
        self.plan.stop.hooks.push(stop_command(name));
        self.hooks.insert(name.to_owned(), runs.into());
        self
    }

    pub fn hook(self, point: HookPoint, name: &str, runs: impl Into<Vec<Ran>>) -> Self {
        self.hook_with(point, name, runs, |_| {})
    }

    pub fn piped(self, point: HookPoint, name: &str, runs: impl Into<Vec<Ran>>) -> Self {
        self.hook_with(point, name, runs, |spec| {
            spec.pipe_output = PipeOutput::Always;
        })
    }

    pub fn hook_with(
        mut self,
        point: HookPoint,
        name: &str,
        runs: impl Into<Vec<Ran>>,
        change: impl FnOnce(&mut HookSpec),
    ) -> Self {
        let mut spec = hook_command(name);
        change(&mut spec);
        self.plan.hooks.entry(point).or_default().push(spec);
        self.hooks.insert(name.into(), runs.into());
        self
    }

    /// Adds a built-in hook; the merge is last.
    pub fn built_in(self, point: HookPoint, name: &str, runs: impl Into<Vec<Ran>>) -> Self {
        self.hook_with(point, name, runs, |spec| {
            *spec = if name == MERGE {
                HookSpec::merge()
            } else {
                HookSpec::builtin(name)
            };
        })
    }

    /// Adds a review by agents, each with its answers.
    pub fn review(mut self, point: HookPoint, answers: &[(&str, &[Answer])]) -> Self {
        for (name, answers) in answers {
            let gatekeeper = Gatekeeper {
                agent: (*name).into(),
                spec: self.plan.agent_spec.clone(),
                prompt: None,
            };
            self.plan.gatekeepers.insert((*name).into(), gatekeeper);
            self.gatekeepers.insert((*name).into(), answers.to_vec());
        }
        let names = answers.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.hook_with(point, "review", [prints("+ line")], |spec| {
            spec.action = HookAction::Gatekeeper(names);
        })
    }

    /// Submits the work when the session is complete.
    pub fn submits(self) -> Self {
        self.plan(|plan| plan.submit.on_complete = true)
    }

    /// The built-in automation hooks, with their defaults.
    pub fn builtins(mut self) -> Self {
        for preset in BuiltinAutomation::ALL.map(BuiltinAutomation::preset) {
            let spec = HookSpec {
                action: HookAction::Builtin(preset.name.into()),
                priority: preset.priority,
                enabled: preset.enabled,
                ..hook_command(preset.name)
            };
            self.plan.automation.push(AutomationHook {
                events: preset.events.to_vec(),
                spec,
            });
        }
        self
    }

    /// An automation hook that is a command.
    pub fn automation(
        mut self,
        name: &str,
        priority: i64,
        events: &[TaskEventKind],
        runs: impl Into<Vec<Ran>>,
    ) -> Self {
        let spec = HookSpec {
            priority,
            ..hook_command(name)
        };
        self.plan.automation.push(AutomationHook {
            events: events.to_vec(),
            spec,
        });
        self.hooks.insert(name.into(), runs.into());
        self
    }

    pub fn agent(mut self, answers: impl Into<Vec<Answer>>) -> Self {
        self.agent = answers.into();
        self
    }
}

/// A session in that world.
#[derive(Debug, Clone)]
pub struct World {
    pub script: Script,
    pub state: SessionState,
    pub now: UnixTime,
    pub events: Vec<Event>,
    pub jobs: Vec<HookJob>,
    pub checks: Vec<RuleJob>,
    pub turn: Option<(TurnId, String)>,
    /// The gatekeeper whose turn it is.
    pub asked: Option<String>,
    pub cancelled: Vec<RunId>,
    pub turn_cancelled: bool,
    /// The agent's open requests, and the last number used.
    pub asking: (Vec<PermissionId>, PermissionId),
    /// The answers that the agent got.
    pub permitted: Vec<(PermissionId, PermissionAnswer)>,
    /// The work that the engine wants to compare.
    pub measured: Option<WorkChangedBy>,
    /// The call to the forge in progress.
    pub forge_call: Option<Effect>,
    /// What creel answered on the forge: the id of the news, and the text.
    pub forge_answers: Vec<(String, String)>,
    pub left: Option<ExitReason>,
    pub refused: Vec<Refusal>,
}

impl World {
    pub fn begin(script: Script) -> Self {
        let began = SessionStarted {
            agent: "demo".into(),
            cwd: "/project".into(),
            prompt: "GOAL".into(),
            max_iterations: script.plan.max_iterations,
            id: "id".into(),
            seed: 7,
            presence: script.presence,
            plan: script.plan.clone(),
            only_pipeline: script.only_pipeline,
            order: None,
            worktree: None,
            from: script.from.clone(),
            fork: None,
            creel: String::new(),
            user: None,
            trace: None,
        };
        Self::from_events(
            script,
            &[Event::Session(SessionEvent::Started(Box::new(began)))],
        )
    }

    /// A world in which this much was recorded when creel was killed.
    pub fn from_events(script: Script, events: &[Event]) -> Self {
        let Some(Event::Session(SessionEvent::Started(began))) = events.first() else {
            panic!("a journal starts with session_started")
        };
        let mut state = SessionState::new("story", (**began).clone(), UnixTime(0));
        for event in &events[1..] {
            state.apply(UnixTime(0), event);
        }
        Self {
            script,
            state,
            now: UnixTime(0),
            events: events.to_vec(),
            jobs: Vec::new(),
            checks: Vec::new(),
            turn: None,
            asked: None,
            cancelled: Vec::new(),
            turn_cancelled: false,
            asking: (Vec::new(), PermissionId::default()),
            permitted: Vec::new(),
            measured: None,
            forge_call: None,
            forge_answers: Vec::new(),
            left: None,
            refused: Vec::new(),
        }
    }

    pub fn input(&mut self, input: Input) {
        let step = engine::decide(&self.state, self.now, input);
        self.commit(step);
        self.settle();
    }

    pub fn command(&mut self, command: SessionCommand) {
        self.input(Input::Command {
            by: ActorKind::Tui.into(),
            command,
        });
    }

    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let step = engine::decide(&self.state, self.now, Input::Proceed);
            // A call in progress answers, as in the runtime.
            let asks_forge =
                |effect: &Effect| matches!(effect, Effect::ReadForge(_) | Effect::AnswerNews(_));
            let waits = self.forge_call.is_some()
                && step.events.is_empty()
                && step.effects.iter().all(asks_forge);
            if step.is_empty() || waits || self.left.is_some() {
                // Comparing every state takes most of the time of the random sessions.
                if self.events.len().is_multiple_of(4) || self.state.phase.outcome().is_some() {
                    is_restored_from_its_stored_form(&self.state);
                }
                return;
            }
            self.commit(step);
            if let Some(by) = self.measured.take() {
                let measured = Input::WorkMeasured(self.measurement(by));
                let step = engine::decide(&self.state, self.now, measured);
                assert!(
                    !step.is_empty(),
                    "the engine does not use what it asked for: {:?}",
                    self.state.phase
                );
                self.commit(step);
            }
        }
        panic!("the engine goes on without end: {:?}", self.state.phase);
    }

    /// In a restless world something changes the work now and then.
    fn measurement(&self, by: WorkChangedBy) -> WorkMeasurement {
        let changes = match self.script.unrest {
            0 => Some(MeasuredChanges::default()),
            unrest if !self.events.len().is_multiple_of(unrest) => Some(MeasuredChanges::default()),
            _ if self.events.len().is_multiple_of(7) => None,
            _ => Some(MeasuredChanges {
                tracked: vec!["a.rs".into()],
                untracked: vec!["log".into()],
            }),
        };
        WorkMeasurement {
            by,
            changes,
            missing: Vec::new(),
            tests: Some(self.script.tests.clone().unwrap_or_default()),
        }
    }

    fn commit(&mut self, step: EngineOutput) {
        for event in step.events {
            self.state.apply(self.now, &event);
            self.events.push(event);
        }
        self.refused.extend(step.refusal);
        for effect in step.effects {
            match effect {
                Effect::RunHook(job) => self.jobs.push(*job),
                Effect::CheckRule(job) => self.checks.push(*job),
                Effect::MeasureWork { by, .. } => self.measured = Some(by),
                Effect::CancelHook(run) => self.cancelled.push(run),
                Effect::SendPrompt { turn, text, to, .. } => {
                    assert!(self.turn.is_none(), "two turns at once");
                    self.asked = to;
                    self.turn = Some((turn, text));
                    self.turn_cancelled = false;
                    self.asking.0.clear();
                }
                Effect::CancelTurn(_) => self.turn_cancelled = true,
                Effect::AnswerPermission { ask, answer } => self.permitted.push((ask, answer)),
                Effect::ReadForge(_) | Effect::AnswerNews(_) => {
                    self.forge_call.get_or_insert(effect);
                }
                Effect::Leave(leave) => self.left = Some(leave),
            }
        }
    }

    /// Answers the call to the forge.
    fn finish_forge_call(&mut self) {
        let looks = self.looks();
        let said = &self.script.forge;
        let input = match self.forge_call.take() {
            Some(Effect::ReadForge(request)) => Input::ForgeRead {
                pull_request: request.pull_request,
                result: Box::new(said[looks.min(said.len() - 1)].clone()),
            },
            Some(Effect::AnswerNews(answer)) => {
                let given = (answer.source.id.clone(), answer.text.clone());
                // As the forge does it: an answer that is there already is not given again.
                if self.forge_answers.iter().all(|(id, _)| *id != given.0) {
                    self.forge_answers.push(given);
                }
                Input::NewsAnswered {
                    answer,
                    result: Ok(()),
                }
            }
            other => panic!("not a call to the forge: {other:?}"),
        };
        self.input(input);
    }

    /// Answers the hook that has waited longest (or the `nth`).
    pub fn finish_hook(&mut self, nth: usize) {
        let job = self.jobs.remove(nth);
        let before = self
            .events
            .iter()
            .filter(|event| matches!(event, Event::Hook(HookEvent::Finished(done)) if done.hook == job.hook.name && !done.again
                && done.tests_of.as_ref().map(|run| run.of) == job.clean.as_ref().map(|clean| clean.of)));
        let name = match &job.clean {
            Some(clean) => format!("{} {}", job.hook.name, clean.of.name()),
            None => job.hook.name.clone(),
        };
        // Built-in hooks succeed, unless the script says otherwise.
        let ran = match self.script.hooks.get(&name) {
            Some(runs) => runs[before.count().min(runs.len() - 1)].clone(),
            None => passes(),
        };
        let end = if self.cancelled.contains(&job.run) {
            RunEnd::Cut
        } else {
            ran.end
        };
        self.act(ActorKind::Hook, ran.deeds);
        let result = RunResult {
            end,
            took: TimeSpan(1_200),
            stdout: ran.stdout.into(),
            stderr: ran.stderr.into(),
            omitted_bytes: 0,
            file: None,
            reply: ran.reply,
            answer: Some(ran.stdout.into()),
            outcome: ran.outcome,
            tests: self
                .script
                .tests
                .as_ref()
                .and_then(|_| TestCounts::read(ran.stdout)),
            changed_tests: job
                .clean
                .filter(|clean| clean.of == TestSource::Base)
                .map(|_| self.script.changed_tests),
        };
        self.input(Input::HookFinished {
            run: job.run,
            result: Box::new(result),
        });
    }

    /// A hook or the agent does something; the session may refuse it.
    fn act(&mut self, by: ActorKind, deeds: &[Deed]) {
        for deed in deeds {
            let command = match deed {
                Deed::CompletesTask => completes(&format!("task-{}", self.events.len()), "more"),
                Deed::SendsMessage => SessionCommand::Message {
                    text: "Again.".into(),
                },
            };
            self.input(Input::Command {
                by: by.into(),
                command,
            });
        }
    }

    /// Answers the check that has waited longest (or the `nth`).
    pub fn finish_check(&mut self, nth: usize) {
        let job = self.checks.remove(nth);
        let name = &job.rule.name;
        let before = self
            .events
            .iter()
            .filter(|event| matches!(event, Event::Stop(StopEvent::RuleChecked { rule, .. }) if rule == name));
        let given = self
            .script
            .rules
            .get(name)
            .map_or(&[true][..], Vec::as_slice);
        let passed =
            given[before.count().min(given.len() - 1)] && !self.cancelled.contains(&job.run);
        let message = if passed {
            "as it should be"
        } else {
            "exit 101, expected 0"
        };
        let result = RuleCheckResult {
            passed,
            ..RuleCheckResult::not_judged(message.into())
        };
        self.input(Input::RuleChecked {
            run: job.run,
            result: Box::new(result),
        });
    }

    pub fn finish_turn(&mut self) {
        let Some((turn, _)) = self.turn.clone() else {
            return;
        };
        let answered = self.events.iter().filter(|event| match event {
            Event::Turn(TurnEvent::Failed { turn, .. }) => self.is_of(*turn, self.asked.as_ref()),
            Event::Turn(TurnEvent::Ended {
                turn, stop_reason, ..
            }) => *stop_reason != StopReason::Cancelled && self.is_of(*turn, self.asked.as_ref()),
            _ => false,
        });
        let answers = self
            .asked
            .as_ref()
            .map_or(&self.script.agent, |name| &self.script.gatekeepers[name]);
        let answer = answers[answered.count().min(answers.len() - 1)].clone();
        if let (Answer::Asks(files), true, false) =
            (&answer, self.asking.0.is_empty(), self.turn_cancelled)
        {
            return self.ask(turn, files);
        }
        self.turn = None;
        if self.turn_cancelled {
            return self.input(Input::TurnEnded {
                turn,
                end: TurnEnd::new(StopReason::Cancelled),
            });
        }
        match answer {
            Answer::Says(text) => self.say(turn, text, TurnEnd::new(StopReason::EndTurn)),
            Answer::Asks(_) => self.say(turn, "Working.", TurnEnd::new(StopReason::EndTurn)),
            Answer::Refuses => self.say(turn, "I will not.", TurnEnd::new(StopReason::Refusal)),
            Answer::CutShort(text) => self.say(turn, text, TurnEnd::new(StopReason::MaxTokens)),
            Answer::Spends(tokens) => {
                let spent = TurnUsage {
                    tokens: Some(tokens),
                    ..TurnUsage::UNKNOWN
                };
                self.say(
                    turn,
                    "Working.",
                    TurnEnd {
                        spent,
                        ..TurnEnd::new(StopReason::EndTurn)
                    },
                );
            }
            Answer::Acts(deeds, tokens) => {
                self.act(ActorKind::Agent, deeds);
                let spent = TurnUsage {
                    tokens: Some(tokens),
                    ..TurnUsage::UNKNOWN
                };
                self.say(
                    turn,
                    "Working.",
                    TurnEnd {
                        spent,
                        ..TurnEnd::new(StopReason::EndTurn)
                    },
                );
            }
            Answer::Fails(why) => self.input(Input::TurnFailed {
                turn,
                failure: TurnFailure::new(why),
            }),
            Answer::Overloads(ms) => {
                let failure = TurnFailure {
                    retry_after: Some(TimeSpan(ms)),
                    ..TurnFailure::new("429")
                };
                self.input(Input::TurnFailed { turn, failure });
            }
        }
    }

    /// Whether a turn belonged to that agent.
    fn is_of(&self, turn: TurnId, agent: Option<&String>) -> bool {
        let sent = |event: &Event| matches!(event, Event::Turn(TurnEvent::PromptSent(it)) if it.turn == turn && it.agent.as_ref() == agent);
        self.events.iter().any(sent)
    }

    fn say(&mut self, turn: TurnId, text: &str, mut end: TurnEnd) {
        let files = |works: u32| {
            if turn.0 <= works.into() {
                vec!["work.rs".to_owned()]
            } else {
                Vec::new()
            }
        };
        let work = self.script.works.map(|works| WorktreeChanges {
            files_modified: files(works),
            ..Default::default()
        });
        end.work = work.map(Box::new);
        self.input(Input::Agent {
            turn,
            update: AgentUpdate::Message(text.into()),
        });
        self.input(Input::TurnEnded { turn, end });
    }

    fn ask(&mut self, turn: TurnId, files: &[&str]) {
        let option = |id: &str, kind| PermissionOption {
            id: id.into(),
            name: id.into(),
            kind,
        };
        for file in files {
            self.asking.1 = self.asking.1.next();
            let ask = self.asking.1;
            self.asking.0.push(ask);
            let tool = ToolCall {
                call: format!("call {ask}"),
                title: format!("Edit {file}"),
                kind: Some(ToolKind::Edit),
                locations: vec![FileLocation {
                    path: (*file).into(),
                    line: None,
                }],
                ..ToolCall::default()
            };
            let options = vec![
                option("yes", PermissionOptionKind::AllowOnce),
                option("always", PermissionOptionKind::AllowAlways),
                option("no", PermissionOptionKind::RejectOnce),
            ];
            self.input(Input::PermissionAsked {
                turn,
                ask: Box::new(permission_request(ask, tool, options)),
            });
        }
    }

    /// The user answers the open gate, from the script.
    pub fn answer_gate(&mut self) {
        let gate = self.state.gates.open.clone().expect("a gate waits");
        let given = self
            .events
            .iter()
            .filter(|event| matches!(event, Event::Gate(GateEvent::Answered { by, .. }) if by.by == ActorKind::Tui))
            .count();
        let person = &self.script.person;
        assert!(
            !person.is_empty(),
            "the script has no answer for {:?}",
            gate.kind()
        );
        let (about, choice) = person[given.min(person.len() - 1)];
        assert_eq!(
            about,
            gate.kind(),
            "another gate than the script expects: {}",
            gate.reason
        );
        let text = matches!(choice, GateChoice::Send | GateChoice::Message)
            .then(|| "Try another way.".to_owned());
        let answer = creel::engine::input::GateAnswer {
            gate: gate.id,
            choice,
            text,
            items: None,
        };
        self.command(SessionCommand::AnswerGate(answer));
    }

    /// Whether the user answers the gate before time passes: the forge has nothing new to say.
    fn user_is_next(&self) -> bool {
        let is_over = self.looks() >= self.script.forge.len();
        self.state.gates.open.is_some() && self.state.pipelines.watch().is_some() && is_over
    }

    /// How many times the forge was asked.
    fn looks(&self) -> usize {
        let is_look = |event: &&Event| {
            matches!(
                event,
                Event::Watch(WatchEvent::Read(_) | WatchEvent::Failed { .. })
            )
        };
        self.events.iter().filter(is_look).count()
    }

    /// Does one of the pending things; `false` if there is nothing left.
    pub fn step(&mut self) -> bool {
        if self.left.is_some() {
            return false;
        }
        if !self.jobs.is_empty() {
            self.finish_hook(0);
        } else if !self.checks.is_empty() {
            self.finish_check(0);
        } else if self.turn.is_some() && self.state.gates.open.is_none() {
            self.finish_turn();
        } else if self.forge_call.is_some() {
            self.finish_forge_call();
        } else if let Some(at) = self.state.next_wake().filter(|_| !self.user_is_next()) {
            self.now = self.now.max(at);
            self.settle();
        } else if self.state.gates.open.is_some() {
            self.answer_gate();
        } else {
            return false;
        }
        true
    }

    pub fn run(mut self) -> Self {
        self.settle();
        for _ in 0..10_000 {
            if !self.step() {
                return self;
            }
        }
        panic!("the session does not end: {:?}", self.state.phase);
    }

    pub fn resume(self) -> Self {
        self.resume_with(None)
    }

    /// Resumes the session, and answers the gate at which it ended.
    pub fn resume_answering(self, choice: GateChoice) -> Self {
        self.resume_with(Some(ResumeAnswer { choice, text: None }))
    }

    fn resume_with(mut self, answer: Option<ResumeAnswer>) -> Self {
        let presence = self.script.presence;
        self.left = None;
        self.input(Input::Resume {
            presence,
            max_iterations: None,
            checkpoint: None,
            answer,
        });
        self.run()
    }

    /// What happened, one line each, without details for programs.
    pub fn story(&self) -> String {
        self.events
            .iter()
            .filter_map(line)
            .map(|line| line + "\n")
            .collect()
    }
}

/// One event as a line of a story.
fn line(event: &Event) -> Option<String> {
    let quoted = |text: &str| format!("{text:?}");
    Some(match event {
        Event::Session(SessionEvent::Started(_) | SessionEvent::ProcessStarted { .. })
        | Event::Hook(HookEvent::Due { .. } | HookEvent::Started { .. })
        | Event::Stop(StopEvent::RulesDue { .. } | StopEvent::RuleStarted { .. })
        | Event::Turn(TurnEvent::AgentSaid { .. }) => return None,
        Event::Session(SessionEvent::IterationStarted { iteration }) => {
            format!("iteration {iteration}")
        }
        Event::Session(SessionEvent::IterationCompleted { iteration, outcome }) => {
            format!("iteration {iteration} {outcome:?}").to_lowercase()
        }
        Event::Hook(HookEvent::Finished(done)) => finished(done),
        Event::Watch(WatchEvent::Read(read)) => format!("  forge: {}", read.reading.status()),
        Event::Pending(PendingEvent::Added { item, text, .. }) => {
            format!("  held {item} {}", quoted(text))
        }
        Event::Turn(TurnEvent::PromptSent(prompt)) if prompt.agent.is_some() => {
            format!(
                "  prompt {:?} for {}",
                prompt.reason,
                prompt.agent.as_deref().unwrap_or_default()
            )
        }
        Event::Turn(TurnEvent::PromptSent(prompt)) => {
            let items = if prompt.items.is_empty() {
                String::new()
            } else {
                format!(" items {:?}", numbers(&prompt.items))
            };
            format!(
                "  prompt {:?}{items} {}",
                prompt.reason,
                quoted(&prompt.text)
            )
            .replace("prompt I", "prompt i")
        }
        Event::Turn(TurnEvent::Ended { stop_reason, .. }) => {
            format!("  turn ended {stop_reason:?}")
        }
        Event::Turn(TurnEvent::Failed { error, .. }) => format!("  turn failed {error}"),
        Event::Pending(PendingEvent::Delivered { items }) => {
            format!("  delivered {:?}", numbers(items))
        }
        Event::Retry(RetryEvent::Counted {
            used,
            limit,
            no_progress,
            ..
        }) => {
            format!(
                "  retry {used}/{limit}{}",
                if *no_progress { " no progress" } else { "" }
            )
        }
        Event::Retry(RetryEvent::LimitReached { used, limit, .. }) => {
            format!("  retry limit {used}/{limit}")
        }
        Event::Gate(GateEvent::Opened { gate, about, .. }) => {
            format!("  gate {gate} {}", about.name())
        }
        Event::Gate(GateEvent::Answered {
            gate, choice, by, ..
        }) => {
            format!("  gate {gate} {} by {:?}", choice.name(), by.by)
        }
        Event::Turn(TurnEvent::PermissionAsked { ask, .. }) => {
            format!("  asks {}", quoted(&ask.tool.title))
        }
        Event::Retry(RetryEvent::BackoffStarted { wait_ms, .. }) => format!("  waits {wait_ms}"),
        Event::Stop(StopEvent::Decided(decided)) => format!("  decided {:?}", decided.action),
        Event::Stop(StopEvent::RuleChecked { rule, passed, .. }) => {
            format!(
                "  rule {rule} {}",
                if *passed { "passed" } else { "failed" }
            )
        }
        Event::Session(SessionEvent::Warning { text }) => format!("  warning {text}"),
        Event::Pipeline(PipelineEvent::Started { pipeline, .. }) => pipeline.name().into(),
        Event::Pipeline(PipelineEvent::RemediationCounted {
            used, limit, hook, ..
        }) => {
            format!("  repair {used}/{limit} of {hook}")
        }
        Event::Pipeline(PipelineEvent::Reviewed { review: said, .. }) => {
            format!("  review by {}: {}", said.gatekeeper, said.verdict.name())
        }
        Event::Pipeline(PipelineEvent::Ended {
            pipeline,
            outcome,
            reason,
            pull_request,
            ..
        }) => {
            let link = pull_request
                .as_ref()
                .map(|link| format!(" {link}"))
                .unwrap_or_default();
            format!("{} {outcome:?}{link} ({reason})", pipeline.name()).to_lowercase()
        }
        Event::Session(SessionEvent::Ended {
            outcome, reason, ..
        }) => format!("ended {} ({reason})", outcome.name()),
        other => {
            let record = serde_json::to_value(other).expect("a record");
            let words = record["kind"].as_str().unwrap_or("unknown").split('_');
            format!(
                "  {}",
                words
                    .map(|word| word[..1].to_uppercase() + &word[1..])
                    .collect::<String>()
            )
        }
    })
}

fn finished(done: &HookFinished) -> String {
    let piped = if done.piped { " piped" } else { "" };
    let with = done.tests_of.as_ref();
    let with = with.map(|run| format!(" {}", run.of.words()));
    format!(
        "  {} {}{} {} -> {:?}{piped}",
        done.point,
        done.hook,
        with.unwrap_or_default(),
        done.end.describe(),
        done.verdict
    )
}

fn numbers(items: &[creel::engine::ids::ItemId]) -> Vec<u64> {
    items.iter().map(|item| item.0).collect()
}

/// A snapshot of this state restores it.
pub fn is_restored_from_its_stored_form(state: &SessionState) {
    let stored = serde_json::to_vec(state).expect("a state is stored");
    let restored: SessionState = serde_json::from_slice(&stored).expect("a stored state is read");
    assert_eq!(&restored, state);
}
