//! The keys of hooks.

use super::{
    AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
};

const HOOK: ValueType = ValueType::Either(&[
    (AlternativeMatch::Text, ValueType::SomeText),
    (
        AlternativeMatch::With(&["builtin"]),
        ValueType::Object(&BUILTIN_HOOK),
    ),
    (
        AlternativeMatch::With(&["exec"]),
        ValueType::Object(&EXEC_HOOK),
    ),
    (
        AlternativeMatch::With(&["gatekeeper"]),
        ValueType::Object(&GATEKEEPER_HOOK),
    ),
    (
        AlternativeMatch::With(&["hooks", "matcher"]),
        ValueType::Object(&MATCHER_GROUP),
    ),
    (AlternativeMatch::Map, ValueType::Object(&COMMAND_HOOK)),
]);

/// A list of checks: hooks at `stop` with other defaults. A text is a command.
pub const CHECKS: ValueType = ValueType::List(&ValueType::Either(&[
    (AlternativeMatch::Text, ValueType::SomeText),
    (
        AlternativeMatch::With(&["exec"]),
        ValueType::Object(&EXEC_CHECK),
    ),
    (AlternativeMatch::Map, ValueType::Object(&COMMAND_CHECK)),
]));

const fn point(name: &'static str, doc: &'static str) -> FieldShape {
    FieldShape {
        name,
        doc,
        ty: ValueType::List(&HOOK),
        default: DefaultValue::Names(&[]),
    }
}

pub static HOOKS: MapShape = MapShape {
    name: "hooks",
    noun: "hook point",
    keys: KeyPolicy::Known,
    fields: &[
        point("session_start", "Once, before the first iteration."),
        point("pre_iteration", "Before each iteration's prompt."),
        point(
            "stop",
            "After each turn. Exit 2 sends the agent back to work.",
        ),
        point("post_iteration", "After each completed iteration."),
        point(
            "on_task_complete",
            "When a task is completed, while the agent works.",
        ),
        point("on_error", "After a failed turn."),
        point(
            "on_gate",
            "When a gate opens and when it closes. The session does not wait for it.",
        ),
        FieldShape {
            default: DefaultValue::Absent,
            ..point(
                "before_submit",
                "Before the work is submitted. Default: `create_pr` when you submit.",
            )
        },
        point("after_submit", "After the work is submitted."),
        point("before_merge", "Before the work is merged."),
        point("after_merge", "After the work is merged."),
        point("session_end", "Once, at the end."),
    ],
};

const NAME: FieldShape = FieldShape {
    name: "name",
    doc: "The name, unique at its point. Default: the command.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const PRIORITY: FieldShape = FieldShape {
    name: "priority",
    doc: "Lower runs first. Equal priorities run in the order of the file.",
    ty: ValueType::Integer(-1_000_000, 1_000_000),
    default: DefaultValue::Int(100),
};
const ENABLED: FieldShape = FieldShape {
    name: "enabled",
    doc: "Whether it runs.",
    ty: ValueType::Bool,
    default: DefaultValue::Bool(true),
};
const ON_FAILURE: FieldShape = FieldShape {
    name: "on_failure",
    doc: "What a failure means. Default: depends on the point. Where hooks can block, exit 2 blocks and is not a \
          failure.",
    ty: ValueType::OneOf(&["ignore", "block", "escalate"]),
    default: DefaultValue::Absent,
};
const TIMEOUT: FieldShape = FieldShape {
    name: "timeout",
    doc: "The timeout.",
    ty: ValueType::Duration(ZeroDuration::Refused),
    default: DefaultValue::Int(60),
};
const PIPE_OUTPUT: FieldShape = FieldShape {
    name: "pipe_output",
    doc: "Whether the agent gets its output. `on_failure`: only the output of a run that did not pass.",
    ty: ValueType::BoolOr(&["on_failure"]),
    default: DefaultValue::Bool(false),
};
/// A check takes as long as tests take, and blocks unless it says otherwise.
const CHECK_TIMEOUT: FieldShape = FieldShape {
    default: DefaultValue::Text("10m"),
    ..TIMEOUT
};
const CHECK_ON_FAILURE: FieldShape = FieldShape {
    doc: "What a failure means. `block` sends the agent back with the output, `ignore` makes the check advisory.",
    default: DefaultValue::Text("block"),
    ..ON_FAILURE
};
const RETRIES: FieldShape = FieldShape {
    name: "retries",
    doc: "Only at `stop`: how many times the hook can send the agent back; 0: never. `max_hook_retries` limits all \
          hooks together.",
    ty: ValueType::Integer(0, 1_000_000),
    default: DefaultValue::Absent,
};
const FEEDBACK: FieldShape = FieldShape {
    name: "feedback",
    doc: "Only at `stop`: the feedback for the agent when the hook blocks, with `{{hook}}`, `{{reason}}`, \
          `{{output}}`, `{{attempt}}`, `{{limit}}` and `{{changed}}` (the difference from its last output).",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};

const COMMAND: FieldShape = FieldShape {
    name: "command",
    doc: "A command for `sh -c` in the project folder. `{{session}}` and others stand for values.",
    ty: ValueType::SomeText,
    default: DefaultValue::Required,
};
const EXEC: FieldShape = FieldShape {
    name: "exec",
    doc: "A program and its arguments, run in the project folder without a shell. `{{session}}` and others stand for \
          values in arguments.",
    ty: ValueType::List(&ValueType::Text),
    default: DefaultValue::Required,
};
const TYPE: FieldShape = FieldShape {
    name: "type",
    doc: "Always `command`, as other tools write it.",
    ty: ValueType::OneOf(&["command"]),
    default: DefaultValue::Absent,
};

/// A hook that runs a program without a shell.
pub static EXEC_HOOK: MapShape = MapShape {
    name: "exec_hook",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        EXEC,
        NAME,
        TIMEOUT,
        PIPE_OUTPUT,
        PRIORITY,
        ENABLED,
        ON_FAILURE,
        RETRIES,
        FEEDBACK,
    ],
};

pub static COMMAND_HOOK: MapShape = MapShape {
    name: "command_hook",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        COMMAND,
        NAME,
        TIMEOUT,
        PIPE_OUTPUT,
        PRIORITY,
        ENABLED,
        ON_FAILURE,
        RETRIES,
        FEEDBACK,
        TYPE,
    ],
};

pub static EXEC_CHECK: MapShape = MapShape {
    name: "exec_check",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        EXEC,
        NAME,
        CHECK_TIMEOUT,
        PIPE_OUTPUT,
        PRIORITY,
        ENABLED,
        CHECK_ON_FAILURE,
        RETRIES,
        FEEDBACK,
    ],
};

pub static COMMAND_CHECK: MapShape = MapShape {
    name: "command_check",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        COMMAND,
        NAME,
        CHECK_TIMEOUT,
        PIPE_OUTPUT,
        PRIORITY,
        ENABLED,
        CHECK_ON_FAILURE,
        RETRIES,
        FEEDBACK,
        TYPE,
    ],
};

pub static BUILTIN_HOOK: MapShape = MapShape {
    name: "builtin_hook",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "builtin",
            doc: "The built-in hook: `rebase_on_main`, `run_tests`, `create_pr` or `merge_pr`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Required,
        },
        FieldShape {
            name: "command",
            doc: "The command of `run_tests`. Default: `submit.test_command`, or the tests of the toolchain.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "base_branch",
            doc: "The target branch of the work. Default: `submit.base_branch`. Not for `run_tests`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "remote",
            doc: "The target remote of the work. Default: `submit.remote`. Not for `run_tests`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        NAME,
        FieldShape {
            name: "timeout",
            doc: "The timeout.",
            ty: ValueType::Duration(ZeroDuration::Refused),
            default: DefaultValue::Text("30m"),
        },
        PRIORITY,
        ENABLED,
        ON_FAILURE,
    ],
};

pub static GATEKEEPER_HOOK: MapShape = MapShape {
    name: "gatekeeper_hook",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "gatekeeper",
            doc: "The agents that review the change.",
            ty: ValueType::List(&ValueType::SomeText),
            default: DefaultValue::Required,
        },
        NAME,
        FieldShape {
            name: "timeout",
            doc: "The timeout of the reviews.",
            ty: ValueType::Duration(ZeroDuration::Refused),
            default: DefaultValue::Text("30m"),
        },
        PRIORITY,
        ENABLED,
        ON_FAILURE,
    ],
};

/// A group of hooks in Claude Code's format.
pub static MATCHER_GROUP: MapShape = MapShape {
    name: "matcher_group",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "matcher",
            doc: "For compatibility with other tools. Only `*` has an effect.",
            ty: ValueType::Text,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "hooks",
            doc: "The hooks of the group.",
            ty: ValueType::List(&ValueType::Object(&COMMAND_HOOK)),
            default: DefaultValue::Required,
        },
    ],
};
