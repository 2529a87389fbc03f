//! Builds the context of each machine.
//!
//! A narrow context is a struct of references: its rules cannot read what is not in it, so this
//! file shows which state they depend on. The rules that combine most of the session (prompts,
//! retries, hooks, pipelines, the end, gates, commands) get the whole session: their contexts only
//! group the functions.

use crate::engine::{
    budget::BudgetCheck,
    gate::{answer::GateRules, proposal_rules::ProposalRules},
    hooks::{
        side_jobs::BesideWork,
        start::{HookRules, SideRules},
        tool_hooks::ToolRules,
    },
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
    turn::{AfterTurnRules, OfferedModels, prompt::PromptRules, reports::TurnRules},
    usage_limit::AgentChoice,
    verify::{rules::VerifyRules, test_guard::TestRules},
    watch::WatchRules,
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

    /// The models that the working agent offers. None if it has not listed them.
    pub fn offered_models(&self) -> Option<&OfferedModels> {
        self.turns.models.get(self.agent_choice().agent())
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
            agent: self.agent_choice().agent(),
            tool_rules: self.tool_rules(),
        }
    }

    pub fn tool_rules(&self) -> ToolRules<'_> {
        ToolRules {
            plan: self.plan(),
            cwd: &self.began.cwd,
            hooks: &self.hooks,
            tools: &self.tool_hooks,
            agent: self.agent_choice().agent(),
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

    pub const fn retries(&self) -> RetryRules<'_> {
        RetryRules(self)
    }

    pub(crate) const fn proposal_rules(&self) -> ProposalRules<'_> {
        ProposalRules {
            began: &self.began,
            presence: self.presence,
            turns: &self.turns,
            gates: &self.gates,
            proposal: &self.proposal,
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

    pub const fn prompts(&self) -> PromptRules<'_> {
        PromptRules(self)
    }

    pub fn turn_rules(&self) -> TurnRules<'_> {
        TurnRules {
            phase: &self.phase,
            turns: &self.turns,
            gates: &self.gates,
            agent_choice: self.agent_choice(),
            tool_rules: self.tool_rules(),
            after: self.after_turn(),
        }
    }

    pub fn beside(&self) -> BesideWork<'_> {
        BesideWork {
            plan: self.plan(),
            side: &self.side,
            gate_hooks: &self.gate_hooks,
            tool_hooks: &self.tool_hooks,
            tasks: &self.tasks,
            stop: &self.stop,
            pipelines: &self.pipelines,
            steering: &self.steering,
            ending: &self.ending,
        }
    }

    pub const fn hook_rules(&self) -> HookRules<'_> {
        HookRules(self)
    }

    pub const fn side_rules(&self) -> SideRules<'_> {
        SideRules(self)
    }

    pub const fn pipeline(&self) -> PipelineRules<'_> {
        PipelineRules(self)
    }

    pub const fn watch_rules(&self) -> WatchRules<'_> {
        WatchRules(self)
    }

    pub const fn end_rules(&self) -> EndRules<'_> {
        EndRules(self)
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

    pub(crate) fn test_rules(&self) -> TestRules<'_> {
        TestRules {
            plan: self.plan(),
            files: &self.iterations.all_files,
            hooks: &self.hooks,
            verify: &self.verify,
        }
    }

    pub const fn gate_rules(&self) -> GateRules<'_> {
        GateRules(self)
    }

    pub const fn commands(&self) -> CommandRules<'_> {
        CommandRules(self)
    }
}
