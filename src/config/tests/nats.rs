//! Valid and invalid values of `nats:`.

use super::{errors_in, good};
use crate::{
    config::{
        NatsConfig,
        nats::{NatsLogin, NatsTls, Secret},
    },
    engine::time::TimeSpan,
};

fn nats(text: &str) -> NatsConfig {
    good(text).servers.nats.expect("a server")
}

#[test]
fn there_are_several_ways_to_log_in() {
    let login = |rest: &str| nats(&format!("nats: {{ url: 'nats://h', {rest} }}")).login;
    assert_eq!(login(""), NatsLogin::AsTheUrlSays);
    let user = NatsLogin::User {
        user: Secret::new("me"),
        password: Secret::new("${PASS}"),
    };
    assert_eq!(login("user: me, password: '${PASS}'"), user);
    assert_eq!(login("token: abc"), NatsLogin::Token(Secret::new("abc")));
    assert_eq!(login("nkey: seed.nk"), NatsLogin::Nkey("./seed.nk".into()));
    assert_eq!(
        login("credentials: ../me.creds"),
        NatsLogin::Credentials("./../me.creds".into())
    );
}

#[test]
fn missing_keys_have_a_default() {
    let NatsConfig {
        tls,
        prefix,
        stream,
        ..
    } = nats("nats: { url: h, max_age: 24h }");
    assert_eq!(
        (tls, prefix.as_str(), stream.name.as_str()),
        (NatsTls::default(), "creel", "CREEL")
    );
    assert_eq!(
        (stream.replicas, stream.max_age, stream.max_bytes),
        (1, TimeSpan(86_400_000), 0)
    );
    let own = Some(("./me.pem".into(), "./me.key".into()));
    let tls = nats("nats: { url: h, tls: { ca: ca.pem, cert: me.pem, key: me.key } }").tls;
    assert_eq!(
        tls,
        NatsTls {
            required: true,
            ca: Some("./ca.pem".into()),
            own
        }
    );
    assert!(nats("nats: { url: h, tls: true }").tls.required);
}

#[test]
fn a_secret_is_filled_in_late_and_never_shown() {
    let settings =
        nats("nats: { url: 'nats://me:hunter2@h:4222, tls://me:hunter2@i', prefix: a.b }");
    assert!(!format!("{settings:?}").contains("hunter2"), "{settings:?}");
    assert_eq!(settings.shown(), "nats://h:4222,tls://i");
    let secret = Secret::new("${A}-${B}-c");
    assert_eq!(
        secret.reveal(|name| Some(name.to_lowercase())),
        Ok("a-b-c".to_owned())
    );
    let missing = secret.reveal(|_| None).map_err(|error| error.to_string());
    assert_eq!(
        missing,
        Err(
            "the environment variable `A`, which `nats:` needs for the login, is not set"
                .to_owned()
        )
    );
}

#[test]
fn mistakes_have_a_place_and_no_password() {
    let text = "\
nats:
  url: nats://me:hunter2@host:port
  user: me
  token: '${hunter2'
  password: 12345
  tls: { cert: me.pem }
  prefix: creel.*
  stream: A.B
  replicas: 7
";
    expect_test::expect![[r#"
        creel.yaml:2:8: the URL has no server; write it like `nats://HOST:4222`
        2 |   url: nats://**********@host:port
          |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^
        creel.yaml:3:9: `url` and `user` both set a login
        3 |   user: me
          |         ^^ keep one of them
        creel.yaml:4:10: `token`: `${` is not closed
        4 |   token: '*{*******'
          |          ^^^^^^^^^^^ such as `${NATS_TOKEN}`
        creel.yaml:5:13: `password` must be text, not a number
        5 |   password: *****
          |             ^^^^^ put it in quotes
        creel.yaml:6:16: `key` is missing
        6 |   tls: { cert: me.pem }
          |                ^^^^^^ add the file with the certificate's key
        creel.yaml:7:11: `creel.*` is not a valid prefix for subjects
        7 |   prefix: creel.*
          |           ^^^^^^^ use letters, digits, `-` and `_`, with dots between words
        creel.yaml:8:11: `A.B` is not a valid stream name
        8 |   stream: A.B
          |           ^^^ use letters, digits, `-` and `_`
        creel.yaml:9:13: `replicas` must be a whole number from 1 to 5
        9 |   replicas: 7
          |             ^"#]]
    .assert_eq(&errors_in(text));
    expect_test::expect![[r#"
        creel.yaml:1:14: creel does not support `ws`; begin the URL with `nats://` or `tls://`
        1 | nats: { url: 'ws://h', nkey: a, credentials: b, user: c }
          |              ^^^^^^^^
        creel.yaml:1:30: `user` and `nkey` both set a login
        1 | nats: { url: 'ws://h', nkey: a, credentials: b, user: c }
          |                              ^ keep one of them
        creel.yaml:1:55: `password` is missing
        1 | nats: { url: 'ws://h', nkey: a, credentials: b, user: c }
          |                                                       ^ add the password of `user`"#]]
    .assert_eq(&errors_in(
        "nats: { url: 'ws://h', nkey: a, credentials: b, user: c }",
    ));
}
