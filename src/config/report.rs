//! The messages about one file, while it is being read.
//!
//! Owns collecting: nothing stops at the first mistake. Does not know what a mistake is.

use std::sync::Arc;

use super::{
    diagnostic::{Diagnostic, Severity, SourceFile, SourceSpan},
    node::ConfigNode,
};

/// More mistakes than this in one file are not worth the time to find their places.
const MOST: usize = 200;

/// The messages about one file.
#[derive(Debug)]
pub(super) struct DiagnosticReport {
    pub(super) source: Arc<SourceFile>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Agents that are named somewhere, to be checked when all are known.
    pub(super) mentioned: Vec<(String, SourceSpan)>,
    errors: usize,
}

impl DiagnosticReport {
    pub(super) fn new(source: Arc<SourceFile>) -> Self {
        Self { source, diagnostics: Vec::new(), mentioned: Vec::new(), errors: 0 }
    }

    pub(super) fn error(&mut self, at: SourceSpan, message: impl Into<String>) {
        self.error_hint(at, message, None);
    }

    pub(super) fn error_hint(&mut self, at: SourceSpan, message: impl Into<String>, hint: impl Into<Option<String>>) {
        self.errors += 1;
        if self.errors <= MOST {
            self.diagnostics.push(Diagnostic::error(&self.source, at, message).maybe_hint(hint.into()));
        }
    }

    pub(super) fn warning(&mut self, at: SourceSpan, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning(&self.source, at, message));
    }

    /// Where a byte of a text is written; where escapes hide it, the whole text.
    pub(super) fn within(&self, node: &ConfigNode, text: &str, index: usize) -> SourceSpan {
        match self.source.slice(node.at).find(text) {
            Some(start) => SourceSpan { offset: node.at.offset + start + index, len: 1 },
            None => node.at,
        }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}
