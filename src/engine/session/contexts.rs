//! Builds the context of each machine: references to the parts of the session that its rules depend
//! on.
//!
//! A machine cannot read what is not in its context, so this file shows which machine depends on
//! which state.

use crate::engine::{
    budget::BudgetCheck,
    gate::{answer::GateRules, proposal_rules::ProposalRules},
    hooks::{beside::BesideWork, side_rules::SideRules, start::HookRules},
    permission::PermissionRules,
    protect::ProtectRules,
    retry::feedback::RetryRules,
    session::{SessionState, delivery::EndRules},
    steering::commands::CommandRules,
    stop::{loop_rules::LoopRules, stop_rules::StopRules},
    submit::PipelineRules,
    tasks::{
        automation_rules::AutomationRules, task_rules::TaskRules, workflow_rules::WorkflowRules,
    },
    turn::{after::AfterTurnRules, prompt::PromptRules, reports::TurnRules},
    usage_limit::AgentChoice,
    verify::rules::VerifyRules,
};

impl SessionState {
    pub(crate) fn after_turn(&self) -> AfterTurnRules<'_> {
        AfterTurnRules {
            plan: self.plan(),
            phase: &self.phase,
            iterations: &self.iterations,
            turns: &self.turns,
            pipelines: &self.pipelines,
            steering: &self.steering,
            ending: &self.ending,
        }
    }

    pub fn agent_choice(&self) -> AgentChoice<'_> {
        AgentChoice {
            began: &self.began,
            plan: self.plan(),
            presence: self.presence,
            limits: &self.limits,
            gates: &self.gates,
        }
    }

    pub fn budget(&self) -> BudgetCheck<'_> {
        BudgetCheck {
            plan: self.plan(),
            gates: &self.gates,
            account: &self.account,
        }
    }

    pub fn permissions(&self) -> PermissionRules<'_> {
        PermissionRules {
            began: &self.began,
            plan: self.plan(),
            presence: self.presence,
            phase: &self.phase,
            gates: &self.gates,
            requests: &self.requests,
            steering: &self.steering,
        }
    }

    pub fn protect(&self) -> ProtectRules<'_> {
        ProtectRules {
            phase: &self.phase,
            gates: &self.gates,
            hooks: &self.hooks,
            unsettled: &self.unsettled,
        }
    }

    pub fn retries(&self) -> RetryRules<'_> {
        RetryRules {
            began: &self.began,
            plan: self.plan(),
            presence: self.presence,
            iterations: &self.iterations,
            turns: &self.turns,
            retry: &self.retry,
            gates: &self.gates,
            hooks: &self.hooks,
            protect: self.protect(),
            proposal: proposals(self),
        }
    }

    pub fn task_rules(&self) -> TaskRules<'_> {
        TaskRules {
            plan: self.plan(),
            side: &self.side,
            tasks: &self.tasks,
            steering: &self.steering,
        }
    }

    pub fn automation(&self) -> AutomationRules<'_> {
        AutomationRules {
            name: &self.name,
            plan: self.plan(),
            iterations: &self.iterations,
            hooks: &self.hooks,
            tasks: &self.tasks,
            steering: &self.steering,
            task_rules: self.task_rules(),
            budget: self.budget(),
            phase: &self.phase,
        }
    }

    pub fn workflows(&self) -> WorkflowRules<'_> {
        WorkflowRules {
            name: &self.name,
            plan: self.plan(),
            iterations: &self.iterations,
            hooks: &self.hooks,
            tasks: &self.tasks,
            task_rules: self.task_rules(),
        }
    }

    pub fn agent_loops(&self) -> LoopRules<'_> {
        LoopRules {
            name: &self.name,
            plan: self.plan(),
            turns: &self.turns,
            tasks: &self.tasks,
            stop: &self.stop,
            task_rules: self.task_rules(),
        }
    }

    pub fn stop_rules(&self) -> StopRules<'_> {
        StopRules {
            name: &self.name,
            plan: self.plan(),
            phase: &self.phase,
            iterations: &self.iterations,
            turns: &self.turns,
            hooks: &self.hooks,
            tasks: &self.tasks,
            stop: &self.stop,
            steering: &self.steering,
            task_rules: self.task_rules(),
            agent_loops: self.agent_loops(),
        }
    }

    pub fn prompts(&self) -> PromptRules<'_> {
        PromptRules {
            began: &self.began,
            plan: self.plan(),
            phase: &self.phase,
            iterations: &self.iterations,
            turns: &self.turns,
            pending: &self.pending,
            retry: &self.retry,
            limits: &self.limits,
            unsettled: &self.unsettled,
            pipelines: &self.pipelines,
            steering: &self.steering,
            ending: &self.ending,
            agent_choice: self.agent_choice(),
            budget: self.budget(),
            tasks: &self.tasks,
        }
    }

    pub fn turn_rules(&self) -> TurnRules<'_> {
        TurnRules {
            phase: &self.phase,
            turns: &self.turns,
            gates: &self.gates,
            agent_choice: self.agent_choice(),
            after: self.after_turn(),
        }
    }

    pub fn beside(&self) -> BesideWork<'_> {
        BesideWork {
            plan: self.plan(),
            side: &self.side,
            gate_hooks: &self.gate_hooks,
            tasks: &self.tasks,
            stop: &self.stop,
            pipelines: &self.pipelines,
            steering: &self.steering,
            ending: &self.ending,
        }
    }

    pub fn hook_rules(&self) -> HookRules<'_> {
        HookRules {
            name: &self.name,
            began: &self.began,
            plan: self.plan(),
            presence: self.presence,
            iterations: &self.iterations,
            turns: &self.turns,
            retry: &self.retry,
            gates: &self.gates,
            hooks: &self.hooks,
            tasks: &self.tasks,
            pipelines: &self.pipelines,
            permissions: self.permissions(),
            beside: self.beside(),
        }
    }

    pub fn side_rules(&self) -> SideRules<'_> {
        SideRules {
            plan: self.plan(),
            presence: self.presence,
            iterations: &self.iterations,
            gates: &self.gates,
            hooks: &self.hooks,
            side: &self.side,
            gate_hooks: &self.gate_hooks,
            stop: &self.stop,
            beside: self.beside(),
            hook_rules: self.hook_rules(),
        }
    }

    pub fn pipeline(&self) -> PipelineRules<'_> {
        PipelineRules {
            plan: self.plan(),
            presence: self.presence,
            phase: &self.phase,
            iterations: &self.iterations,
            turns: &self.turns,
            gates: &self.gates,
            hooks: &self.hooks,
            pipelines: &self.pipelines,
            steering: &self.steering,
            ending: &self.ending,
            prompts: self.prompts(),
            beside: self.beside(),
            verification: self.verification(),
        }
    }

    pub fn end_rules(&self) -> EndRules<'_> {
        EndRules {
            plan: self.plan(),
            iterations: &self.iterations,
            pending: &self.pending,
            gates: &self.gates,
            side: &self.side,
            pipelines: &self.pipelines,
            steering: &self.steering,
            ending: &self.ending,
            retries: self.retries(),
            prompts: self.prompts(),
            beside: self.beside(),
            hook_rules: self.hook_rules(),
            side_rules: self.side_rules(),
            pipeline: self.pipeline(),
            verification: self.verification(),
        }
    }

    pub fn verification(&self) -> VerifyRules<'_> {
        VerifyRules {
            plan: self.plan(),
            hooks: &self.hooks,
            iterations: &self.iterations,
            unsettled: &self.unsettled,
            steering: &self.steering,
            verify: &self.verify,
        }
    }

    pub fn gate_rules(&self) -> GateRules<'_> {
        GateRules {
            plan: self.plan(),
            presence: self.presence,
            phase: &self.phase,
            pending: &self.pending,
            gates: &self.gates,
            side: &self.side,
            gate_hooks: &self.gate_hooks,
            stop: &self.stop,
            pipelines: &self.pipelines,
            steering: &self.steering,
            ending: &self.ending,
            agent_choice: self.agent_choice(),
            permissions: self.permissions(),
            task_rules: self.task_rules(),
            proposal: proposals(self),
        }
    }

    pub fn commands(&self) -> CommandRules<'_> {
        CommandRules {
            plan: self.plan(),
            phase: &self.phase,
            turns: &self.turns,
            pending: &self.pending,
            gates: &self.gates,
            tasks: &self.tasks,
            stop: &self.stop,
            steering: &self.steering,
            ending: &self.ending,
            agent_choice: self.agent_choice(),
            task_rules: self.task_rules(),
            agent_loops: self.agent_loops(),
            stop_rules: self.stop_rules(),
            beside: self.beside(),
            pipeline: self.pipeline(),
            end_rules: self.end_rules(),
            gate_rules: self.gate_rules(),
        }
    }
}

const fn proposals(session: &SessionState) -> ProposalRules<'_> {
    ProposalRules {
        began: &session.began,
        presence: session.presence,
        turns: &session.turns,
        gates: &session.gates,
        proposal: &session.proposal,
    }
}
