//! A small JSON schema validator: the keywords that creel's schema uses, and no others.

use serde_json::Value;

/// The violations of a schema. Empty if the value is valid.
pub(crate) fn objections(root: &Value, value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    judge(root, root, value, "", &mut all);
    all
}

fn judge(root: &Value, schema: &Value, value: &Value, at: &str, all: &mut Vec<String>) {
    let Value::Object(keywords) = schema else {
        panic!("a schema is an object: {schema}")
    };
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "$schema"
            | "$defs"
            | "title"
            | "description"
            | "default"
            | "deprecated"
            | "properties"
            | "additionalProperties" => {}
            "$ref" => {
                let pointer = rule.as_str().expect("a pointer").trim_start_matches('#');
                judge(
                    root,
                    root.pointer(pointer).expect("a target"),
                    value,
                    at,
                    all,
                );
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    judge(root, rule, item, &format!("{at}/{i}"), all);
                }
            }
            "allOf" => {
                for schema in rule.as_array().expect("a list") {
                    judge(root, schema, value, at, all);
                }
            }
            "anyOf" => any_of(root, rule, value, at, all),
            other => {
                if !is_satisfied(other, rule, value) {
                    all.push(format!("{at}: {value} against {other} {rule}"));
                }
            }
        }
    }
    properties(root, keywords, value, at, all);
}

/// The keywords that need no other schema.
fn is_satisfied(keyword: &str, rule: &Value, value: &Value) -> bool {
    let limit = || rule.as_f64().expect("a number");
    match keyword {
        "type" => {
            let names = rule
                .as_array()
                .cloned()
                .unwrap_or_else(|| vec![rule.clone()]);
            names
                .iter()
                .any(|name| is_type(name.as_str().expect("a name"), value))
        }
        "enum" => rule.as_array().expect("a list").contains(value),
        "minimum" => value.as_f64().is_none_or(|n| n >= limit()),
        "maximum" => value.as_f64().is_none_or(|n| n <= limit()),
        "minLength" => value.as_str() != Some(""),
        "pattern" => {
            assert_eq!(rule, "^[0-9PT]");
            value.as_str().is_none_or(|text| {
                text.starts_with(|c: char| c.is_ascii_digit() || c == 'P' || c == 'T')
            })
        }
        "required" => {
            let is_there = |name: &Value| value.get(name.as_str().expect("a name")).is_some();
            !value.is_object() || rule.as_array().expect("a list").iter().all(is_there)
        }
        other => panic!("the judge does not know `{other}`"),
    }
}

fn any_of(root: &Value, rule: &Value, value: &Value, at: &str, all: &mut Vec<String>) {
    let mut tried = Vec::new();
    for schema in rule.as_array().expect("a list") {
        let mut objections = Vec::new();
        judge(root, schema, value, at, &mut objections);
        if objections.is_empty() {
            return;
        }
        tried.push(objections.join("; "));
    }
    all.push(format!("{at}: none fits ({})", tried.join(" | ")));
}

fn properties(
    root: &Value,
    keywords: &serde_json::Map<String, Value>,
    value: &Value,
    at: &str,
    all: &mut Vec<String>,
) {
    let known = keywords.get("properties");
    for (key, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{key}");
        match (
            known.and_then(|known| known.get(key)),
            keywords.get("additionalProperties"),
        ) {
            (None, Some(Value::Bool(false))) => all.push(format!("{at}: unknown")),
            (Some(schema), _) | (None, Some(schema)) => judge(root, schema, value, &at, all),
            (None, None) => {}
        }
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the judge does not know the type `{other}`"),
    }
}
