//! The keys of submitting and merging, and of task types.

use super::{
    AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration, hooks::HOOKS,
    rules::RULE, stop::STOP_HOOK,
};

const NAMES: ValueType = ValueType::List(&ValueType::SomeText);

/// Either a boolean that only sets `on_complete`, or all options.
pub const SUBMIT_KEY: ValueType = ValueType::Either(&[
    (AlternativeMatch::Bool, ValueType::Bool),
    (AlternativeMatch::Map, ValueType::Object(&SUBMIT)),
]);

pub static SUBMIT: MapShape = MapShape {
    name: "submit",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "on_complete",
            doc: "Whether the work is submitted when a session is complete; otherwise by `creel submit`.",
            ty: ValueType::Bool,
            default: DefaultValue::Bool(false),
        },
        FieldShape {
            name: "base_branch",
            doc: "The branch that the work is merged into; by default the remote's HEAD, as the remote reports it.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "remote",
            doc: "Where branches are pushed to; by default the one that the branch follows, or `origin`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "pr_command",
            doc: "What opens a pull request instead of `gh`, for another forge.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "test_command",
            doc: "What `run_tests` runs; by default what fits the project's toolchain.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
    ],
};

pub static TASK_TYPE: MapShape = MapShape {
    name: "task_type",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "hooks",
            doc: "Replaces the hooks of a point for tasks of this type.",
            ty: ValueType::Object(&HOOKS),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "agents",
            doc: "Who may work on this type; by default everybody.",
            ty: ValueType::Either(&[
                (AlternativeMatch::List, NAMES),
                (AlternativeMatch::Map, ValueType::Object(&TASK_AGENTS)),
            ]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "stop",
            doc: "What decides whether work of this type is complete.",
            ty: ValueType::Object(&TYPE_STOP),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "max_iterations",
            doc: "How many iterations there may be.",
            ty: ValueType::Integer(1, 1_000_000),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "max_hook_retries",
            doc: "How often a blocked stop is sent back to the agent.",
            ty: ValueType::Integer(0, 1_000_000),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "remediation_attempts",
            doc: "How often the agent may repair what blocked a submit or a merge.",
            ty: ValueType::Integer(0, 1_000),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "turn_timeout",
            doc: "How long one turn may take.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Absent,
        },
    ],
};

static TASK_AGENTS: MapShape = MapShape {
    name: "task_agents",
    noun: "role",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape { name: "implementer", doc: "Who does the work.", ty: NAMES, default: DefaultValue::Names(&[]) },
        FieldShape { name: "gatekeeper", doc: "Who reviews it.", ty: NAMES, default: DefaultValue::Names(&[]) },
    ],
};

pub static TYPE_STOP: MapShape = MapShape {
    name: "type_stop",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "hooks",
            doc: "Asked in order after each iteration, instead of those of `stop`.",
            ty: ValueType::List(&STOP_HOOK),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "rules",
            doc: "What must hold for the work to be complete, instead of the rules of `stop`.",
            ty: ValueType::List(&RULE),
            default: DefaultValue::Absent,
        },
    ],
};
