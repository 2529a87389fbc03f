//! The session in which an agent proposes tasks: its prompt, and the check of its answer.

use std::{collections::BTreeSet, io};

use crate::{
    engine::{
        hooks::point::HookPoint,
        policy::{
            CompletionInstructions, HookAction, HookSpec, ProposalPlan, RetryLimitPolicy,
            SessionPlan, StopHook, StopHookCondition, StopHookKind, StopPlan,
        },
        queue::task_proposal::{ProposalMistake, TaskProposal},
        stop::decision::{StopAction, StopResult},
        time::TimeSpan,
    },
    journal::{self, JournalError, SessionDir},
};

/// How long the check can take.
const CHECK_TIMEOUT: TimeSpan = TimeSpan::secs(60);

/// The prompt: what to answer, and for which goal.
pub(crate) fn prompt(goal: &str, types: &BTreeSet<String>) -> String {
    let kind = if types.is_empty() {
        String::new()
    } else {
        let list = types
            .iter()
            .map(|kind| format!("`{kind}`"))
            .collect::<Vec<_>>()
            .join(", ");
        format!("- `type`: one of {list}, if one fits.\n")
    };
    format!(
        "Split this goal into tasks for coding agents:\n\n{goal}\n\n\
         Look at the project as far as you need, but do not change any file. Each task is done by an agent that sees only the \
         project and the text of its task. Tasks that do not depend on each other are done at the same time, on separate \
         branches; a task starts from the merged work of those that it depends on. So keep tasks that change the same \
         files apart by dependencies, and make each one testable.\n\n\
         End your answer with one JSON object in a code block:\n\n\
         ```json\n{{\"tasks\": [{{\"id\": \"parser\", \"goal\": \"Write …\", \"depends_on\": []}}]}}\n```\n\n\
         - `id`: a short name of letters, digits, `-` and `_`.\n\
         - `goal`: everything that the agent has to know.\n\
         - `depends_on`: the ids of the tasks whose work it needs.\n\
         {kind}- `priority`: 0 (first) to 4, if it matters. Leave it out otherwise.\n"
    )
}

/// Where the user approves the proposed tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProposalApproval {
    /// At a gate of the session.
    AtGate,
    /// When the session has ended.
    Later,
}

/// Turns a plan into one that ends with the first valid proposal, once the user has approved it.
/// The hooks and rules of the project are about finished work, so they do not apply.
pub(crate) fn only_propose(
    plan: &mut SessionPlan,
    types: BTreeSet<String>,
    approval: ProposalApproval,
) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let check = HookSpec {
        timeout: CHECK_TIMEOUT,
        priority: 0,
        ..HookSpec::new(
            "check the proposal",
            HookAction::Exec(vec![
                program.to_string_lossy().into_owned(),
                "plan".to_owned(),
                "--check".to_owned(),
            ]),
        )
    };
    plan.proposal = match approval {
        ProposalApproval::AtGate => Some(ProposalPlan { types }),
        ProposalApproval::Later => None,
    };
    let kept = [
        HookPoint::PrePrompt,
        HookPoint::OnGate,
        HookPoint::PreTool,
        HookPoint::PostTool,
        HookPoint::OnQuestion,
    ];
    plan.hooks.retain(|point, _| kept.contains(point));
    plan.hooks.insert(HookPoint::Stop, vec![check]);
    plan.automation.clear();
    let done = StopResult {
        action: StopAction::Complete,
        reason: "The proposal is valid.".to_owned(),
        next_prompt: None,
        checkpoint_data: None,
        metadata: None,
    };
    let judge = StopHookKind::Fixed(done);
    let decision = StopHook {
        name: "proposal".to_owned(),
        judge,
        when: StopHookCondition::default(),
        enabled: true,
    };
    plan.stop = StopPlan {
        hooks: vec![decision],
        rules: Vec::new(),
        ..plan.stop.clone()
    };
    plan.instructions = CompletionInstructions::None;
    plan.on_limit = RetryLimitPolicy::Abort;
    plan.submit.on_complete = false;
    plan.worktree = None;
    Ok(())
}

/// What the user said at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProposalVerdict {
    /// The session did not ask.
    Unasked,
    /// The session has not ended.
    Undecided,
    Approved,
    Declined,
}

/// What a session has proposed.
pub(crate) struct SessionProposal {
    /// The proposed tasks, or everything that is wrong with them.
    pub(crate) tasks: Result<TaskProposal, Vec<ProposalMistake>>,
    pub(crate) verdict: ProposalVerdict,
}

/// The proposal in the last answer of a session, as the user has changed it.
pub(crate) fn proposal_of(
    folder: &SessionDir,
    types: &BTreeSet<String>,
) -> Result<SessionProposal, JournalError> {
    let state = journal::fold(&folder.journal())?;
    let tasks = state
        .proposal
        .of_answer(&state.turns.agent_text)
        .map_err(|mistake| vec![mistake])
        .and_then(|proposal| {
            let mistakes = proposal.mistakes(types);
            if mistakes.is_empty() {
                Ok(proposal)
            } else {
                Err(mistakes)
            }
        });
    let verdict = match (&state.plan().proposal, state.phase.outcome()) {
        (None, _) => ProposalVerdict::Unasked,
        (Some(_), None) => ProposalVerdict::Undecided,
        (Some(_), Some(_)) if state.proposal.is_approved => ProposalVerdict::Approved,
        (Some(_), Some(_)) => ProposalVerdict::Declined,
    };
    Ok(SessionProposal { tasks, verdict })
}
