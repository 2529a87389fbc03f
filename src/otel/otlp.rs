//! Spans and metrics as OTLP in JSON: the bodies of `/v1/traces` and `/v1/metrics`.
//!
//! Numbers of 64 bits are texts, and ids are hexadecimal, as OTLP's JSON has them.

use serde_json::{Value, json};

use super::{
    metrics::{BOUNDS, DurationBuckets, MetricKey, MetricKind, SessionMetrics},
    spans::TraceSpan,
};
use crate::{engine::time::UnixTime, process::trace_context::TraceContext};

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u32 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: u32 = 2;
/// `AGGREGATION_TEMPORALITY_DELTA`: each request has what is new since the one before.
const DELTA: u32 = 1;

pub fn traces(context: &TraceContext, spans: &[TraceSpan]) -> Value {
    let spans: Vec<Value> = spans.iter().map(|span| as_json(context, span)).collect();
    json!({ "resourceSpans": [{
        "resource": resource(),
        "scopeSpans": [{ "scope": scope(), "spans": spans }],
    }]})
}

pub fn metrics(metrics: &SessionMetrics) -> Value {
    let times = [
        ("startTimeUnixNano", metrics.start),
        ("timeUnixNano", metrics.end),
    ];
    let point = |key: &MetricKey| {
        let attributes = key.iter().map(|(name, value)| (*name, json!(value)));
        let mut point = json!({ "attributes": attributes.map(attribute).collect::<Vec<_>>() });
        for (name, at) in times {
            point[name] = nanoseconds(at);
        }
        point
    };
    let sum = |kind: &MetricKind, points: Vec<Value>| {
        let sum = json!({
            "aggregationTemporality": DELTA, "isMonotonic": true, "dataPoints": points,
        });
        json!({ "name": kind.name, "unit": kind.unit, "sum": sum })
    };
    let counts = metrics.counts.iter().map(|(kind, counts)| {
        let points = counts.iter().map(|(key, count)| {
            let mut point = point(key);
            point["asInt"] = json!(count.to_string());
            point
        });
        sum(kind, points.collect())
    });
    let amounts = metrics.amounts.iter().map(|(kind, amounts)| {
        let points = amounts.iter().map(|(key, amount)| {
            let mut point = point(key);
            point["asDouble"] = json!(amount);
            point
        });
        sum(kind, points.collect())
    });
    let durations = metrics.durations.iter().map(|(kind, durations)| {
        let points = durations.iter().map(|(key, times)| {
            let mut point = point(key);
            add_buckets(&mut point, times);
            point
        });
        let points: Vec<Value> = points.collect();
        let histogram = json!({ "aggregationTemporality": DELTA, "dataPoints": points });
        json!({ "name": kind.name, "unit": kind.unit, "histogram": histogram })
    });
    let all: Vec<Value> = counts.chain(amounts).chain(durations).collect();
    json!({ "resourceMetrics": [{
        "resource": resource(),
        "scopeMetrics": [{ "scope": scope(), "metrics": all }],
    }]})
}

fn add_buckets(point: &mut Value, times: &DurationBuckets) {
    let buckets = times.buckets.iter().map(ToString::to_string);
    point["count"] = json!(times.count.to_string());
    point["sum"] = json!(times.sum);
    point["bucketCounts"] = buckets.collect();
    point["explicitBounds"] = json!(BOUNDS);
}

fn resource() -> Value {
    let about = [
        ("service.name", json!("creel")),
        ("service.version", json!(env!("CARGO_PKG_VERSION"))),
    ];
    json!({ "attributes": about.map(attribute) })
}

fn scope() -> Value {
    json!({ "name": "creel", "version": env!("CARGO_PKG_VERSION") })
}

fn as_json(context: &TraceContext, span: &TraceSpan) -> Value {
    let attributes = span.attributes.iter().cloned().map(attribute);
    let mut json = json!({
        "traceId": context.trace().to_string(),
        "spanId": span.id.to_string(),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(span.start),
        "endTimeUnixNano": nanoseconds(span.end),
        "attributes": attributes.collect::<Vec<_>>(),
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = json!(parent.to_string());
    }
    if let Some(error) = &span.error {
        json["status"] = json!({ "code": ERROR, "message": error });
    }
    json
}

fn nanoseconds(at: UnixTime) -> Value {
    json!((i128::from(at.0) * 1_000_000).to_string())
}

fn attribute((name, value): (&'static str, Value)) -> Value {
    let value = match value {
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other @ (Value::Null | Value::Array(_) | Value::Object(_)) => {
            json!({ "stringValue": other.to_string() })
        }
    };
    json!({ "key": name, "value": value })
}
