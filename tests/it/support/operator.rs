//! A NATS server in operator mode: it knows no user by name, and accepts the users of its
//! operator's accounts.
//!
//! The operator signs the accounts, an account signs its users, and each signature is over a token
//! of JSON. To log in, a user shows such a token and proves to have its key; both are in a `.creds`
//! file.

use std::time::SystemTime;

use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

use super::nats::NatsServer;

/// Signs the accounts of a server.
pub(crate) struct Operator {
    key: KeyPair,
    /// The account that a server with `JetStream` needs for itself.
    system: KeyPair,
}

/// A user's key, and the token that an account signed.
pub(crate) struct Credentials {
    user: KeyPair,
    token: String,
}

impl Operator {
    pub(crate) fn new() -> Self {
        Self {
            key: KeyPair::new_operator(),
            system: KeyPair::new_account(),
        }
    }

    /// A server that accepts the users of this account.
    pub(crate) fn server(&self, account: &KeyPair) -> NatsServer {
        let system = self.vouch_for(&self.system, &json!({}));
        let room = json!({ "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1 });
        let own =
            json!({ "type": "operator", "version": 2, "system_account": self.system.public_key() });
        NatsServer::with(&format!(
            "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {system}, {}: {} }}",
            signed(&self.key, &self.key, None, &own),
            self.system.public_key(),
            self.system.public_key(),
            account.public_key(),
            self.vouch_for(account, &room),
        ))
    }

    /// A token for an account without restrictions, with these limits for `JetStream`.
    fn vouch_for(&self, account: &KeyPair, room: &Value) -> String {
        let mut limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        });
        for (name, limit) in room.as_object().expect("names and limits") {
            limits[name] = limit.clone();
        }
        signed(
            &self.key,
            account,
            None,
            &json!({ "type": "account", "version": 2, "limits": limits }),
        )
    }
}

impl Credentials {
    /// A user of an account, for ever or until a time.
    pub(crate) fn of(account: &KeyPair, until: Option<SystemTime>) -> Self {
        let user = KeyPair::new_user();
        let token = signed(account, &user, until, &rights());
        Self { user, token }
    }

    /// A user whose token the account did not sign.
    pub(crate) fn forged(account: &KeyPair) -> Self {
        let user = KeyPair::new_user();
        let claims = claims(&account.public_key(), &user, None, &rights());
        Self {
            token: token(&KeyPair::new_account(), &claims),
            user,
        }
    }

    /// Credentials whose key does not match the token.
    pub(crate) fn stolen(account: &KeyPair) -> Self {
        Self {
            user: KeyPair::new_user(),
            ..Self::of(account, None)
        }
    }

    pub(crate) fn seed(&self) -> String {
        self.user.seed().expect("it was made here")
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The text of a `.creds` file.
    pub(crate) fn file(&self) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            self.token,
            self.seed()
        )
    }
}

fn rights() -> Value {
    json!({ "type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1 })
}

/// A token about one key, signed with another.
fn signed(by: &KeyPair, about: &KeyPair, until: Option<SystemTime>, what: &Value) -> String {
    token(by, &claims(&by.public_key(), about, until, what))
}

fn claims(by: &str, about: &KeyPair, until: Option<SystemTime>, what: &Value) -> Value {
    let seconds = |at: SystemTime| {
        at.duration_since(SystemTime::UNIX_EPOCH)
            .expect("a time of ours")
            .as_secs()
    };
    let (issued, about) = (seconds(SystemTime::now()), about.public_key());
    let mut claims = json!({ "jti": about, "iat": issued, "iss": by, "sub": about, "name": about, "nats": what });
    if let Some(until) = until {
        claims["exp"] = seconds(until).into();
    }
    claims
}

fn token(key: &KeyPair, claims: &Value) -> String {
    let encoded = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!(
        "{}.{}",
        encoded(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })),
        encoded(claims)
    );
    let signature = key.sign(signed.as_bytes()).expect("it has its seed");
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}
