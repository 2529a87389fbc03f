//! Translates the output of Gemini CLI: `gemini --output-format stream-json`.
//!
//! The stream has text in chunks, tool calls with their results, and a `result` at the end. It
//! contains no thoughts and no costs.

use serde_json::Value;

use super::ToolCallEnd;
use super::{StreamEnd, StreamOutcome, StreamTranslator, TranslatedOutput, text, tools};
use crate::engine::conversation::{StopReason, ToolStatus};

#[derive(Default)]
pub(in crate::agents::command) struct GeminiTranslator {
    end: StreamEnd,
}

impl GeminiTranslator {
    fn message(line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        // Gemini repeats the prompt, which is not part of the answer.
        if text(line, "/role")? == "assistant" {
            let words = text(line, "/content")?;
            if line["delta"] == true {
                updates.say(words);
            } else {
                updates.message(words);
            }
        }
        Some(())
    }

    fn error(&mut self, line: &Value, updates: &mut TranslatedOutput) {
        let words = text(line, "/message").unwrap_or("it gave no reason");
        match text(line, "/severity") {
            Some("error") => self.end.complaint = Some(words.to_owned()),
            _ => updates.quote(words),
        }
    }

    fn result(&mut self, line: &Value) {
        let failed = text(line, "/status") == Some("error");
        self.end.verdict = if failed {
            let words = text(line, "/error/message")
                .or(self.end.complaint.as_deref())
                .unwrap_or("it gave no reason");
            StreamOutcome::Failed(words.to_owned())
        } else {
            StreamOutcome::Ended(StopReason::EndTurn)
        };
        self.end.spent.tokens = line.pointer("/stats/total_tokens").and_then(Value::as_u64);
    }
}

impl StreamTranslator for GeminiTranslator {
    fn line(&mut self, line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        match text(line, "/type")? {
            "init" => updates.opened(text(line, "/session_id")?),
            "message" => Self::message(line, updates)?,
            "tool_use" => {
                let input = &line["parameters"];
                updates.began(tools::call(
                    text(line, "/tool_id")?,
                    text(line, "/tool_name")?,
                    input,
                ));
                if let Some(plan) = tools::plan(input) {
                    updates.planned(plan);
                }
            }
            "tool_result" => {
                let failed = text(line, "/status") == Some("error");
                let status = if failed {
                    ToolStatus::Failed
                } else {
                    ToolStatus::Completed
                };
                let output = text(line, "/output")
                    .or_else(|| text(line, "/error/message"))
                    .map(str::to_owned);
                updates.ended(
                    text(line, "/tool_id")?,
                    ToolCallEnd {
                        status,
                        output,
                        diff: None,
                    },
                );
            }
            "error" => self.error(line, updates),
            "result" => self.result(line),
            _ => return None,
        }
        Some(())
    }

    fn end(self: Box<Self>) -> StreamEnd {
        self.end
    }
}
