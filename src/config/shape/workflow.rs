//! The keys of workflows.

use super::{Default, Field, Keys, Shape, Type, When, Zero};

/// The steps of a workflow.
pub static WORKFLOW: Shape = Shape {
    name: "workflow",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field { name: "description", doc: "What it is for.", ty: Type::Text, default: Default::Absent },
        Field {
            name: "steps",
            doc: "What it does, in order.",
            ty: Type::List(&Type::Object(&STEP)),
            default: Default::Required,
        },
    ],
};

const NAME: Field = Field {
    name: "name",
    doc: "What it is called; later steps have what it said as `{{steps.NAME.stdout}}`, `stderr`, `exit` and `task`.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const ID: Field = Field { name: "id", doc: "Another name of `name`.", ty: Type::SomeText, default: Default::Absent };
const COMMAND: Field = Field {
    name: "command",
    doc: "What `sh -c` runs, in a step of type `command`.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const TIMEOUT: Field = Field {
    name: "timeout",
    doc: "How long the command may take.",
    ty: Type::Duration(Zero::Refused),
    default: Default::Int(60),
};
const TASK: Field = Field {
    name: "task",
    doc: "The task to add, in a step of type `create_task`: `goal`, `labels`, `priority` and so on.",
    ty: Type::Map(&Type::Anything),
    default: Default::Absent,
};
const TASK_ID: Field = Field {
    name: "task_id",
    doc: "The task to change, in a step of type `update_task`.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const ACTION: Field = Field {
    name: "action",
    doc: "What to do with it: `start`, `complete`, `block`, `update` and so on.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const PAYLOAD: Field =
    Field { name: "payload", doc: "What the action needs.", ty: Type::Map(&Type::Anything), default: Default::Absent };
const VALUE: Field = Field {
    name: "value",
    doc: "What to look at, in a step of type `condition`.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const EQUALS: Field = Field {
    name: "equals",
    doc: "What the value must be.",
    ty: Type::Either(&[(When::Text, Type::Text), (When::Number, Type::Integer(i64::MIN, i64::MAX))]),
    default: Default::Absent,
};
const CONTAINS: Field =
    Field { name: "contains", doc: "What the value must hold.", ty: Type::SomeText, default: Default::Absent };

/// One step.
pub static STEP: Shape = Shape {
    name: "workflow_step",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        NAME,
        ID,
        Field {
            name: "type",
            doc: "What kind of step it is.",
            ty: Type::OneOf(&["command", "create_task", "update_task", "condition", "parallel", "noop"]),
            default: Default::Required,
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
        Field {
            name: "steps",
            doc: "The steps that run at once, in a step of type `parallel`.",
            ty: Type::List(&Type::Object(&PART)),
            default: Default::Absent,
        },
        Field {
            name: "on_success",
            doc: "The step that follows when it went well, or `stop`; by default the next.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "on_failure",
            doc: "The step that follows when it failed; by default `stop`.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
    ],
};

/// One of the steps that run at once.
pub static PART: Shape = Shape {
    name: "parallel_step",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        NAME,
        ID,
        Field {
            name: "type",
            doc: "What kind of step it is.",
            ty: Type::OneOf(&["command", "create_task", "update_task", "condition", "noop"]),
            default: Default::Required,
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
