//! Converts the table of keys to a JSON schema, for editors.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    keys::ROOT,
    node::{camel, pascal},
    shape::{DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType},
};

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
