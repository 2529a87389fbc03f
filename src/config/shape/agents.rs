//! The keys of agents: those of a config, and those of the table of known ones.

use super::{Default, Field, Keys, Shape, Type, hooks::HOOKS};

const ACP: Field = Field {
    name: "acp",
    doc: "A program that speaks the Agent Client Protocol.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const COMMAND: Field = Field {
    name: "command",
    doc: "One process a turn: the prompt on standard input or for `{{prompt}}`, the answer on standard output.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const CONTINUE_COMMAND: Field = Field {
    name: "continue_command",
    doc: "The command of a conversation's later turns, if it differs; `{{conversation}}` is what the agent calls it.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const MODE: Field = Field {
    name: "mode",
    doc: "The mode in which an ACP agent works, by its own name for it; by default as it likes.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const SERVICE: Type = Type::OneOf(&["serve", "decline"]);
const FILES: Field = Field {
    name: "files",
    doc: "Whether creel reads and writes the project's files for an ACP agent that asks for it.",
    ty: SERVICE,
    default: Default::Text("serve"),
};
const TERMINALS: Field = Field {
    name: "terminals",
    doc: "Whether creel runs commands for an ACP agent that asks for it.",
    ty: SERVICE,
    default: Default::Text("serve"),
};
const FORMAT: Field = Field {
    name: "format",
    doc: "What the output of `command` looks like: plain text, or the JSON lines of one of these agents.",
    ty: Type::OneOf(&["text", "claude", "codex", "gemini", "opencode"]),
    default: Default::Text("text"),
};
const TTY: Field = Field {
    name: "tty",
    doc: "Whether `command` gets a terminal of its own.",
    ty: Type::Bool,
    default: Default::Bool(false),
};
const ERROR_PATTERN: Field = Field {
    name: "error_pattern",
    doc: "A regular expression (`^` matches at every line): an answer that ends with such an error, outside of code blocks and quotations, is a failed turn, whatever the exit code says.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const LIMIT_PATTERN: Field = Field {
    name: "limit_pattern",
    doc: "A regular expression (`^` matches at every line): an error or an answer with such words means that a usage limit was reached, beside the words that creel knows.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const USAGE: Field = Field {
    name: "usage",
    doc: "What the tokens are about that an agent reports with the end of a turn; by default the turn.",
    ty: Type::OneOf(&["turn", "conversation"]),
    default: Default::Absent,
};
const MCP: Field = Field {
    name: "mcp",
    doc: "Whether it is given the session's tools: as an MCP server with `acp`, in `CREEL_MCP` with `command`.",
    ty: Type::Bool,
    default: Default::Bool(true),
};
const LIST_TOOLS: Field = Field {
    name: "list_tools",
    doc: "Whether the completion note lists the names of the session's tools: for agents that do not show all tools to their model.",
    ty: Type::Bool,
    default: Default::Bool(false),
};
const TOOLS: Field = Field {
    name: "tools",
    doc: "Options that pass the session's tools to the agent, added to its command lines (a text that begins with NAME= goes in front): `{{mcp_command}}`, `{{mcp_args}}` and `{{mcp_list}}` are JSON, `{{mcp_line}}` is a command line. `none`: the agent does not accept them.",
    ty: Type::SomeText,
    default: Default::Absent,
};
const INSTALL: Field =
    Field { name: "install", doc: "How to install it, in one line.", ty: Type::SomeText, default: Default::Absent };
const LOGIN: Field =
    Field { name: "login", doc: "How to log in, in one line.", ty: Type::SomeText, default: Default::Absent };

/// How to run an agent: one of `acp`, `command` and `script`.
pub static AGENT: Shape = Shape {
    name: "agent",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        ACP,
        COMMAND,
        CONTINUE_COMMAND,
        Field {
            name: "script",
            doc: "A file of turns that plays the agent, relative to this one.",
            ty: Type::SomeText,
            default: Default::Absent,
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
        Field {
            name: "hooks",
            doc: "Replaces the hooks of a point wherever this agent works.",
            ty: Type::Object(&HOOKS),
            default: Default::Absent,
        },
        Field {
            name: "prompt_file",
            doc: "A file that says what this agent looks at when it reviews, relative to this one.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
    ],
};

/// What is known of an agent. The facts hold for all its ways, unless one says otherwise.
pub static KNOWN_AGENT: Shape = Shape {
    name: "known_agent",
    noun: "key",
    keys: Keys::Known,
    fields: &[
        Field {
            name: "title",
            doc: "What people call it; by default its name.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        INSTALL,
        LOGIN,
        ERROR_PATTERN,
        LIMIT_PATTERN,
        USAGE,
        MCP,
        LIST_TOOLS,
        TOOLS,
        Field {
            name: "ways",
            doc: "The ways to run it; the first one whose program is installed is taken.",
            ty: Type::List(&Type::Object(&WAY)),
            default: Default::Absent,
        },
    ],
};

/// One way to run a known agent: `acp` or `command`.
pub static WAY: Shape = Shape {
    name: "way",
    noun: "key",
    keys: Keys::Known,
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
        Field {
            name: "program",
            doc: "The program that has to be installed; by default the first word of the command.",
            ty: Type::SomeText,
            default: Default::Absent,
        },
        Field {
            name: "version",
            doc: "The arguments with which the program tells its version; empty if it does not.",
            ty: Type::Text,
            default: Default::Text("--version"),
        },
    ],
};
