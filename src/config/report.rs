//! Collects the messages about one file while it is read.
//!
//! Reading does not stop at the first mistake.

use std::sync::Arc;

use super::{
    diagnostic::{Diagnostic, Severity, SourceFile, SourceSpan},
    node::ConfigNode,
};

/// The maximum number of mistakes in one file. Finding the positions of more would be too slow.
const MOST: usize = 200;

#[derive(Debug)]
pub(super) struct DiagnosticReport {
    pub(super) source: Arc<SourceFile>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Warnings that only `creel check` shows.
    pub(super) advice: Vec<Diagnostic>,
    /// Agents that are named somewhere. They are checked when all agents are known.
    pub(super) mentioned: Vec<(String, SourceSpan)>,
    errors: usize,
}

impl DiagnosticReport {
    pub(super) fn new(source: Arc<SourceFile>) -> Self {
        Self {
            source,
            diagnostics: Vec::new(),
            advice: Vec::new(),
            mentioned: Vec::new(),
            errors: 0,
        }
    }

    pub(super) fn error(&mut self, at: SourceSpan, message: impl Into<String>) {
        self.error_hint(at, message, None);
    }

    pub(super) fn error_hint(
        &mut self,
        at: SourceSpan,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        self.errors += 1;
        if self.errors <= MOST {
            self.diagnostics
                .push(Diagnostic::error(&self.source, at, message).maybe_hint(hint.into()));
        }
    }

    pub(super) fn warning(&mut self, at: SourceSpan, message: impl Into<String>) {
        self.diagnostics
            .push(Diagnostic::warning(&self.source, at, message));
    }

    pub(super) fn advise(&mut self, at: SourceSpan, message: impl Into<String>, hint: &str) {
        self.advice
            .push(Diagnostic::warning(&self.source, at, message).hint(hint));
    }

    /// The position of a byte of a text. If escapes hide it, the whole value.
    pub(super) fn within(&self, node: &ConfigNode, text: &str, index: usize) -> SourceSpan {
        match self.source.slice(node.at).find(text) {
            Some(start) => SourceSpan {
                offset: node.at.offset + start + index,
                len: 1,
            },
            None => node.at,
        }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}
