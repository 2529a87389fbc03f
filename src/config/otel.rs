//! Reads `otel:`: the collector that gets the session's trace and metrics.
//!
//! Owns its validation. Does not resolve a header's variables: creel does that when it sends, so
//! that no plan and no record contains a login.
//!
//! # Invariants
//! - An endpoint is a URL without a login, so it can be shown.
//! - A header cannot change what the request is or where it ends.

use std::collections::BTreeMap;

use super::{
    diagnostic::{DiagnosticReport, quoted},
    fields::ConfigFields,
    keys::OTEL,
    nats::{Secret, check_variables},
    node::ConfigNode,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtelConfig {
    pub endpoint: OtelEndpoint,
    /// By name.
    pub headers: BTreeMap<String, Secret>,
}

/// Where a collector is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtelEndpoint {
    pub encryption: OtelEncryption,
    /// An IPv6 address has no brackets.
    pub host: String,
    pub port: u16,
    /// What the paths of requests begin with; without a slash at its end.
    pub path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtelEncryption {
    None,
    Tls,
}

/// Why a text is no endpoint. No message shows it, because it could contain a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OtelEndpointError {
    #[error("the endpoint does not begin with `http://` or `https://`")]
    Scheme,
    #[error("the endpoint contains a login")]
    Login,
    #[error("the endpoint names no host and port")]
    Host,
    #[error("the endpoint has more than a host, a port and a path")]
    Path,
}

impl OtelEndpointError {
    const fn hint(self) -> &'static str {
        match self {
            Self::Scheme | Self::Host => "such as `http://localhost:4318`",
            Self::Login => "put it into `headers`, such as `authorization: \"Basic ${LOGIN}\"`",
            Self::Path => "creel appends `/v1/traces` and `/v1/metrics`",
        }
    }
}

impl OtelEndpoint {
    pub fn read(text: &str) -> Result<Self, OtelEndpointError> {
        let (scheme, rest) = text.split_once("://").ok_or(OtelEndpointError::Scheme)?;
        let (encryption, usual_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (OtelEncryption::None, 80),
            "https" => (OtelEncryption::Tls, 443),
            _ => return Err(OtelEndpointError::Scheme),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(OtelEndpointError::Login);
        }
        let is_plain = |c: char| c.is_ascii_graphic() && !"?#\\\"<>{}^`|".contains(c);
        if !path.chars().all(is_plain) {
            return Err(OtelEndpointError::Path);
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or(OtelEndpointError::Host)?;
                let port = after.strip_prefix(':');
                if port.is_none() && !after.is_empty()
                    || host.parse::<std::net::Ipv6Addr>().is_err()
                {
                    return Err(OtelEndpointError::Host);
                }
                (host, port)
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        let port = port.map_or(Ok(usual_port), str::parse::<u16>);
        match port {
            Ok(port) if port > 0 && !host.is_empty() && host.chars().all(is_host) => Ok(Self {
                encryption,
                host: host.to_owned(),
                port,
                path: path.trim_end_matches('/').to_owned(),
            }),
            Ok(_) | Err(_) => Err(OtelEndpointError::Host),
        }
    }

    /// The host and the port, as in a URL.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub fn shown(&self) -> String {
        let scheme = match self.encryption {
            OtelEncryption::None => "http",
            OtelEncryption::Tls => "https",
        };
        let slash = if self.path.is_empty() { "" } else { "/" };
        format!("{scheme}://{}{slash}{}", self.authority(), self.path)
    }
}

impl OtelConfig {
    /// The variables for which `is_set` is false, without duplicates.
    pub fn missing_variables(&self, is_set: impl Fn(&str) -> bool) -> Vec<&str> {
        let mut missing: Vec<&str> = Vec::new();
        for name in self.headers.values().flat_map(Secret::variables) {
            if !is_set(name) && !missing.contains(&name) {
                missing.push(name);
            }
        }
        missing
    }
}

/// The headers that creel itself sends.
const OWN_HEADERS: [&str; 5] = [
    "host",
    "connection",
    "content-type",
    "content-length",
    "transfer-encoding",
];

pub(super) fn lower(report: &mut DiagnosticReport, given: &ConfigNode) -> Option<OtelConfig> {
    let otel = ConfigFields::of(&OTEL, Some(given));
    let endpoint = OtelEndpoint::read(otel.some_text("endpoint")?.trim());
    if let (Err(why), Some(node)) = (&endpoint, otel.given("endpoint")) {
        report.error_hint(node.at, why.to_string(), why.hint().to_owned());
    }
    let mut headers = BTreeMap::new();
    let entries = otel
        .given("headers")
        .into_iter()
        .flat_map(ConfigNode::entries);
    for (name, value) in entries {
        let text = value.text().unwrap_or_default();
        if let Err(why) = check_header(&name.name) {
            report.error(name.at, why);
        }
        if let Err(why) = check_variables(text) {
            let hint = "such as `${OTEL_TOKEN}`".to_owned();
            report.error_hint(name.at, format!("{}: {why}", quoted(&name.name)), hint);
        }
        headers.insert(name.name.clone(), Secret::new(text));
    }
    let endpoint = endpoint.ok()?;
    Some(OtelConfig { endpoint, headers })
}

fn check_header(name: &str) -> Result<(), String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err(format!("{} is not the name of a header", quoted(name)));
    }
    if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("creel itself sends the header {}", quoted(name)));
    }
    Ok(())
}
