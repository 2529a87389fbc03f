//! Every kind of gate in a real terminal, answered by its number, by enter and by a click.

use creel::engine::gate::kind::GateKind;
use serde_json::json;

use crate::{
    support::{project::Project, terminal::Terminal},
    terminal::{COMPLETE, LATE, STUBBORN, TWO_HELD, await_gate, click_on, leave, scripted},
};

/// A session that comes to a gate of this kind, and one of its answers.
struct GateCase {
    kind: GateKind,
    config: &'static str,
    turns: &'static str,
    /// Part of the gate's title.
    title: &'static str,
    /// The number of the answer.
    number: usize,
    label: &'static str,
    /// The answer in the record.
    choice: &'static str,
    outcome: &'static str,
}

const DEFAULT: GateCase = GateCase {
    kind: GateKind::FinalDelivery,
    config: "",
    turns: COMPLETE,
    title: "",
    number: 1,
    label: "",
    choice: "",
    outcome: "complete",
};

const PIPES: &str = "gates: { delivery: ask }\nhooks: { session_start: [{ name: a, command: 'echo red', pipe_output: true }] }";
const ESCALATES: &str = "hooks: { session_start: [{ name: pull, command: 'echo conflict >&2; exit 1', on_failure: escalate }] }";
const LIMITED: &str = "  - fail: \"You've hit your usage limit. Try again in 2 hours.\"\n";
const ASKS: &str =
    "  - { say: '<promise>COMPLETE</promise>', ask: { title: Edit a, kind: edit, path: a } }\n";
const QUESTION: &str = "  - { say: '<promise>COMPLETE</promise>', ask: { title: 'Which database?', choose: [Postgres, SQLite] } }\n";
const SUBMITS: &str =
    "submit: true\nhooks: { before_submit: [{ name: lint, command: 'echo bad; exit 2' }] }";
const MERGES: &str = "hooks: { before_merge: [{ name: lint, command: 'echo bad; exit 2' }] }";

const PROPOSES: &str = "  - say: '{\"tasks\": [{\"id\": \"a\", \"goal\": \"Go.\"}, {\"id\": \"b\", \"goal\": \"On.\"}]}'\n";

#[rustfmt::skip]
fn case(kind: GateKind) -> GateCase {
    let case = match kind {
        GateKind::FinalDelivery => GateCase {
            config: TWO_HELD, title: "Finished. 2 items", number: 2, label: "End without sending", choice: "skip", ..DEFAULT
        },
        // News of a pull request is shown and answered like any other items.
        GateKind::Delivery | GateKind::Review => GateCase {
            config: PIPES, title: "1 item has not been sent", number: 2, label: "Continue without sending", choice: "skip",
            ..DEFAULT
        },
        GateKind::RetryLimit => GateCase {
            config: STUBBORN, turns: LATE, title: "check still fails after 1 retry", number: 3, label: "Accept as it is",
            choice: "ignore", outcome: "forced", ..DEFAULT
        },
        GateKind::Escalation => GateCase {
            config: ESCALATES, title: "pull failed and needs you", number: 3, label: "End as complete", choice: "complete",
            ..DEFAULT
        },
        GateKind::Errors => GateCase {
            config: "max_consecutive_errors: 1", turns: "  - fail: broken pipe\n", title: "The turn failed", number: 1,
            label: "Continue", choice: "continue", ..DEFAULT
        },
        GateKind::BrokenHook => GateCase {
            config: "hooks: { pre_iteration: [{ name: gone, command: 'exit 127' }] }", turns: "  - say: Not yet.\n",
            title: "gone could not run", number: 1, label: "Turn this hook off", choice: "disable", ..DEFAULT
        },
        GateKind::Permission => GateCase {
            turns: ASKS, title: "The agent asks for permission", number: 4, label: "4  No", choice: "reject_once", ..DEFAULT
        },
        GateKind::Question => GateCase {
            turns: QUESTION, title: "Which database", number: 2, label: "SQLite", choice: "answer", ..DEFAULT
        },
        GateKind::Budget => GateCase {
            config: "budget: { tokens: 10 }", turns: "  - { say: Not yet., tokens: 20 }\n", title: "The budget is used up",
            number: 2, label: "End here", choice: "stop", outcome: "limit", ..DEFAULT
        },
        GateKind::UsageLimit => GateCase {
            config: "limits: { on_usage_limit: ask }", turns: LIMITED, title: "demo has reached its usage limit",
            number: 2, label: "Send the turn again now", choice: "retry", ..DEFAULT
        },
        GateKind::Tampered => GateCase {
            turns: "  - { say: '<promise>COMPLETE</promise>', run: 'echo >> creel.yaml' }\n",
            title: "Files changed that agents", number: 1, label: "Accept the changes", choice: "ignore", ..DEFAULT
        },
        GateKind::Submit => GateCase {
            config: SUBMITS, title: "The submit waits: lint failed", number: 3, label: "Skip this check", choice: "skip",
            ..DEFAULT
        },
        GateKind::Merge => GateCase {
            config: MERGES, title: "The merge waits: lint failed", number: 3, label: "Leave the branch", choice: "leave",
            ..DEFAULT
        },
        GateKind::Proposal => GateCase {
            turns: PROPOSES, title: "The agent proposes 2 tasks", number: 4, label: "Queue nothing", choice: "leave",
            ..DEFAULT
        },
    };
    GateCase { kind, ..case }
}

/// How the user answers.
#[derive(Debug, Clone, Copy)]
enum AnswerBy {
    Number,
    Enter,
    Click,
}

impl GateCase {
    fn start(&self, project: &Project) -> Terminal {
        if self.kind == GateKind::Proposal {
            let run = ["run", "--proposal", "at-gate", "--session", "s", "--trust"];
            return Terminal::open(project, &run, (80, 24));
        }
        if self.kind != GateKind::Merge {
            return Terminal::run(project, (120, 40));
        }
        assert_eq!(
            project.run().code,
            0,
            "the session that is merged is complete"
        );
        Terminal::open(project, &["merge", "--trust", "s"], (120, 40))
    }

    /// Whether the answer gives something up, so that creel asks once more.
    fn asks_again(&self) -> bool {
        ["ignore", "disable", "abort"].contains(&self.choice)
    }

    fn answer(&self, terminal: &Terminal, by: AnswerBy) {
        match by {
            AnswerBy::Number => terminal.press(&self.number.to_string()),
            AnswerBy::Click => click_on(terminal, self.label),
            AnswerBy::Enter => {
                // At a gate with items, the arrows choose an item.
                let items = matches!(self.kind, GateKind::FinalDelivery | GateKind::Delivery);
                for _ in 1..self.number {
                    terminal.press(if items { "\t" } else { "down" });
                }
                let label = self
                    .label
                    .trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                terminal.wait_for_text(&format!("▌{}  {label}", self.number));
                terminal.press("enter");
            }
        }
    }

    #[track_caller]
    fn is_answered_by_each(&self) {
        for by in [AnswerBy::Number, AnswerBy::Enter, AnswerBy::Click] {
            let project = scripted(self.config, self.turns);
            let mut terminal = self.start(&project);
            await_gate(&terminal, self.title);
            self.answer(&terminal, by);
            if self.asks_again() {
                terminal.wait_for_text("again ");
                terminal.press("enter");
            }
            leave(&mut terminal, self.outcome);
            let (opened, answered) = (project.kind("gate_opened"), project.kind("gate_answered"));
            let gates: Vec<_> = opened.iter().map(|gate| gate["about"].clone()).collect();
            assert_eq!(gates, [json!(self.kind.name())], "{by:?}");
            let answers: Vec<_> = answered
                .iter()
                .map(|answer| (&answer["choice"], &answer["by"]))
                .collect();
            assert_eq!(answers, [(&json!(self.choice), &json!("tui"))], "{by:?}");
        }
    }
}

#[test]
fn a_final_delivery() {
    case(GateKind::FinalDelivery).is_answered_by_each();
}

#[test]
fn a_delivery() {
    case(GateKind::Delivery).is_answered_by_each();
}

#[test]
fn a_retry_limit() {
    case(GateKind::RetryLimit).is_answered_by_each();
}

#[test]
fn an_escalation() {
    case(GateKind::Escalation).is_answered_by_each();
}

#[test]
fn a_failed_turn() {
    case(GateKind::Errors).is_answered_by_each();
}

#[test]
fn a_broken_hook() {
    case(GateKind::BrokenHook).is_answered_by_each();
}

#[test]
fn a_permission_request() {
    case(GateKind::Permission).is_answered_by_each();
}

#[test]
fn a_budget() {
    case(GateKind::Budget).is_answered_by_each();
}

#[test]
fn a_usage_limit() {
    case(GateKind::UsageLimit).is_answered_by_each();
}

#[test]
fn files_that_the_agent_must_not_change() {
    case(GateKind::Tampered).is_answered_by_each();
}

#[test]
fn a_submit() {
    case(GateKind::Submit).is_answered_by_each();
}

#[test]
fn a_merge() {
    case(GateKind::Merge).is_answered_by_each();
}

#[test]
fn a_proposal() {
    case(GateKind::Proposal).is_answered_by_each();
}

#[test]
fn at_a_gate_ctrl_c_asks_and_a_second_one_leaves() {
    let project = scripted(TWO_HELD, COMPLETE);
    let mut terminal = Terminal::run(&project, (80, 24));
    await_gate(&terminal, "Finished. ");
    terminal.press("ctrl-c");
    terminal.wait_for("the question", |shown| {
        shown.has("Leave") || shown.has("leave")
    });
    assert!(project.kind("gate_answered").is_empty());
    terminal.press("ctrl-c");
    assert_eq!(terminal.end(), 130);
    terminal.is_as_it_was();
}
