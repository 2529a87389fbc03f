//! Valid and invalid values of `otel:`.

use super::{errors_in, good};
use crate::config::{
    OtelConfig,
    otel::{OtelEndpoint, OtelEndpointError},
};

fn otel(text: &str) -> OtelConfig {
    good(text).servers.otel.expect("a collector")
}

#[test]
fn without_it_nothing_is_sent() {
    assert_eq!(good("").servers.otel, None);
    assert_eq!(good("otel: null").servers.otel, None);
}

#[test]
fn an_endpoint_is_a_url_with_or_without_a_port_and_a_path() {
    let shown = |url: &str| OtelEndpoint::read(url).map(|endpoint| endpoint.shown());
    for (url, as_read) in [
        ("http://localhost:4318", "http://localhost:4318"),
        ("HTTP://h/", "http://h:80"),
        (
            "https://otlp.example/api/otlp/",
            "https://otlp.example:443/api/otlp",
        ),
        ("http://[::1]:4318/x", "http://[::1]:4318/x"),
    ] {
        assert_eq!(shown(url), Ok(as_read.to_owned()));
    }
    for (url, why) in [
        ("localhost:4318", OtelEndpointError::Scheme),
        ("grpc://h:4317", OtelEndpointError::Scheme),
        ("http://me:hunter2@h", OtelEndpointError::Login),
        ("http://", OtelEndpointError::Host),
        ("http://h:0", OtelEndpointError::Host),
        ("http://h:99999", OtelEndpointError::Host),
        ("http://[h]:1", OtelEndpointError::Host),
        ("http://[::1]x", OtelEndpointError::Host),
        ("http://h h", OtelEndpointError::Host),
        ("http://h/?key=1", OtelEndpointError::Path),
        ("http://h/a b", OtelEndpointError::Path),
    ] {
        assert_eq!(shown(url), Err(why), "{url}");
    }
}

#[test]
fn a_header_is_filled_in_late_and_never_shown() {
    let config = otel(
        "otel: { endpoint: 'http://h', headers: { authorization: 'Bearer ${A}${B}', team: 'hunter2 ${A}' } }",
    );
    assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    assert_eq!(config.missing_variables(|name| name == "B"), ["A"]);
}

#[test]
fn mistakes_have_a_place_and_a_way_out() {
    let text = "\
otel:
  endpoint: http://me:hunter2@h
  headers:
    content-length: '1'
    'two words': a
    authorization: 'Bearer ${hunter2'
";
    expect_test::expect![[r#"
        creel.yaml:2:13: the endpoint contains a login
        2 |   endpoint: http://**********@h
          |             ^^^^^^^^^^^^^^^^^^^ put it into `headers`, such as `authorization: "Basic ${LOGIN}"`
        creel.yaml:4:5: creel itself sends the header `content-length`
        4 |     content-length: '1'
          |     ^^^^^^^^^^^^^^
        creel.yaml:5:5: `two words` is not the name of a header
        5 |     'two words': a
          |     ^^^^^^^^^^^
        creel.yaml:6:5: `authorization`: `${` is not closed
        6 |     authorization: '****** *{*******'
          |     ^^^^^^^^^^^^^ such as `${OTEL_TOKEN}`"#]].assert_eq(&errors_in(text));
    expect_test::expect![[r#"
        creel.yaml:1:19: the endpoint does not begin with `http://` or `https://`
        1 | otel: { endpoint: 'localhost:4317' }
          |                   ^^^^^^^^^^^^^^^^ such as `http://localhost:4318`"#]]
    .assert_eq(&errors_in("otel: { endpoint: 'localhost:4317' }"));
    expect_test::expect![[r#"
        creel.yaml:1:7: `endpoint` is missing
        1 | otel: { headers: { ** * } }
          |       ^ the collector's address for OTLP over HTTP, such as `http://localhost:4318`. creel appends `/v1/traces` and `/v1/metrics`"#]].assert_eq(&errors_in("otel: { headers: { a: b } }"));
    expect_test::expect![[r#"
        creel.yaml:1:7: `otel` must be a map, not text
        1 | otel: http://localhost:4318
          |       ^^^^^^^^^^^^^^^^^^^^^"#]]
    .assert_eq(&errors_in("otel: http://localhost:4318"));
}
