//! The keys at the top of the config, and those of its simple sections.

use super::{
    DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
    agents::AGENT,
    automation::AUTOMATION,
    hooks::HOOKS,
    nats::NATS,
    rules::RULE,
    stop::STOP_HOOK,
    submit::{SUBMIT_KEY, TASK_TYPE},
    workflow::WORKFLOW,
};
use crate::config::shape::permissions::{BUDGET, LIMITS, PERMISSION, USER_COMMAND};

pub static ROOT: MapShape = MapShape {
    name: "config",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "version",
            doc: "The version of this format.",
            ty: ValueType::Integer(1, i64::MAX),
            default: DefaultValue::Int(1),
        },
        FieldShape {
            name: "session",
            doc: "The session's name: letters, digits, `-` and `_`; by default from the folder and the time.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "prompt",
            doc: "What the agent is asked to do.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "prompt_file",
            doc: "A file that holds the prompt, relative to this one.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "max_iterations",
            doc: "How many iterations there may be.",
            ty: ValueType::Integer(1, 1_000_000),
            default: DefaultValue::Int(20),
        },
        FieldShape {
            name: "agent",
            doc: "One of `agents`, or a known name found on PATH; by default the only one there is.",
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
            doc: "What the agent is told at the end of iteration prompts about how to report the end. `auto`: creel's note, \
                  unless the goal mentions `<promise>`; `none`: nothing; any other text replaces the note.",
            ty: ValueType::SomeText,
            default: DefaultValue::Text("auto"),
        },
        FieldShape {
            name: "context",
            doc: "`fresh`: a new conversation each iteration; `keep`: one for the session.",
            ty: ValueType::OneOf(&["fresh", "keep"]),
            default: DefaultValue::Text("fresh"),
        },
        FieldShape {
            name: "max_hook_retries",
            doc: "How often a blocked stop is sent back to the agent; 0: never.",
            ty: ValueType::Integer(0, 1_000_000),
            default: DefaultValue::Int(5),
        },
        FieldShape {
            name: "on_limit",
            doc: "What happens at the retry limit with nobody there.",
            ty: ValueType::OneOf(&["complete", "escalate", "abort"]),
            default: DefaultValue::Text("complete"),
        },
        FieldShape {
            name: "max_consecutive_errors",
            doc: "How many failed turns in a row are tolerated.",
            ty: ValueType::Integer(1, 1_000_000),
            default: DefaultValue::Int(3),
        },
        FieldShape {
            name: "turn_timeout",
            doc: "How long one turn may take; 0: as long as it likes.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Text("30m"),
        },
        FieldShape {
            name: "output_limit",
            doc: "How many bytes of one hook's output the agent gets.",
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
            doc: "Where a person is asked.",
            ty: ValueType::Object(&GATES),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "permissions",
            doc: "What an agent may do without being asked about, or may not: the first rule that fits says, otherwise the gate.",
            ty: ValueType::List(&ValueType::Object(&PERMISSION)),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "agent_may",
            doc: "Commands that the session's own agent and hooks may use beside those that they always may: answering gates, for instance.",
            ty: ValueType::List(&USER_COMMAND),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "protect",
            doc: "Patterns of paths that no turn may change, relative to the project. A turn that changed one is sent back.",
            ty: ValueType::List(&ValueType::SomeText),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "budget",
            doc: "What the session may use before a person is asked.",
            ty: ValueType::Object(&BUDGET),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "limits",
            doc: "What follows when an agent reaches a usage limit.",
            ty: ValueType::Object(&LIMITS),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "hooks",
            doc: "What runs at each point of the lifecycle.",
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
            doc: "What happens by itself when tasks change.",
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
            doc: "Hooks, agents and limits by the type of a task.",
            ty: ValueType::Map(&ValueType::Object(&TASK_TYPE)),
            default: DefaultValue::EmptyMap,
        },
        FieldShape {
            name: "submit",
            doc: "How the work is submitted and merged; `true` submits it when a session is complete.",
            ty: SUBMIT_KEY,
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "remediation_attempts",
            doc: "How often the agent may repair what blocked a submit or a merge.",
            ty: ValueType::Integer(0, 1_000),
            default: DefaultValue::Int(1),
        },
        FieldShape {
            name: "nats",
            doc: "A NATS server, to watch and steer the session from other machines.",
            ty: ValueType::Object(&NATS),
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "ui",
            doc: "How the screen looks.",
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
            doc: "`none`: at once; `exponential`: longer each time, also when one of the other keys is given.",
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
            doc: "What each further wait is multiplied by.",
            ty: ValueType::Number(1.0, 1000.0),
            default: DefaultValue::Int(2),
        },
        FieldShape {
            name: "max",
            doc: "No wait is longer.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Int(60),
        },
        FieldShape {
            name: "jitter",
            doc: "The share of a wait that is left to chance.",
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
            doc: "What happens to held output after the last iteration; by default `ask`, or `auto` with nobody there.",
            ty: ValueType::OneOf(&["ask", "auto", "skip"]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "delivery",
            doc: "What happens to held output before each iteration.",
            ty: ValueType::OneOf(&["ask", "auto"]),
            default: DefaultValue::Text("auto"),
        },
        FieldShape {
            name: "permissions",
            doc: "What happens when an agent asks to use a tool.",
            ty: ValueType::OneOf(&["ask", "allow", "deny"]),
            default: DefaultValue::Text("ask"),
        },
        FieldShape {
            name: "timeout",
            doc: "After how long the `auto` answer is taken; 0: wait for a person.",
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
            doc: "Asked in order after each iteration: `default`, `validation`, `promise`, a command, a fixed action, or a group.",
            ty: ValueType::List(&STOP_HOOK),
            default: DefaultValue::Names(&["default"]),
        },
        FieldShape {
            name: "rules",
            doc: "What must hold for the work to be complete.",
            ty: ValueType::List(&RULE),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "settled",
            doc: "What follows when all checks pass and the agent changed nothing: the session is complete, you are asked, or \
                  the loop continues. Default: `complete`, or `continue` with your own `hooks`.",
            ty: ValueType::OneOf(&["complete", "ask", "continue"]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "circuit_breaker",
            doc: "How many iterations in a row with failed rules escalate; 0: never.",
            ty: ValueType::Integer(0, 1_000_000),
            default: DefaultValue::Int(3),
        },
        FieldShape {
            name: "thrashing",
            doc: "How many iterations in a row escalate if a file keeps returning to earlier content, or is rewritten while \
                  the same rule fails with the same message; 0: never.",
            ty: ValueType::Integer(0, 1_000_000),
            default: DefaultValue::Int(5),
        },
        FieldShape {
            name: "no_progress",
            doc: "How many iterations in a row with the same last message escalate; 0: never.",
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
            doc: "The colours; `auto` asks the terminal.",
            ty: ValueType::OneOf(&["auto", "dark", "light", "high-contrast"]),
            default: DefaultValue::Text("auto"),
        },
        FieldShape {
            name: "mouse",
            doc: "Whether the mouse does something.",
            ty: ValueType::Bool,
            default: DefaultValue::Bool(true),
        },
        FieldShape {
            name: "notify",
            doc: "Whether the screen rings the bell and asks the terminal for a notification when a gate opens while you look elsewhere.",
            ty: ValueType::Bool,
            default: DefaultValue::Bool(true),
        },
    ],
};
