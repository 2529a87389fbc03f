//! What `nats:` says: where the server is, who logs in, what the stream shall be like.
//!
//! Owns the check of it and the words that may hold a secret. Does not read a secret: that is done when somebody
//! connects, so that neither a plan nor a record ever has one.
//!
//! # Invariants
//! - A [`Secret`] is not shown: not by `Debug`, not in a message.
//! - A prefix and a name of a stream are plain: nobody can smuggle a wildcard into a subject.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    diagnostic::quoted,
    fields::ConfigFields,
    node::{ConfigNode, NodeKind},
    paths,
    report::DiagnosticReport,
    shape::{NATS, NATS_TLS},
};
use crate::engine::time::TimeSpan;

/// A NATS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsConfig {
    /// Where it is, as written: it can hold a user and a password.
    pub url: Secret,
    /// Who logs in, if the URL does not say.
    pub login: NatsLogin,
    /// Whether the connection is encrypted, and how.
    pub tls: NatsTls,
    /// What every subject begins with.
    pub prefix: String,
    /// The stream that keeps the records.
    pub stream: NatsStreamPlan,
}

/// Who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatsLogin {
    /// Whoever the URL says, or nobody.
    AsTheUrlSays,
    /// A user.
    User {
        /// The name.
        user: Secret,
        /// The password.
        password: Secret,
    },
    /// Whoever has the token.
    Token(Secret),
    /// Whoever has the key whose seed is in this file.
    Nkey(PathBuf),
    /// Whoever has the credentials in this file.
    Credentials(PathBuf),
}

/// Whether the connection is encrypted, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NatsTls {
    /// Whether it must be.
    pub required: bool,
    /// Whom to trust beside those that the system trusts.
    pub ca: Option<PathBuf>,
    /// This side's certificate and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// What the stream shall be like, if it has to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsStreamPlan {
    /// Its name.
    pub name: String,
    /// How many copies there are.
    pub replicas: usize,
    /// How long a record is kept; zero: for ever.
    pub max_age: TimeSpan,
    /// How large it may be; zero: any size.
    pub max_bytes: i64,
}

/// A text that is not shown. `${NAME}` in it is a variable of the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// A variable that a secret needs and that is not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment has no variable `{0}`, which `nats:` needs to log in")]
pub struct MissingVariableError(pub String);

impl Secret {
    /// A secret as it was written.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// What it says, with variables filled in.
    pub fn reveal(&self, variable: impl Fn(&str) -> Option<String>) -> Result<String, MissingVariableError> {
        self.reveal_as(str::to_owned, variable)
    }

    /// The same, with what is not a variable read in a way of its own.
    pub fn reveal_as(
        &self,
        read: impl Fn(&str) -> String,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<String, MissingVariableError> {
        let mut all = String::new();
        let mut rest = self.0.as_str();
        while let Some((before, name, after)) = placeholder(rest) {
            all += &read(before);
            all += &variable(name).ok_or_else(|| MissingVariableError(name.to_owned()))?;
            rest = after;
        }
        Ok(all + &read(rest))
    }

    /// The variables that it needs.
    fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        let mut rest = self.0.as_str();
        while let Some((_, name, after)) = placeholder(rest) {
            names.push(name);
            rest = after;
        }
        names
    }

    /// Its pieces between signs that were written, not those that a variable holds.
    pub fn split(&self, sign: char) -> impl Iterator<Item = Self> {
        self.0.split(sign).map(|piece| Self::new(piece.trim()))
    }

    /// What was written before and after the first of a text.
    pub fn split_once(&self, text: &str) -> Option<(Self, Self)> {
        self.0.split_once(text).map(|(before, after)| (Self::new(before), Self::new(after)))
    }

    /// What was written before and after the last of a sign.
    pub fn rsplit_once(&self, sign: char) -> Option<(Self, Self)> {
        self.0.rsplit_once(sign).map(|(before, after)| (Self::new(before), Self::new(after)))
    }
}

/// The text before the first `${NAME}`, the name, and the text after.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${")?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

impl NatsConfig {
    /// A server that was named on a command line; what the config says of the rest, if there is one.
    pub fn named(url: &str, config: Option<Self>) -> Result<Self, String> {
        check_url(url)?;
        let rest = config.unwrap_or_else(|| Self {
            url: Secret::new(""),
            login: NatsLogin::AsTheUrlSays,
            tls: NatsTls::default(),
            prefix: "creel".to_owned(),
            stream: NatsStreamPlan { name: "CREEL".to_owned(), replicas: 1, max_age: TimeSpan(0), max_bytes: 0 },
        });
        let login = if has_login(url) { NatsLogin::AsTheUrlSays } else { rest.login.clone() };
        Ok(Self { url: Secret::new(url), login, ..rest })
    }

    /// The variables that it needs and that `is_set` does not know, each once.
    pub fn missing_variables(&self, is_set: impl Fn(&str) -> bool) -> Vec<&str> {
        let login: &[&Secret] = match &self.login {
            NatsLogin::User { user, password } => &[user, password],
            NatsLogin::Token(token) => &[token],
            NatsLogin::AsTheUrlSays | NatsLogin::Nkey(_) | NatsLogin::Credentials(_) => &[],
        };
        let mut missing: Vec<&str> = Vec::new();
        for name in std::iter::once(&self.url).chain(login.iter().copied()).flat_map(Secret::variables) {
            if !is_set(name) && !missing.contains(&name) {
                missing.push(name);
            }
        }
        missing
    }

    /// The files that it needs to log in and to encrypt.
    pub fn files(&self) -> Vec<&Path> {
        let login = match &self.login {
            NatsLogin::Nkey(file) | NatsLogin::Credentials(file) => Some(file),
            NatsLogin::AsTheUrlSays | NatsLogin::User { .. } | NatsLogin::Token(_) => None,
        };
        let own = self.tls.own.iter().flat_map(|(certificate, key)| [certificate, key]);
        login.into_iter().chain(&self.tls.ca).chain(own).map(PathBuf::as_path).collect()
    }

    /// Where it is, without who logs in there.
    pub fn shown(&self) -> String {
        let places = self.url.0.split(',').map(|url| {
            let (scheme, rest) = url.trim().split_once("://").unwrap_or(("nats", url.trim()));
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place))
        });
        places.collect::<Vec<_>>().join(",")
    }
}

/// Whether a URL says who logs in.
pub fn has_login(url: &str) -> bool {
    url.contains('@')
}

/// What is wrong with a list of URLs, without showing it.
fn check_url(text: &str) -> Result<(), String> {
    for url in text.split(',').map(str::trim) {
        let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
        if !["nats", "tls"].contains(&scheme) && !scheme.contains("${") {
            return Err(format!("{} is not spoken here; a URL begins with `nats://` or `tls://`", quoted(scheme)));
        }
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        if place.contains("${") {
            continue;
        }
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            Some(_) | None => (place, None),
        };
        let plain = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "/?#".contains(c));
        let numbered = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        if !plain || !numbered {
            return Err("the URL names no server; it looks like `nats://HOST:4222`".to_owned());
        }
    }
    Ok(())
}

/// What `nats:` says.
pub(super) fn lower(report: &mut DiagnosticReport, given: &ConfigNode, config: &std::path::Path) -> Option<NatsConfig> {
    let nats = ConfigFields::of(&NATS, Some(given));
    let beside = |key: &str| nats.some_text(key).map(|file| paths::folder(config).join(file));
    for key in ["url", "user", "password", "token"] {
        if let Some(node) = nats.given(key)
            && let Err(why) = check_variables(node.text().unwrap_or_default())
        {
            report.error_hint(node.at, format!("`{key}`: {why}"), "such as `${NATS_TOKEN}`".to_owned());
        }
    }
    if let Some(node) = nats.given("url")
        && let Err(why) = check_url(node.text().unwrap_or_default())
    {
        report.error(node.at, why);
    }
    check_names(report, &nats);
    check_login(report, &nats);
    let login = match (nats.some_text("user"), nats.some_text("password"), nats.some_text("token")) {
        (Some(user), Some(password), _) => NatsLogin::User { user: Secret::new(user), password: Secret::new(password) },
        (_, _, Some(token)) => NatsLogin::Token(Secret::new(token)),
        (_, _, None) => match (beside("nkey"), beside("credentials")) {
            (Some(file), _) => NatsLogin::Nkey(file),
            (None, Some(file)) => NatsLogin::Credentials(file),
            (None, None) => NatsLogin::AsTheUrlSays,
        },
    };
    Some(NatsConfig {
        url: Secret::new(nats.some_text("url")?),
        login,
        tls: tls(report, &nats, config),
        prefix: nats.some_text("prefix")?,
        stream: NatsStreamPlan {
            name: nats.some_text("stream")?,
            replicas: nats.int("replicas"),
            max_age: nats.duration("max_age"),
            max_bytes: nats.int("max_bytes"),
        },
    })
}

fn check_variables(text: &str) -> Result<(), &'static str> {
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some((_, name, after)) = placeholder(&rest[at..]) else { return Err("`${` is not closed") };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err("a variable has letters, digits and `_`");
        }
        rest = after;
    }
    Ok(())
}

/// Nothing that means something in a subject may get into one.
fn check_names(report: &mut DiagnosticReport, nats: &ConfigFields<'_>) {
    let plain =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if let Some(node) = nats.given("prefix")
        && !node.text().is_some_and(|text| text.split('.').all(plain))
    {
        let hint = "use letters, digits, `-` and `_`, with dots between words".to_owned();
        report.error_hint(node.at, format!("{} is no prefix for subjects", shown(node)), hint);
    }
    if let Some(node) = nats.given("stream")
        && !node.text().is_some_and(plain)
    {
        let hint = "use letters, digits, `-` and `_`".to_owned();
        report.error_hint(node.at, format!("{} is no name for a stream", shown(node)), hint);
    }
}

fn shown(node: &ConfigNode) -> String {
    quoted(node.text().unwrap_or_default())
}

/// There is one way to log in.
fn check_login(report: &mut DiagnosticReport, nats: &ConfigFields<'_>) {
    let in_url = nats.given("url").filter(|url| url.text().is_some_and(has_login));
    let ways = ["user", "token", "nkey", "credentials"].into_iter().filter_map(|key| Some((key, nats.given(key)?)));
    let ways: Vec<(&str, &ConfigNode)> = in_url.map(|url| ("url", url)).into_iter().chain(ways).collect();
    if let [(first, _), (second, node), ..] = ways.as_slice() {
        let message = format!("both `{first}` and `{second}` say who logs in");
        report.error_hint(node.at, message, "keep one of them".to_owned());
    }
    match (nats.given("user"), nats.given("password")) {
        (Some(node), None) => report.error_hint(node.at, "`password` is missing", "the password of `user`".to_owned()),
        (None, Some(node)) => report.error_hint(node.at, "`user` is missing", "who has this password".to_owned()),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn tls(report: &mut DiagnosticReport, nats: &ConfigFields<'_>, config: &std::path::Path) -> NatsTls {
    let Some(given) = nats.given("tls") else { return NatsTls::default() };
    if let NodeKind::Bool(required) = given.kind {
        return NatsTls { required, ..NatsTls::default() };
    }
    let tls = ConfigFields::of(&NATS_TLS, Some(given));
    let beside = |key: &str| tls.some_text(key).map(|file| paths::folder(config).join(file));
    let own = match (tls.given("cert"), tls.given("key")) {
        (Some(node), None) => {
            report.error_hint(node.at, "`key` is missing", "the file with the certificate's key".to_owned());
            None
        }
        (None, Some(node)) => {
            report.error_hint(node.at, "`cert` is missing", "the file with the key's certificate".to_owned());
            None
        }
        (Some(_), Some(_)) | (None, None) => beside("cert").zip(beside("key")),
    };
    NatsTls { required: true, ca: beside("ca"), own }
}
