//! The keys of what an agent may do, and of what a session may use.

use super::{Default, Field, Keys, Shape, Type, When, Zero};

const KIND: Type =
    Type::OneOf(&["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]);

/// What is said beforehand about some of the things that an agent asks for.
pub static PERMISSION: Shape = Shape {
    name: "permission",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "kind",
            doc: "What sort of thing it is about, or several of them; by default everything.",
            ty: Type::Either(&[(When::Text, KIND), (When::List, Type::List(&KIND))]),
            default: Default::Absent,
        },
        Field {
            name: "path",
            doc: "A pattern for the files that it is about, relative to the project, or several of them; by default all.",
            ty: Type::Either(&[(When::Text, Type::SomeText), (When::List, Type::List(&Type::SomeText))]),
            default: Default::Absent,
        },
        Field {
            name: "action",
            doc: "What is said: `allow`, `deny`, or `ask` a person.",
            ty: Type::OneOf(&["allow", "deny", "ask"]),
            default: Default::Required,
        },
    ],
};

/// A command that only the user gives, unless the config says otherwise.
pub const USER_COMMAND: Type =
    Type::OneOf(&["pause", "unpause", "message", "cancel", "stop", "pending", "gate", "hooks", "submit", "merge"]);

/// What a session may use before a person is asked.
pub static BUDGET: Shape = Shape {
    name: "budget",
    noun: "limit",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "tokens",
            doc: "Tokens, as the agent reports them; by default any number.",
            ty: Type::Integer(1, i64::MAX),
            default: Default::Absent,
        },
        Field {
            name: "cost",
            doc: "Money in the agent's currency, as the agent reports it; by default any sum.",
            ty: Type::Number(0.0001, 1_000_000.0),
            default: Default::Absent,
        },
        Field {
            name: "time",
            doc: "Time in which the agent works; by default any.",
            ty: Type::Duration(Zero::Refused),
            default: Default::Absent,
        },
    ],
};

/// What follows when an agent reaches a usage limit.
pub static LIMITS: Shape = Shape {
    name: "limits",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "on_usage_limit",
            doc: "What follows when the agent reaches a usage limit and no fallback agent can take over. `wait`: the session waits \
                  for the reset; `ask`: you are asked; `fail`: the turn fails like any other.",
            ty: Type::OneOf(&["wait", "ask", "fail"]),
            default: Default::Text("wait"),
        },
        Field {
            name: "max_wait",
            doc: "You are asked about a longer wait.",
            ty: Type::Duration(Zero::Refused),
            default: Default::Text("12h"),
        },
        Field {
            name: "fallback",
            doc: "Agents that take over meanwhile, in this order: agents of the config, or known ones.",
            ty: Type::List(&Type::SomeText),
            default: Default::Names(&[]),
        },
    ],
};
