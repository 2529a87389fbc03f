//! The keys of agents, in a config and in the table of known agents.

use super::{DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, hooks::HOOKS};

const ACP: FieldShape = FieldShape {
    name: "acp",
    doc: "A program that speaks the Agent Client Protocol.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const COMMAND: FieldShape = FieldShape {
    name: "command",
    doc: "One process per turn: the prompt on standard input or in place of `{{prompt}}`, the answer on standard \
          output.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const CONTINUE_COMMAND: FieldShape = FieldShape {
    name: "continue_command",
    doc: "The command for later turns of a conversation, if it differs; `{{conversation}}` is the agent's id of the \
          conversation.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const MODE: FieldShape = FieldShape {
    name: "mode",
    doc: "The agent's mode, as the agent names it. Default: the agent decides.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const SERVICE: ValueType = ValueType::OneOf(&["serve", "decline"]);
const FILES: FieldShape = FieldShape {
    name: "files",
    doc: "Whether creel reads and writes the project's files for an ACP agent that asks for it.",
    ty: SERVICE,
    default: DefaultValue::Text("serve"),
};
const TERMINALS: FieldShape = FieldShape {
    name: "terminals",
    doc: "Whether creel runs commands for an ACP agent that asks for it.",
    ty: SERVICE,
    default: DefaultValue::Text("serve"),
};
const FORMAT: FieldShape = FieldShape {
    name: "format",
    doc: "The output format of `command`: plain text, or the JSON lines of one of these agents.",
    ty: ValueType::OneOf(&["text", "claude", "codex", "gemini", "opencode"]),
    default: DefaultValue::Text("text"),
};
const TTY: FieldShape = FieldShape {
    name: "tty",
    doc: "Whether `command` gets its own terminal.",
    ty: ValueType::Bool,
    default: DefaultValue::Bool(false),
};
const ERROR_PATTERN: FieldShape = FieldShape {
    name: "error_pattern",
    doc: "A regular expression (`^` matches at every line). An answer that ends with such an error, outside code \
          blocks and quotations, is a failed turn, whatever the exit code.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const LIMIT_PATTERN: FieldShape = FieldShape {
    name: "limit_pattern",
    doc: "A regular expression (`^` matches at every line). An error or answer that matches means that the agent \
          reached a usage limit, in addition to the words that creel knows.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const USAGE: FieldShape = FieldShape {
    name: "usage",
    doc: "What the token counts cover that the agent reports at the end of a turn. Default: the turn.",
    ty: ValueType::OneOf(&["turn", "conversation"]),
    default: DefaultValue::Absent,
};
const MCP: FieldShape = FieldShape {
    name: "mcp",
    doc: "Whether the agent gets the session's tools: as an MCP server with `acp`, in `CREEL_MCP` with `command`.",
    ty: ValueType::Bool,
    default: DefaultValue::Bool(true),
};
const LIST_TOOLS: FieldShape = FieldShape {
    name: "list_tools",
    doc: "Whether the completion note lists the names of the session's tools, for agents that do not show all tools to \
          their model.",
    ty: ValueType::Bool,
    default: DefaultValue::Bool(false),
};
const TOOLS: FieldShape = FieldShape {
    name: "tools",
    doc: "Options that pass the session's tools to the agent. creel appends them to its commands (text that begins \
          with NAME= goes in front). `{{mcp_command}}`, `{{mcp_args}}` and `{{mcp_list}}` are JSON, `{{mcp_line}}` is \
          a command line. `none`: the agent does not accept them.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const INSTALL: FieldShape = FieldShape {
    name: "install",
    doc: "How to install it, in one line.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};
const LOGIN: FieldShape = FieldShape {
    name: "login",
    doc: "How to log in, in one line.",
    ty: ValueType::SomeText,
    default: DefaultValue::Absent,
};

/// Exactly one of `acp`, `command` and `script` is required.
pub static AGENT: MapShape = MapShape {
    name: "agent",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        ACP,
        COMMAND,
        CONTINUE_COMMAND,
        FieldShape {
            name: "script",
            doc: "A file of turns that replaces the agent, relative to this file.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        MODE,
        FILES,
        TERMINALS,
        FORMAT,
        TTY,
        ERROR_PATTERN,
        LIMIT_PATTERN,
        USAGE,
        MCP,
        LIST_TOOLS,
        TOOLS,
        INSTALL,
        LOGIN,
        FieldShape {
            name: "hooks",
            doc: "Replaces the hooks of a point when this agent works.",
            ty: ValueType::Object(&HOOKS),
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "prompt_file",
            doc: "A file with instructions for reviews by this agent, relative to this file.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
    ],
};

/// The facts apply to all launch methods, unless one overrides them.
pub static KNOWN_AGENT: MapShape = MapShape {
    name: "known_agent",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "title",
            doc: "The display name. Default: the name.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        INSTALL,
        LOGIN,
        ERROR_PATTERN,
        LIMIT_PATTERN,
        USAGE,
        MCP,
        LIST_TOOLS,
        TOOLS,
        FieldShape {
            name: "ways",
            doc: "The ways to run it. creel uses the first one whose program is installed.",
            ty: ValueType::List(&ValueType::Object(&WAY)),
            default: DefaultValue::Absent,
        },
    ],
};

/// Either `acp` or `command`.
pub static WAY: MapShape = MapShape {
    name: "way",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        ACP,
        COMMAND,
        CONTINUE_COMMAND,
        MODE,
        FILES,
        TERMINALS,
        FORMAT,
        TTY,
        ERROR_PATTERN,
        LIMIT_PATTERN,
        USAGE,
        MCP,
        LIST_TOOLS,
        TOOLS,
        INSTALL,
        LOGIN,
        FieldShape {
            name: "program",
            doc: "The program that must be installed. Default: the first word of the command.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "version",
            doc: "The arguments that print the program's version. Empty: it has none.",
            ty: ValueType::Text,
            default: DefaultValue::Text("--version"),
        },
    ],
};
