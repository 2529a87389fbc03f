//! The keys of automation, in the config and in its own file.

use super::{
    AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
};

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

pub static AUTOMATION: MapShape = MapShape {
    name: "automation",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "hooks",
            doc: "Your own commands, and hooks to enable, disable or reorder: built-in ones and those of `file`.",
            ty: ValueType::List(&ValueType::Object(&AUTOMATION_HOOK)),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "file",
            doc: "A file with more hooks, relative to this file. The file can also enable, disable and reorder those \
                  of `hooks`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "version",
            doc: "The version of the file's format, as other tools write it.",
            ty: ValueType::Either(&[
                (AlternativeMatch::Text, ValueType::OneOf(&["1", "1.0"])),
                (AlternativeMatch::Number, ValueType::Number(1.0, 1.0)),
            ]),
            default: DefaultValue::Absent,
        },
    ],
};

pub static AUTOMATION_HOOK: MapShape = MapShape {
    name: "automation_hook",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "name",
            doc: "A built-in hook, or the name of your own. Without a `command`, the entry enables, disables or \
                  reorders the hook of that name.",
            ty: ValueType::SomeText,
            default: DefaultValue::Required,
        },
        FieldShape {
            name: "event_types",
            doc: "The events that it runs for. Built-in hooks have their own.",
            ty: ValueType::List(&ValueType::OneOf(EVENTS)),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "priority",
            doc: "Lower runs first. Default: 100, or the built-in hook's priority.",
            ty: ValueType::Integer(-1_000_000, 1_000_000),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "enabled",
            doc: "Whether it runs.",
            ty: ValueType::Bool,
            default: DefaultValue::Bool(true),
        },
        FieldShape {
            name: "command",
            doc: "A command for `sh -c`. It reads the event as JSON and answers with actions.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "timeout",
            doc: "The timeout of the command.",
            ty: ValueType::Duration(ZeroDuration::Refused),
            default: DefaultValue::Int(60),
        },
        FieldShape {
            name: "metadata",
            doc: "A comment on it.",
            ty: ValueType::Map(&ValueType::Anything),
            default: DefaultValue::Absent,
        },
    ],
};
