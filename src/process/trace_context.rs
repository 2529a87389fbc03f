//! The trace that this process's session belongs to, if it sends one: the ids of its spans, and
//! `TRACEPARENT` for its agents and hooks.
//!
//! Does not make spans: see `crate::otel`. A process hosts one session, so it has one trace.
//!
//! # Invariants
//! - An id depends only on the session and on what the span is about. So a resumed session continues
//!   its trace, and a process knows the id of its span before the span is sent.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use sha2::{Digest as _, Sha256};

/// The variable of the W3C recommendation "Trace Context".
pub const VARIABLE: &str = "TRACEPARENT";

static CURRENT: RwLock<Option<Arc<TraceContext>>> = RwLock::new(None);

/// Agents and hooks that start from now on get [`VARIABLE`].
pub fn use_for_session(context: TraceContext) {
    *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(context));
}

/// The value of [`VARIABLE`] for a process whose spans belong below this one. None: the session
/// sends no trace.
pub fn parent_of(work: TracedWork) -> Option<String> {
    let current = CURRENT.read().unwrap_or_else(PoisonError::into_inner);
    current.as_deref().map(|context| context.traceparent(work))
}

/// [`parent_of`] with the name of the variable.
pub fn variable(work: TracedWork) -> Option<(String, String)> {
    parent_of(work).map(|value| (VARIABLE.to_owned(), value))
}

/// What a span is about, with its number in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracedWork {
    /// The session, from its start or a later resume after its end, counted from 0.
    Session(u64),
    /// The record that started it.
    Iteration(u64),
    Turn(u64),
    /// The record of its call.
    Tool(u64),
    /// A hook, a check or a rule.
    Run(u64),
    Gate(u64),
}

impl TracedWork {
    const fn named(self) -> (&'static str, u64) {
        match self {
            Self::Session(number) => ("session", number),
            Self::Iteration(number) => ("iteration", number),
            Self::Turn(number) => ("turn", number),
            Self::Tool(number) => ("tool", number),
            Self::Run(number) => ("run", number),
            Self::Gate(number) => ("gate", number),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// A valid value of [`VARIABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace: TraceId,
    span: SpanId,
    flags: u8,
}

impl TraceParent {
    /// None if the text is not valid. A later version than `00` can have more at its end.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace) = (hex(parts.next()?, 2)?, hex(parts.next()?, 32)?);
        let (span, flags) = (hex(parts.next()?, 16)?, hex(parts.next()?, 2)?);
        let is_whole = version != 0 || parts.next().is_none();
        let is_valid = version != 0xff && trace != 0 && span != 0 && is_whole;
        is_valid.then_some(Self {
            trace: TraceId(trace.to_be_bytes()),
            span: SpanId(u64::try_from(span).ok()?.to_be_bytes()),
            flags: u8::try_from(flags).ok()?,
        })
    }

    /// The one that this process was started with.
    pub fn inherited() -> Option<Self> {
        Self::read(&std::env::var(VARIABLE).ok()?)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// A number of exactly so many lowercase hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    let is_valid = text.len() == digits && text.bytes().all(is_digit);
    is_valid
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

/// Says that the spans of a trace are sent.
const SAMPLED: u8 = 1;

/// The trace of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    session: String,
    trace: TraceId,
    /// The span outside that started the session.
    parent: Option<SpanId>,
    flags: u8,
}

impl TraceContext {
    /// The session's id names its trace, unless it was started inside of one.
    pub fn new(session: &str, parent: Option<TraceParent>) -> Self {
        let own = || TraceId(digest(&[b"creel trace", session.as_bytes()]));
        Self {
            session: session.to_owned(),
            trace: parent.map_or_else(own, |parent| parent.trace),
            parent: parent.map(|parent| parent.span),
            flags: parent.map_or(SAMPLED, |parent| parent.flags),
        }
    }

    pub const fn trace(&self) -> TraceId {
        self.trace
    }

    pub const fn parent(&self) -> Option<SpanId> {
        self.parent
    }

    /// Whether the trace is sent. The program that started creel can have decided that it is not.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Two sessions can share a trace, so the id is that of the session's own span.
    pub fn span(&self, work: TracedWork) -> SpanId {
        let (kind, number) = work.named();
        SpanId(digest(&[
            b"creel span",
            self.session.as_bytes(),
            kind.as_bytes(),
            &number.to_be_bytes(),
        ]))
    }

    fn traceparent(&self, work: TracedWork) -> String {
        let (trace, span, flags) = (self.trace, self.span(work), self.flags);
        TraceParent { trace, span, flags }.to_string()
    }
}

/// The beginning of a digest of the parts, which are kept apart.
fn digest<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    let digest = hash.finalize();
    std::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn only_a_valid_parent_counts() {
        let read = |text: &str| TraceParent::read(text).map(|parent| parent.to_string());
        assert_eq!(read(GIVEN).as_deref(), Some(GIVEN));
        assert_eq!(
            read(&GIVEN.replacen("00", "cc", 1).replace("-01", "-01-more")).as_deref(),
            Some(GIVEN)
        );
        for wrong in [
            "",
            "00",
            &GIVEN.to_uppercase(),
            &GIVEN.replacen("00", "ff", 1),
            &format!("{GIVEN}-more"),
            &GIVEN.replace("00f067aa0ba902b7", "0000000000000000"),
            &GIVEN.replace("4bf92f3577b34da6a3ce929d0e0e4736", "+bf9"),
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_session_has_its_own_spans_in_its_own_trace_or_in_that_of_its_parent() {
        let alone = TraceContext::new("a", None);
        let inside = TraceContext::new("a", TraceParent::read(GIVEN));
        assert_eq!(
            inside.trace().to_string(),
            "4bf92f3577b34da6a3ce929d0e0e4736"
        );
        assert_eq!(
            inside.parent().map(|id| id.to_string()).as_deref(),
            Some("00f067aa0ba902b7")
        );
        assert_eq!((alone.parent(), alone.is_sampled()), (None, true));
        assert_ne!(alone.trace(), TraceContext::new("b", None).trace());
        let other = TraceContext::new("b", TraceParent::read(GIVEN));
        let turn = TracedWork::Turn(1);
        assert_eq!(inside.span(turn), alone.span(turn));
        assert_ne!(inside.span(turn), other.span(turn));
        assert_ne!(inside.span(turn), inside.span(TracedWork::Run(1)));
    }

    #[test]
    fn what_the_parent_decided_about_sampling_counts() {
        let unsampled = TraceParent::read(&GIVEN.replace("-01", "-00"));
        let context = TraceContext::new("a", unsampled);
        assert!(!context.is_sampled());
        assert!(context.traceparent(TracedWork::Turn(1)).ends_with("-00"));
    }
}
