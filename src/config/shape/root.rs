//! The keys at the top of the config, and those of its simple sections.

use super::{
    DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
    agents::AGENT,
    automation::AUTOMATION,
    hooks::{CHECKS, HOOKS},
    nats::NATS,
    rules::RULE,
    stop::STOP_HOOK,
    submit::{SUBMIT_KEY, TASK_TYPE},
    workflow::WORKFLOW,
    worktree::WORKTREE_KEY,
};
use crate::config::shape::permissions::{BUDGET, LIMITS, PERMISSION, USER_COMMAND};

pub static ROOT: MapShape = MapShape {
    name: "config",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "version",
            doc: "The version of the config format.",
            ty: ValueType::Integer(1, i64::MAX),
            default: DefaultValue::Int(1),
        },
        FieldShape {
            name: "session",
            doc: "The session's name: letters, digits, `-` and `_`. Default: from the folder and the time.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "prompt",
            doc: "The prompt: what the agent should do.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "prompt_file",
            doc: "A file with the prompt, relative to this file.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "max_iterations",
            doc: "The maximum number of iterations.",
            ty: ValueType::Integer(1, 1_000_000),
            default: DefaultValue::Int(20),
        },
        FieldShape {
            name: "agent",
            doc: "One of `agents`, or a known agent on PATH. Default: the only one of `agents`; if there are none, the first known agent that is installed.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "agents",
            doc: "How to run each agent, by a name of your own.",
            ty: ValueType::Map(&ValueType::Object(&AGENT)),
            default: DefaultValue::EmptyMap,
        },
        FieldShape {
            name: "instructions",
            doc: "The note at the end of iteration prompts about how to report the end. `auto`: creel's note, unless \
                  the goal mentions `<promise>`; `none`: no note; any other text replaces the note.",
            ty: ValueType::SomeText,
            default: DefaultValue::Text("auto"),
        },
        FieldShape {
            name: "context",
            doc: "`fresh`: a new conversation each iteration; `keep`: one for the whole session.",
            ty: ValueType::OneOf(&["fresh", "keep"]),
            default: DefaultValue::Text("fresh"),
        },
        FieldShape {
            name: "max_hook_retries",
            doc: "How many times creel sends the agent back after a blocked stop; 0: never.",
            ty: ValueType::Integer(0, 1_000_000),
            default: DefaultValue::Int(5),
        },
        FieldShape {
            name: "on_limit",
            doc: "What happens at the retry limit when unattended.",
            ty: ValueType::OneOf(&["complete", "escalate", "abort"]),
            default: DefaultValue::Text("complete"),
        },
        FieldShape {
            name: "max_consecutive_errors",
            doc: "The maximum number of failed turns in a row.",
            ty: ValueType::Integer(1, 1_000_000),
            default: DefaultValue::Int(3),
        },
        FieldShape {
            name: "turn_timeout",
            doc: "The timeout of one turn; 0: no limit.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Text("30m"),
        },
        FieldShape {
            name: "output_limit",
            doc: "The maximum number of bytes of a hook's output that the agent gets.",
            ty: ValueType::Integer(256, 64 << 20),
            default: DefaultValue::Int(16384),
        },
        FieldShape {
            name: "retry",
            doc: "How long to wait before a retry.",
            ty: ValueType::Object(&RETRY),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "gates",
            doc: "When creel asks you.",
            ty: ValueType::Object(&GATES),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "permissions",
            doc: "What the agent may do without asking you. The first rule that matches decides, otherwise the gate.",
            ty: ValueType::List(&ValueType::Object(&PERMISSION)),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "agent_may",
            doc: "More commands that the session's own agent and hooks may use, such as answering gates or starting sessions.",
            ty: ValueType::List(&USER_COMMAND),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "protect",
            doc: "Patterns of paths that no turn may change, relative to the project; a folder stands for all in it. After a \
                  turn that changed one, the agent must undo it.",
            ty: ValueType::List(&ValueType::SomeText),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "budget",
            doc: "What the session may use before creel asks you.",
            ty: ValueType::Object(&BUDGET),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "limits",
            doc: "What happens when an agent reaches a usage limit.",
            ty: ValueType::Object(&LIMITS),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "checks",
            doc: "Commands that must pass after each turn. A failure sends the agent back to work with the output.",
            ty: CHECKS,
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "hooks",
            doc: "Commands at each point of the lifecycle.",
            ty: ValueType::Object(&HOOKS),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "stop",
            doc: "What decides whether the session is complete.",
            ty: ValueType::Object(&STOP),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "automation",
            doc: "What creel does when tasks change.",
            ty: ValueType::Object(&AUTOMATION),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "workflows",
            doc: "Steps that automation can start, by a name of your own.",
            ty: ValueType::Map(&ValueType::Object(&WORKFLOW)),
            default: DefaultValue::EmptyMap,
        },
        FieldShape {
            name: "task_types",
            doc: "Checks, hooks, agents and limits for each type of task.",
            ty: ValueType::Map(&ValueType::Object(&TASK_TYPE)),
            default: DefaultValue::EmptyMap,
        },
        FieldShape {
            name: "submit",
            doc: "How creel submits and merges the work. `true`: submit it when a session is complete.",
            ty: SUBMIT_KEY,
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "remediation_attempts",
            doc: "How many times the agent can repair what blocked a submit or a merge.",
            ty: ValueType::Integer(0, 1_000),
            default: DefaultValue::Int(1),
        },
        FieldShape {
            name: "worktree",
            doc: "Run each session in a git worktree and on a branch of its own, so that sessions do not disturb each \
                  other. `true`: with the defaults of these keys.",
            ty: WORKTREE_KEY,
            default: DefaultValue::Bool(false),
        },
        FieldShape {
            name: "nats",
            doc: "A NATS server, to watch and control the session from other machines.",
            ty: ValueType::Object(&NATS),
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "ui",
            doc: "Settings of the screen.",
            ty: ValueType::Object(&UI),
            default: DefaultValue::OfItsKeys,
        },
    ],
};

pub static RETRY: MapShape = MapShape {
    name: "retry",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "backoff",
            doc: "`none`: no wait; `exponential`: longer each time, also when you set one of the other keys.",
            ty: ValueType::OneOf(&["none", "exponential"]),
            default: DefaultValue::Text("none"),
        },
        FieldShape {
            name: "base",
            doc: "The first wait.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Int(1),
        },
        FieldShape {
            name: "factor",
            doc: "The factor between two waits.",
            ty: ValueType::Number(1.0, 1000.0),
            default: DefaultValue::Int(2),
        },
        FieldShape {
            name: "max",
            doc: "The longest wait.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Int(60),
        },
        FieldShape {
            name: "jitter",
            doc: "The random share of a wait.",
            ty: ValueType::Number(0.0, 1.0),
            default: DefaultValue::Float(0.2),
        },
    ],
};

pub static GATES: MapShape = MapShape {
    name: "gates",
    noun: "gate",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "final_delivery",
            doc: "What happens to pending items after the last iteration. Default: `ask`, or `auto` when unattended.",
            ty: ValueType::OneOf(&["ask", "auto", "skip"]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "delivery",
            doc: "What happens to pending items before each iteration.",
            ty: ValueType::OneOf(&["ask", "auto"]),
            default: DefaultValue::Text("auto"),
        },
        FieldShape {
            name: "permissions",
            doc: "What happens when an agent asks for permission.",
            ty: ValueType::OneOf(&["ask", "allow", "deny"]),
            default: DefaultValue::Text("ask"),
        },
        FieldShape {
            name: "timeout",
            doc: "How long creel waits for your answer before it takes the `auto` answer; 0: no limit.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Int(0),
        },
    ],
};

pub static STOP: MapShape = MapShape {
    name: "stop",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "hooks",
            doc: "What decides after each iteration, in this order: `default`, `validation`, `promise`, a command, a \
                  fixed action, or a group.",
            ty: ValueType::List(&STOP_HOOK),
            default: DefaultValue::Names(&["default"]),
        },
        FieldShape {
            name: "rules",
            doc: "The rules that must pass before the work is complete.",
            ty: ValueType::List(&RULE),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "settled",
            doc: "What happens when all checks pass and the agent changed nothing: `complete` ends the session, `ask` \
                  asks you, `continue` starts the next iteration. Default: `complete`, or `continue` with your own \
                  `hooks`.",
            ty: ValueType::OneOf(&["complete", "ask", "continue"]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "open_tasks",
            doc: "What happens when the agent reports completion while tasks of the session are open: `continue` starts \
                  another iteration with the list of them, once per set of open tasks; `ignore` ends the session.",
            ty: ValueType::OneOf(&["continue", "ignore"]),
            default: DefaultValue::Text("continue"),
        },
        FieldShape {
            name: "circuit_breaker",
            doc: "Escalate after so many iterations in a row with failed rules; 0: never.",
            ty: ValueType::Integer(0, 1_000_000),
            default: DefaultValue::Int(3),
        },
        FieldShape {
            name: "thrashing",
            doc: "Escalate after so many iterations in a row in which a file returns to earlier content, or is \
                  rewritten while the same rule fails with the same message; 0: never.",
            ty: ValueType::Integer(0, 1_000_000),
            default: DefaultValue::Int(5),
        },
        FieldShape {
            name: "no_progress",
            doc: "Escalate after so many iterations in a row with the same last message; 0: never.",
            ty: ValueType::Integer(0, 1_000_000),
            default: DefaultValue::Int(5),
        },
    ],
};

pub static UI: MapShape = MapShape {
    name: "ui",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "theme",
            doc: "The colors. `auto` is dark or light, like the terminal's background; `terminal` uses only the \
                  terminal's own 16 colors.",
            ty: ValueType::OneOf(&["auto", "dark", "light", "high-contrast", "terminal"]),
            default: DefaultValue::Text("auto"),
        },
        FieldShape {
            name: "mouse",
            doc: "Whether the screen uses the mouse.",
            ty: ValueType::Bool,
            default: DefaultValue::Bool(true),
        },
        FieldShape {
            name: "notify",
            doc: "Whether the screen rings the bell and sends a terminal notification when a gate opens while you look \
                  elsewhere.",
            ty: ValueType::Bool,
            default: DefaultValue::Bool(true),
        },
        FieldShape {
            name: "motion",
            doc: "What moves while an agent or a hook works. `reduced`: no spinner, and clocks change at most once per \
                  second.",
            ty: ValueType::OneOf(&["full", "reduced"]),
            default: DefaultValue::Text("full"),
        },
        FieldShape {
            name: "signs",
            doc: "The characters of signs and frames. `auto` uses ASCII where the locale is not UTF-8.",
            ty: ValueType::OneOf(&["auto", "unicode", "ascii"]),
            default: DefaultValue::Text("auto"),
        },
        FieldShape {
            name: "hints",
            doc: "When a line on the screen explains what happens. `auto`: in your first three sessions, until you \
                  hide it.",
            ty: ValueType::OneOf(&["auto", "always", "never"]),
            default: DefaultValue::Text("auto"),
        },
    ],
};
