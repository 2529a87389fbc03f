//! The keys of submitting and merging, and of task types.

use super::{
    AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
    hooks::{CHECKS, HOOKS},
    rules::RULE,
    stop::STOP_HOOK,
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
            doc: "Whether creel submits the work when a session is complete. Otherwise use `creel submit`.",
            ty: ValueType::Bool,
            default: DefaultValue::Bool(false),
        },
        FieldShape {
            name: "base_branch",
            doc: "The branch that the work is merged into. Default: the remote's HEAD, as the remote reports it.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "remote",
            doc: "The remote to push to. Default: the branch's upstream remote, or `origin`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "pr_command",
            doc: "A command that opens a pull request instead of `gh`, for another forge.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "test_command",
            doc: "The command of `run_tests`. Default: the tests of the project's toolchain.",
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
            name: "checks",
            doc: "The commands that must pass after each turn, instead of the project's `checks`.",
            ty: CHECKS,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "hooks",
            doc: "Replaces the hooks of a point for tasks of this type.",
            ty: ValueType::Object(&HOOKS),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "agents",
            doc: "The agents that may work on this type. creel takes the config's agent if it is listed, else the first that is installed. Default: all.",
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
            doc: "The maximum number of iterations.",
            ty: ValueType::Integer(1, 1_000_000),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "max_hook_retries",
            doc: "How many times creel sends the agent back after a blocked stop.",
            ty: ValueType::Integer(0, 1_000_000),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "remediation_attempts",
            doc: "How many times the agent can repair what blocked a submit or a merge.",
            ty: ValueType::Integer(0, 1_000),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "turn_timeout",
            doc: "The timeout of one turn.",
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
        FieldShape {
            name: "implementer",
            doc: "The agents that do the work.",
            ty: NAMES,
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "gatekeeper",
            doc: "The agents that review it.",
            ty: NAMES,
            default: DefaultValue::Names(&[]),
        },
    ],
};

pub static TYPE_STOP: MapShape = MapShape {
    name: "type_stop",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "hooks",
            doc: "What decides after each iteration, in this order, instead of the hooks of `stop`.",
            ty: ValueType::List(&STOP_HOOK),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "rules",
            doc: "The rules that must pass before the work is complete, instead of the rules of `stop`.",
            ty: ValueType::List(&RULE),
            default: DefaultValue::Absent,
        },
    ],
};
