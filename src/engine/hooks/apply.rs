//! Applies the events of hooks to the state.

use super::super::pending::{IncomingItem, ItemSource, ItemState};
use crate::engine::{
    event::{HookEvent, HookFinished, PromptSent},
    hooks::{
        HookRef,
        dispatch::{self, ActiveRun, DispatchCause, HookDispatch, QuestionFacts, ToolFacts},
        point::{HookPoint, PipeTarget},
        side_jobs::SideJob,
        verdict::RunEnd,
    },
    ids::PermissionId,
    question::QuestionAnswer,
    session::{SessionState, apply::dispatch_of, phase::Phase},
    stop::apply::{stop_hook_finished, stop_hook_started},
    turn::{
        ReadPrompt,
        apply::{is_sent_again, leave_turn},
    },
};

pub(crate) fn apply_hook(session: &mut SessionState, event: &HookEvent) {
    match event {
        HookEvent::Due {
            point,
            hooks,
            task,
            by_hand,
            ask,
            prompt,
            answer,
            ..
        } => {
            if let Some(prompt) = prompt {
                prompt_hooks_due(session, hooks, prompt);
            } else if point.is_in_turn() {
                tool_hooks_due(session, *point, hooks, *ask, answer.clone());
            } else {
                hooks_due(session, *point, hooks, task.is_some() || *by_hand);
            }
        }
        HookEvent::Requested {
            point: HookPoint::OnGate,
            hook,
            ..
        } => session.gate_hooks.run_by_hand(hook),
        HookEvent::Requested { point, hook, .. } => {
            session
                .side
                .queue
                .push_back(SideJob::ByHand(HookRef::new(*point, hook)));
        }
        HookEvent::Started {
            run,
            point,
            hook,
            iteration,
            beside,
            of,
            ..
        } => {
            let running = ActiveRun {
                run: *run,
                hook: hook.clone(),
                iteration: *iteration,
            };
            if *point == HookPoint::StopDecision {
                stop_hook_started(session, running, of.as_deref());
            } else {
                hook_started(session, running, *point, *beside);
            }
        }
        HookEvent::Finished(finished) => hook_finished(session, finished),
        HookEvent::Disabled { point, hook, .. } => hook_disabled(session, *point, hook),
        HookEvent::Enabled { point, hook, .. } => session.hooks.enable(HookRef::new(*point, hook)),
    }
}

/// Output of stop hooks is sent immediately if a hook blocks, and output for one prompt with that
/// prompt. If the user decides that it is not sent, the output becomes pending items for the next
/// prompt.
pub(crate) fn queue_unsent_output(session: &mut SessionState) {
    let Phase::Hooks(dispatch) = &session.phase else {
        return;
    };
    let unsent = if dispatch.point == HookPoint::Stop {
        Some(dispatch)
    } else {
        dispatch.before.as_deref()
    };
    let Some(dispatch) = unsent else {
        return;
    };
    let iteration = session.iterations.current;
    for done in &dispatch.done {
        let Some(text) = done.piped.clone() else {
            continue;
        };
        let source = ItemSource {
            run: done.run,
            point: dispatch.point,
            hook: done.hook.clone(),
            iteration,
            news: None,
        };
        session.pending.catch(IncomingItem::of_hook(source, text));
    }
}

pub(crate) fn hooks_due(
    session: &mut SessionState,
    point: HookPoint,
    hooks: &[String],
    beside: bool,
) {
    if point == HookPoint::OnGate {
        return session.gate_hooks.begin(hooks.iter().cloned().collect());
    }
    if beside {
        let known = hooks
            .iter()
            .filter(|hook| session.beside().runs_beside(point, hook))
            .cloned()
            .collect();
        return session.side.begin(known);
    }
    if point == HookPoint::SessionEnd {
        session.verify.pass = None;
    }
    session.pipelines.steps_due(point, hooks);
    let queue = Some(hooks.iter().cloned().collect());
    if let Some(dispatch) = session.phase.dispatch_at(point) {
        dispatch.queue = queue;
    } else {
        session.phase = Phase::Hooks(HookDispatch {
            queue,
            ..HookDispatch::reached(point, DispatchCause::Lifecycle)
        });
    }
}

/// A prompt waits for its hooks. Its items cannot be changed any more.
fn prompt_hooks_due(session: &mut SessionState, hooks: &[String], prompt: &PromptSent) {
    let is_for_one = |it: &&HookDispatch| {
        let target = it.point.rules().piped_to;
        matches!(target, PipeTarget::ThisPrompt | PipeTarget::Recovery)
    };
    let before = session.phase.dispatch().filter(is_for_one);
    let before = before.cloned().map(Box::new);
    session.turns.read = Some(ReadPrompt {
        text: prompt.text.clone(),
        again: is_sent_again(session, prompt),
    });
    leave_turn(session);
    session
        .pending
        .set_state(&prompt.items, ItemState::InFlight);
    session.phase = Phase::Hooks(HookDispatch {
        queue: Some(hooks.iter().cloned().collect()),
        before,
        ..HookDispatch::reached(
            HookPoint::PrePrompt,
            DispatchCause::Prompt(Box::new(prompt.clone())),
        )
    });
}

/// The hooks are for a request that waits, or for the call that ended last.
fn tool_hooks_due(
    session: &mut SessionState,
    point: HookPoint,
    hooks: &[String],
    ask: Option<PermissionId>,
    answer: Option<Box<QuestionAnswer>>,
) {
    let mut waiting = session.requests.waiting.iter();
    let asked = waiting.find(|known| Some(known.ask) == ask);
    let asked = asked.map(|known| {
        let whole = known.shortened && known.whole;
        let question = known.question().cloned();
        (
            known.tool.clone(),
            known.is_cut_for_hooks(),
            whole,
            question,
        )
    });
    let ended = || session.turns.ended_call.clone();
    let seen = asked.or_else(|| ended().map(|call| (call, false, false, None)));
    if let Some((call, shortened, whole, question)) = seen {
        let facts = ToolFacts {
            call,
            ask,
            shortened,
            whole,
            question: question.map(|question| Box::new(QuestionFacts { question, answer })),
        };
        let hooks = hooks.iter().cloned().collect();
        session.tool_hooks.begin(point, facts, hooks);
    }
}

pub(crate) fn hook_started(
    session: &mut SessionState,
    running: ActiveRun,
    point: HookPoint,
    beside: bool,
) {
    session.hooks.last_run = running.run;
    if point == HookPoint::Automation {
        return session.tasks.automation.started(running);
    }
    if !beside {
        session.pipelines.step_started(point, &running.hook);
    }
    let dispatch = if point == HookPoint::OnGate {
        session.gate_hooks.dispatch.as_mut()
    } else if point.is_in_turn() {
        let mut running = session.tool_hooks.dispatches_mut();
        running.find(|dispatch| dispatch.point == point)
    } else if beside {
        session.side.dispatch.as_mut()
    } else {
        session.phase.dispatch_at(point)
    };
    if let Some(dispatch) = dispatch {
        dispatch.started(running);
    }
}

pub(crate) fn hook_disabled(session: &mut SessionState, point: HookPoint, hook: &str) {
    session.hooks.disable(HookRef::new(point, hook));
    if point == HookPoint::Automation {
        return session.tasks.automation.drop_hooks(|name| name == hook);
    }
    let beside = session
        .side
        .dispatch
        .iter_mut()
        .chain(&mut session.gate_hooks.dispatch);
    for dispatch in beside.filter(|dispatch| dispatch.point == point) {
        dispatch.drop_from_queue(hook);
    }
    if let Some(dispatch) = session.phase.dispatch_at(point) {
        dispatch.drop_from_queue(hook);
    }
    session.side.settle();
    session.gate_hooks.settle();
    session.tool_hooks.drop_hook(point, hook);
}

pub(crate) fn hook_finished(session: &mut SessionState, finished: &HookFinished) {
    if finished.point == HookPoint::StopDecision {
        return stop_hook_finished(session, finished);
    }
    if session.tasks.automation.awaits(finished.run) {
        return session.tasks.automation.finished();
    }
    let point = finished.point;
    let spec = session.began.plan.hook(point, &finished.hook).cloned();
    let beside = session.side.dispatch.as_ref().is_some_and(|side| {
        side.running
            .as_ref()
            .is_some_and(|it| it.run == finished.run)
    });
    let outside = session.plan().is_led_from_outside();
    let Some(dispatch) = dispatch_of(session, finished.run) else {
        // The run belongs to a review whose session has already left the point.
        return session.pipelines.review_cut(finished);
    };
    dispatch.finished(spec.as_ref(), finished);
    if let Some(run) = &finished.tests_of {
        if !finished.again {
            session.verify.clean_run_ended(finished, run);
        }
        return;
    }
    if point == HookPoint::Stop && !beside && !finished.again && finished.end != RunEnd::Cut {
        session.verify.hook_ran(finished);
    }
    if !finished.again {
        let rule = || dispatch::view(finished).is_broken();
        let broken = finished
            .judged
            .as_ref()
            .map_or_else(rule, |judged| judged.broken)
            && finished.end != RunEnd::Cut;
        session
            .hooks
            .ran(HookRef::new(point, &finished.hook), broken);
    }
    if !beside {
        session.pipelines.step_finished(finished);
    } else if !finished.again && !outside {
        session.side.look(
            session
                .hooks
                .is_broken_again(&HookRef::new(point, &finished.hook)),
        );
    }
    session.side.settle();
    session.gate_hooks.settle();
    session.tool_hooks.settle();
    if finished.again {
        return;
    }
    if let Some(text) = finished
        .framed()
        .filter(|_| point.rules().piped_to == PipeTarget::Pending)
    {
        let source = ItemSource {
            run: finished.run,
            point,
            hook: finished.hook.clone(),
            iteration: finished.iteration,
            news: None,
        };
        session.pending.catch(IncomingItem::of_hook(source, text));
    }
}
