//! `creel submit`: submits the work of a session, or of the folder as it is.

use crate::{
    cli::{
        error::CliResult,
        launch::pipeline::{PipelineArgs, pipeline},
        verb_outcome::VerbOutcome,
    },
    engine::submit::kind::PipelineKind,
};

pub(super) fn submit(args: &PipelineArgs) -> CliResult<VerbOutcome> {
    pipeline(PipelineKind::Submit, args)
}
