//! The keys of workflows.

use super::{
    AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
};

pub static WORKFLOW: MapShape = MapShape {
    name: "workflow",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "description",
            doc: "What the workflow is for.",
            ty: ValueType::Text,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "steps",
            doc: "The steps, in order.",
            ty: ValueType::List(&ValueType::Object(&STEP)),
            default: DefaultValue::Required,
        },
    ],
};

const NAME: FieldShape = FieldShape {
    name: "name",
    doc: "The name. Later steps get its result as `{{steps.NAME.stdout}}`, `stderr`, `exit` and `task`.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const ID: FieldShape = FieldShape {
    name: "id",
    doc: "Another name for `name`.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const COMMAND: FieldShape = FieldShape {
    name: "command",
    doc: "A command for `sh -c`, in a step of type `command`. `{{context.NAME}}` is a part of the context that the action \
          passed on.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const TIMEOUT: FieldShape = FieldShape {
    name: "timeout",
    doc: "The timeout of the command.",
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
    doc: "The action: `start`, `complete`, `block`, `update` and so on.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const PAYLOAD: FieldShape = FieldShape {
    name: "payload",
    doc: "The action's arguments.",
    ty: ValueType::Map(&ValueType::Anything),
    default: DefaultValue::Absent,
};
const VALUE: FieldShape = FieldShape {
    name: "value",
    doc: "The value to check, in a step of type `condition`.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const EQUALS: FieldShape = FieldShape {
    name: "equals",
    doc: "The value must equal this.",
    ty: ValueType::Either(&[
        (AlternativeMatch::Text, ValueType::Text),
        (
            AlternativeMatch::Number,
            ValueType::Integer(i64::MIN, i64::MAX),
        ),
    ]),
    default: DefaultValue::Absent,
};
const CONTAINS: FieldShape = FieldShape {
    name: "contains",
    doc: "The value must contain this.",
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
            doc: "The type of the step.",
            ty: ValueType::OneOf(&[
                "command",
                "create_task",
                "update_task",
                "condition",
                "parallel",
                "noop",
            ]),
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
            doc: "The steps to run in parallel, in a step of type `parallel`.",
            ty: ValueType::List(&ValueType::Object(&PART)),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "on_success",
            doc: "The next step after success, or `stop`. Default: the next in the list.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "on_failure",
            doc: "The next step after a failure. Default: `stop`.",
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
            doc: "The type of the step.",
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
