//! The keys of rules.

use super::{
    AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration,
};

pub static RULE: ValueType = ValueType::Either(&[
    (
        AlternativeMatch::Where("type", "command"),
        ValueType::Object(&COMMAND_RULE),
    ),
    (
        AlternativeMatch::Where("type", "content_pattern"),
        ValueType::Object(&PATTERN_RULE),
    ),
    (
        AlternativeMatch::Where("type", "file_existence"),
        ValueType::Object(&FILES_RULE),
    ),
    (
        AlternativeMatch::Where("type", "coverage"),
        ValueType::Object(&COVERAGE_RULE),
    ),
    // Lists the valid types for the error message.
    (AlternativeMatch::Map, ValueType::Object(&ANY_RULE)),
]);

const RULE_NAME: FieldShape = FieldShape {
    name: "name",
    doc: "The name, unique among the rules.",
    ty: ValueType::SomeText,
    default: DefaultValue::Required,
};
const RULE_TYPE: FieldShape = FieldShape {
    name: "type",
    doc: "The kind of rule.",
    ty: ValueType::OneOf(&["command", "content_pattern", "file_existence", "coverage"]),
    default: DefaultValue::Required,
};

const RULE_TIMEOUT: FieldShape = FieldShape {
    name: "timeout",
    doc: "The timeout of the check.",
    ty: ValueType::Duration(ZeroDuration::Refused),
    default: DefaultValue::Int(60),
};
const RULE_ENABLED: FieldShape = FieldShape {
    name: "enabled",
    doc: "Whether creel checks it.",
    ty: ValueType::Bool,
    default: DefaultValue::Bool(true),
};

static ANY_RULE: MapShape = MapShape {
    name: "rule",
    noun: "key",
    keys: KeyPolicy::Free,
    fields: &[RULE_NAME, RULE_TYPE],
};

pub static COMMAND_RULE: MapShape = MapShape {
    name: "command_rule",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        RULE_NAME,
        RULE_TYPE,
        FieldShape {
            name: "command",
            doc: "A command for `sh -c` in the project folder. `{{session}}` and `{{iteration}}` stand for values.",
            ty: ValueType::SomeText,
            default: DefaultValue::Required,
        },
        FieldShape {
            name: "expected_exit",
            doc: "The exit code that passes.",
            ty: ValueType::Integer(0, 255),
            default: DefaultValue::Int(0),
        },
        FieldShape {
            name: "expected_exit_code",
            doc: "Another name for `expected_exit`.",
            ty: ValueType::Integer(0, 255),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "folder",
            doc: "The working folder, relative to the project folder.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "env",
            doc: "More environment variables.",
            ty: ValueType::Map(&ValueType::Text),
            default: DefaultValue::EmptyMap,
        },
        RULE_TIMEOUT,
        RULE_ENABLED,
    ],
};

pub static PATTERN_RULE: MapShape = MapShape {
    name: "content_pattern_rule",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        RULE_NAME,
        RULE_TYPE,
        FieldShape {
            name: "pattern",
            doc: "A regular expression.",
            ty: ValueType::SomeText,
            default: DefaultValue::Required,
        },
        FieldShape {
            name: "file",
            doc: "The file to search, relative to the project folder. Default: the agent's last message.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "must_match",
            doc: "Whether a match passes, or no match.",
            ty: ValueType::Bool,
            default: DefaultValue::Bool(true),
        },
        RULE_TIMEOUT,
        RULE_ENABLED,
    ],
};

pub static FILES_RULE: MapShape = MapShape {
    name: "file_existence_rule",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        RULE_NAME,
        RULE_TYPE,
        FieldShape {
            name: "files",
            doc: "The files that must exist.",
            ty: ValueType::List(&ValueType::SomeText),
            default: DefaultValue::Required,
        },
        FieldShape {
            name: "mode",
            doc: "Whether all of them must exist, or any.",
            ty: ValueType::OneOf(&["all", "any"]),
            default: DefaultValue::Text("all"),
        },
        RULE_TIMEOUT,
        RULE_ENABLED,
    ],
};

pub static COVERAGE_RULE: MapShape = MapShape {
    name: "coverage_rule",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        RULE_NAME,
        RULE_TYPE,
        FieldShape {
            name: "file",
            doc: "The coverage report.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "report",
            doc: "Another name for `file`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "format",
            doc: "The format of the report. Default: from its name.",
            ty: ValueType::OneOf(&["lcov", "cobertura", "json"]),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "minimum",
            doc: "The lowest coverage that passes, in percent.",
            ty: ValueType::Number(0.0, 100.0),
            default: DefaultValue::Required,
        },
        RULE_TIMEOUT,
        RULE_ENABLED,
    ],
};
