//! Applies the events of stop decisions to the state.

use super::{
    context::RuleOutcome,
    event::TimedCheckpoint,
    guard::{ChangedFiles, GuardState, IterationFacts},
};
use crate::engine::stop::chain::RegisteredStopHook;
use crate::engine::{
    conversation::WorktreeChanges,
    event::{CheckRunResult, HookFinished, SessionOutcome, StopDecided, StopEvent},
    hooks::{dispatch::ActiveRun, point::HookPoint},
    policy::StopHookKind,
    session::{
        SessionState,
        phase::{LoopEnd, Phase},
    },
    stop::{
        agent_loop::{AgentLoop, LoopGuards, StopEvaluation},
        decision::{StopAction, StopResult},
    },
    time::UnixTime,
    verify::{CheckKind, CheckRef},
};

pub(crate) fn apply_stop(session: &mut SessionState, at: UnixTime, event: &StopEvent) {
    match event {
        StopEvent::RulesDue { rules, of, .. } => {
            if let Some(judging) = judging_mut(session, of.as_deref()) {
                judging.rules = Some(rules.iter().cloned().collect());
            }
        }
        StopEvent::RuleStarted {
            run,
            rule,
            iteration,
            of,
        } => {
            session.hooks.last_run = *run;
            if let Some(judging) = judging_mut(session, of.as_deref()) {
                judging.rule_started(ActiveRun {
                    run: *run,
                    hook: rule.clone(),
                    iteration: *iteration,
                });
            }
        }
        StopEvent::RuleChecked {
            run,
            rule,
            passed,
            message,
            of,
            ..
        } => {
            let outcome = RuleOutcome {
                rule_name: rule.clone(),
                passed: *passed,
                message: message.clone(),
            };
            if of.is_none() {
                session
                    .stop
                    .failed_rules
                    .retain(|failed| failed.rule_name != *rule);
                session
                    .stop
                    .failed_rules
                    .extend((!passed).then(|| outcome.clone()));
                let result = if *passed {
                    CheckRunResult::Passed
                } else {
                    CheckRunResult::Failed
                };
                let reason = (!passed).then(|| message.clone());
                session
                    .verify
                    .ran(CheckRef::new(CheckKind::Rule, rule), result, reason);
            }
            if let Some(judging) = judging_mut(session, of.as_deref()) {
                judging.rule_checked(*run, outcome);
            }
        }
        StopEvent::Decided(decided) => stop_decided(session, decided),
        StopEvent::CheckpointKept(checkpoint) => {
            session.stop.checkpoints.push(TimedCheckpoint {
                at,
                checkpoint: (**checkpoint).clone(),
            });
        }
        // A journal can come with a clone: a hook that cannot be registered is not accepted from
        // there either.
        StopEvent::HookRegistered { hook, .. }
            if !matches!(hook.judge, StopHookKind::Preset(_)) => {}
        StopEvent::HookRegistered {
            hook_id,
            task,
            hook,
            metadata,
            by,
        } => {
            let (id, task, metadata, by) = (hook_id.clone(), task.clone(), metadata.clone(), by.by);
            session.stop.last += 1;
            session.stop.registered.push(RegisteredStopHook {
                id,
                task,
                hook: (**hook).clone(),
                metadata,
                by,
            });
        }
        StopEvent::HooksCleared { hooks, .. } => session
            .stop
            .registered
            .retain(|known| !hooks.contains(&known.id)),
        StopEvent::CompletionPromised { reason, .. } => {
            session.stop.promised = Some(reason.clone());
            // creel sees no turns of an agent that drives itself, so its checks always run.
            if session.plan().is_led_from_outside() {
                session.verify.forget_the_work();
                session.verify.feedback = None;
            }
        }
        StopEvent::LoopStarted {
            loop_id,
            task,
            max_iterations,
            promises,
            ..
        } => {
            session.stop.last += 1;
            session.stop.loops.push(AgentLoop {
                id: loop_id.clone(),
                task: task.clone(),
                max_iterations: *max_iterations,
                promises: promises.clone(),
                iteration: 1,
                judging: None,
                results: Vec::new(),
                decided: None,
                guards: LoopGuards::default(),
                is_over: false,
            });
        }
        StopEvent::LoopAdvanced {
            loop_id, iteration, ..
        } => {
            if let Some(known) = session.stop.loop_mut(loop_id) {
                known.iteration = *iteration;
                known.decided = None;
                known.guards.advance();
            }
        }
        StopEvent::JudgementAsked { asked, .. } => {
            if let Some(known) = session.stop.loop_mut(&asked.id) {
                known.judging = Some(StopEvaluation::asked(
                    (**asked).clone(),
                    known.results.clone(),
                ));
            }
        }
        StopEvent::LoopEnded { loop_id, .. } => {
            if let Some(known) = session.stop.loop_mut(loop_id) {
                known.is_over = true;
                known.judging = None;
            }
        }
    }
}

/// The evaluation of that loop, or of the session's own iteration. The first record starts it.
fn judging_mut<'a>(
    session: &'a mut SessionState,
    of: Option<&str>,
) -> Option<&'a mut StopEvaluation> {
    if let Some(id) = of {
        return session.stop.loop_mut(id)?.judging.as_mut();
    }
    if matches!(&session.phase, Phase::Hooks(dispatch) if dispatch.point == HookPoint::PostIteration)
    {
        session.phase = Phase::Judging(Box::default());
    }
    if let Phase::Judging(judging) = &mut session.phase {
        Some(judging)
    } else {
        None
    }
}

pub(crate) fn stop_hook_started(session: &mut SessionState, running: ActiveRun, of: Option<&str>) {
    session.hooks.last_run = running.run;
    if let Some(judging) = judging_mut(session, of) {
        judging.rules.get_or_insert_default();
        judging.running = Some(running);
    }
}

pub(crate) fn stop_hook_finished(session: &mut SessionState, finished: &HookFinished) {
    let here = if let Phase::Judging(judging) = &mut session.phase {
        Some(&mut **judging)
    } else {
        None
    };
    let beside = session
        .stop
        .loops
        .iter_mut()
        .filter_map(|known| known.judging.as_mut());
    let awaits = |judging: &&mut StopEvaluation| {
        judging
            .running
            .as_ref()
            .is_some_and(|one| one.run == finished.run)
    };
    let Some(judging) = here.into_iter().chain(beside).find(awaits) else {
        return;
    };
    judging.running = None;
    if let Some(decision) = finished.decision.as_ref().filter(|_| !finished.again) {
        judging
            .answers
            .insert(finished.hook.clone(), (**decision).clone());
    }
}

/// Evaluations that were in progress when creel died run again.
pub(crate) fn cut_judgements(session: &mut SessionState) {
    if let Phase::Judging(judging) = &mut session.phase {
        judging.cut();
    }
    // The agent's connection is gone, so it requests the evaluation again.
    session
        .stop
        .loops
        .iter_mut()
        .for_each(|known| known.judging = None);
}

fn stop_decided(session: &mut SessionState, decided: &StopDecided) {
    if let Some(id) = &decided.of {
        return loop_decided(session, id, decided);
    }
    if session.ending.is_some() {
        // A question in the turn of a final delivery.
        session.phase = Phase::Escalated(
            decided
                .explanation
                .as_ref()
                .unwrap_or(&decided.reason)
                .clone(),
        );
        session.stop.blocked.clone_from(&decided.blocked);
        return;
    }
    let results = session
        .phase
        .judging_here()
        .map(|judging| judging.results.clone())
        .unwrap_or_default();
    if let Some(streaks) = &decided.streaks {
        let facts = IterationFacts {
            rules: &results,
            files: ChangedFiles::Seen(&session.iterations.contents),
            message: &session.turns.agent_text,
        };
        session.stop.guards.store(facts, streaks.clone());
    }
    session.stop.promised = None;
    session.stop.escalated = None;
    session.stop.blocked.clone_from(&decided.blocked);
    session.stop.idle = decided.idle;
    if !decided.open_tasks.is_empty() {
        session.stop.reminded.clone_from(&decided.open_tasks);
    }
    session.turns.next_prompt.clone_from(&decided.next_prompt);
    let explanation = decided.explanation.as_ref().unwrap_or(&decided.reason);
    session.phase = match decided.action {
        StopAction::Complete => {
            Phase::Exit(LoopEnd::offering(SessionOutcome::Complete, explanation))
        }
        StopAction::Continue => Phase::Between,
        StopAction::Escalate => Phase::Escalated(explanation.clone()),
    };
}

fn loop_decided(session: &mut SessionState, id: &str, decided: &StopDecided) {
    let outside = session.plan().is_led_from_outside();
    let Some(known) = session.stop.loop_mut(id) else {
        return;
    };
    if let Some(judging) = known.judging.take() {
        if let Some(streaks) = &decided.streaks {
            let facts = judging.facts(&judging.results);
            known.guards.store(facts, streaks.clone());
        }
        known.results = judging.results;
    }
    let (action, reason, task) = (decided.action, decided.reason.clone(), known.task.clone());
    let escalated = known
        .decided
        .as_ref()
        .is_some_and(|before| before.action == StopAction::Escalate);
    // A loop that waits for the user stays escalated, even if a later evaluation decides
    // differently.
    let stays = escalated && session.tasks.is_blocked(&task);
    if let Some(known) = session.stop.loop_mut(id).filter(|_| !stays) {
        known.decided = Some(StopResult {
            next_prompt: decided.next_prompt.clone(),
            metadata: decided.metadata.clone(),
            ..StopResult::new(action, reason.clone())
        });
    }
    // An agent that the user runs by hand gets the decision as the answer to its request; creel has
    // no loop to stop.
    if action == StopAction::Escalate && !outside {
        session.stop.escalated = Some((decided.hook.clone(), task, reason));
    }
}

/// Records that creel did not see what a turn changed. A reviewer's turns are not surveyed.
pub(crate) fn unseen(session: &mut SessionState) {
    if !session.phase.gatekeeper_works() {
        session.iterations.all_files.add_unseen();
    }
}

/// Records a turn's changes to the project's files.
pub(crate) fn work_done(session: &mut SessionState, work: Option<&WorktreeChanges>) {
    let Some(work) = work else {
        session.iterations.activity.unknown_work = true;
        unseen(session);
        session.iterations.worked = true;
        return;
    };
    session.iterations.all_files.add(work);
    session.iterations.worked |= !work.files_modified.is_empty() || work.more_modified > 0;
    for file in &work.files_modified {
        if !session.iterations.files.contains(file) {
            session.iterations.files.push(file.clone());
        }
    }
    for (file, content) in &work.contents {
        let known = session
            .iterations
            .contents
            .get(file)
            .map(|before| before.then(content));
        session
            .iterations
            .contents
            .insert(file.clone(), known.unwrap_or_else(|| content.clone()));
    }
    session.turns.work = Some(Box::new(work.clone()));
}

/// The user has decided: the guards start again.
pub(crate) fn looked_at(session: &mut SessionState) {
    session.stop.guards = GuardState::default();
    session.stop.blocked.clear();
    let whole_session = session.name.clone();
    loops_go_on(session, &whole_session);
}

/// Clears a loop's escalation, unless its task is still blocked.
pub(crate) fn loops_go_on(session: &mut SessionState, task: &str) {
    if session.tasks.is_blocked(task) {
        return;
    }
    for known in session
        .stop
        .loops
        .iter_mut()
        .filter(|known| known.task == task)
    {
        if known
            .decided
            .take_if(|decided| decided.action == StopAction::Escalate)
            .is_some()
        {
            known.guards = LoopGuards::default();
        }
    }
}
