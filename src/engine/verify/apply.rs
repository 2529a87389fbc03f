//! Stores the results of checks, the changes of the work, and the pass in progress.

use crate::engine::{
    conversation::WorktreeChanges,
    event::{CheckRunResult, HookFinished, VerifyEvent},
    hooks::{
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
        verdict::Verdict,
    },
    protect::apply::{changes_between, tests_compared},
    session::{
        SessionState,
        phase::{Phase, VerificationPass},
    },
    stop::agent_loop::StopEvaluation,
    verify::{
        AfterPass, CheckAcceptance, CheckKind, CheckRef, CheckRun, WorkChangedBy,
        state::VerificationState,
    },
};

pub(crate) fn apply_verify(session: &mut SessionState, event: &VerifyEvent) {
    match event {
        VerifyEvent::WorkChanged {
            by,
            files,
            unknown,
            untracked,
            ..
        } => {
            session
                .verify
                .work_changed(*by, files, *unknown, *untracked);
        }
        VerifyEvent::Started {
            hooks,
            rules,
            tests_of,
        } => {
            session.verify.passes += u32::from(tests_of.is_none());
            let pass = if hooks.is_empty() {
                let rules = Some(rules.iter().cloned().collect());
                Phase::Judging(Box::new(StopEvaluation {
                    rules,
                    ..StopEvaluation::default()
                }))
            } else {
                let cause = tests_of.map_or(DispatchCause::Verification, DispatchCause::CleanRun);
                let queue = Some(hooks.iter().cloned().collect());
                Phase::Hooks(HookDispatch {
                    queue,
                    ..HookDispatch::reached(HookPoint::Stop, cause)
                })
            };
            let back = Box::new(std::mem::replace(&mut session.phase, pass));
            session.verify.pass = Some(VerificationPass { back });
        }
        VerifyEvent::Ended { next, feedback } => {
            let Some(pass) = session.verify.pass.take() else {
                return;
            };
            session.verify.feedback.clone_from(feedback);
            match next {
                AfterPass::Back => session.phase = *pass.back,
                AfterPass::Iteration => {
                    session.ending = None;
                    session.turns.next_prompt =
                        feedback.as_ref().map(|feedback| feedback.text.clone());
                    session.phase = Phase::Between;
                }
            }
        }
        VerifyEvent::Tampered(found) => changes_between(session, found),
        VerifyEvent::TestsCompared(found) => tests_compared(session, found),
        VerifyEvent::DeliveryChecked { .. } => session.phase = Phase::Delivering,
    }
}

impl VerificationState {
    fn work_changed(
        &mut self,
        by: WorkChangedBy,
        files: &[String],
        unknown: bool,
        untracked: bool,
    ) {
        self.version += 1;
        self.unknown = unknown;
        self.changed = files.to_vec();
        match by {
            WorkChangedBy::Others => self.by_others.extend(files.iter().cloned()),
            WorkChangedBy::Checks if untracked => self.artifacts = true,
            WorkChangedBy::Checks => self.rewrites += 1,
        }
    }

    /// A turn of the session's agent has ended. None if creel does not know what it changed.
    pub(crate) fn turn_ended(&mut self, work: Option<&WorktreeChanges>) {
        self.passes = 0;
        self.rewrites = 0;
        self.artifacts = false;
        if work.is_none_or(|work| !work.files_modified.is_empty() || work.more_modified > 0) {
            self.version += 1;
        }
    }

    /// The work may have changed while creel did not look.
    pub(crate) fn forget_the_work(&mut self) {
        self.version += 1;
        self.passes = 0;
        self.rewrites = 0;
        self.artifacts = false;
    }

    pub(crate) fn ran(&mut self, check: CheckRef, result: CheckRunResult, reason: Option<String>) {
        let before = self
            .checks
            .iter()
            .position(|run| run.check == check)
            .map(|at| self.checks.remove(at));
        let accepted = before
            .and_then(|before| before.accepted)
            .filter(|_| result != CheckRunResult::Passed);
        self.checks.push(CheckRun {
            check,
            result,
            version: self.version,
            reason,
            accepted,
        });
    }

    /// A run of a hook at `stop`, in an iteration or in a pass.
    pub(crate) fn hook_ran(&mut self, finished: &HookFinished) {
        let check = CheckRef::new(CheckKind::Hook, &finished.hook);
        self.tests_ran(finished, self.run_of(&check).is_some());
        let broken = finished.judged.as_ref().is_some_and(|judged| judged.broken);
        let result = match finished.verdict {
            Verdict::Pass => CheckRunResult::Passed,
            Verdict::Block | Verdict::Fail if broken => CheckRunResult::Broken,
            Verdict::Block | Verdict::Fail => CheckRunResult::Failed,
        };
        let reason = finished
            .judged
            .as_ref()
            .and_then(|judged| judged.headline.clone());
        self.ran(check, result, reason);
    }

    pub(crate) fn accept(&mut self, check: &CheckRef, acceptance: CheckAcceptance) {
        if let Some(run) = self.checks.iter_mut().find(|run| run.check == *check) {
            run.accepted = Some(acceptance);
        } else {
            let result = CheckRunResult::Failed;
            let run = CheckRun {
                check: check.clone(),
                result,
                version: self.version,
                reason: None,
                accepted: Some(acceptance),
            };
            self.checks.push(run);
        }
    }
}
