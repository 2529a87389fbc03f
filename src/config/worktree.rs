//! `worktree`: sessions in a git worktree of their own.

use super::{
    fields::ConfigFields,
    hooks,
    keys::WORKTREE,
    node::{ConfigNode, NodeKind},
    report::DiagnosticReport,
};
use crate::engine::{hooks::point::HookPoint, policy::WorktreePlan};

pub(super) fn worktree(
    report: &mut DiagnosticReport,
    root: &ConfigFields<'_>,
) -> Option<WorktreePlan> {
    let node = root.given("worktree")?;
    match node.kind {
        NodeKind::Bool(true) => return Some(WorktreePlan::default()),
        NodeKind::Map(_) => {}
        // Anything else is `false`, or was reported.
        NodeKind::Null
        | NodeKind::Bool(false)
        | NodeKind::Int(_)
        | NodeKind::Float(_)
        | NodeKind::Text(_)
        | NodeKind::List(_) => return None,
    }
    let fields = root.below("worktree", &WORKTREE);
    let branch = fields.some_text("branch").unwrap_or_default();
    if let Some(given) = fields
        .given("branch")
        .filter(|_| !branch.contains("{{session}}"))
    {
        let hint = "for example `creel/{{session}}`".to_owned();
        report.error_hint(
            given.at,
            "each session needs a branch of its own: write `{{session}}` in the name",
            hint,
        );
    }
    for given in fields.given("copy").into_iter().flat_map(ConfigNode::items) {
        let leaves = given
            .text()
            .is_some_and(|path| path.starts_with('/') || path.split('/').any(|part| part == ".."));
        if leaves {
            let hint = "name a file in the project, such as `.env`".to_owned();
            report.error_hint(given.at, "creel copies only files of the project", hint);
        }
    }
    for given in fields
        .given("setup")
        .into_iter()
        .flat_map(ConfigNode::items)
    {
        let command = given.text().unwrap_or_default();
        hooks::check_template(report, HookPoint::SessionStart, command, given.at);
    }
    Some(WorktreePlan {
        base: fields.some_text("base"),
        folder: fields.some_text("folder"),
        branch,
        setup: texts(&fields, "setup"),
        copy: texts(&fields, "copy"),
        keep: fields.one_of("keep"),
    })
}

fn texts(fields: &ConfigFields<'_>, name: &str) -> Vec<String> {
    let items = fields.given(name).into_iter().flat_map(ConfigNode::items);
    items
        .filter_map(ConfigNode::text)
        .map(str::to_owned)
        .collect()
}
