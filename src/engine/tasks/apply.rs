//! Applies the events of tasks to the state.

use super::{
    follow_up::waiting_for,
    record::{ChangeOrigin, TaskRecordData},
};
use crate::engine::{
    event::{ActorKind, TaskEvent},
    session::SessionState,
    time::UnixTime,
};

impl SessionState {
    pub(crate) fn apply_task(&mut self, at: UnixTime, event: &TaskEvent) {
        let news = event.news();
        let waited = waiting_for(&self.tasks.graph, &news);
        self.tasks.graph.take(at, &news);
        self.loops_go_on(news.task);
        let by_agent = news.origin.by.as_ref().is_some_and(|actor| actor.by == ActorKind::Agent);
        self.iterations.signs.changed_a_task |= by_agent;
        let depth = self.tasks.automation.followed(event).unwrap_or_else(|| self.depth_of(news.origin));
        if let TaskRecordData::Completed(data) = news.what {
            self.task_completed(news.task, &data.content, depth);
        }
        if news.what.kind().is_some_and(|kind| !self.hearing(kind).is_empty()) {
            self.tasks.automation.raise(at, event, depth);
        }
        self.tasks.automation.follow(&self.tasks.graph, &news, depth, waited);
        if let Some(cause) = &news.origin.cause {
            self.tasks.automation.carried_out(cause);
        }
        if let Some(step) = &news.origin.step {
            self.flow_changed_task(step, &news);
        }
    }

    /// How many changes led to a change, each made by a hook of the one before: as an action, as a step of a workflow,
    /// or by a command that the hook ran.
    fn depth_of(&self, origin: &ChangeOrigin) -> u32 {
        let by_hook = origin.cause.is_none() && origin.step.is_none() && self.comes_from_a_hook(origin);
        let job = self.tasks.automation.current.as_ref().filter(|_| origin.cause.is_some() || by_hook);
        let flow = origin.step.as_ref().and_then(|step| self.tasks.flows.open.iter().find(|flow| flow.id == step.flow));
        let job = job.map(|job| job.raised.depth.saturating_add(1));
        let side = self.side.next_depth().max(self.next_depth_at_gate()).filter(|_| by_hook);
        job.or(flow.map(|flow| flow.depth)).max(side).unwrap_or(0)
    }

    /// Whether a hook made a change, or may have: while the agent is not working, a process of unknown origin is more
    /// likely a hook's than a person's.
    fn comes_from_a_hook(&self, origin: &ChangeOrigin) -> bool {
        match origin.by.as_ref().map(|actor| actor.by) {
            Some(ActorKind::Hook) => true,
            Some(ActorKind::Agent | ActorKind::Cli | ActorKind::Mcp) => self.turn_in_flight().is_none(),
            Some(ActorKind::Tui | ActorKind::Nats | ActorKind::Policy | ActorKind::Timeout) | None => false,
        }
    }
}
