//! Applies the events of tasks to the state.

use std::collections::BTreeMap;

use super::{automation::waiting_for, record::TaskRecordData};
use crate::engine::{
    event::{ActorKind, TaskEvent, WorkflowEvent},
    ids::{RunId, WorkflowRunId},
    policy::HookAction,
    session::SessionState,
    stop::apply::loops_go_on,
    tasks::{
        record::{DueHooks, TaskRecordRef, WorkflowStepRef},
        workflow::WorkflowRun,
        workflow_record::{StepEnded, StepResult, WorkflowOutcome, WorkflowStarted},
    },
    time::UnixTime,
};

pub(crate) fn apply_task(session: &mut SessionState, at: UnixTime, event: &TaskEvent) {
    let news = event.news();
    let DueHooks {
        depth,
        automation,
        on_complete,
    } = news.origin.due.unwrap_or_default();
    let waited = waiting_for(&session.tasks.graph, &news);
    session.tasks.graph.take(at, &news);
    loops_go_on(session, news.task);
    let by_agent = news
        .origin
        .by
        .as_ref()
        .is_some_and(|actor| actor.by == ActorKind::Agent);
    session.iterations.activity.changed_a_task |= by_agent;
    session.iterations.worked |= by_agent;
    let automated = news.origin.cause.is_some() || news.origin.step.is_some();
    if matches!(news.what, TaskRecordData::Created(_)) && automated {
        session.tasks.automated.insert(news.task.to_owned());
    }
    session.tasks.automation.followed(event);
    if let TaskRecordData::Completed(data) = news.what {
        session
            .side
            .task_completed(news.task, &data.content, depth, on_complete);
    }
    if automation {
        session.tasks.automation.raise(at, event, depth);
    }
    session
        .tasks
        .automation
        .follow(&session.tasks.graph, &news, depth, waited);
    if let Some(cause) = &news.origin.cause {
        session.tasks.automation.carried_out(cause);
    }
    if let Some(step) = &news.origin.step {
        flow_changed_task(session, step, &news);
    }
}

/// Discards commands after an interrupt. Built-in hooks and recorded decisions stay: they need no
/// time.
pub(crate) fn drop_automation_commands(session: &mut SessionState) {
    let automation = &session.began.plan.automation;
    let is_command = |name: &str| {
        automation.iter().any(|hook| {
            hook.spec.name == name && !matches!(hook.spec.action, HookAction::Builtin(_))
        })
    };
    session.tasks.automation.drop_hooks(is_command);
}

pub(crate) fn apply_workflow(session: &mut SessionState, event: &WorkflowEvent) {
    match event {
        WorkflowEvent::Started(began) => flow_started(session, began),
        WorkflowEvent::StepStarted { flow, step, run } => {
            flow_step_started(session, *flow, step, *run);
        }
        WorkflowEvent::StepEnded(ended) => flow_step_ended(session, ended),
        WorkflowEvent::Ended { flow, .. } => session.tasks.flows.flow_ended(*flow),
    }
}

fn flow_started(session: &mut SessionState, began: &WorkflowStarted) {
    let depth = session
        .tasks
        .automation
        .current
        .as_ref()
        .map_or(0, |job| job.raised.depth + 1);
    session.tasks.flows.last = began.flow;
    let mut flow = WorkflowRun {
        id: began.flow,
        began: began.clone(),
        depth,
        at: None,
        waiting: Vec::new(),
        running: Vec::new(),
        results: BTreeMap::new(),
        outcome: WorkflowOutcome::Done,
    };
    if let Some(workflow) = session.began.plan.workflows.get(&began.workflow) {
        flow.go_to(workflow, Some(0));
    }
    session.tasks.flows.open.push(flow);
    session.tasks.automation.carried_out(&began.cause);
}

fn flow_step_started(session: &mut SessionState, id: WorkflowRunId, step: &str, run: RunId) {
    session.hooks.last_run = run;
    if let Some(flow) = session
        .tasks
        .flows
        .open
        .iter_mut()
        .find(|flow| flow.id == id)
    {
        flow.waiting.retain(|name| name != step);
        flow.running.push((run, step.to_owned()));
    }
}

fn flow_step_ended(session: &mut SessionState, ended: &StepEnded) {
    let Some(flow) = session
        .tasks
        .flows
        .open
        .iter_mut()
        .find(|flow| flow.id == ended.flow)
    else {
        return;
    };
    if ended.again {
        flow.running.retain(|(_, name)| *name != ended.step);
        flow.waiting.insert(0, ended.step.clone());
    } else if let Some(workflow) = session.began.plan.workflows.get(&flow.began.workflow) {
        flow.ended(workflow, &ended.step, ended.result.clone());
    }
}

/// A step changed a task, or failed to.
pub(crate) fn flow_changed_task(
    session: &mut SessionState,
    at: &WorkflowStepRef,
    news: &TaskRecordRef<'_>,
) {
    let ok = !matches!(news.what, TaskRecordData::ActionFailed(_));
    let result = StepResult {
        ok,
        task: ok.then(|| news.task.to_owned()),
        ..StepResult::default()
    };
    flow_step_ended(
        session,
        &StepEnded {
            flow: at.flow,
            step: at.step.clone(),
            result,
            again: false,
        },
    );
}
