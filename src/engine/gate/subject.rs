//! What a gate is about, with the data that belongs to it.
//!
//! Records keep these data as flat, optional fields; [`GateSubject::recorded`] and
//! [`GateSubject::opened`] translate.

use serde::{Deserialize, Serialize};

use crate::engine::{
    event::GateEvent,
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    ids::{GateId, ItemId, PermissionId, RunId},
    queue::task_proposal::{ProposedTask, TaskProposal},
    submit::kind::PipelineKind,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GateSubject {
    /// The loop is over, and these items have not been sent.
    FinalDelivery { items: Vec<ItemId> },
    /// The next prompt is about to carry these items.
    Delivery { items: Vec<ItemId> },
    /// The agent would get this news of the pull request.
    Review { items: Vec<ItemId> },
    /// This stop hook still blocks, and its retries are used up.
    RetryLimit { hook: String },
    /// A hook failed and wants the user to look. None: a stop decision or a loop of the agent does.
    Escalation { failed: Option<FailedHook> },
    /// Too many turns failed in a row.
    Errors,
    /// A hook could not run twice in a row.
    BrokenHook(FailedHook),
    /// The agent asks for permission.
    Permission { ask: PermissionId },
    /// The agent asks the user something.
    Question { ask: PermissionId },
    /// The budget is used up.
    Budget,
    /// The agent reached a usage limit.
    UsageLimit,
    /// The agent's turn changed files of creel, of its config or of git.
    Tampered,
    /// This check failed before a submit or a merge.
    Pipeline {
        pipeline: PipelineKind,
        hook: String,
    },
    /// The agent proposes these tasks. The user may have changed them since.
    Proposal(TaskProposal),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedHook {
    pub hook: String,
    /// The run that failed. Journals of earlier versions do not name it.
    pub run: Option<RunId>,
    /// Set if it is a check.
    #[serde(default)]
    pub point: Option<HookPoint>,
}

/// The data of a `gate_opened` record, as far as they depend on the kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedSubject<'a> {
    pub(crate) hook: Option<&'a str>,
    pub(crate) run: Option<RunId>,
    pub(crate) point: Option<HookPoint>,
    pub(crate) items: &'a [ItemId],
    pub(crate) ask: Option<PermissionId>,
    pub(crate) tasks: &'a [ProposedTask],
}

impl GateSubject {
    pub(crate) fn failed_hook(hook: &str, run: RunId) -> FailedHook {
        FailedHook {
            hook: hook.to_owned(),
            run: Some(run),
            point: None,
        }
    }

    pub const fn kind(&self) -> GateKind {
        match self {
            Self::FinalDelivery { .. } => GateKind::FinalDelivery,
            Self::Delivery { .. } => GateKind::Delivery,
            Self::Review { .. } => GateKind::Review,
            Self::RetryLimit { .. } => GateKind::RetryLimit,
            Self::Escalation { .. } => GateKind::Escalation,
            Self::Errors => GateKind::Errors,
            Self::BrokenHook(_) => GateKind::BrokenHook,
            Self::Permission { .. } => GateKind::Permission,
            Self::Question { .. } => GateKind::Question,
            Self::Budget => GateKind::Budget,
            Self::UsageLimit => GateKind::UsageLimit,
            Self::Tampered => GateKind::Tampered,
            Self::Pipeline {
                pipeline: PipelineKind::Submit,
                ..
            } => GateKind::Submit,
            Self::Pipeline {
                pipeline: PipelineKind::Merge,
                ..
            } => GateKind::Merge,
            Self::Proposal(_) => GateKind::Proposal,
        }
    }

    /// The hook that the gate is about.
    pub fn hook(&self) -> Option<&str> {
        match self {
            Self::RetryLimit { hook } | Self::Pipeline { hook, .. } => Some(hook),
            Self::Escalation { .. } | Self::BrokenHook(_) => {
                self.failed().map(|failed| failed.hook.as_str())
            }
            Self::FinalDelivery { .. }
            | Self::Delivery { .. }
            | Self::Review { .. }
            | Self::Errors
            | Self::Permission { .. }
            | Self::Question { .. }
            | Self::Budget
            | Self::UsageLimit
            | Self::Tampered
            | Self::Proposal(_) => None,
        }
    }

    /// Whether it is about a check that cannot run.
    pub fn is_broken_check(&self) -> bool {
        matches!(self, Self::BrokenHook(failed) if failed.point == Some(HookPoint::Stop))
    }

    /// The failed run that the gate is about.
    pub fn run(&self) -> Option<RunId> {
        self.failed().and_then(|failed| failed.run)
    }

    /// The point of the check that the gate is about.
    pub(crate) fn point(&self) -> Option<HookPoint> {
        self.failed().and_then(|failed| failed.point)
    }

    fn failed(&self) -> Option<&FailedHook> {
        if let Self::BrokenHook(failed)
        | Self::Escalation {
            failed: Some(failed),
        } = self
        {
            Some(failed)
        } else {
            None
        }
    }

    /// The pending items that the gate is about.
    pub fn items(&self) -> &[ItemId] {
        if let Self::FinalDelivery { items } | Self::Delivery { items } | Self::Review { items } =
            self
        {
            items
        } else {
            &[]
        }
    }

    /// The agent's request that the gate is about.
    pub fn ask(&self) -> Option<PermissionId> {
        if let Self::Permission { ask } | Self::Question { ask } = self {
            Some(*ask)
        } else {
            None
        }
    }

    /// The proposed tasks that the gate is about.
    pub fn proposal(&self) -> Option<&TaskProposal> {
        if let Self::Proposal(proposal) = self {
            Some(proposal)
        } else {
            None
        }
    }

    pub(crate) fn opened(
        self,
        gate: GateId,
        choices: Vec<GateChoice>,
        reason: String,
    ) -> GateEvent {
        let (hook, run, ask) = (self.hook().map(str::to_owned), self.run(), self.ask());
        let tasks = self
            .proposal()
            .map(|proposal| proposal.tasks.clone())
            .unwrap_or_default();
        let items = self.items().to_vec();
        let point = self.point();
        GateEvent::Opened {
            gate,
            about: self.kind(),
            choices,
            reason,
            hook,
            run,
            point,
            items,
            ask,
            tasks,
        }
    }

    pub(crate) fn recorded(kind: GateKind, data: &RecordedSubject<'_>) -> Self {
        let hook = || data.hook.unwrap_or_default().to_owned();
        let failed = |hook: &str| FailedHook {
            hook: hook.to_owned(),
            run: data.run,
            point: data.point,
        };
        match kind {
            GateKind::FinalDelivery => Self::FinalDelivery {
                items: data.items.to_vec(),
            },
            GateKind::Delivery => Self::Delivery {
                items: data.items.to_vec(),
            },
            GateKind::Review => Self::Review {
                items: data.items.to_vec(),
            },
            GateKind::RetryLimit => Self::RetryLimit { hook: hook() },
            GateKind::Escalation => Self::Escalation {
                failed: data.hook.map(failed),
            },
            GateKind::Errors => Self::Errors,
            GateKind::BrokenHook => Self::BrokenHook(failed(&hook())),
            GateKind::Permission => Self::Permission {
                ask: data.ask.unwrap_or_default(),
            },
            GateKind::Question => Self::Question {
                ask: data.ask.unwrap_or_default(),
            },
            GateKind::Budget => Self::Budget,
            GateKind::UsageLimit => Self::UsageLimit,
            GateKind::Tampered => Self::Tampered,
            GateKind::Submit => Self::Pipeline {
                pipeline: PipelineKind::Submit,
                hook: hook(),
            },
            GateKind::Merge => Self::Pipeline {
                pipeline: PipelineKind::Merge,
                hook: hook(),
            },
            GateKind::Proposal => Self::Proposal(TaskProposal {
                tasks: data.tasks.to_vec(),
            }),
        }
    }
}
