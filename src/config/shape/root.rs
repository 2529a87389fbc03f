//! The keys at the top of the config, and those of its plain parts.

use super::{
    Default, Field, Keys, Shape, Type, Zero,
    agents::AGENT,
    allowance::{BUDGET, LIMITS, PERMISSION, USER_COMMAND},
    automation::AUTOMATION,
    hooks::HOOKS,
    nats::NATS,
    rules::RULE,
    stop::STOP_HOOK,
    submit::{SUBMIT_KEY, TASK_TYPE},
    workflow::WORKFLOW,
};

/// The whole config.
pub static ROOT: Shape = Shape {
    name: "config",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "version",
            doc: "The version of this format.",
            ty: Type::Integer(1, i64::MAX),
            default: Default::Int(1),
        },
        Field {
            name: "session",
            doc: "The session's name: letters, digits, `-` and `_`; by default from the folder and the time.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field { name: "prompt", doc: "What the agent is asked to do.", ty: Type::SomeText, default: Default::Absent },
        Field {
            name: "prompt_file",
            doc: "A file that holds the prompt, relative to this one.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "max_iterations",
            doc: "How many iterations there may be.",
            ty: Type::Integer(1, 1_000_000),
            default: Default::Int(20),
        },
        Field {
            name: "agent",
            doc: "One of `agents`, or a known name found on PATH; by default the only one there is.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "agents",
            doc: "How to run each agent, by a name of your own.",
            ty: Type::Map(&Type::Object(&AGENT)),
            default: Default::EmptyMap,
        },
        Field {
            name: "instructions",
            doc: "What the agent is told at the end of iteration prompts about how to report the end. `auto`: creel's note, \
                  unless the goal mentions `<promise>`; `none`: nothing; any other text replaces the note.",
            ty: Type::SomeText,
            default: Default::Text("auto"),
        },
        Field {
            name: "context",
            doc: "`fresh`: a new conversation each iteration; `keep`: one for the session.",
            ty: Type::OneOf(&["fresh", "keep"]),
            default: Default::Text("fresh"),
        },
        Field {
            name: "max_hook_retries",
            doc: "How often a blocked stop is sent back to the agent; 0: never.",
            ty: Type::Integer(0, 1_000_000),
            default: Default::Int(5),
        },
        Field {
            name: "on_limit",
            doc: "What happens at the retry limit with nobody there.",
            ty: Type::OneOf(&["complete", "escalate", "abort"]),
            default: Default::Text("complete"),
        },
        Field {
            name: "max_consecutive_errors",
            doc: "How many failed turns in a row are tolerated.",
            ty: Type::Integer(1, 1_000_000),
            default: Default::Int(3),
        },
        Field {
            name: "turn_timeout",
            doc: "How long one turn may take; 0: as long as it likes.",
            ty: Type::Duration(Zero::Allowed),
            default: Default::Text("30m"),
        },
        Field {
            name: "output_limit",
            doc: "How many bytes of one hook's output the agent gets.",
            ty: Type::Integer(256, 64 << 20),
            default: Default::Int(16384),
        },
        Field {
            name: "retry",
            doc: "How long to wait before a retry.",
            ty: Type::Object(&RETRY),
            default: Default::OfItsKeys,
        },
        Field { name: "gates", doc: "Where a person is asked.", ty: Type::Object(&GATES), default: Default::OfItsKeys },
        Field {
            name: "permissions",
            doc: "What an agent may do without being asked about, or may not: the first rule that fits says, otherwise the gate.",
            ty: Type::List(&Type::Object(&PERMISSION)),
            default: Default::Names(&[]),
        },
        Field {
            name: "agent_may",
            doc: "Commands that the session's own agent and hooks may use beside those that they always may: answering gates, for instance.",
            ty: Type::List(&USER_COMMAND),
            default: Default::Names(&[]),
        },
        Field {
            name: "protect",
            doc: "Patterns of paths that no turn may change, relative to the project. A turn that changed one is sent back.",
            ty: Type::List(&Type::SomeText),
            default: Default::Names(&[]),
        },
        Field {
            name: "budget",
            doc: "What the session may use before a person is asked.",
            ty: Type::Object(&BUDGET),
            default: Default::OfItsKeys,
        },
        Field {
            name: "limits",
            doc: "What follows when an agent reaches a usage limit.",
            ty: Type::Object(&LIMITS),
            default: Default::OfItsKeys,
        },
        Field {
            name: "hooks",
            doc: "What runs at each point of the lifecycle.",
            ty: Type::Object(&HOOKS),
            default: Default::OfItsKeys,
        },
        Field {
            name: "stop",
            doc: "What decides whether the session is complete.",
            ty: Type::Object(&STOP),
            default: Default::OfItsKeys,
        },
        Field {
            name: "automation",
            doc: "What happens by itself when tasks change.",
            ty: Type::Object(&AUTOMATION),
            default: Default::OfItsKeys,
        },
        Field {
            name: "workflows",
            doc: "Steps that automation can start, by a name of your own.",
            ty: Type::Map(&Type::Object(&WORKFLOW)),
            default: Default::EmptyMap,
        },
        Field {
            name: "task_types",
            doc: "Hooks, agents and limits by the type of a task.",
            ty: Type::Map(&Type::Object(&TASK_TYPE)),
            default: Default::EmptyMap,
        },
        Field {
            name: "submit",
            doc: "How the work is submitted and merged; `true` submits it when a session is complete.",
            ty: SUBMIT_KEY,
            default: Default::OfItsKeys,
        },
        Field {
            name: "remediation_attempts",
            doc: "How often the agent may repair what blocked a submit or a merge.",
            ty: Type::Integer(0, 1_000),
            default: Default::Int(1),
        },
        Field {
            name: "nats",
            doc: "A NATS server, to watch and steer the session from other machines.",
            ty: Type::Object(&NATS),
            default: Default::Null,
        },
        Field { name: "ui", doc: "How the screen looks.", ty: Type::Object(&UI), default: Default::OfItsKeys },
    ],
};

/// How long to wait before a retry.
pub static RETRY: Shape = Shape {
    name: "retry",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "backoff",
            doc: "`none`: at once; `exponential`: longer each time, also when one of the other keys is given.",
            ty: Type::OneOf(&["none", "exponential"]),
            default: Default::Text("none"),
        },
        Field { name: "base", doc: "The first wait.", ty: Type::Duration(Zero::Allowed), default: Default::Int(1) },
        Field {
            name: "factor",
            doc: "What each further wait is multiplied by.",
            ty: Type::Number(1.0, 1000.0),
            default: Default::Int(2),
        },
        Field { name: "max", doc: "No wait is longer.", ty: Type::Duration(Zero::Allowed), default: Default::Int(60) },
        Field {
            name: "jitter",
            doc: "The share of a wait that is left to chance.",
            ty: Type::Number(0.0, 1.0),
            default: Default::Float(0.2),
        },
    ],
};

/// Where a person is asked.
pub static GATES: Shape = Shape {
    name: "gates",
    noun: "gate",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "final_delivery",
            doc: "What happens to held output after the last iteration; by default `ask`, or `auto` with nobody there.",
            ty: Type::OneOf(&["ask", "auto", "skip"]),
            default: Default::Absent,
        },
        Field {
            name: "delivery",
            doc: "What happens to held output before each iteration.",
            ty: Type::OneOf(&["ask", "auto"]),
            default: Default::Text("auto"),
        },
        Field {
            name: "permissions",
            doc: "What happens when an agent asks to use a tool.",
            ty: Type::OneOf(&["ask", "allow", "deny"]),
            default: Default::Text("ask"),
        },
        Field {
            name: "timeout",
            doc: "After how long the `auto` answer is taken; 0: wait for a person.",
            ty: Type::Duration(Zero::Allowed),
            default: Default::Int(0),
        },
    ],
};

/// What decides whether the session is complete.
pub static STOP: Shape = Shape {
    name: "stop",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "hooks",
            doc: "Asked in order after each iteration: `default`, `validation`, `promise`, a command, a fixed action, or a group.",
            ty: Type::List(&STOP_HOOK),
            default: Default::Names(&["default"]),
        },
        Field {
            name: "rules",
            doc: "What must hold for the work to be complete.",
            ty: Type::List(&RULE),
            default: Default::Names(&[]),
        },
        Field {
            name: "settled",
            doc: "What follows when all checks pass and the agent changed nothing: the session is complete, you are asked, or \
                  the loop continues. Default: `complete`, or `continue` with your own `hooks`.",
            ty: Type::OneOf(&["complete", "ask", "continue"]),
            default: Default::Absent,
        },
        Field {
            name: "circuit_breaker",
            doc: "How many iterations in a row with failed rules escalate; 0: never.",
            ty: Type::Integer(0, 1_000_000),
            default: Default::Int(3),
        },
        Field {
            name: "thrashing",
            doc: "How many iterations in a row escalate if a file keeps returning to earlier content, or is rewritten while \
                  the same rule fails with the same message; 0: never.",
            ty: Type::Integer(0, 1_000_000),
            default: Default::Int(5),
        },
        Field {
            name: "no_progress",
            doc: "How many iterations in a row with the same last message escalate; 0: never.",
            ty: Type::Integer(0, 1_000_000),
            default: Default::Int(5),
        },
    ],
};

/// How the screen looks.
pub static UI: Shape = Shape {
    name: "ui",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "theme",
            doc: "The colours; `auto` asks the terminal.",
            ty: Type::OneOf(&["auto", "dark", "light", "high-contrast"]),
            default: Default::Text("auto"),
        },
        Field { name: "mouse", doc: "Whether the mouse does something.", ty: Type::Bool, default: Default::Bool(true) },
        Field {
            name: "notify",
            doc: "Whether the screen rings the bell and asks the terminal for a notification when a gate opens while you look elsewhere.",
            ty: Type::Bool,
            default: Default::Bool(true),
        },
    ],
};
