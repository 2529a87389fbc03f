//! Which rule under `permissions:` applies to a request.
//!
//! # Invariants
//! - A rule that allows applies only if it covers every file of the request, however the agent
//!   spells them.

use crate::engine::{
    conversation::{ToolCall, ToolKind},
    policy::{PermissionPolicy, PermissionRule},
};

pub(crate) fn first_that_fits(
    rules: &[PermissionRule],
    cwd: &str,
    tool: &ToolCall,
) -> Option<PermissionPolicy> {
    rules
        .iter()
        .find(|rule| fits(rule, cwd, tool))
        .map(|rule| rule.action)
}

/// A rule that denies matches if one of the files does; any other rule only if there are files and
/// all of them match.
fn fits(rule: &PermissionRule, cwd: &str, tool: &ToolCall) -> bool {
    let kind = tool.kind.unwrap_or(ToolKind::Other);
    if !rule.kinds.is_empty() && !rule.kinds.contains(&kind) {
        return false;
    }
    if rule.paths.is_empty() {
        return true;
    }
    let mut files = tool
        .locations
        .iter()
        .map(|location| within(cwd, &location.path));
    let named = |file: String| {
        rule.paths
            .iter()
            .any(|pattern| fast_glob::glob_match(pattern, &file))
    };
    match rule.action {
        PermissionPolicy::Deny => files.any(named),
        PermissionPolicy::Allow | PermissionPolicy::Ask => {
            !tool.locations.is_empty() && files.all(named)
        }
    }
}

/// A file's path relative to the project, without `.` and `..`; a file outside keeps its whole
/// path.
pub(crate) fn within(cwd: &str, file: &str) -> String {
    let whole = if file.starts_with('/') {
        file.to_owned()
    } else {
        format!("{cwd}/{file}")
    };
    let plain = straight(&whole);
    let root = straight(cwd);
    match plain
        .strip_prefix(&root)
        .and_then(|rest| rest.strip_prefix('/'))
    {
        Some(rest) => rest.to_owned(),
        None => plain,
    }
}

fn straight(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::conversation::FileLocation;

    fn tool(kind: ToolKind, files: &[&str]) -> ToolCall {
        let locations = files
            .iter()
            .map(|path| FileLocation {
                path: (*path).to_owned(),
                line: None,
            })
            .collect();
        ToolCall {
            kind: Some(kind),
            locations,
            ..ToolCall::default()
        }
    }

    fn rule(kinds: &[ToolKind], paths: &[&str], action: PermissionPolicy) -> PermissionRule {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        PermissionRule {
            kinds: kinds.to_vec(),
            paths,
            action,
        }
    }

    #[test]
    fn a_rule_fits_by_kind_and_by_file_however_the_file_is_spelled() {
        let sources = rule(&[ToolKind::Edit], &["src/**"], PermissionPolicy::Allow);
        let fits = |files: &[&str]| fits(&sources, "/project", &tool(ToolKind::Edit, files));
        assert!(fits(&["/project/src/main.rs"]));
        assert!(fits(&["src/a/b.rs", "/project/./src/c.rs"]));
        assert!(!fits(&["/project/src/../Cargo.toml"]));
        assert!(!fits(&["src/../../elsewhere/src/main.rs"]));
        assert!(!fits(&["/project-2/src/main.rs"]));
        assert!(
            !fits(&["src/main.rs", "/etc/passwd"]),
            "all files must fit to be allowed"
        );
        assert!(!fits(&[]), "no file is named");
        assert!(!super::fits(
            &sources,
            "/project",
            &tool(ToolKind::Read, &["src/main.rs"])
        ));
    }

    #[test]
    fn one_file_is_enough_to_be_denied() {
        let secrets = rule(&[], &["**/.env", ".env"], PermissionPolicy::Deny);
        let fits = |files: &[&str]| fits(&secrets, "/project", &tool(ToolKind::Read, files));
        assert!(fits(&["src/main.rs", "/project/.env"]));
        assert!(fits(&["deploy/.env"]));
        assert!(!fits(&["src/main.rs"]));
    }
}
