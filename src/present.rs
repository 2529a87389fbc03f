//! The wording of everything that happens in a session, for lines, screens and reports.
//!
//! Owns texts, tables and styles. Decides nothing, and uses only the values that it is given.

pub mod describe;
pub mod end_card;
pub mod gate_words;
pub mod hook_stats;
pub mod iteration_line;
pub mod policies;
pub mod refusals;
pub mod session_chip;
pub mod session_hint;
pub mod session_list;
pub mod style;
pub mod tables;
pub mod task_view;
pub mod text;
pub mod tool_calls;
pub mod usage;
