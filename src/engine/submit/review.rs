//! Reviews: checks whose runs are turns of other agents.
//!
//! The run reads the change (see `crate::hooks`), and each gatekeeper sees it in a turn of its own,
//! one after another. Owns their prompts and the interpretation of their answers. All gatekeepers
//! are asked, so that the agent gets every objection at once. A gatekeeper whose answer has no
//! verdict is asked once more.
//!
//! # Invariants
//! - A gatekeeper that does not approve blocks: silence, a turn that failed or was cut short, and
//!   an unknown name are no approval.
//! - A verdict is at the beginning or the end of a line, outside of code and quotations: a
//!   gatekeeper that only mentions the tag, shows it, or uses it in a sentence has given none.

use serde::Deserialize;

use crate::{
    engine::{
        conversation::ConversationMode,
        event::{Event, HookEvent, HookFinished, PipelineEvent, PromptReason, PromptSent},
        hooks::{
            dispatch::{self, HookDispatch},
            verdict::{self, BuiltinOutcome, BuiltinStatus, RunEnd, RunResult},
        },
        ids::RunId,
        output::EngineOutput,
        policy::HookAction,
        submit::{
            PipelineRules,
            kind::{GatekeeperReview, ReviewVerdict},
            state::{PipelineRun, ReviewRun},
        },
        time::UnixTime,
        turn::prompt::PromptRules,
    },
    text::{LetterCase, UnquotedText},
};

/// How many bytes of a change a gatekeeper sees.
pub const CHANGE_LIMIT: usize = 64 << 10;

/// How many bytes of an answer are kept as its reason.
const REASON: usize = 4 << 10;

/// The default instructions for a review.
const USUAL: &str = include_str!("../../../assets/prompts/gatekeeper.md");

/// The question to a gatekeeper whose answer has no verdict.
const NO_VERDICT: &str = "Your answer has no verdict. Repeat the reason in a few sentences, and end with \
                          <verdict>approve</verdict> or <verdict>block</verdict> on a line of its own.";

/// Reads the verdict from an answer: a tag or a line of JSON in any letter case, written by the
/// gatekeeper itself. An answer with both verdicts does not approve.
pub fn read(answer: &str, prompt: &str) -> (ReviewVerdict, String) {
    let own = UnquotedText::of(answer, prompt);
    let lines: Vec<VerdictLine> = own
        .lines()
        .filter_map(|line| serde_json::from_str(line.trim()).ok())
        .collect();
    let says = |opinion| {
        own.say(&tag(opinion), LetterCase::Any) || lines.iter().any(|line| line.says(opinion))
    };
    let opinion = if says(ReviewVerdict::Block) {
        ReviewVerdict::Block
    } else if says(ReviewVerdict::Approve) {
        ReviewVerdict::Approve
    } else {
        ReviewVerdict::Unsaid
    };
    let reason = lines
        .into_iter()
        .rev()
        .find(|line| line.says(opinion))
        .and_then(|line| line.reason);
    (opinion, reason.unwrap_or_else(|| words(answer)))
}

fn tag(opinion: ReviewVerdict) -> String {
    format!("<verdict>{}</verdict>", opinion.name())
}

/// One line of JSON with a verdict.
#[derive(Deserialize)]
struct VerdictLine {
    verdict: String,
    reason: Option<String>,
}

impl VerdictLine {
    fn says(&self, opinion: ReviewVerdict) -> bool {
        self.verdict.eq_ignore_ascii_case(opinion.name())
    }
}

/// The end of an answer, without its tags.
fn words(answer: &str) -> String {
    let tags = [ReviewVerdict::Approve, ReviewVerdict::Block].map(tag);
    let plain = tags
        .iter()
        .fold(answer.to_owned(), |text, tag| without(&text, tag));
    let plain = plain.trim();
    let from = plain.ceil_char_boundary(plain.len().saturating_sub(REASON));
    if from == 0 {
        plain.to_owned()
    } else {
        format!("…{}", &plain[from..])
    }
}

/// The text without this tag, in whichever letter case it is written.
fn without(text: &str, tag: &str) -> String {
    let mut from = 0;
    let mut plain = String::with_capacity(text.len());
    for (at, _) in text.to_ascii_lowercase().match_indices(tag) {
        plain.push_str(&text[from..at]);
        from = at + tag.len();
    }
    plain + &text[from..]
}

impl<'a> PipelineRules<'a> {
    /// Starts the review once its run has read the change.
    pub(crate) fn review_read(self, run: RunId, result: &RunResult) -> Option<EngineOutput> {
        let pipeline_run = self.0.pipelines.pipeline_run.as_ref()?;
        let dispatch = self.0.phase.dispatch()?;
        let running = dispatch
            .running
            .as_ref()
            .filter(|running| running.run == run)?;
        let spec = self.0.plan().hook(dispatch.point, &running.hook)?;
        let reads =
            matches!(spec.action, HookAction::Gatekeeper(_)) && pipeline_run.review.is_none();
        // An empty change needs no review: the run ends as it did.
        let something = result.end == RunEnd::Exit(0) && !result.stdout.trim().is_empty();
        (reads && something).then(|| {
            let commit = result
                .outcome
                .as_ref()
                .and_then(|outcome| outcome.read.clone());
            let (hook, change) = (running.hook.clone(), result.stdout.clone());
            EngineOutput::record(Event::Pipeline(PipelineEvent::ReviewStarted {
                run,
                hook,
                change,
                commit,
            }))
        })
    }

    /// Asks the next gatekeeper, or combines their verdicts.
    pub(crate) fn proceed_review(self, dispatch: &HookDispatch, now: UnixTime) -> EngineOutput {
        let prompts = self.0.prompts();
        let Some(review) = self.0.pipelines.review_of(dispatch) else {
            return EngineOutput::default();
        };
        let names = self.gatekeepers(dispatch);
        let Some(name) = names.get(review.reviews.len()) else {
            return self.review_ended(dispatch, review, now);
        };
        let reviewed = |given: GatekeeperReview| {
            EngineOutput::record(Event::Pipeline(PipelineEvent::Reviewed {
                run: review.run,
                review: given,
            }))
        };
        let unsaid = |reason| GatekeeperReview {
            gatekeeper: name.clone(),
            verdict: ReviewVerdict::Unsaid,
            reason,
        };
        match (&review.answer, self.0.plan().gatekeepers.get(name)) {
            (Some(Ok(answer)), gatekeeper) => {
                let (verdict, reason) = read(answer, &self.0.turns.prompt);
                match gatekeeper
                    .filter(|_| verdict == ReviewVerdict::Unsaid && review.unclear.is_none())
                {
                    Some(_) if self.0.steering.paused => EngineOutput::default(),
                    Some(gatekeeper) => {
                        let continues = !gatekeeper.spec.forgets() && !review.conversation_lost;
                        let mode = if continues {
                            ConversationMode::Same
                        } else {
                            ConversationMode::New
                        };
                        prompts.send(prompts.verdict_question(name, review, answer, mode))
                    }
                    None => reviewed(GatekeeperReview {
                        gatekeeper: name.clone(),
                        verdict,
                        reason,
                    }),
                }
            }
            (Some(Err(why)), _) => reviewed(unsaid(why.clone())),
            (None, Some(_)) if self.0.steering.paused => EngineOutput::default(),
            (None, Some(_)) => prompts.send(prompts.review_prompt(name, review)),
            (None, None) => reviewed(unsaid(format!(
                "unknown agent `{name}`: describe it under `agents:`"
            ))),
        }
    }

    pub(crate) fn gatekeepers(self, dispatch: &HookDispatch) -> &'a [String] {
        let running = dispatch.running.as_ref();
        let spec = running.and_then(|running| self.0.plan().hook(dispatch.point, &running.hook));
        match spec.map(|spec| &spec.action) {
            Some(HookAction::Gatekeeper(names)) => names,
            Some(HookAction::Command(_) | HookAction::Exec(_) | HookAction::Builtin(_)) | None => {
                &[]
            }
        }
    }

    pub(crate) fn review_ended(
        self,
        dispatch: &HookDispatch,
        review: &ReviewRun,
        now: UnixTime,
    ) -> EngineOutput {
        let Some(running) = &dispatch.running else {
            return EngineOutput::default();
        };
        let Some(spec) = self.0.plan().hook(dispatch.point, &running.hook) else {
            return EngineOutput::default();
        };
        let line = |review: &GatekeeperReview| {
            format!(
                "{}: {}. {}",
                review.gatekeeper,
                review.verdict.name(),
                review.reason
            )
        };
        let of = |opinion| {
            review
                .reviews
                .iter()
                .filter(move |review| review.verdict == opinion)
                .map(line)
        };
        let objections: Vec<String> = of(ReviewVerdict::Block).collect();
        let missing: Vec<String> = of(ReviewVerdict::Unsaid).collect();
        let against: Vec<String> = objections.iter().chain(&missing).cloned().collect();
        let passes = against.is_empty();
        let outcome = BuiltinOutcome {
            status: if passes {
                BuiltinStatus::Success
            } else {
                BuiltinStatus::Failure
            },
            message: if passes {
                "approved".into()
            } else {
                against.join("\n\n")
            },
            // The agent can repair an objection, but not a missing verdict.
            remediation: (!objections.is_empty()).then(|| objections.join("\n\n")),
            pull_request: None,
            merged: None,
            read: None,
        };
        let mut finished = HookFinished {
            end: RunEnd::Exit(i32::from(!passes)),
            took_ms: now.since(review.began),
            stdout: of(ReviewVerdict::Approve).collect::<Vec<_>>().join("\n\n"),
            stderr: against.join("\n\n"),
            outcome: Some(outcome),
            again: false,
            ..HookFinished::cut(dispatch.point, running)
        };
        finished.verdict = verdict::judge(dispatch.point, spec, dispatch::view(&finished)).verdict;
        EngineOutput::record(Event::Hook(HookEvent::Finished(Box::new(finished))))
    }

    /// Ends a review that the pipeline no longer waits for.
    pub(crate) fn cut_review(self, pipeline_run: &PipelineRun) -> Option<EngineOutput> {
        let review = pipeline_run.review.as_deref()?;
        let dispatch = self.0.phase.dispatch().or(review.dispatch.as_ref())?;
        let running = dispatch
            .running
            .as_ref()
            .filter(|running| running.run == review.run)?;
        let finished = HookFinished {
            again: false,
            ..HookFinished::cut(dispatch.point, running)
        };
        Some(EngineOutput::record(Event::Hook(HookEvent::Finished(
            Box::new(finished),
        ))))
    }
}

impl PromptRules<'_> {
    fn review_prompt(self, name: &str, review: &ReviewRun) -> PromptSent {
        let gatekeeper = self.0.plan().gatekeepers.get(name);
        let look = gatekeeper
            .and_then(|known| known.prompt.as_deref())
            .unwrap_or(USUAL)
            .trim();
        let (goal, change) = (&self.0.began.prompt, &review.change);
        let text = format!(
            "{look}\n\nYou review as `{name}`. Change nothing yourself. End your answer with your verdict on a line of its own: \
             <verdict>approve</verdict> or <verdict>block</verdict>, and before it the reason in a few sentences.\n\n\
             # What the work is for\n\n{goal}\n\n# The change\n\n{change}"
        );
        let prompt = self.prompt(PromptReason::Gatekeeper, text);
        PromptSent {
            conversation: ConversationMode::New,
            agent: Some(name.to_owned()),
            ..prompt
        }
    }

    /// Asks for the verdict that an answer lacks. In a new conversation the whole review follows.
    fn verdict_question(
        self,
        name: &str,
        review: &ReviewRun,
        answer: &str,
        mode: ConversationMode,
    ) -> PromptSent {
        let whole = self.review_prompt(name, review);
        let text = match mode {
            ConversationMode::Same => NO_VERDICT.to_owned(),
            ConversationMode::New => {
                format!(
                    "{NO_VERDICT}\n\n# Your answer\n\n{}\n\n{}",
                    words(answer),
                    whole.text
                )
            }
        };
        PromptSent {
            text,
            conversation: mode,
            ..whole
        }
    }

    /// The same question as one that was interrupted, if the gatekeeper's conversation is lost
    /// since.
    pub(crate) fn verdict_question_again(self, cut: &PromptSent) -> Option<PromptSent> {
        let review = self.0.pipelines.pipeline_run.as_ref()?.review.as_deref()?;
        let lost = review.conversation_lost && cut.conversation == ConversationMode::Same;
        let (name, answer) = (cut.agent.as_deref()?, review.unclear.as_deref()?);
        lost.then(|| self.verdict_question(name, review, answer, ConversationMode::New))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_a_tag_or_a_line_of_json_and_silence_is_none() {
        let opinion = |answer: &str| read(answer, "").0;
        assert_eq!(
            opinion("Fine.\n<verdict>approve</verdict>"),
            ReviewVerdict::Approve
        );
        assert_eq!(
            opinion("No tests.\n<verdict>block</verdict>"),
            ReviewVerdict::Block
        );
        assert_eq!(
            opinion("{\"verdict\": \"approve\"}"),
            ReviewVerdict::Approve
        );
        assert_eq!(opinion("I approve of this."), ReviewVerdict::Unsaid);
        assert_eq!(
            opinion("Fine. <Verdict>APPROVE</Verdict>"),
            ReviewVerdict::Approve
        );
        assert_eq!(
            opinion("<verdict>Block</verdict> There are no tests."),
            ReviewVerdict::Block
        );
        assert_eq!(
            opinion("{\"verdict\": \"Approve\"}"),
            ReviewVerdict::Approve
        );
        assert_eq!(opinion(""), ReviewVerdict::Unsaid);
        assert_eq!(
            opinion("<verdict>approve</verdict> but <verdict>block</verdict>"),
            ReviewVerdict::Block
        );
        assert_eq!(
            opinion("<verdict>approve</verdict>\n{\"verdict\":\"block\"}"),
            ReviewVerdict::Block
        );
    }

    #[test]
    fn a_gatekeeper_that_mentions_the_tag_in_a_sentence_has_given_no_verdict() {
        let opinion = |answer: &str| read(answer, "").0;
        let wish = "I would like to give <verdict>approve</verdict>, but there are no tests.";
        assert_eq!(opinion(wish), ReviewVerdict::Unsaid);
        assert_eq!(
            opinion("You get <verdict>block</verdict> if the tests fail."),
            ReviewVerdict::Unsaid
        );
        assert_eq!(
            opinion("> <verdict>approve</verdict>"),
            ReviewVerdict::Unsaid
        );
        assert_eq!(
            opinion("There are no tests, so: <verdict>block</verdict>."),
            ReviewVerdict::Block
        );
        assert_eq!(
            opinion("Fine.\r\n  <verdict>approve</verdict> \r\n"),
            ReviewVerdict::Approve
        );
        assert_eq!(
            opinion("~~<verdict>approve</verdict>~~"),
            ReviewVerdict::Unsaid
        );
    }

    #[test]
    fn emphasis_and_a_full_stop_do_not_undo_an_approval() {
        for line in [
            "**<verdict>approve</verdict>**",
            "_<verdict>approve</verdict>_.",
            " <verdict>approve</verdict>. ",
        ] {
            assert_eq!(
                read(&format!("Fine.\n{line}\n"), "").0,
                ReviewVerdict::Approve,
                "{line}"
            );
        }
    }

    #[test]
    fn a_verdict_in_code_or_in_a_quotation_does_not_count() {
        for answer in [
            "I would answer:\n```\n<verdict>approve</verdict>\n```",
            "~~~\n{\"verdict\": \"approve\"}\n~~~",
            "Not yet.\n`<verdict>approve</verdict>`",
            "> <verdict>approve</verdict>\n\nThe author wrote that.",
            "> {\"verdict\": \"approve\"}",
            "```\n<verdict>block</verdict>\n```",
            "The prompt asks for \"<verdict>block</verdict>\" here.",
        ] {
            assert_eq!(read(answer, "").0, ReviewVerdict::Unsaid, "{answer}");
        }
        let asked = "End with <verdict>approve</verdict> or <verdict>block</verdict>.";
        assert_eq!(
            read(
                &format!("{asked}\n\nFine.\n<verdict>approve</verdict>"),
                asked
            )
            .0,
            ReviewVerdict::Approve
        );
        assert_eq!(
            read(
                "Ready:\n<verdict>approve</verdict>",
                "Ready:\n<verdict>approve</verdict>\n"
            )
            .0,
            ReviewVerdict::Unsaid
        );
    }

    #[test]
    fn the_reason_is_the_text_around_the_verdict() {
        assert_eq!(
            read("No tests.\n<verdict>block</verdict>", "").1,
            "No tests."
        );
        assert_eq!(
            read("No tests.\n<VERDICT>Block</VERDICT>", "").1,
            "No tests."
        );
        assert_eq!(
            read("Hm.\n{\"verdict\":\"block\",\"reason\":\"no tests\"}", "").1,
            "no tests"
        );
        let long = read(
            &format!("{}<verdict>block</verdict>", "é".repeat(REASON)),
            "",
        )
        .1;
        assert!(long.starts_with('…') && long.len() <= REASON + '…'.len_utf8());
    }
}
