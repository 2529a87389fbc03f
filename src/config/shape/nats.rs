//! The keys of `nats`.

use super::{
    AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
};

pub static NATS: MapShape = MapShape {
    name: "nats",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "url",
            doc: "The server, such as `nats://127.0.0.1:4222`. Separate several servers of a cluster with commas.",
            ty: ValueType::SomeText,
            default: DefaultValue::Required,
        },
        FieldShape {
            name: "user",
            doc: "The user for the login. `${NAME}` here and in `url`, `password` and `token` stands for an \
                  environment variable.",
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
            doc: "A token, for servers without users.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "nkey",
            doc: "A file with the seed of an NKey, relative to this file.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "credentials",
            doc: "A credentials file, relative to this file.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "tls",
            doc: "Whether the connection must be encrypted, or the certificates for it.",
            ty: ValueType::Either(&[
                (AlternativeMatch::Map, ValueType::Object(&NATS_TLS)),
                (AlternativeMatch::Bool, ValueType::Bool),
            ]),
            default: DefaultValue::Bool(false),
        },
        FieldShape {
            name: "prefix",
            doc: "The prefix of every subject.",
            ty: ValueType::SomeText,
            default: DefaultValue::Text("creel"),
        },
        FieldShape {
            name: "stream",
            doc: "The stream for the records. creel creates it if it is missing, and never changes it.",
            ty: ValueType::SomeText,
            default: DefaultValue::Text("CREEL"),
        },
        FieldShape {
            name: "queue",
            doc: "The project whose queue it is: workers take only tasks of this name. Default: the root commit of the git \
                  repository.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "replicas",
            doc: "How many servers of a cluster keep a copy of the stream, the list of sessions and the queue.",
            ty: ValueType::Integer(1, 5),
            default: DefaultValue::Int(1),
        },
        FieldShape {
            name: "max_age",
            doc: "How long the server keeps a record, an ended session in the list of sessions, and a completed task. 0: \
                  records and tasks for ever, ended sessions for a day.",
            ty: ValueType::Duration(ZeroDuration::Allowed),
            default: DefaultValue::Int(0),
        },
        FieldShape {
            name: "max_bytes",
            doc: "The maximum size of the stream, in bytes. Beyond it, the stream drops the oldest records; 0: any \
                  size.",
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
            doc: "A file with certificates to trust in addition to those of the system, relative to the config.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "cert",
            doc: "A file with the client certificate, for servers that ask for one.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
        FieldShape {
            name: "key",
            doc: "The file with the certificate's key.",
            ty: ValueType::SomeText,
            default: DefaultValue::Null,
        },
    ],
};
