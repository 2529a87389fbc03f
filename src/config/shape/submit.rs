//! The keys of submitting and merging, and of the types of tasks.

use super::{Default, Field, Keys, Shape, Type, When, Zero, hooks::HOOKS, rules::RULE, stop::STOP_HOOK};

const NAMES: Type = Type::List(&Type::SomeText);

/// What `submit` may be: a word on when, or all that there is to say.
pub const SUBMIT_KEY: Type = Type::Either(&[(When::Bool, Type::Bool), (When::Map, Type::Object(&SUBMIT))]);

/// How the work is submitted and merged.
pub static SUBMIT: Shape = Shape {
    name: "submit",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "on_complete",
            doc: "Whether the work is submitted when a session is complete; otherwise by `creel submit`.",
            ty: Type::Bool,
            default: Default::Bool(false),
        },
        Field {
            name: "base_branch",
            doc: "The branch that the work is merged into; by default the remote's HEAD, as the remote reports it.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "remote",
            doc: "Where branches are pushed to; by default the one that the branch follows, or `origin`.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "pr_command",
            doc: "What opens a pull request instead of `gh`, for another forge.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "test_command",
            doc: "What `run_tests` runs; by default what fits the project's toolchain.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
    ],
};

/// What differs for tasks of one type.
pub static TASK_TYPE: Shape = Shape {
    name: "task_type",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "hooks",
            doc: "Replaces the hooks of a point for tasks of this type.",
            ty: Type::Object(&HOOKS),
            default: Default::Absent,
        },
        Field {
            name: "agents",
            doc: "Who may work on this type; by default everybody.",
            ty: Type::Either(&[(When::List, NAMES), (When::Map, Type::Object(&TASK_AGENTS))]),
            default: Default::Absent,
        },
        Field {
            name: "stop",
            doc: "What decides whether work of this type is complete.",
            ty: Type::Object(&TYPE_STOP),
            default: Default::Absent,
        },
        Field {
            name: "max_iterations",
            doc: "How many iterations there may be.",
            ty: Type::Integer(1, 1_000_000),
            default: Default::Absent,
        },
        Field {
            name: "max_hook_retries",
            doc: "How often a blocked stop is sent back to the agent.",
            ty: Type::Integer(0, 1_000_000),
            default: Default::Absent,
        },
        Field {
            name: "remediation_attempts",
            doc: "How often the agent may repair what blocked a submit or a merge.",
            ty: Type::Integer(0, 1_000),
            default: Default::Absent,
        },
        Field {
            name: "turn_timeout",
            doc: "How long one turn may take.",
            ty: Type::Duration(Zero::Allowed),
            default: Default::Absent,
        },
    ],
};

static TASK_AGENTS: Shape = Shape {
    name: "task_agents",
    noun: "role",
    keys: Keys::Known,
    fields: &[
        Field { name: "implementer", doc: "Who does the work.", ty: NAMES, default: Default::Names(&[]) },
        Field { name: "gatekeeper", doc: "Who reviews it.", ty: NAMES, default: Default::Names(&[]) },
    ],
};

/// What decides whether work of a type is complete.
pub static TYPE_STOP: Shape = Shape {
    name: "type_stop",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "hooks",
            doc: "Asked in order after each iteration, instead of those of `stop`.",
            ty: Type::List(&STOP_HOOK),
            default: Default::Absent,
        },
        Field {
            name: "rules",
            doc: "What must hold for the work to be complete, instead of the rules of `stop`.",
            ty: Type::List(&RULE),
            default: Default::Absent,
        },
    ],
};
