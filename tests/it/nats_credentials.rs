//! Credentials files, with a server that trusts the signatures of its operator and accounts.

use std::{
    process::Command,
    time::{Duration, SystemTime},
};

use async_nats::ConnectOptions;
use nkeys::KeyPair;

use crate::{
    nats::{UNTIL_GO, journal, link, project, texts, until_sent},
    support::{
        nats::NatsServer,
        operator::{Credentials, Operator},
        project::{Project, until},
    },
};

const LET_IN: &str = "the server refused the login";

/// A session that logs in with these credentials, and lasts until the file `go` exists.
fn session_of(server: &NatsServer, credentials: &Credentials) -> Project {
    let project = project(&server.url(), "", UNTIL_GO).file("me.creds", &credentials.file());
    let config = project
        .read("creel.yaml")
        .replace("' }\n", "', credentials: me.creds }\n");
    project.file("creel.yaml", &config)
}

/// The stream's content, as a user of this account sees it.
fn stored(server: &NatsServer, account: &KeyPair) -> Vec<String> {
    let reader = ConnectOptions::with_credentials(&Credentials::of(account, None).file())
        .expect("credentials");
    texts(&server.stored_by(&server.client_with(reader), "CREEL"))
}

/// The session stores and prints nothing of the credentials.
#[track_caller]
fn leaves_no_secret(project: &Project, credentials: &Credentials, said: &str) {
    let (seed, token) = (credentials.seed(), credentials.token());
    let signature = token.rsplit('.').next().expect("three parts");
    let claims = token.split('.').nth(1).expect("three parts");
    // Even a part would be too much.
    let secrets = [&seed[..16], &signature[..16], &claims[claims.len() - 16..]];
    assert!(
        !secrets.iter().any(|secret| said.contains(secret)),
        "{said}"
    );
    for kept in [
        project.root().join(".creel"),
        project.state_dir().join("creel/log"),
    ] {
        assert!(kept.exists(), "{} is looked through", kept.display());
        let found = Command::new("grep")
            .args(["-rF", &secrets.join("\n")])
            .arg(kept)
            .output()
            .expect("grep");
        assert!(
            found.stdout.is_empty(),
            "{}",
            String::from_utf8_lossy(&found.stdout)
        );
    }
}

#[test]
fn a_session_with_valid_credentials_has_its_records_in_the_stream() {
    let account = KeyPair::new_account();
    let server = Operator::new().server(&account);
    let credentials = Credentials::of(&account, Some(SystemTime::now() + Duration::from_hours(1)));
    let project = session_of(&server, &credentials);
    let mut session = project.start_with(&[("CREEL_LOG", "trace")]);
    session.wait_for("prompt_sent");
    until_sent(&project);
    project.write("go", "");
    let ran = session.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(stored(&server, &account), journal(&project));
    leaves_no_secret(&project, &credentials, &(ran.out + &ran.err));
}

#[test]
fn other_credentials_are_rejected_and_their_sessions_continue() {
    let account = KeyPair::new_account();
    let server = Operator::new().server(&account);
    let yesterday = SystemTime::now() - Duration::from_hours(24);
    let cases = [
        (
            "another account",
            Credentials::of(&KeyPair::new_account(), None),
        ),
        ("expired", Credentials::of(&account, Some(yesterday))),
        ("forged", Credentials::forged(&account)),
        ("stolen", Credentials::stolen(&account)),
    ];
    for (case, credentials) in cases {
        let project = session_of(&server, &credentials);
        let mut session = project.start_with(&[("CREEL_LOG", "trace")]);
        session.wait_for("prompt_sent");
        until(case, || link(&project)["why"] == LET_IN);
        project.write("go", "");
        let ran = session.end();
        assert_eq!(ran.code, 0, "{case}: {}", ran.err);
        assert!(
            ran.err.contains("the NATS server does not have all records of the session (the server refused the login"),
            "{}",
            ran.err
        );
        leaves_no_secret(&project, &credentials, &(ran.out + &ran.err));
    }
    assert_eq!(stored(&server, &account), [""; 0]);
}

#[test]
fn credentials_that_expire_while_a_session_runs_are_read_again_from_their_file() {
    let account = KeyPair::new_account();
    let server = Operator::new().server(&account);
    let short = Credentials::of(&account, Some(SystemTime::now() + Duration::from_secs(2)));
    let project = session_of(&server, &short);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    until("they expire", || link(&project)["why"] == LET_IN);
    project.write("me.creds", &Credentials::of(&account, None).file());
    until_sent(&project);
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(stored(&server, &account), journal(&project));
}
