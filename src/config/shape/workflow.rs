//! The keys of workflows.

use super::{AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration};

pub static WORKFLOW: MapShape = MapShape {
    name: "workflow",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape { name: "description", doc: "What it is for.", ty: ValueType::Text, default: DefaultValue::Absent },
        FieldShape {
            name: "steps",
            doc: "What it does, in order.",
            ty: ValueType::List(&ValueType::Object(&STEP)),
            default: DefaultValue::Required,
        },
    ],
};

const NAME: FieldShape = FieldShape {
    name: "name",
    doc: "What it is called; later steps have what it said as `{{steps.NAME.stdout}}`, `stderr`, `exit` and `task`.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const ID: FieldShape =
    FieldShape { name: "id", doc: "Another name of `name`.", ty: ValueType::SomeText, default: DefaultValue::Absent };
const COMMAND: FieldShape = FieldShape {
    name: "command",
    doc: "What `sh -c` runs, in a step of type `command`.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const TIMEOUT: FieldShape = FieldShape {
    name: "timeout",
    doc: "How long the command may take.",
    ty: ValueType::Duration(ZeroDuration::Refused),
    default: DefaultValue::Int(60),
};
const TASK: FieldShape = FieldShape {
    name: "task",
    doc: "The task to add, in a step of type `create_task`: `goal`, `labels`, `priority` and so on.",
    ty: ValueType::Map(&ValueType::Anything),
    default: DefaultValue::Absent,
};
const TASK_ID: FieldShape = FieldShape {
    name: "task_id",
    doc: "The task to change, in a step of type `update_task`.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const ACTION: FieldShape = FieldShape {
    name: "action",
    doc: "What to do with it: `start`, `complete`, `block`, `update` and so on.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const PAYLOAD: FieldShape = FieldShape {
    name: "payload",
    doc: "What the action needs.",
    ty: ValueType::Map(&ValueType::Anything),
    default: DefaultValue::Absent,
};
const VALUE: FieldShape = FieldShape {
    name: "value",
    doc: "What to look at, in a step of type `condition`.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const EQUALS: FieldShape = FieldShape {
    name: "equals",
    doc: "What the value must be.",
    ty: ValueType::Either(&[
        (AlternativeMatch::Text, ValueType::Text),
        (AlternativeMatch::Number, ValueType::Integer(i64::MIN, i64::MAX)),
    ]),
    default: DefaultValue::Absent,
};
const CONTAINS: FieldShape = FieldShape {
    name: "contains",
    doc: "What the value must hold.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};

pub static STEP: MapShape = MapShape {
    name: "workflow_step",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        NAME,
        ID,
        FieldShape {
            name: "type",
            doc: "What kind of step it is.",
            ty: ValueType::OneOf(&["command", "create_task", "update_task", "condition", "parallel", "noop"]),
            default: DefaultValue::Required,
        },
        COMMAND,
        TIMEOUT,
        TASK,
        TASK_ID,
        ACTION,
        PAYLOAD,
        VALUE,
        EQUALS,
        CONTAINS,
        FieldShape {
            name: "steps",
            doc: "The steps that run at once, in a step of type `parallel`.",
            ty: ValueType::List(&ValueType::Object(&PART)),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "on_success",
            doc: "The step that follows when it went well, or `stop`; by default the next.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "on_failure",
            doc: "The step that follows when it failed; by default `stop`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
    ],
};

/// A step that runs in parallel with others.
pub static PART: MapShape = MapShape {
    name: "parallel_step",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        NAME,
        ID,
        FieldShape {
            name: "type",
            doc: "What kind of step it is.",
            ty: ValueType::OneOf(&["command", "create_task", "update_task", "condition", "noop"]),
            default: DefaultValue::Required,
        },
        COMMAND,
        TIMEOUT,
        TASK,
        TASK_ID,
        ACTION,
        PAYLOAD,
        VALUE,
        EQUALS,
        CONTAINS,
    ],
};
