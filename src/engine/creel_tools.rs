//! The names of creel's own MCP tools and of their arguments, by which creel recognizes a request
//! for one of them.

/// A tool of creel's MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreelTool {
    pub name: &'static str,
    /// The names of all its arguments.
    pub arguments: &'static [&'static str],
}

const EVALUATED: [&str; 6] = [
    "iterationId",
    "agentOutput",
    "filesModified",
    "draftContent",
    "draftType",
    "checkpointData",
];

/// The tools of creel's MCP server. A test compares this list with the server.
pub const TOOLS: [CreelTool; 17] = [
    CreelTool {
        name: "hook_register",
        arguments: &["taskId", "hookType", "metadata"],
    },
    CreelTool {
        name: "hook_evaluate",
        arguments: &EVALUATED,
    },
    CreelTool {
        name: "hook_list",
        arguments: &["taskId"],
    },
    CreelTool {
        name: "hook_clear",
        arguments: &["taskId"],
    },
    CreelTool {
        name: "iteration_start",
        arguments: &["taskId", "maxIterations", "completionPromises"],
    },
    CreelTool {
        name: "iteration_validate",
        arguments: &EVALUATED,
    },
    CreelTool {
        name: "iteration_next",
        arguments: &["iterationId", "checkpointData"],
    },
    CreelTool {
        name: "iteration_complete",
        arguments: &["iterationId", "completionPromise"],
    },
    CreelTool {
        name: "task_add",
        arguments: &[
            "goal",
            "taskId",
            "deliverables",
            "labels",
            "priority",
            "type",
            "parentId",
            "dependsOn",
            "queue",
            "agents",
        ],
    },
    CreelTool {
        name: "task_list",
        arguments: &["state", "labels", "type"],
    },
    CreelTool {
        name: "task_get",
        arguments: &["taskId"],
    },
    CreelTool {
        name: "task_start",
        arguments: &["taskId", "context"],
    },
    CreelTool {
        name: "task_complete",
        arguments: &["taskId", "result", "artifacts"],
    },
    CreelTool {
        name: "task_block",
        arguments: &["taskId", "reason", "requiredKnowledge"],
    },
    CreelTool {
        name: "task_depend",
        arguments: &["taskId", "dependsOn", "remove"],
    },
    CreelTool {
        name: "session_status",
        arguments: &[],
    },
    CreelTool {
        name: "session_complete",
        arguments: &["reason"],
    },
];
