//! What the table of config keys consists of: the types of values, defaults, and the functions that
//! make its rows.
//!
//! Owns how a default and an alternative read. Does not know any key: see [`super::keys`]. Converts
//! the table to a JSON schema, for editors.

use std::{collections::BTreeMap, ops::RangeInclusive};

use serde_json::{Map, Value, json};

use super::{
    diagnostic::names,
    keys::ROOT,
    node::{ConfigNode, NodeKind, camel, pascal},
};

#[derive(Debug, Clone, Copy)]
pub enum ValueType {
    Bool,
    /// The range includes both ends.
    Integer(i64, i64),
    /// The range includes both ends.
    Number(f64, f64),
    Duration(ZeroDuration),
    Text,
    /// Text that is not blank.
    SomeText,
    OneOf(&'static [&'static str]),
    /// `true`, `false`, or one of these words.
    BoolOr(&'static [&'static str]),
    List(&'static ValueType),
    /// A map with arbitrary keys and values of one type.
    Map(&'static ValueType),
    /// A map with known keys.
    Object(&'static MapShape),
    /// The first alternative that matches.
    Either(&'static [ValueType]),
    /// Not validated.
    Anything,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroDuration {
    /// The key's description says what zero means.
    Allowed,
    Refused,
}

/// The value of a key that the config omits.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    Absent,
    Required,
    /// An explicit `null`.
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'static str),
    Names(&'static [&'static str]),
    EmptyMap,
    /// The defaults of the keys below it.
    OfItsKeys,
}

#[derive(Debug, Clone, Copy)]
pub struct FieldShape {
    /// In `snake_case`. Other spellings are accepted too.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    pub ty: ValueType,
    pub default: DefaultValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPolicy {
    /// Unknown keys are mistakes.
    Known,
    /// Unknown keys are accepted and stored.
    Free,
}

#[derive(Debug, Clone, Copy)]
pub struct MapShape {
    /// Its name in the JSON schema.
    pub name: &'static str,
    /// The word for one of its keys in messages.
    pub noun: &'static str,
    pub keys: KeyPolicy,
    /// As an alternative, which maps it is for.
    recognition: MapRecognition,
    pub fields: &'static [FieldShape],
}

#[derive(Debug, Clone, Copy)]
enum MapRecognition {
    AnyMap,
    /// A map with one of these keys.
    OneOfKeys(&'static [&'static str]),
    /// A map in which `type` has this value.
    TypeKey(&'static str),
}

pub(super) const fn shape(name: &'static str, fields: &'static [FieldShape]) -> MapShape {
    MapShape {
        name,
        noun: "key",
        keys: KeyPolicy::Known,
        recognition: MapRecognition::AnyMap,
        fields,
    }
}

impl MapShape {
    /// Accepts any spelling.
    pub fn field(&self, written: &str) -> Option<&'static FieldShape> {
        self.fields
            .iter()
            .find(|field| super::node::is_spelling(written, field.name))
    }

    pub(super) const fn noun(self, noun: &'static str) -> Self {
        Self { noun, ..self }
    }

    pub(super) const fn free_keys(self) -> Self {
        Self {
            keys: KeyPolicy::Free,
            ..self
        }
    }

    pub(super) const fn with_one_of(self, keys: &'static [&'static str]) -> Self {
        Self {
            recognition: MapRecognition::OneOfKeys(keys),
            ..self
        }
    }

    pub(super) const fn with_type(self, name: &'static str) -> Self {
        Self {
            recognition: MapRecognition::TypeKey(name),
            ..self
        }
    }
}

pub(super) const fn key(name: &'static str, ty: ValueType, doc: &'static str) -> FieldShape {
    FieldShape {
        name,
        doc,
        ty,
        default: DefaultValue::Absent,
    }
}

pub(super) const fn text(name: &'static str, doc: &'static str) -> FieldShape {
    key(name, ValueType::SomeText, doc)
}

pub(super) const fn flag(name: &'static str, default: bool, doc: &'static str) -> FieldShape {
    key(name, ValueType::Bool, doc).or(DefaultValue::Bool(default))
}

pub(super) const fn integer(
    name: &'static str,
    range: RangeInclusive<i64>,
    doc: &'static str,
) -> FieldShape {
    key(name, ValueType::Integer(*range.start(), *range.end()), doc)
}

pub(super) const fn number(
    name: &'static str,
    range: RangeInclusive<f64>,
    doc: &'static str,
) -> FieldShape {
    key(name, ValueType::Number(*range.start(), *range.end()), doc)
}

pub(super) const fn duration(name: &'static str, doc: &'static str) -> FieldShape {
    key(name, ValueType::Duration(ZeroDuration::Refused), doc)
}

/// The description says what zero means.
pub(super) const fn duration_or_zero(name: &'static str, doc: &'static str) -> FieldShape {
    key(name, ValueType::Duration(ZeroDuration::Allowed), doc)
}

pub(super) const fn one_of(
    name: &'static str,
    words: &'static [&'static str],
    doc: &'static str,
) -> FieldShape {
    key(name, ValueType::OneOf(words), doc)
}

/// A list, by default an empty one.
pub(super) const fn list(
    name: &'static str,
    item: &'static ValueType,
    doc: &'static str,
) -> FieldShape {
    key(name, ValueType::List(item), doc).or(DefaultValue::Names(&[]))
}

pub(super) const fn texts(name: &'static str, doc: &'static str) -> FieldShape {
    list(name, &ValueType::SomeText, doc)
}

/// A map with names of the user's own, by default an empty one.
pub(super) const fn map(
    name: &'static str,
    value: &'static ValueType,
    doc: &'static str,
) -> FieldShape {
    key(name, ValueType::Map(value), doc).or(DefaultValue::EmptyMap)
}

/// A map with known keys, by default with their defaults.
pub(super) const fn section(
    name: &'static str,
    shape: &'static MapShape,
    doc: &'static str,
) -> FieldShape {
    key(name, ValueType::Object(shape), doc).or(DefaultValue::OfItsKeys)
}

impl FieldShape {
    pub(super) const fn or(self, default: DefaultValue) -> Self {
        Self { default, ..self }
    }

    pub(super) const fn or_text(self, default: &'static str) -> Self {
        self.or(DefaultValue::Text(default))
    }

    pub(super) const fn or_int(self, default: i64) -> Self {
        self.or(DefaultValue::Int(default))
    }

    pub(super) const fn or_null(self) -> Self {
        self.or(DefaultValue::Null)
    }

    pub(super) const fn optional(self) -> Self {
        self.or(DefaultValue::Absent)
    }

    pub(super) const fn required(self) -> Self {
        self.or(DefaultValue::Required)
    }
}

impl DefaultValue {
    /// The default as if it were written at the start of the source.
    pub fn node(self) -> Option<ConfigNode> {
        let text = |text: &str| NodeKind::Text(text.to_owned());
        let node = |kind| ConfigNode {
            at: super::diagnostic::SourceSpan::default(),
            kind,
        };
        let kind = match self {
            Self::Absent | Self::Required => return None,
            Self::Null => NodeKind::Null,
            Self::Bool(b) => NodeKind::Bool(b),
            Self::Int(n) => NodeKind::Int(n.into()),
            Self::Float(x) => NodeKind::Float(x),
            Self::Text(it) => text(it),
            Self::Names(names) => {
                NodeKind::List(names.iter().map(|name| node(text(name))).collect())
            }
            Self::EmptyMap | Self::OfItsKeys => NodeKind::Map(Vec::new()),
        };
        Some(node(kind))
    }
}

impl ValueType {
    /// Whether an alternative of this type is the one for a value.
    pub fn is_for(&self, node: &ConfigNode) -> bool {
        match self {
            Self::Bool => matches!(node.kind, NodeKind::Bool(_)),
            Self::Integer(..) | Self::Number(..) => {
                matches!(node.kind, NodeKind::Int(_) | NodeKind::Float(_))
            }
            Self::Text | Self::SomeText | Self::OneOf(_) => matches!(node.kind, NodeKind::Text(_)),
            Self::List(_) => matches!(node.kind, NodeKind::List(_)),
            Self::Map(_) => matches!(node.kind, NodeKind::Map(_)),
            Self::Object(shape) => match shape.recognition {
                MapRecognition::AnyMap => matches!(node.kind, NodeKind::Map(_)),
                MapRecognition::OneOfKeys(keys) => keys.iter().any(|key| node.get(key).is_some()),
                MapRecognition::TypeKey(name) => {
                    node.get("type").and_then(ConfigNode::text) == Some(name)
                }
            },
            Self::Either(alternatives) => alternatives.iter().any(|ty| ty.is_for(node)),
            Self::Duration(_) | Self::BoolOr(_) | Self::Anything => true,
        }
    }

    /// For messages, after "must be".
    pub fn describe(&self) -> String {
        match self {
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Integer(min, i64::MAX) => format!("a whole number from {min}"),
            Self::Integer(i64::MIN, _) => "a whole number".to_owned(),
            Self::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Self::Number(min, max) => format!("a number from {min} to {max}"),
            Self::Duration(_) => "a length of time, such as `30` (seconds) or `2m`".to_owned(),
            Self::Text | Self::SomeText => "text".to_owned(),
            Self::OneOf(known) => format!("one of {}", names(known)),
            Self::BoolOr(words) => format!("`true`, `false` or {}", names(words)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) | Self::Object(_) => "a map".to_owned(),
            Self::Either(alternatives) => {
                let mut all: Vec<String> = alternatives.iter().map(Self::describe).collect();
                all.dedup();
                all.join(" or ")
            }
            Self::Anything => "anything".to_owned(),
        }
    }
}

/// The JSON schema of the config, draft 2020-12.
pub fn json_schema() -> Value {
    let mut defs = BTreeMap::new();
    let mut schema = Map::new();
    schema.insert(
        "$schema".to_owned(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    schema.insert("title".to_owned(), json!("creel config"));
    if let Value::Object(root) = object(&ROOT, &mut defs) {
        schema.extend(root);
    }
    schema.insert("$defs".to_owned(), defs.into_iter().collect());
    Value::Object(schema)
}

type SchemaDefs = BTreeMap<String, Value>;

fn object(shape: &'static MapShape, defs: &mut SchemaDefs) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<Value> = Vec::new();
    for field in shape.fields {
        properties.insert(field.name.to_owned(), property(field, defs));
        for spelling in [camel(field.name), pascal(field.name)] {
            // Editors should suggest one spelling. The others are only accepted.
            let same = json!({ "$ref": format!("{}/properties/{}", pointer(shape), field.name), "deprecated": true });
            properties.entry(spelling).or_insert(same);
        }
        if matches!(field.default, DefaultValue::Required) {
            let spellings = [field.name.to_owned(), camel(field.name), pascal(field.name)];
            required.push(json!({ "anyOf": spellings.map(|name| json!({ "required": [name] })) }));
        }
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if shape.keys == KeyPolicy::Known {
        schema["additionalProperties"] = json!(false);
    }
    if !required.is_empty() {
        schema["allOf"] = Value::Array(required);
    }
    schema
}

fn pointer(shape: &MapShape) -> String {
    if shape.name == ROOT.name {
        "#".to_owned()
    } else {
        format!("#/$defs/{}", shape.name)
    }
}

fn property(field: &FieldShape, defs: &mut SchemaDefs) -> Value {
    let described = |mut schema: Value| {
        schema["description"] = json!(field.doc);
        if let Some(default) = field.default.node() {
            schema["default"] = default.to_json();
        }
        schema
    };
    let schema = of_type(&field.ty, defs);
    if matches!(field.default, DefaultValue::Required) {
        return described(schema);
    }
    described(match schema.get("type").cloned() {
        Some(Value::String(name)) => {
            let mut schema = schema;
            schema["type"] = json!([name, "null"]);
            schema
        }
        _ if schema.as_object().is_some_and(Map::is_empty) => schema,
        _ => json!({ "anyOf": [schema, { "type": "null" }] }),
    })
}

fn of_type(ty: &ValueType, defs: &mut SchemaDefs) -> Value {
    match ty {
        ValueType::Bool => json!({ "type": "boolean" }),
        ValueType::Integer(min, i64::MAX) => json!({ "type": "integer", "minimum": min }),
        ValueType::Integer(min, max) => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        ValueType::Number(min, max) => json!({ "type": "number", "minimum": min, "maximum": max }),
        ValueType::Duration(_) => json!({ "anyOf": [
            { "type": "number", "minimum": 0 },
            { "type": "string", "pattern": "^[0-9PT]" },
        ] }),
        ValueType::Text => json!({ "type": "string" }),
        ValueType::SomeText => json!({ "type": "string", "minLength": 1 }),
        ValueType::OneOf(known) => json!({ "enum": known }),
        ValueType::BoolOr(words) => {
            let all: Vec<Value> = [true, false]
                .map(Value::from)
                .into_iter()
                .chain(words.iter().copied().map(Value::from))
                .collect();
            json!({ "enum": all })
        }
        ValueType::List(item) => json!({ "type": "array", "items": of_type(item, defs) }),
        ValueType::Map(value) => {
            json!({ "type": "object", "additionalProperties": of_type(value, defs) })
        }
        ValueType::Object(shape) => {
            if !defs.contains_key(shape.name) {
                defs.insert(shape.name.to_owned(), Value::Null);
                let schema = object(shape, defs);
                defs.insert(shape.name.to_owned(), schema);
            }
            json!({ "$ref": pointer(shape) })
        }
        ValueType::Either(alternatives) => {
            json!({ "anyOf": alternatives.iter().map(|ty| of_type(ty, defs)).collect::<Vec<_>>() })
        }
        ValueType::Anything => json!({}),
    }
}
