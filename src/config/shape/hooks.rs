//! The keys of hooks.

use super::{Default, Field, Keys, Shape, Type, When, Zero};

/// What may stand in the list of a point.
const HOOK: Type = Type::Either(&[
    (When::Text, Type::SomeText),
    (When::With(&["builtin"]), Type::Object(&BUILTIN_HOOK)),
    (When::With(&["gatekeeper"]), Type::Object(&GATEKEEPER_HOOK)),
    (When::With(&["hooks", "matcher"]), Type::Object(&MATCHER_GROUP)),
    (When::Map, Type::Object(&COMMAND_HOOK)),
]);

const fn point(name: &'static str, doc: &'static str) -> Field {
    Field { name, doc, ty: Type::List(&HOOK), default: Default::Names(&[]) }
}

/// The points of the lifecycle.
pub static HOOKS: Shape = Shape {
    name: "hooks",
    noun: "hook point",
    keys: Keys::Known,
    fields: &[
        point("session_start", "Once, before the first iteration."),
        point("pre_iteration", "Before each iteration's prompt."),
        point("stop", "After each turn: exit 2 sends the agent back to work."),
        point("post_iteration", "After each completed iteration."),
        point("on_task_complete", "When a task was completed, beside the agent."),
        point("on_error", "After a turn that failed."),
        point("on_gate", "When a gate opens and again when it closes, beside the session."),
        Field {
            default: Default::Absent,
            ..point("before_submit", "Before the work is submitted; unless given, `create_pr` when you submit.")
        },
        point("after_submit", "After the work was submitted."),
        point("before_merge", "Before the work is merged."),
        point("after_merge", "After the work was merged."),
        point("session_end", "Once, at the end."),
    ],
};

const NAME: Field = Field {
    name: "name",
    doc: "What it is called, unique at its point; by default what it does.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const PRIORITY: Field = Field {
    name: "priority",
    doc: "Lower runs first; equals run as written.",
    ty: Type::Integer(-1_000_000, 1_000_000),
    default: Default::Int(100),
};
const ENABLED: Field =
    Field { name: "enabled", doc: "Whether it runs at all.", ty: Type::Bool, default: Default::Bool(true) };
const ON_FAILURE: Field = Field {
    name: "on_failure",
    doc: "What a failure means; by default what its point says. Where hooks can block, exit 2 is no failure: it blocks.",
    ty: Type::OneOf(&["ignore", "block", "escalate"]),
    default: Default::Absent,
};

/// A hook that runs a command.
pub static COMMAND_HOOK: Shape = Shape {
    name: "command_hook",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "command",
            doc: "What `sh -c` runs in the project's folder; `{{session}}` and others stand for values.",
            ty: Type::SomeText,
            default: Default::Required,
        },
        NAME,
        Field {
            name: "timeout",
            doc: "How long it may take.",
            ty: Type::Duration(Zero::Refused),
            default: Default::Int(60),
        },
        Field {
            name: "pipe_output",
            doc: "Whether the agent gets its output.",
            ty: Type::Bool,
            default: Default::Bool(false),
        },
        PRIORITY,
        ENABLED,
        ON_FAILURE,
        Field {
            name: "retries",
            doc: "Only at `stop`: how many times it may send the agent back; 0: never. `max_hook_retries` limits all hooks together.",
            ty: Type::Integer(0, 1_000_000),
            default: Default::Absent,
        },
        Field {
            name: "feedback",
            doc: "Only at `stop`: what the agent reads when it blocks, with `{{hook}}`, `{{reason}}`, `{{output}}`, \
                  `{{attempt}}`, `{{limit}}` and `{{changed}}` (the difference from its last output).",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "type",
            doc: "Always `command`, as other tools write it.",
            ty: Type::OneOf(&["command"]),
            default: Default::Absent,
        },
    ],
};

/// A hook that creel brings along, with options.
pub static BUILTIN_HOOK: Shape = Shape {
    name: "builtin_hook",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "builtin",
            doc: "The built-in hook: `rebase_on_main`, `run_tests`, `create_pr` or `merge_pr`.",
            ty: Type::SomeText,
            default: Default::Required,
        },
        Field {
            name: "command",
            doc: "What `run_tests` runs; by default `submit.test_command`, else what fits the toolchain.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "base_branch",
            doc: "The branch that the work goes to; by default `submit.base_branch`. Not for `run_tests`.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "remote",
            doc: "The remote that the work goes to; by default `submit.remote`. Not for `run_tests`.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        NAME,
        Field {
            name: "timeout",
            doc: "How long it may take.",
            ty: Type::Duration(Zero::Refused),
            default: Default::Text("30m"),
        },
        PRIORITY,
        ENABLED,
        ON_FAILURE,
    ],
};

/// A hook in which agents review the change.
pub static GATEKEEPER_HOOK: Shape = Shape {
    name: "gatekeeper_hook",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "gatekeeper",
            doc: "The agents that review the change.",
            ty: Type::List(&Type::SomeText),
            default: Default::Required,
        },
        NAME,
        Field {
            name: "timeout",
            doc: "How long the reviews may take.",
            ty: Type::Duration(Zero::Refused),
            default: Default::Text("30m"),
        },
        PRIORITY,
        ENABLED,
        ON_FAILURE,
    ],
};

/// A group of hooks as Claude Code writes them.
pub static MATCHER_GROUP: Shape = Shape {
    name: "matcher_group",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "matcher",
            doc: "Accepted as other tools write it; `*` is the only one that means something here.",
            ty: Type::Text,
            default: Default::Absent,
        },
        Field {
            name: "hooks",
            doc: "The hooks of the group.",
            ty: Type::List(&Type::Object(&COMMAND_HOOK)),
            default: Default::Required,
        },
    ],
};
