//! How each event changes the state. Nothing is decided here: an event says what was decided.

mod hooks;

use super::{
    Phase, SessionState,
    budget::ConversationUsage,
    delivery::LoopEnd,
    gate::{Gate, GateChoice, GateKind},
    pending::{ItemSource, ItemState, PendingItem},
    retry::RetryWait,
    turn::{DuePrompt, REFUSED},
};
use crate::engine::{
    conversation::StopReason,
    effect::TaskFacts,
    event::{Actor, Event, FinalDeliveryMode, IterationOutcome, PromptReason, PromptSent, SessionOutcome, StopTiming},
    hooks::{
        dispatch::{ActiveRun, DispatchCause, DispatchQuestion, HookDispatch},
        point::HookPoint,
        resolve::{self, HookRef},
    },
    ids::RunId,
    session::{control::QueuedMessage, side_jobs::SideJob},
    stop::settled::StopHookSigns,
    submit::{FinishedPipeline, PipelineOutcome, ReturnTo},
    time::{TimeSpan, UnixTime},
};

impl SessionState {
    /// Takes in one event.
    pub fn apply(&mut self, at: UnixTime, event: &Event) {
        self.store(at, event);
        self.note_gate_change(event);
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each kind of record: split, a new kind could be forgotten")]
    fn store(&mut self, at: UnixTime, event: &Event) {
        match event {
            Event::SessionStarted(began) => *self = Self::new(&self.name, (**began).clone(), at),
            Event::SessionResumed { presence, max_iterations, checkpoint, paused, .. } => {
                self.steering.paused = *paused;
                self.retry.resumed(at);
                if let Some(gate) = &mut self.gates.open {
                    gate.opened = gate.opened.min(at);
                }
                self.resumed(*presence, *max_iterations, *checkpoint);
            }
            Event::IterationStarted { iteration } => self.iteration_started(*iteration),
            Event::IterationCompleted { outcome, .. } => self.iteration_completed(*outcome),
            Event::HooksDue { point, hooks, task, by_hand, .. } => {
                self.hooks_due(*point, hooks, task.is_some() || *by_hand);
            }
            Event::HookRequested { point: HookPoint::OnGate, hook, .. } => self.gate_hooks.run_by_hand(hook),
            Event::HookRequested { point, hook, .. } => {
                self.side.queue.push_back(SideJob::ByHand(HookRef::new(*point, hook)));
            }
            Event::HookStarted { run, point, hook, iteration, beside, of, .. } => {
                let running = ActiveRun { run: *run, hook: hook.clone(), iteration: *iteration };
                if *point == HookPoint::StopDecision {
                    self.stop_hook_started(running, of.as_deref());
                } else {
                    self.hook_started(running, *point, *beside);
                }
            }
            Event::HookFinished(finished) => self.hook_finished(finished),
            Event::HookDisabled { point, hook, .. } => self.hook_disabled(*point, hook),
            Event::HookEnabled { point, hook, .. } => self.hooks.enable(HookRef::new(*point, hook)),
            Event::PendingAdded { item, run, point, hook, iteration, text, .. } => {
                let source = ItemSource { run: *run, point: *point, hook: hook.clone(), iteration: *iteration };
                let state = ItemState::Pending;
                self.pending.added(PendingItem { id: *item, source, text: text.clone(), edited: false, state });
            }
            Event::PendingSkipped { item, .. } => self.pending.set_state(&[*item], ItemState::Skipped),
            Event::PendingRestored { item, .. } => self.pending.set_state(&[*item], ItemState::Pending),
            Event::PendingEdited { item, text, .. } => self.pending.edit(*item, text),
            Event::PromptSent(prompt) => {
                self.account.turn_began = at;
                self.unseen_changes(prompt);
                self.prompt_sent(prompt);
            }
            Event::AgentSaid { text, .. } => self.turns.hear(text),
            Event::ToolCalled { tool, .. } => self.turns.act(tool),
            Event::ToolUpdated { tool, .. } => self.turns.follow(tool),
            // What a gatekeeper remembers is its own affair.
            Event::AgentUsed { .. } | Event::ConversationOpened { .. } if self.gatekeeper_works() => {}
            Event::AgentUsed { context, .. } => self.turns.context = Some(*context),
            Event::ConversationOpened { conversation, turn, .. } => {
                if self.turns.conversation.as_ref() != Some(conversation) {
                    self.account.conversation = ConversationUsage::default();
                }
                self.turns.conversation = Some(conversation.clone());
                self.turns.opened_in = Some(*turn);
                self.turns.context = None;
            }
            Event::PermissionAsked { ask, .. } => self.asks.waiting.push_back((**ask).clone()),
            Event::TurnEnded { stop_reason, spent, work, forbidden, .. } => {
                self.account.book(at, *spent);
                self.work_done(work.as_deref());
                if *stop_reason == StopReason::EndTurn && !self.gatekeeper_works() {
                    let files = work.as_deref().map(|work| &*work.files_modified).unwrap_or_default();
                    self.limits.turn_ended(&self.turns.said, files);
                }
                self.forbidden_changes(forbidden);
                self.asks.waiting.clear();
                self.turn_stopped(*stop_reason);
            }
            Event::TurnFailed { error, retry_after_ms, usage_limit, spent, forbidden, .. } => {
                self.account.book(at, *spent);
                self.forbidden_changes(forbidden);
                self.asks.waiting.clear();
                // A failed turn does not say what it changed.
                self.iterations.signs.unknown_work = true;
                match self.turn_that_ended().filter(|_| *usage_limit) {
                    Some(prompt) => self.limited_turn(prompt),
                    None => self.turn_failed(error, *retry_after_ms),
                }
            }
            Event::LimitReached(reached) => self.limit_reached(at, reached),
            Event::AgentSwitched { from, to, .. } => self.agent_switched(from, to),
            Event::WaitSkipped { .. } => self.wait_skipped(),
            Event::Delivered { .. } => self.pending.reported(),
            Event::RetryCounted { used, limit, .. } => self.retry_counted(*used, *limit),
            Event::RetryLimitReached { limit, .. } => {
                self.retry.applies = Some(*limit);
                self.ask_once(DispatchQuestion::Limit);
            }
            Event::BackoffStarted { until, wait_ms } => {
                self.retry.wait = RetryWait::Until(*until);
                self.retry.last_wait = *wait_ms;
            }
            Event::GateOpened { gate, about, reason, hook, items, ask, choices } => {
                self.gates.last = *gate;
                let (reason, hook, items, choices) = (reason.clone(), hook.clone(), items.clone(), choices.clone());
                let (id, about, ask) = (*gate, *about, *ask);
                self.gates.open = Some(Gate { id, about, reason, hook, items, ask, choices, opened: at });
            }
            Event::GateAnswered { choice, by, .. } => self.gate_answered(at, *choice, by),
            Event::RulesDue { .. }
            | Event::RuleStarted { .. }
            | Event::RuleChecked { .. }
            | Event::StopDecided(_)
            | Event::Checkpoint(_)
            | Event::StopHookRegistered { .. }
            | Event::StopHooksCleared { .. }
            | Event::AgentLoopStarted { .. }
            | Event::AgentLoopAdvanced { .. }
            | Event::JudgementAsked { .. }
            | Event::AgentLoopEnded { .. }
            | Event::CompletionPromised { .. } => self.apply_stop(at, event),
            Event::TaskCreated(_)
            | Event::TaskStarted(_)
            | Event::TaskCompleted(_)
            | Event::TaskBlocked(_)
            | Event::TaskDeleted(_)
            | Event::TaskUpdated(_)
            | Event::DependencyAdded(_)
            | Event::DependencyRemoved(_)
            | Event::DependencySatisfied(_)
            | Event::AgentMetrics(_)
            | Event::Custom(_)
            | Event::ActionError(_) => self.apply_task(at, event),
            Event::HookError { data, event: Some(event), .. } => {
                self.tasks.automation.decided(*event, &data.hook_name, &[]);
            }
            Event::WorkflowStarted(began) => self.flow_started(began),
            Event::WorkflowStepStarted { flow, step, run } => self.flow_step_started(*flow, step, *run),
            Event::WorkflowStepEnded(ended) => self.flow_step_ended(ended),
            Event::WorkflowEnded { flow, .. } => self.flow_ended(*flow),
            Event::AutomationDue { event, hooks, .. } => self.tasks.automation.due(*event, hooks),
            Event::AutomationDecided { event, hook, actions } => self.tasks.automation.decided(*event, hook, actions),
            Event::PipelineRequested { .. }
            | Event::PipelineStarted { .. }
            | Event::RemediationCounted { .. }
            | Event::ReviewStarted { .. }
            | Event::Reviewed { .. }
            | Event::PipelineEnded { .. } => self.apply_pipeline(at, event),
            Event::Paused { turn, .. } => {
                self.steering.paused = true;
                self.steering.cancelled = *turn;
            }
            Event::Unpaused { .. } => self.steering.paused = false,
            Event::MessageQueued { by, text } => {
                self.steering.messages.push(QueuedMessage { by: by.by, text: text.clone() });
                self.steering.queued_in.note(by.by, self.turns.last);
            }
            Event::StopRequested { how, .. } => self.stop_requested(*how),
            Event::ProcessStarted { pid, started } => self.processes.push((*pid, *started)),
            Event::LoopEnded { outcome, reason, delivery } => self.loop_ended(*outcome, reason, *delivery),
            Event::SessionEnded { outcome, .. } => self.phase = Phase::Ended(*outcome),
            // For people and for other programs; nothing follows from them here.
            Event::AgentThought { .. }
            | Event::AgentPlanned { .. }
            | Event::AgentNoted { .. }
            | Event::HookError { .. }
            | Event::Warning { .. }
            | Event::Unknown => {}
        }
    }

    /// The main line's dispatch, if it is at that point.
    fn dispatch_at(&mut self, point: HookPoint) -> Option<&mut HookDispatch> {
        let Phase::Hooks(dispatch) = &mut self.phase else { return None };
        (dispatch.point == point).then_some(dispatch)
    }

    /// The dispatch that waits for this run.
    fn dispatch_of(&mut self, run: RunId) -> Option<&mut HookDispatch> {
        let main = if let Phase::Hooks(dispatch) = &mut self.phase { Some(dispatch) } else { None };
        let waits = |dispatch: &&mut HookDispatch| dispatch.running.as_ref().is_some_and(|running| running.run == run);
        main.into_iter().chain(&mut self.side.dispatch).chain(&mut self.gate_hooks.dispatch).find(waits)
    }

    pub(super) fn gatekeeper_works(&self) -> bool {
        self.turn_in_flight().is_some_and(|prompt| prompt.agent.is_some())
    }

    fn ask_once(&mut self, question: DispatchQuestion) {
        if let Phase::Hooks(dispatch) = &mut self.phase {
            dispatch.asked.push(question);
        }
    }

    fn iteration_started(&mut self, iteration: u32) {
        self.iterations.current = iteration;
        self.iterations.begin_work();
        // What the agent promised in a turn that failed is not said of this one.
        self.stop.promised = None;
        self.retry.wait = RetryWait::No;
        self.phase = Phase::Hooks(HookDispatch::reached(HookPoint::PreIteration, DispatchCause::Lifecycle));
    }

    fn iteration_completed(&mut self, outcome: IterationOutcome) {
        self.set_turn_aside();
        if let Phase::Hooks(dispatch) = &self.phase
            && dispatch.point == HookPoint::Stop
        {
            self.iterations.signs.stop_hooks = StopHookSigns::of(dispatch);
        }
        self.iterations.open = false;
        self.iterations.last = Some(outcome);
        if matches!(self.phase, Phase::Exit(_)) {
            return;
        }
        match outcome {
            IterationOutcome::Done | IterationOutcome::Forced => {
                self.hold_what_stop_hooks_piped();
                self.phase = Phase::Hooks(HookDispatch::reached(HookPoint::PostIteration, DispatchCause::Lifecycle));
            }
            IterationOutcome::Failed => {
                if self.retry.errors > 0 && self.retry.wait == RetryWait::No {
                    self.retry.wait = RetryWait::Due { nth: self.retry.errors, at_least: TimeSpan::default() };
                }
                self.phase = Phase::Between;
            }
        }
    }

    fn prompt_sent(&mut self, prompt: &PromptSent) {
        self.turns.last = prompt.turn;
        self.side.chained = 0;
        if prompt.agent.is_none() {
            self.limits.prompt_sent();
        }
        self.turns.is_begun |= prompt.agent.is_none();
        self.turns.said.clear();
        self.turns.acted_since = false;
        self.asks.next_turn();
        self.turns.prompt.clone_from(&prompt.text);
        self.turns.open_calls.clear();
        let again = matches!(&self.phase, Phase::Due(DuePrompt::Again(before) | DuePrompt::Cancelled(before)) if prompt.text.ends_with(&before.text));
        let by_person = self.steering.person_speaks_in(prompt.messages);
        if prompt.reason == PromptReason::Message && !by_person && !again {
            self.iterations.messages += 1;
        }
        // What a message replaces was not delivered.
        self.set_turn_aside();
        if prompt.reopens {
            self.ending = None;
            self.iterations.begin_work();
        }
        self.pending.set_state(&prompt.items, ItemState::InFlight);
        self.retry.wait = RetryWait::No;
        if prompt.reason == PromptReason::Gatekeeper {
            self.gatekeeper_asked();
        }
        match prompt.reason {
            PromptReason::Iteration => self.retry.reset(),
            PromptReason::Message if by_person => self.retry.reset(),
            PromptReason::Message
            | PromptReason::Feedback
            | PromptReason::Recovery
            | PromptReason::FinalDelivery
            | PromptReason::Remediation
            | PromptReason::Gatekeeper => {}
        }
        self.phase = Phase::Turn(Box::new(prompt.clone()));
    }

    fn turn_stopped(&mut self, reason: StopReason) {
        match reason {
            StopReason::Refusal => self.turn_failed(REFUSED, None),
            StopReason::Cancelled => self.turn_cancelled(),
            StopReason::MaxTokens if self.gatekeeper_works() => {
                self.gatekeeper_answered(Some("it ran into its token limit before it was done"));
            }
            StopReason::MaxTurnRequests if self.gatekeeper_works() => {
                self.gatekeeper_answered(Some("it used all the requests of its turn before it was done"));
            }
            StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests => self.turn_ended(),
        }
    }

    fn turn_ended(&mut self) {
        let Some(prompt) = self.turn_that_ended() else { return };
        if prompt.reason == PromptReason::Gatekeeper {
            return self.gatekeeper_answered(None);
        }
        // A recovery says nothing about whether the work goes on: it neither adds to the count nor clears it.
        if prompt.reason != PromptReason::Recovery {
            self.retry.errors = 0;
        }
        self.pending.deliver(&prompt.items);
        self.steering.messages.drain(..prompt.messages.min(self.steering.messages.len()));
        if prompt.reason == PromptReason::Iteration {
            self.turns.next_prompt = None;
        }
        let message_is_due = self.message_is_due();
        self.phase = match (&mut self.ending, prompt.reason) {
            _ if self.pipelines.is_open() => Phase::Pipeline,
            (Some(ending), _) => {
                // What is caught from now on was not seen by whoever approved.
                ending.approved = None;
                ending.deliveries += u32::from(prompt.reason == PromptReason::FinalDelivery);
                Phase::Delivering
            }
            (None, PromptReason::Recovery) => Phase::Settled(IterationOutcome::Failed),
            (None, _) if message_is_due => Phase::Due(DuePrompt::Message),
            (None, _) => Phase::Hooks(HookDispatch::reached(HookPoint::Stop, DispatchCause::Lifecycle)),
        };
    }

    fn turn_cancelled(&mut self) {
        let Some(prompt) = self.turn_that_ended() else { return };
        if prompt.reason == PromptReason::Gatekeeper {
            return self.gatekeeper_answered(Some("it was cancelled"));
        }
        self.pending.set_state(&prompt.items, ItemState::Pending);
        let interrupted = self.interrupted();
        self.phase = match &mut self.ending {
            _ if self.pipelines.is_open() => Phase::Pipeline,
            Some(ending) => {
                ending.delivery = FinalDeliveryMode::No;
                Phase::Delivering
            }
            None if interrupted => Phase::Due(DuePrompt::Again(prompt)),
            None if self.steering.person_spoke_after(prompt.messages) => Phase::Due(DuePrompt::Message),
            None if self.steering.cancelled == Some(prompt.turn) => {
                self.pending.set_state(&prompt.items, ItemState::InFlight);
                Phase::Due(DuePrompt::Cancelled(prompt))
            }
            // The agent ended the turn itself: what the prompt carried goes with the next iteration, as after a turn that
            // failed.
            None => Phase::Settled(IterationOutcome::Failed),
        };
    }

    fn turn_failed(&mut self, error: &str, retry_after: Option<TimeSpan>) {
        let Some(prompt) = self.turn_that_ended() else { return };
        if prompt.reason == PromptReason::Gatekeeper {
            return self.gatekeeper_answered(Some(error));
        }
        self.pending.set_state(&prompt.items, ItemState::Pending);
        // A pipeline counts by itself how often something is repaired.
        if prompt.reason != PromptReason::Recovery && !self.pipelines.is_open() {
            self.retry.errors += 1;
        }
        self.retry.wait = RetryWait::Due { nth: self.retry.errors, at_least: retry_after.unwrap_or_default() };
        self.turns.last_error = Some(error.to_owned());
        self.phase = match (prompt.reason, &self.ending) {
            (PromptReason::Recovery, _) if self.pipelines.is_open() => Phase::Pipeline,
            (PromptReason::Recovery, Some(_)) => Phase::Delivering,
            (PromptReason::Recovery, None) => Phase::Settled(IterationOutcome::Failed),
            (
                PromptReason::Iteration
                | PromptReason::Feedback
                | PromptReason::FinalDelivery
                | PromptReason::Message
                | PromptReason::Remediation
                | PromptReason::Gatekeeper,
                _,
            ) => Phase::Hooks(HookDispatch::reached(HookPoint::OnError, DispatchCause::Error(error.to_owned()))),
        };
    }

    fn turn_that_ended(&self) -> Option<Box<PromptSent>> {
        let Phase::Turn(prompt) = &self.phase else { return None };
        Some(prompt.clone())
    }

    fn retry_counted(&mut self, used: u32, limit: u32) {
        let feedback = if let Phase::Hooks(dispatch) = &self.phase { self.feedback(dispatch) } else { None };
        self.retry.used = used;
        self.retry.applies = Some(limit);
        let Some(feedback) = feedback else { return };
        self.count_retries(&feedback);
        self.retry.last_feedback = Some(feedback.text.clone());
        self.retry.last_usual = Some(feedback.usual);
        self.retry.wait = RetryWait::Due { nth: used, at_least: TimeSpan::default() };
        self.phase = Phase::Due(DuePrompt::Feedback(feedback.text));
    }

    pub(in crate::engine) fn task_completed(&mut self, id: &str, content: &str, depth: u32) {
        let hooks_run = !resolve::due(self.plan(), &self.hooks, HookPoint::OnTaskComplete).is_empty();
        if self.side.completed.insert(id.to_owned()) && hooks_run {
            let task = TaskFacts { id: id.to_owned(), content: content.to_owned() };
            self.side.queue.push_back(SideJob::Task { task, depth });
        }
    }

    fn stop_requested(&mut self, how: StopTiming) {
        self.steering.stop = Some(how);
        if how == StopTiming::AfterIteration {
            return;
        }
        self.set_turn_aside();
        self.side.drop_by_hand();
        self.gate_hooks.stop();
        self.drop_automation_commands();
        self.tasks.flows.cut();
        self.stop.loops.iter_mut().for_each(|known| known.judging = None);
        self.gates.open = None;
        self.asks.waiting.clear();
        // A session that had ended before it was submitted has ended as it did.
        let had_ended = matches!(&self.pipelines.course, Some(course) if matches!(course.back, ReturnTo::Ended(_)));
        let stays = self.is_ending() || had_ended;
        if let Some(ending) = self.ending.as_mut().filter(|_| !stays) {
            ending.delivery = FinalDeliveryMode::No;
            ending.interrupted = true;
        }
    }

    /// The session leaves its phase. A turn that was about to be sent to the agent again is not sent, and a review that
    /// was about to ask a gatekeeper keeps its hooks, so that its run can be ended.
    fn set_turn_aside(&mut self) {
        self.gatekeeper_asked();
        if let Phase::Due(DuePrompt::Again(prompt) | DuePrompt::Cancelled(prompt)) = &self.phase {
            self.pending.set_state(&prompt.items, ItemState::Pending);
        }
    }

    fn loop_ended(&mut self, outcome: SessionOutcome, reason: &str, delivery: FinalDeliveryMode) {
        self.gates.open = None;
        self.asks.waiting.clear();
        self.pipelines.course = None;
        // A person may end anew what had ended: that is no other loop, and what was submitted is submitted.
        let was_cut = |last: &FinishedPipeline| last.outcome == PipelineOutcome::Cancelled;
        self.pipelines.followed &= self.ending.is_some() && !self.pipelines.last.as_deref().is_some_and(was_cut);
        self.stop.promised = None;
        let stopped_at =
            (outcome == SessionOutcome::Cancelled && self.interrupted()).then(|| self.phase_to_resume()).flatten();
        let cut_short = self.ends_well() && outcome == SessionOutcome::Escalated;
        let before = self.ending.take().filter(|_| cut_short).map(Box::new);
        self.ending = Some(LoopEnd { delivery, before, stopped_at, ..LoopEnd::offering(outcome, reason) });
        self.phase = Phase::Delivering;
    }

    fn gate_answered(&mut self, at: UnixTime, choice: GateChoice, by: &Actor) {
        let Some(gate) = self.gates.open.take() else { return };
        let of_a_loop = self.is_of_a_loop(&gate);
        if of_a_loop {
            self.stop.blocked = self.stop.escalated.take().map(|(_, task, _)| task).into_iter().collect();
        }
        let beside = self.side.asked(&gate.reason, choice);
        if gate.about == GateKind::Tampered {
            self.tampered_answered(choice);
        }
        let reason = || gate.reason.clone();
        if choice.leaves_the_loop() {
            self.set_turn_aside();
        }
        match choice {
            GateChoice::Abort => return self.exit(SessionOutcome::Aborted, &reason()),
            GateChoice::Fail => return self.exit(SessionOutcome::Failed, &reason()),
            GateChoice::Escalate => return self.exit(SessionOutcome::Escalated, &reason()),
            GateChoice::Complete => {
                self.hold_what_stop_hooks_piped();
                self.phase = Phase::Exit(LoopEnd::offering(SessionOutcome::Complete, "accepted by a person"));
                return;
            }
            GateChoice::Stop => return self.budget_stopped(by, &gate),
            GateChoice::Approve
            | GateChoice::Skip
            | GateChoice::Continue
            | GateChoice::Send
            | GateChoice::Message
            | GateChoice::Ignore
            | GateChoice::Disable
            | GateChoice::Retry
            | GateChoice::Wait
            | GateChoice::Switch
            | GateChoice::Leave
            | GateChoice::AllowOnce
            | GateChoice::AllowAlways
            | GateChoice::RejectOnce
            | GateChoice::RejectAlways
            | GateChoice::Cancel => {}
        }
        match gate.about {
            GateKind::FinalDelivery => {
                // Not what was caught while the gate was open: nobody has seen that.
                let approved = self.pending.waiting_ids().into_iter().filter(|id| gate.items.contains(id)).collect();
                if let Some(ending) = &mut self.ending {
                    ending.approved = Some(approved);
                    ending.seen = gate.items;
                }
            }
            GateKind::Delivery => {
                if let Phase::Hooks(dispatch) = &mut self.phase {
                    dispatch.seen = gate.items;
                }
            }
            GateKind::RetryLimit => self.limit_answered(choice, &gate.reason),
            GateKind::Escalation if matches!(self.phase, Phase::Escalated(_)) => {
                self.phase = Phase::Between;
                self.looked_at();
            }
            GateKind::Escalation if of_a_loop => self.looked_at(),
            GateKind::Escalation => self.ask_once(DispatchQuestion::Escalation),
            GateKind::Errors => self.retry.errors = 0,
            GateKind::BrokenHook if beside => {}
            GateKind::BrokenHook => self.broken_answered(choice, gate.hook.as_deref()),
            GateKind::Permission if choice == GateChoice::Cancel => self.asks.waiting.clear(),
            GateKind::Permission => {
                let agent = self.asking_agent().to_owned();
                self.asks.answered(choice, &agent);
            }
            GateKind::UsageLimit => self.limit_answered_by_user(at, choice),
            GateKind::Budget => self.account.grant(&self.began.plan.budget),
            // Settled above, whatever the answer.
            GateKind::Tampered => {}
            GateKind::Submit | GateKind::Merge => self.pipeline_answered(choice, by, &gate),
        }
    }

    fn exit(&mut self, outcome: SessionOutcome, reason: &str) {
        self.phase = Phase::Exit(LoopEnd::undelivered(outcome, reason));
    }

    fn limit_answered(&mut self, choice: GateChoice, reason: &str) {
        match choice {
            GateChoice::Ignore => {
                self.iterations.forced_past = Some(reason.to_owned());
                self.accept_protected();
                self.hold_what_stop_hooks_piped();
                self.phase = Phase::Settled(IterationOutcome::Forced);
            }
            GateChoice::Send | GateChoice::Message => {
                self.hold_what_stop_hooks_piped();
                self.phase = Phase::Due(DuePrompt::Message);
            }
            GateChoice::Continue => {
                self.grant_retries();
                self.forget_limit();
            }
            // Without the hook the turn is judged again.
            GateChoice::Disable => self.forget_limit(),
            GateChoice::Approve
            | GateChoice::Skip
            | GateChoice::Retry
            | GateChoice::Wait
            | GateChoice::Switch
            | GateChoice::Complete
            | GateChoice::Escalate
            | GateChoice::Fail
            | GateChoice::Stop
            | GateChoice::Leave
            | GateChoice::AllowOnce
            | GateChoice::AllowAlways
            | GateChoice::RejectOnce
            | GateChoice::RejectAlways
            | GateChoice::Cancel
            | GateChoice::Abort => {}
        }
    }

    fn forget_limit(&mut self) {
        if let Phase::Hooks(dispatch) = &mut self.phase {
            dispatch.asked.retain(|asked| *asked != DispatchQuestion::Limit);
        }
    }

    fn broken_answered(&mut self, choice: GateChoice, hook: Option<&str>) {
        let (Phase::Hooks(dispatch), Some(hook), GateChoice::Retry) = (&mut self.phase, hook, choice) else { return };
        dispatch.requeue(hook);
    }
}
