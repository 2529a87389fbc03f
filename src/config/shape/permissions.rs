//! The keys of permissions, budgets and usage limits.

use super::{
    AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
};

const KIND: ValueType = ValueType::OneOf(&[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
]);

pub static PERMISSION: MapShape = MapShape {
    name: "permission",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "kind",
            doc: "The kind of request, or several kinds. Default: all.",
            ty: ValueType::Either(&[
                (AlternativeMatch::Text, KIND),
                (AlternativeMatch::List, ValueType::List(&KIND)),
            ]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "path",
            doc: "A pattern for files, relative to the project, or several patterns. Default: all files.",
            ty: ValueType::Either(&[
                (AlternativeMatch::Text, ValueType::SomeText),
                (
                    AlternativeMatch::List,
                    ValueType::List(&ValueType::SomeText),
                ),
            ]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "action",
            doc: "The answer: `allow`, `deny`, or `ask` you.",
            ty: ValueType::OneOf(&["allow", "deny", "ask"]),
            default: DefaultValue::Required,
        },
    ],
};

/// A command that is reserved for the user, unless the config allows it to agents and hooks.
pub const USER_COMMAND: ValueType = ValueType::OneOf(&[
    "pause", "unpause", "message", "cancel", "stop", "pending", "gate", "hooks", "submit", "merge",
    "run", "worker", "init", "task", "worktree",
]);

pub static BUDGET: MapShape = MapShape {
    name: "budget",
    noun: "limit",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "tokens",
            doc: "Tokens, as the agent reports them. Default: no limit.",
            ty: ValueType::Integer(1, i64::MAX),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "cost",
            doc: "Cost in the agent's currency, as the agent reports it. Default: no limit.",
            ty: ValueType::Number(0.0001, 1_000_000.0),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "time",
            doc: "Working time of the agent. Default: no limit.",
            ty: ValueType::Duration(ZeroDuration::Refused),
            default: DefaultValue::Absent,
        },
    ],
};

static OUTAGE_FIELDS: [FieldShape; 3] = [
    FieldShape {
        name: "base",
        doc: "The first wait. Each further one is twice as long.",
        ty: ValueType::Duration(ZeroDuration::Refused),
        default: DefaultValue::Text("5s"),
    },
    FieldShape {
        name: "max",
        doc: "The longest wait.",
        ty: ValueType::Duration(ZeroDuration::Refused),
        default: DefaultValue::Text("5m"),
    },
    FieldShape {
        name: "total",
        doc: "After so much waiting, the turn has failed.",
        ty: ValueType::Duration(ZeroDuration::Refused),
        default: DefaultValue::Text("2h"),
    },
];

pub static OUTAGE: MapShape = MapShape {
    name: "outage",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &OUTAGE_FIELDS,
};

pub static LIMITS: MapShape = MapShape {
    name: "limits",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "on_usage_limit",
            doc: "What happens when the agent reaches a usage limit and no fallback agent can take over. `wait`: the \
                  session waits for the reset; `ask`: creel asks you; `fail`: the turn fails like any other.",
            ty: ValueType::OneOf(&["wait", "ask", "fail"]),
            default: DefaultValue::Text("wait"),
        },
        FieldShape {
            name: "max_wait",
            doc: "creel asks you about longer waits. It also bounds the sum of waits since the last turn that ended well.",
            ty: ValueType::Duration(ZeroDuration::Refused),
            default: DefaultValue::Text("12h"),
        },
        FieldShape {
            name: "outage",
            doc: "The waits while the agent's server is overloaded or cannot be reached. The same turn is sent again, and \
                  nothing is counted.",
            ty: ValueType::Object(&OUTAGE),
            default: DefaultValue::OfItsKeys,
        },
        FieldShape {
            name: "silence",
            doc: "After this long without a word, the agent is shown as silent. If `turn_timeout` ends its turn, a fallback \
                  agent takes the next one. 0: never.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Text("10m"),
        },
        FieldShape {
            name: "fallback",
            doc: "Agents that take over meanwhile, in this order: agents of the config, or known ones.",
            ty: ValueType::List(&ValueType::SomeText),
            default: DefaultValue::Names(&[]),
        },
    ],
};
