//! The keys of `nats`.

use super::{Default, Field, Keys, Shape, Type, When, Zero};

/// A NATS server.
pub static NATS: Shape = Shape {
    name: "nats",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "url",
            doc: "Where it is, such as `nats://127.0.0.1:4222`; several of a cluster with commas between them.",
            ty: Type::SomeText,
            default: Default::Required,
        },
        Field {
            name: "user",
            doc: "Who logs in; `${NAME}` here and in `url`, `password` and `token` is a variable of the environment.",
            ty: Type::SomeText,
            default: Default::Null,
        },
        Field { name: "password", doc: "The password of `user`.", ty: Type::SomeText, default: Default::Null },
        Field { name: "token", doc: "A token, where there are no users.", ty: Type::SomeText, default: Default::Null },
        Field {
            name: "nkey",
            doc: "A file with the seed of an NKey, relative to this one.",
            ty: Type::SomeText,
            default: Default::Null,
        },
        Field {
            name: "credentials",
            doc: "A file of credentials, relative to this one.",
            ty: Type::SomeText,
            default: Default::Null,
        },
        Field {
            name: "tls",
            doc: "Whether the connection must be encrypted, or whom it trusts and who it is.",
            ty: Type::Either(&[(When::Map, Type::Object(&NATS_TLS)), (When::Bool, Type::Bool)]),
            default: Default::Bool(false),
        },
        Field {
            name: "prefix",
            doc: "What every subject begins with.",
            ty: Type::SomeText,
            default: Default::Text("creel"),
        },
        Field {
            name: "stream",
            doc: "The stream that keeps the records; it is made if it is missing, and never changed.",
            ty: Type::SomeText,
            default: Default::Text("CREEL"),
        },
        Field {
            name: "replicas",
            doc: "How many servers of a cluster keep a copy of the stream, of the list of sessions and of the queue.",
            ty: Type::Integer(1, 5),
            default: Default::Int(1),
        },
        Field {
            name: "max_age",
            doc: "How long the stream keeps a record; 0: for ever.",
            ty: Type::Duration(Zero::Allowed),
            default: Default::Int(0),
        },
        Field {
            name: "max_bytes",
            doc: "How large the stream may be, after which the oldest records go; 0: any size.",
            ty: Type::Integer(0, i64::MAX),
            default: Default::Int(0),
        },
    ],
};

/// An encrypted connection.
pub static NATS_TLS: Shape = Shape {
    name: "nats_tls",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "ca",
            doc: "A file with the certificates to trust beside those of the system, relative to the config.",
            ty: Type::SomeText,
            default: Default::Null,
        },
        Field {
            name: "cert",
            doc: "A file with this side's certificate, where the server asks for one.",
            ty: Type::SomeText,
            default: Default::Null,
        },
        Field { name: "key", doc: "The file with its key.", ty: Type::SomeText, default: Default::Null },
    ],
};
