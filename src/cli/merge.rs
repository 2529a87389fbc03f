//! `creel merge`: merges the work, when every check before that has passed.

use crate::{
    cli::{
        error::CliResult,
        launch::pipeline::{PipelineArgs, pipeline},
        verb_outcome::VerbOutcome,
    },
    engine::submit::kind::PipelineKind,
};

pub(super) fn merge(args: &PipelineArgs) -> CliResult<VerbOutcome> {
    pipeline(PipelineKind::Merge, args)
}
