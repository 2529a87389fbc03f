//! The keys of `nats`.

use super::{AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration};

pub static NATS: MapShape = MapShape {
    name: "nats",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "url",
            doc: "Where it is, such as `nats://127.0.0.1:4222`; several of a cluster with commas between them.",
            ty: ValueType::SomeText,
            default: DefaultValue::Required,
        },
        FieldShape {
            name: "user",
            doc: "Who logs in; `${NAME}` here and in `url`, `password` and `token` is a variable of the environment.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "password",
            doc: "The password of `user`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "token",
            doc: "A token, where there are no users.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "nkey",
            doc: "A file with the seed of an NKey, relative to this one.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "credentials",
            doc: "A file of credentials, relative to this one.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "tls",
            doc: "Whether the connection must be encrypted, or whom it trusts and who it is.",
            ty: ValueType::Either(&[
                (AlternativeMatch::Map, ValueType::Object(&NATS_TLS)),
                (AlternativeMatch::Bool, ValueType::Bool),
            ]),
            default: DefaultValue::Bool(false),
        },
        FieldShape {
            name: "prefix",
            doc: "What every subject begins with.",
            ty: ValueType::SomeText,
            default: DefaultValue::Text("creel"),
        },
        FieldShape {
            name: "stream",
            doc: "The stream that keeps the records; it is made if it is missing, and never changed.",
            ty: ValueType::SomeText,
            default: DefaultValue::Text("CREEL"),
        },
        FieldShape {
            name: "replicas",
            doc: "How many servers of a cluster keep a copy of the stream, of the list of sessions and of the queue.",
            ty: ValueType::Integer(1, 5),
            default: DefaultValue::Int(1),
        },
        FieldShape {
            name: "max_age",
            doc: "How long the stream keeps a record; 0: for ever.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Int(0),
        },
        FieldShape {
            name: "max_bytes",
            doc: "How large the stream may be, after which the oldest records go; 0: any size.",
            ty: ValueType::Integer(0, i64::MAX),
            default: DefaultValue::Int(0),
        },
    ],
};

pub static NATS_TLS: MapShape = MapShape {
    name: "nats_tls",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "ca",
            doc: "A file with the certificates to trust beside those of the system, relative to the config.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "cert",
            doc: "A file with this side's certificate, where the server asks for one.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape { name: "key", doc: "The file with its key.", ty: ValueType::SomeText, default: DefaultValue::Null },
    ],
};
