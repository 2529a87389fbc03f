//! The keys of stop decision hooks.

use super::{AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration};

pub static STOP_HOOK: ValueType = ValueType::Either(&[
    (AlternativeMatch::Text, ValueType::OneOf(PRESETS)),
    (AlternativeMatch::With(&["command"]), ValueType::Object(&STOP_COMMAND)),
    (AlternativeMatch::With(&["action"]), ValueType::Object(&STOP_ACTION)),
    (AlternativeMatch::With(&["all"]), ValueType::Object(&STOP_ALL)),
    (AlternativeMatch::With(&["any"]), ValueType::Object(&STOP_ANY)),
    (AlternativeMatch::Map, ValueType::Object(&STOP_PRESET)),
]);

const PRESETS: &[&str] = &["default", "validation", "promise"];

const NAME: FieldShape = FieldShape {
    name: "name",
    doc: "What it is called; by default what it does.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const WHEN: FieldShape = FieldShape {
    name: "when",
    doc: "When it is asked: all that is said must hold; by default always.",
    ty: ValueType::Object(&STOP_WHEN),
    default: DefaultValue::OfItsKeys,
};
const ENABLED: FieldShape = FieldShape {
    name: "enabled",
    doc: "Whether it is asked at all.",
    ty: ValueType::Bool,
    default: DefaultValue::Bool(true),
};

pub static STOP_PRESET: MapShape = MapShape {
    name: "stop_preset",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "preset",
            doc: "What decides.",
            ty: ValueType::OneOf(PRESETS),
            default: DefaultValue::Required,
        },
        NAME,
        WHEN,
        ENABLED,
    ],
};

pub static STOP_COMMAND: MapShape = MapShape {
    name: "stop_command",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "command",
            doc: "Reads the agent's context as JSON and answers with an action.",
            ty: ValueType::SomeText,
            default: DefaultValue::Required,
        },
        NAME,
        FieldShape {
            name: "timeout",
            doc: "How long it may take.",
            ty: ValueType::Duration(ZeroDuration::Refused),
            default: DefaultValue::Int(60),
        },
        WHEN,
        ENABLED,
    ],
};

pub static STOP_ACTION: MapShape = MapShape {
    name: "stop_action",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "action",
            doc: "What is decided when the conditions hold.",
            ty: ValueType::OneOf(&["complete", "continue", "escalate"]),
            default: DefaultValue::Required,
        },
        FieldShape {
            name: "reason",
            doc: "Why it is decided.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "next_prompt",
            doc: "What the agent is told with its next prompt.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "checkpoint",
            doc: "What is kept, whatever is decided.",
            ty: ValueType::Anything,
            default: DefaultValue::Absent,
        },
        NAME,
        WHEN,
        ENABLED,
    ],
};

pub static STOP_ALL: MapShape = MapShape {
    name: "stop_all",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "all",
            doc: "Complete when all of these say so; escalate when one does.",
            ty: ValueType::List(&STOP_HOOK),
            default: DefaultValue::Required,
        },
        NAME,
        WHEN,
        ENABLED,
    ],
};

pub static STOP_ANY: MapShape = MapShape {
    name: "stop_any",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "any",
            doc: "Complete when one of these says so; otherwise escalate when one does.",
            ty: ValueType::List(&STOP_HOOK),
            default: DefaultValue::Required,
        },
        NAME,
        WHEN,
        ENABLED,
    ],
};

const TEXTS: ValueType = ValueType::List(&ValueType::SomeText);

pub static STOP_WHEN: MapShape = MapShape {
    name: "stop_when",
    noun: "condition",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "iteration",
            doc: "In which iterations: one (`5`), or from one to another (`3..5`, `3..`, `..5`), both included.",
            ty: ValueType::Either(&[
                (AlternativeMatch::Number, ValueType::Integer(1, 1_000_000)),
                (AlternativeMatch::Text, ValueType::SomeText),
            ]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "files",
            doc: "When a file was changed that fits one of these patterns.",
            ty: TEXTS,
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "rules",
            doc: "What rules must have said, by name.",
            ty: ValueType::Map(&ValueType::OneOf(&["passed", "failed"])),
            default: DefaultValue::EmptyMap,
        },
        FieldShape {
            name: "labels",
            doc: "When the task has one of these labels.",
            ty: TEXTS,
            default: DefaultValue::Names(&[]),
        },
    ],
};
