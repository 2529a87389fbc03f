//! The keys of automation, in the config and in a file of its own.

use super::{Default, Field, Keys, Shape, Type, When, Zero};

const EVENTS: &[&str] = &[
    "task_created",
    "task_started",
    "task_completed",
    "task_blocked",
    "task_deleted",
    "dependency_added",
    "dependency_removed",
    "dependency_satisfied",
];

/// What happens by itself when tasks change.
pub static AUTOMATION: Shape = Shape {
    name: "automation",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "hooks",
            doc: "Commands of your own, and hooks to switch or reorder: built-in ones and those of `file`.",
            ty: Type::List(&Type::Object(&AUTOMATION_HOOK)),
            default: Default::Names(&[]),
        },
        Field {
            name: "file",
            doc: "A file with more of them, relative to this one; it may also switch and reorder those of `hooks`.",
            ty: Type::SomeText,
            default: Default::Null,
        },
        Field {
            name: "version",
            doc: "The version of the file's format, as other tools write it.",
            ty: Type::Either(&[(When::Text, Type::OneOf(&["1", "1.0"])), (When::Number, Type::Number(1.0, 1.0))]),
            default: Default::Absent,
        },
    ],
};

/// One automation hook.
pub static AUTOMATION_HOOK: Shape = Shape {
    name: "automation_hook",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "name",
            doc: "A built-in hook, or what yours is called; without a `command`, the hook of that name is switched or reordered.",
            ty: Type::SomeText,
            default: Default::Required,
        },
        Field {
            name: "event_types",
            doc: "The events that it runs for; a built-in hook has its own.",
            ty: Type::List(&Type::OneOf(EVENTS)),
            default: Default::Absent,
        },
        Field {
            name: "priority",
            doc: "Lower runs first; by default 100, or what the built-in hook has.",
            ty: Type::Integer(-1_000_000, 1_000_000),
            default: Default::Absent,
        },
        Field { name: "enabled", doc: "Whether it runs at all.", ty: Type::Bool, default: Default::Bool(true) },
        Field {
            name: "command",
            doc: "What `sh -c` runs; it reads the event as JSON and answers with actions.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "timeout",
            doc: "How long the command may take.",
            ty: Type::Duration(Zero::Refused),
            default: Default::Int(60),
        },
        Field {
            name: "metadata",
            doc: "Anything worth noting.",
            ty: Type::Map(&Type::Anything),
            default: Default::Absent,
        },
    ],
};
