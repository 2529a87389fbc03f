//! Decides which checks have to run again, and what a session that ends has proved.

use std::collections::BTreeSet;

use crate::{
    engine::{
        effect::Effect,
        event::{CheckOutcome, CheckRunResult, Event, SessionOutcome, VerifyEvent},
        hooks::{HookRef, HookState, dispatch::HookFeedback, due_or_disabled, point::HookPoint},
        output::EngineOutput,
        policy::SessionPlan,
        protect::{PROTECT, UnsettledChanges},
        session::{
            iteration::IterationState,
            phase::{LoopEnd, Phase},
        },
        steering::ControlState,
        stop::context::RuleOutcome,
        verify::{
            AfterPass, CheckAcceptance, CheckKind, CheckRef, MeasuredChanges, PASSES, PassFeedback,
            REWRITES, WorkChangedBy, WorkMeasurement, state::VerificationState,
        },
    },
    text::{counted, first_line, listed, some_names},
};

/// How many files a record names.
const NAMED: usize = 500;
/// How many files or checks a sentence names.
const NAMES_SHOWN: usize = 3;
/// The longest name of a check in a sentence, in characters.
const NAME: usize = 40;

/// What creel knows about a check and the work as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckStatus {
    Passed,
    /// It did not pass, and the work was accepted all the same.
    Accepted(CheckAcceptance),
    Failed(Option<String>),
    Broken(Option<String>),
    Disabled,
    /// It has not run since the work last changed.
    Stale,
}

/// What is left to do before the work is verified, or known not to be.
#[derive(Debug)]
pub(crate) enum VerificationStep {
    Next(EngineOutput),
    Over,
}

#[derive(Debug, Clone, Copy)]
pub struct VerifyRules<'a> {
    pub(crate) plan: &'a SessionPlan,
    pub(crate) hooks: &'a HookState,
    pub(crate) iterations: &'a IterationState,
    pub(crate) unsettled: &'a UnsettledChanges,
    pub(crate) steering: &'a ControlState,
    pub(crate) verify: &'a VerificationState,
}

impl VerifyRules<'_> {
    /// The checks that count, in the order in which they run. Advisory checks and those that the
    /// config disables do not count.
    pub fn counted(self) -> Vec<CheckRef> {
        let protect = (!self.plan.access.protect.is_empty())
            .then(|| CheckRef::new(CheckKind::Protect, PROTECT));
        let hooks = due_or_disabled(self.plan, self.hooks, HookPoint::Stop);
        let hooks = hooks.into_iter().filter(|spec| !spec.is_advisory());
        let hooks = hooks.map(|spec| CheckRef::new(CheckKind::Hook, &spec.name));
        let rules = self.plan.stop.rules.iter().filter(|rule| rule.enabled);
        let rules = rules.map(|rule| CheckRef::new(CheckKind::Rule, &rule.name));
        protect.into_iter().chain(hooks).chain(rules).collect()
    }

    pub fn status(self, check: &CheckRef) -> CheckStatus {
        let is_hook = check.kind != CheckKind::Rule;
        if is_hook
            && self
                .hooks
                .is_off(&HookRef::new(HookPoint::Stop, &check.name))
        {
            return CheckStatus::Disabled;
        }
        let run = self.verify.run_of(check);
        if let Some(accepted) = run.and_then(|run| run.accepted) {
            return CheckStatus::Accepted(accepted);
        }
        if check.kind == CheckKind::Protect {
            let settled = self.unsettled.protected.is_empty();
            return if settled {
                CheckStatus::Passed
            } else {
                CheckStatus::Failed(None)
            };
        }
        let Some(run) = run.filter(|run| run.version == self.verify.version) else {
            return CheckStatus::Stale;
        };
        match run.result {
            CheckRunResult::Passed => CheckStatus::Passed,
            CheckRunResult::Failed => CheckStatus::Failed(run.reason.clone()),
            CheckRunResult::Broken => CheckStatus::Broken(run.reason.clone()),
            CheckRunResult::Disabled => CheckStatus::Disabled,
            CheckRunResult::NotRun => CheckStatus::Stale,
        }
    }

    /// The checks that keep the work from being verified, each with its status. Those in `waived`
    /// do not matter.
    pub(crate) fn open(self, waived: &BTreeSet<String>) -> Vec<(CheckRef, CheckStatus)> {
        let all = self
            .counted()
            .into_iter()
            .filter(|check| !waived.contains(&check.name));
        let with_status = all.map(|check| (check.clone(), self.status(&check)));
        with_status
            .filter(|(_, status)| *status != CheckStatus::Passed)
            .collect()
    }

    /// The results for the record of the session's end.
    pub(crate) fn outcomes(self) -> Vec<CheckOutcome> {
        let outcome = |check: CheckRef| {
            let result = match self.status(&check) {
                CheckStatus::Passed => CheckRunResult::Passed,
                CheckStatus::Accepted(_) | CheckStatus::Failed(_) => CheckRunResult::Failed,
                CheckStatus::Broken(_) => CheckRunResult::Broken,
                CheckStatus::Disabled => CheckRunResult::Disabled,
                CheckStatus::Stale => match self.verify.run_of(&check).map(|run| run.result) {
                    // Whatever changed since, it has not passed.
                    Some(known @ (CheckRunResult::Failed | CheckRunResult::Broken)) => known,
                    Some(
                        CheckRunResult::Passed | CheckRunResult::Disabled | CheckRunResult::NotRun,
                    )
                    | None => CheckRunResult::NotRun,
                },
            };
            CheckOutcome {
                name: check.name,
                result,
            }
        };
        self.counted().into_iter().map(outcome).collect()
    }

    pub(crate) fn measure(by: WorkChangedBy) -> EngineOutput {
        EngineOutput::default().then(Effect::MeasureWork {
            by,
            checks: Vec::new(),
            tests: None,
        })
    }

    /// The record of a change that matters. None if the work is as it was.
    pub(crate) fn change(self, measured: &WorkMeasurement) -> Option<Event> {
        let by = measured.by;
        let changed = |files, more, unknown, untracked| {
            Event::Verify(VerifyEvent::WorkChanged {
                by,
                files,
                more,
                unknown,
                untracked,
            })
        };
        let Some(MeasuredChanges { tracked, untracked }) = &measured.changes else {
            return Some(changed(Vec::new(), 0, true, false));
        };
        // Files that only checks write are no work: logs, reports, caches. If checks write again
        // what others wrote, too, it is such a file after all.
        let by_checks = by == WorkChangedBy::Checks;
        let again = tracked.is_empty() && self.verify.artifacts;
        let counts = |file: &&String| !by_checks || (!again && self.is_work(file));
        let files: Vec<String> = tracked
            .iter()
            .chain(untracked.iter().filter(counts))
            .cloned()
            .collect();
        let more = files.len().saturating_sub(NAMED);
        let files: Vec<String> = files.into_iter().take(NAMED).collect();
        let untracked = by_checks && tracked.is_empty();
        (!files.is_empty()).then(|| changed(files, more, false, untracked))
    }

    /// Whether a turn, a hook or the user has changed this file.
    fn is_work(self, file: &str) -> bool {
        self.iterations.all_files.has(file) || self.verify.by_others.contains(file)
    }

    /// The next step towards a verdict about the work as it is. A change that creel has not
    /// measured yet is found first, so that it is not taken for a change by the checks.
    pub(crate) fn proceed(
        self,
        measured: Option<&WorkMeasurement>,
        waived: &BTreeSet<String>,
    ) -> VerificationStep {
        let stale = self.stale(waived);
        let is_idle = if stale.is_some() {
            self.gives_up()
        } else {
            !self.can_become_stale(waived)
        };
        if is_idle {
            return VerificationStep::Over;
        }
        let Some(measured) = measured else {
            return VerificationStep::Next(Self::measure(WorkChangedBy::Others));
        };
        let changed = self.change(measured).map(EngineOutput::record);
        match (changed, stale) {
            (changed, Some(started)) => {
                VerificationStep::Next(changed.unwrap_or_default().and(started))
            }
            (Some(changed), None) => VerificationStep::Next(changed),
            (None, None) => VerificationStep::Over,
        }
    }

    /// The pass over checks that have become stale since the end was decided, because creel was
    /// killed.
    pub(crate) fn repeat_stale(self) -> Option<EngineOutput> {
        self.stale(&BTreeSet::new())
            .filter(|_| !self.gives_up())
            .map(EngineOutput::record)
    }

    /// The record that starts a pass over the stale checks: hooks first, then rules. None if there
    /// are none.
    fn stale(self, waived: &BTreeSet<String>) -> Option<Event> {
        let open = self.open(waived);
        let stale = |kind| {
            let stale = open
                .iter()
                .filter(move |(check, status)| check.kind == kind && *status == CheckStatus::Stale);
            stale
                .map(|(check, _)| check.name.clone())
                .collect::<Vec<_>>()
        };
        let hooks = stale(CheckKind::Hook);
        let rules = if hooks.is_empty() {
            stale(CheckKind::Rule)
        } else {
            Vec::new()
        };
        let is_due = !hooks.is_empty() || !rules.is_empty();
        is_due.then(|| {
            Event::Verify(VerifyEvent::Started {
                hooks,
                rules,
                tests_of: None,
            })
        })
    }

    /// Whether a change of the work would change what creel knows about it. Otherwise there is no
    /// reason to look, and work that something changes all the time would keep the session from
    /// ending.
    fn can_become_stale(self, waived: &BTreeSet<String>) -> bool {
        let counted = self
            .counted()
            .into_iter()
            .filter(|check| !waived.contains(&check.name));
        let mut counted = counted.filter(|check| check.kind != CheckKind::Protect);
        counted.any(|check| match self.status(&check) {
            CheckStatus::Passed | CheckStatus::Failed(_) | CheckStatus::Broken(_) => true,
            CheckStatus::Accepted(_) | CheckStatus::Disabled | CheckStatus::Stale => false,
        })
    }

    /// A check that failed or could not run on the work as it is.
    pub(crate) fn red_check(self) -> Option<PassFeedback> {
        let is_red = |status: &CheckStatus| {
            matches!(status, CheckStatus::Failed(_) | CheckStatus::Broken(_))
        };
        let (check, status) = self
            .open(&BTreeSet::new())
            .into_iter()
            .find(|(_, status)| is_red(status))?;
        let text = self.unverified(&check, &status);
        Some(PassFeedback {
            check: check.name,
            reason: text.clone(),
            text,
        })
    }

    /// Whether further passes would prove nothing.
    fn gives_up(self) -> bool {
        let VerificationState {
            passes,
            rewrites,
            unknown,
            ..
        } = *self.verify;
        passes >= PASSES || rewrites >= REWRITES || (unknown && passes > 0)
    }

    /// All hooks or rules of the pass have run.
    pub(crate) fn conclude_pass(
        self,
        feedback: Option<PassFeedback>,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        let Some(measured) = measured else {
            return Self::measure(WorkChangedBy::Checks);
        };
        // An agent that drives itself hears of every check that is red: its completion is refused.
        let feedback = feedback.or_else(|| {
            self.plan
                .is_led_from_outside()
                .then(|| self.red_check())
                .flatten()
        });
        let at_the_end = self
            .verify
            .pass
            .as_ref()
            .is_some_and(|pass| *pass.back == Phase::Delivering);
        let goes_on = at_the_end && feedback.is_some() && self.steering.stop.is_none();
        let next = if goes_on {
            AfterPass::Iteration
        } else {
            AfterPass::Back
        };
        let changed = self
            .change(measured)
            .map(EngineOutput::record)
            .unwrap_or_default();
        changed.and(Event::Verify(VerifyEvent::Ended { next, feedback }))
    }
}

impl PassFeedback {
    pub(crate) fn of_hooks(feedback: HookFeedback) -> Self {
        let HookFeedback {
            hook, reason, text, ..
        } = feedback;
        Self {
            check: hook,
            reason,
            text,
        }
    }

    /// None if all rules passed.
    pub(crate) fn of_rules(results: &[RuleOutcome]) -> Option<Self> {
        let failed: Vec<&RuleOutcome> = results.iter().filter(|rule| !rule.passed).collect();
        let first = failed.first()?;
        let list = failed
            .iter()
            .map(|rule| format!("- {}: {}", rule.rule_name, rule.message))
            .collect::<Vec<_>>();
        Some(Self {
            check: first.rule_name.clone(),
            reason: first_line(&first.message, usize::MAX),
            text: format!("[Validation failed]\n{}", list.join("\n")),
        })
    }
}

impl VerifyRules<'_> {
    /// The outcome and the reason of a session that ends, in a sentence for people.
    pub(crate) fn end(self, ending: &LoopEnd) -> (SessionOutcome, String) {
        let open = self.open(&BTreeSet::new());
        let accepted = open.iter().find_map(|(check, status)| match status {
            CheckStatus::Accepted(how) => Some((check, *how)),
            CheckStatus::Passed
            | CheckStatus::Failed(_)
            | CheckStatus::Broken(_)
            | CheckStatus::Disabled
            | CheckStatus::Stale => None,
        });
        match (ending.outcome, accepted) {
            (SessionOutcome::Complete | SessionOutcome::Limit, Some((check, how))) => {
                (SessionOutcome::Forced, Self::forced(check, how))
            }
            (SessionOutcome::Complete, None) => match open.first() {
                None => (SessionOutcome::Complete, self.complete(&ending.reason)),
                Some((check, status)) => {
                    let more = match open.len() - 1 {
                        0 => String::new(),
                        more => format!(", and {}", counted(more, "more check")),
                    };
                    (
                        SessionOutcome::Unverified,
                        format!("{}{more}", self.unverified(check, status)),
                    )
                }
            },
            (SessionOutcome::Limit, None) => (SessionOutcome::Limit, self.at_the_limit(ending)),
            (outcome, _) => (outcome, ending.reason.clone()),
        }
    }

    /// What the agent can do about a check that blocked the last pass. None if it is not for the
    /// agent.
    pub(crate) fn feedback_about(
        self,
        check: &CheckRef,
        status: &CheckStatus,
    ) -> Option<PassFeedback> {
        let blocked = matches!(status, CheckStatus::Failed(_));
        self.verify
            .feedback
            .clone()
            .filter(|feedback| blocked && feedback.check == check.name)
    }

    /// Why a check keeps the work from being verified.
    pub(crate) fn describe(self, check: &CheckRef, status: &CheckStatus) -> String {
        if let CheckStatus::Accepted(how) = status {
            Self::forced(check, *how)
        } else {
            self.unverified(check, status)
        }
    }

    fn complete(self, why: &str) -> String {
        // What the agent proposes is checked before you see it; your answer is the reason.
        if self.plan.proposal.is_some() {
            return why.to_owned();
        }
        let names: Vec<String> = self
            .counted()
            .iter()
            .map(|check| named(&check.name))
            .collect();
        let proof = match names.len() {
            0 if self.plan.hooks_at(HookPoint::Stop).is_empty() => {
                "no checks are configured".to_owned()
            }
            0 => "no check is configured that counts".to_owned(),
            1..=NAMES_SHOWN => format!("{} passed", listed(&names)),
            many => format!("{many} checks passed"),
        };
        if why.is_empty() {
            proof
        } else {
            format!("{proof}, and {why}")
        }
    }

    fn forced(check: &CheckRef, how: CheckAcceptance) -> String {
        let after = match how.retries {
            0 => String::new(),
            retries => format!(" after {}", counted(retries, "retry")),
        };
        let by = if how.by_policy {
            "accepted because on_limit is complete"
        } else {
            "you accepted it"
        };
        format!("{} still fails{after}; {by}", named(&check.name))
    }

    fn unverified(self, check: &CheckRef, status: &CheckStatus) -> String {
        let name = named(&check.name);
        let why = |reason: &Option<String>| {
            reason
                .as_ref()
                .map(|reason| format!(" ({})", first_line(reason, 200)))
        };
        match status {
            CheckStatus::Failed(reason) => {
                format!("{name} failed{}", why(reason).unwrap_or_default())
            }
            CheckStatus::Broken(reason) => {
                format!("{name} could not run{}", why(reason).unwrap_or_default())
            }
            CheckStatus::Disabled => format!("{name} was disabled during the session"),
            CheckStatus::Stale if self.verify.unknown => {
                format!("creel could not tell whether the work changed after {name} ran")
            }
            CheckStatus::Stale if self.verify.rewrites >= REWRITES => {
                format!(
                    "the checks change {} each time they run",
                    some_names(&self.verify.changed, NAMES_SHOWN)
                )
            }
            CheckStatus::Stale if self.verify.passes >= PASSES => {
                format!(
                    "{} kept changing after {name} ran",
                    some_names(&self.verify.changed, NAMES_SHOWN)
                )
            }
            CheckStatus::Stale | CheckStatus::Passed | CheckStatus::Accepted(_) => {
                format!("{name} has not run since the work last changed")
            }
        }
    }

    fn at_the_limit(self, ending: &LoopEnd) -> String {
        if self.iterations.used() < self.iterations.limit(self.plan) {
            return ending.reason.clone();
        }
        let open = self.open(&BTreeSet::new());
        let failed =
            |(_, status): &&(CheckRef, CheckStatus)| matches!(status, CheckStatus::Failed(_));
        let outdated = |(check, status): &&(CheckRef, CheckStatus)| {
            *status == CheckStatus::Stale && self.verify.run_of(check).is_some()
        };
        let failed = open.iter().find(failed);
        let why = match failed.or_else(|| open.iter().find(outdated)) {
            Some((check, CheckStatus::Failed(_))) => format!("{} still fails", named(&check.name)),
            Some((check, status)) => self.unverified(check, status),
            None => "the agent has not said that it is done".to_owned(),
        };
        format!(
            "stopped at {}: {why}",
            counted(self.iterations.used(), "iteration")
        )
    }
}

fn named(name: &str) -> String {
    first_line(name, NAME)
}
