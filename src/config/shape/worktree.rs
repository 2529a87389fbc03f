//! The keys of `worktree`.

use super::{AlternativeMatch, DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType};
use crate::engine::policy::WORKTREE_BRANCH;

/// Either a boolean, or all options.
pub const WORKTREE_KEY: ValueType = ValueType::Either(&[
    (AlternativeMatch::Bool, ValueType::Bool),
    (AlternativeMatch::Map, ValueType::Object(&WORKTREE)),
]);

pub static WORKTREE: MapShape = MapShape {
    name: "worktree",
    noun: "key",
    keys: KeyPolicy::Known,
    fields: &[
        FieldShape {
            name: "base",
            doc: "The branch to start from; creel fetches it first. `HEAD`: your current commit, without fetching. \
                  Default: the remote's default branch; without a remote, your current commit.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "folder",
            doc: "The folder of the worktrees, relative to the project. Default: `.creel/worktrees`.",
            ty: ValueType::SomeText,
            default: DefaultValue::Absent,
        },
        FieldShape {
            name: "branch",
            doc: "The name of the branch. It must contain `{{session}}`, which is the name of the worktree.",
            ty: ValueType::SomeText,
            default: DefaultValue::Text(WORKTREE_BRANCH),
        },
        FieldShape {
            name: "setup",
            doc: "Commands that prepare a new worktree, such as `npm ci`. If one fails, creel asks you.",
            ty: ValueType::List(&ValueType::SomeText),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "copy",
            doc: "Ignored files and folders that a new worktree needs too, such as `.env`, relative to the project.",
            ty: ValueType::List(&ValueType::SomeText),
            default: DefaultValue::Names(&[]),
        },
        FieldShape {
            name: "keep",
            doc: "When the folder stays after the session. One with uncommitted changes always stays, and so does the \
                  branch.",
            ty: ValueType::OneOf(&["always", "on_failure", "never"]),
            default: DefaultValue::Text("on_failure"),
        },
    ],
};
