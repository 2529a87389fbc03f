//! The keys of rules.

use super::{Default, Field, Keys, Shape, Type, When, Zero};

/// What may stand in a list of rules.
pub static RULE: Type = Type::Either(&[
    (When::Where("type", "command"), Type::Object(&COMMAND_RULE)),
    (When::Where("type", "content_pattern"), Type::Object(&PATTERN_RULE)),
    (When::Where("type", "file_existence"), Type::Object(&FILES_RULE)),
    (When::Where("type", "coverage"), Type::Object(&COVERAGE_RULE)),
    // Only to say which types there are.
    (When::Map, Type::Object(&ANY_RULE)),
]);

const RULE_NAME: Field = Field {
    name: "name",
    doc: "What it is called, unique among the rules.",
    ty: Type::SomeText,
    default: Default::Required,
};
const RULE_TYPE: Field = Field {
    name: "type",
    doc: "What kind of rule it is.",
    ty: Type::OneOf(&["command", "content_pattern", "file_existence", "coverage"]),
    default: Default::Required,
};

const RULE_TIMEOUT: Field = Field {
    name: "timeout",
    doc: "How long the check may take.",
    ty: Type::Duration(Zero::Refused),
    default: Default::Int(60),
};
const RULE_ENABLED: Field =
    Field { name: "enabled", doc: "Whether it is checked at all.", ty: Type::Bool, default: Default::Bool(true) };

static ANY_RULE: Shape = Shape { name: "rule", noun: "key", keys: Keys::Free, fields: &[RULE_NAME, RULE_TYPE] };

/// A command that must exit with a certain code.
pub static COMMAND_RULE: Shape = Shape {
    name: "command_rule",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        RULE_NAME,
        RULE_TYPE,
        Field {
            name: "command",
            doc: "What `sh -c` runs in the project's folder; `{{session}}` and `{{iteration}}` stand for values.",
            ty: Type::SomeText,
            default: Default::Required,
        },
        Field {
            name: "expected_exit",
            doc: "The exit code that passes.",
            ty: Type::Integer(0, 255),
            default: Default::Int(0),
        },
        Field {
            name: "expected_exit_code",
            doc: "Another name of `expected_exit`.",
            ty: Type::Integer(0, 255),
            default: Default::Absent,
        },
        Field {
            name: "folder",
            doc: "Where it runs, relative to the project's folder.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "env",
            doc: "What is set in its environment besides.",
            ty: Type::Map(&Type::Text),
            default: Default::EmptyMap,
        },
        RULE_TIMEOUT,
        RULE_ENABLED,
    ],
};

/// A pattern that a text must hold, or must not.
pub static PATTERN_RULE: Shape = Shape {
    name: "content_pattern_rule",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        RULE_NAME,
        RULE_TYPE,
        Field { name: "pattern", doc: "A regular expression.", ty: Type::SomeText, default: Default::Required },
        Field {
            name: "file",
            doc: "The file that is searched, relative to the project's folder; by default the agent's last message.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "must_match",
            doc: "Whether finding it passes, or not finding it.",
            ty: Type::Bool,
            default: Default::Bool(true),
        },
        RULE_TIMEOUT,
        RULE_ENABLED,
    ],
};

/// Files that must be there.
pub static FILES_RULE: Shape = Shape {
    name: "file_existence_rule",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        RULE_NAME,
        RULE_TYPE,
        Field {
            name: "files",
            doc: "The files that must be there.",
            ty: Type::List(&Type::SomeText),
            default: Default::Required,
        },
        Field {
            name: "mode",
            doc: "Whether all of them must be there, or any.",
            ty: Type::OneOf(&["all", "any"]),
            default: Default::Text("all"),
        },
        RULE_TIMEOUT,
        RULE_ENABLED,
    ],
};

/// The least share of lines that tests must reach.
pub static COVERAGE_RULE: Shape = Shape {
    name: "coverage_rule",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        RULE_NAME,
        RULE_TYPE,
        Field { name: "file", doc: "The coverage report.", ty: Type::SomeText, default: Default::Absent },
        Field { name: "report", doc: "Another name of `file`.", ty: Type::SomeText, default: Default::Absent },
        Field {
            name: "format",
            doc: "What the report looks like; by default as its name tells.",
            ty: Type::OneOf(&["lcov", "cobertura", "json"]),
            default: Default::Absent,
        },
        Field {
            name: "minimum",
            doc: "The least coverage that passes, in percent.",
            ty: Type::Number(0.0, 100.0),
            default: Default::Required,
        },
        RULE_TIMEOUT,
        RULE_ENABLED,
    ],
};
