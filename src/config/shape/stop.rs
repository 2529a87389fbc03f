//! The keys of stop decision hooks.

use super::{
    AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
};

pub static STOP_HOOK: ValueType = ValueType::Either(&[
    (AlternativeMatch::Text, ValueType::OneOf(PRESETS)),
    (
        AlternativeMatch::With(&["command"]),
        ValueType::Object(&STOP_COMMAND),
    ),
    (
        AlternativeMatch::With(&["action"]),
        ValueType::Object(&STOP_ACTION),
    ),
    (
        AlternativeMatch::With(&["all"]),
        ValueType::Object(&STOP_ALL),
    ),
    (
        AlternativeMatch::With(&["any"]),
        ValueType::Object(&STOP_ANY),
    ),
    (AlternativeMatch::Map, ValueType::Object(&STOP_PRESET)),
]);

const PRESETS: &[&str] = &["default", "validation", "promise"];

const NAME: FieldShape = FieldShape {
    name: "name",
    doc: "The name. Default: what it does.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const WHEN: FieldShape = FieldShape {
    name: "when",
    doc: "When creel asks it: all conditions must be true. Default: always.",
    ty: ValueType::Object(&STOP_WHEN),
    default: DefaultValue::OfItsKeys,
};
const ENABLED: FieldShape = FieldShape {
    name: "enabled",
    doc: "Whether creel asks it.",
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
            doc: "A command that reads the agent's context as JSON and answers with an action.",
            ty: ValueType::SomeText,
            default: DefaultValue::Required,
        },
        NAME,
        FieldShape {
            name: "timeout",
            doc: "The timeout.",
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
            doc: "The decision when the conditions are true.",
            ty: ValueType::OneOf(&["complete", "continue", "escalate"]),
            default: DefaultValue::Required,
        },
        FieldShape {
            name: "reason",
            doc: "The reason.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "next_prompt",
            doc: "Text for the agent's next prompt.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "checkpoint",
            doc: "Data for a checkpoint, whatever the decision.",
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
            doc: "Complete when all of these complete; escalate when one escalates.",
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
            doc: "Complete when one of these completes; otherwise escalate when one escalates.",
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
            doc: "The iterations: one (`5`), or a range (`3..5`, `3..`, `..5`), both ends included.",
            ty: ValueType::Either(&[
                (AlternativeMatch::Number, ValueType::Integer(1, 1_000_000)),
                (AlternativeMatch::Text, ValueType::SomeText),
            ]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "files",
            doc: "Patterns: the agent changed a file that matches one of them.",
            ty: TEXTS,
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "rules",
            doc: "The results of rules, by name.",
            ty: ValueType::Map(&ValueType::OneOf(&["passed", "failed"])),
            default: DefaultValue::EmptyMap,
        },
        FieldShape {
            name: "labels",
            doc: "Labels: the task has one of them.",
            ty: TEXTS,
            default: DefaultValue::Names(&[]),
        },
    ],
};
