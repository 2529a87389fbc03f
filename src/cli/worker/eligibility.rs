//! Which tasks the config allows this worker to run, and with which agent.
//!
//! Does not decide which tasks the worker takes: see [`crate::engine::queue::worker_rules`].

use std::collections::BTreeMap;

use crate::{
    cli::error::{CliError, CliResult},
    config::{PlanRequest, Settings},
    engine::{
        policy::SessionPlan,
        queue::worker_rules::{AvailableAgents, WorkerFilter},
    },
    queue::backend::DispatchGroup,
};

pub(super) struct Eligibility<'a> {
    settings: &'a Settings,
    duty: WorkerFilter<'a>,
    /// The agent for each group, as far as known. `None`: not for this worker.
    known: BTreeMap<DispatchGroup, Option<String>>,
}

impl<'a> Eligibility<'a> {
    pub(super) fn new(settings: &'a Settings, duty: WorkerFilter<'a>) -> Self {
        Self {
            settings,
            duty,
            known: BTreeMap::new(),
        }
    }

    /// The plans for the requested or configured task types. Fails if there are none.
    pub(super) fn plans(&self) -> CliResult<Vec<SessionPlan>> {
        if !self.duty.types.is_empty() {
            return self
                .duty
                .types
                .iter()
                .map(|kind| self.plan_of(self.described(kind)).map_err(CliError::from))
                .collect();
        }
        let untyped = self.settings.plan(PlanRequest {
            agent: self.duty.agent,
            ..PlanRequest::default()
        });
        let typed = self
            .settings
            .task_types
            .keys()
            .filter_map(|kind| self.plan_of(Some(kind)).ok());
        let typed: Vec<SessionPlan> = typed.collect();
        match untyped {
            Err(error) if typed.is_empty() => Err(error.into()),
            untyped => Ok(untyped.into_iter().chain(typed).collect()),
        }
    }

    /// The type, if the config defines types. Otherwise types are only labels.
    pub(super) fn described<'b>(&self, kind: &'b str) -> Option<&'b str> {
        (!self.settings.task_types.is_empty()).then_some(kind)
    }

    /// The agent for the tasks of a group. `None` if they are not for this worker.
    pub(super) fn agent_for(&mut self, row: &DispatchGroup) -> Option<String> {
        if let Some(known) = self.known.get(row) {
            return known.clone();
        }
        let agent = self.find(row);
        self.known.insert(row.clone(), agent.clone());
        agent
    }

    fn find(&self, row: &DispatchGroup) -> Option<String> {
        let kind = row.kind.as_deref().and_then(|kind| self.described(kind));
        let usual = self.plan_of(kind).ok().map(|plan| plan.agent);
        let can = |agent: &str| {
            self.settings
                .plan(PlanRequest {
                    agent: Some(agent),
                    task_type: kind,
                    ..PlanRequest::default()
                })
                .is_ok()
        };
        self.duty.agent_for(
            row.kind.as_deref(),
            &row.agents,
            &AvailableAgents {
                usual: usual.as_deref(),
                can,
            },
        )
    }

    /// The plan for a type: with the requested agent, otherwise the config's, otherwise another one
    /// that the type allows.
    fn plan_of(
        &self,
        kind: Option<&str>,
    ) -> std::result::Result<SessionPlan, crate::config::PlanError> {
        let with = |agent| {
            self.settings.plan(PlanRequest {
                agent,
                task_type: kind,
                ..PlanRequest::default()
            })
        };
        let usual = with(self.duty.agent);
        if usual.is_ok() || self.duty.agent.is_some() {
            return usual;
        }
        let of_type = kind.and_then(|kind| self.settings.task_types.get(kind));
        let allowed = of_type
            .and_then(|of_type| of_type.implementers())
            .unwrap_or_default();
        allowed
            .iter()
            .find_map(|agent| with(Some(agent)).ok())
            .map_or(usual, Ok)
    }
}
