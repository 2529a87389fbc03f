//! The keys of stop decision hooks.

use super::{Default, Field, Keys, Shape, Type, When, Zero};

/// What may stand in `stop.hooks`.
pub static STOP_HOOK: Type = Type::Either(&[
    (When::Text, Type::OneOf(PRESETS)),
    (When::With(&["command"]), Type::Object(&STOP_COMMAND)),
    (When::With(&["action"]), Type::Object(&STOP_ACTION)),
    (When::With(&["all"]), Type::Object(&STOP_ALL)),
    (When::With(&["any"]), Type::Object(&STOP_ANY)),
    (When::Map, Type::Object(&STOP_PRESET)),
]);

const PRESETS: &[&str] = &["default", "validation", "promise"];

const NAME: Field = Field {
    name: "name",
    doc: "What it is called; by default what it does.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const WHEN: Field = Field {
    name: "when",
    doc: "When it is asked: all that is said must hold; by default always.",
    ty: Type::Object(&STOP_WHEN),
    default: Default::OfItsKeys,
};
const ENABLED: Field =
    Field { name: "enabled", doc: "Whether it is asked at all.", ty: Type::Bool, default: Default::Bool(true) };

/// A preset with conditions.
pub static STOP_PRESET: Shape = Shape {
    name: "stop_preset",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field { name: "preset", doc: "What decides.", ty: Type::OneOf(PRESETS), default: Default::Required },
        NAME,
        WHEN,
        ENABLED,
    ],
};

/// A command that decides.
pub static STOP_COMMAND: Shape = Shape {
    name: "stop_command",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "command",
            doc: "Reads the agent's context as JSON and answers with an action.",
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
        WHEN,
        ENABLED,
    ],
};

/// The same decision each time.
pub static STOP_ACTION: Shape = Shape {
    name: "stop_action",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "action",
            doc: "What is decided when the conditions hold.",
            ty: Type::OneOf(&["complete", "continue", "escalate"]),
            default: Default::Required,
        },
        Field { name: "reason", doc: "Why it is decided.", ty: Type::SomeText, default: Default::Absent },
        Field {
            name: "next_prompt",
            doc: "What the agent is told with its next prompt.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "checkpoint",
            doc: "What is kept, whatever is decided.",
            ty: Type::Anything,
            default: Default::Absent,
        },
        NAME,
        WHEN,
        ENABLED,
    ],
};

/// Hooks that must agree.
pub static STOP_ALL: Shape = Shape {
    name: "stop_all",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "all",
            doc: "Complete when all of these say so; escalate when one does.",
            ty: Type::List(&STOP_HOOK),
            default: Default::Required,
        },
        NAME,
        WHEN,
        ENABLED,
    ],
};

/// Hooks of which one is enough.
pub static STOP_ANY: Shape = Shape {
    name: "stop_any",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "any",
            doc: "Complete when one of these says so; otherwise escalate when one does.",
            ty: Type::List(&STOP_HOOK),
            default: Default::Required,
        },
        NAME,
        WHEN,
        ENABLED,
    ],
};

const TEXTS: Type = Type::List(&Type::SomeText);

/// When a hook is asked.
pub static STOP_WHEN: Shape = Shape {
    name: "stop_when",
    noun: "condition",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "iteration",
            doc: "In which iterations: one (`5`), or from one to another (`3..5`, `3..`, `..5`), both included.",
            ty: Type::Either(&[(When::Number, Type::Integer(1, 1_000_000)), (When::Text, Type::SomeText)]),
            default: Default::Absent,
        },
        Field {
            name: "files",
            doc: "When a file was changed that fits one of these patterns.",
            ty: TEXTS,
            default: Default::Names(&[]),
        },
        Field {
            name: "rules",
            doc: "What rules must have said, by name.",
            ty: Type::Map(&Type::OneOf(&["passed", "failed"])),
            default: Default::EmptyMap,
        },
        Field {
            name: "labels",
            doc: "When the task has one of these labels.",
            ty: TEXTS,
            default: Default::Names(&[]),
        },
    ],
};
