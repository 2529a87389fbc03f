//! Sums over random sessions are the sums of their reports.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::Value;

use crate::{
    engine::invariants::{a_script, happen, run_out, what_happens},
    reports::schema_check::objections,
    support::{
        screen::records,
        world::{World, random_cases},
    },
};
use creel::{
    engine::{
        event::{Event, TurnEvent},
        time::{TimeSpan, UnixTime},
    },
    journal::Record,
    report::{
        Report, ReportBuilder, Verification,
        stats::{STATS_SCHEMA, SessionFigures, StatsGroup, StatsKey, stats},
    },
};

/// How many sessions one case sums up: 1,000 in all.
const SESSIONS: usize = 20;
const CASES: u32 = 50;
const KEYS: [StatsKey; 6] = [
    StatsKey::Agent,
    StatsKey::Model,
    StatsKey::Type,
    StatsKey::Project,
    StatsKey::User,
    StatsKey::Week,
];

/// What an agent reported for a turn. Hundredths of a cent, so that rounding would show.
fn a_cost() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        1 => Just(None),
        3 => (0_u32..100_000).prop_map(|cost| Some(f64::from(cost) / 10_000.0)),
    ]
}

fn a_session() -> impl Strategy<Value = Vec<Record>> {
    let costs = prop::collection::vec(a_cost(), 7);
    let at = 0_u64..40;
    (a_script(), what_happens(), costs, at, any::<bool>()).prop_map(
        |(script, happenings, costs, days, ends)| {
            let mut world = World::begin(script);
            world.settle();
            for what in happenings {
                world = happen(world, what);
            }
            if ends {
                world = run_out(world);
            }
            let began = UnixTime(1_794_735_000_000).after(TimeSpan(days * 24 * 60 * 60 * 1_000));
            let mut all = records(&world);
            for (n, record) in all.iter_mut().enumerate() {
                record.at = began.after(TimeSpan(n as u64 * 400));
                if let Event::Turn(
                    TurnEvent::Ended { spent, .. } | TurnEvent::Failed { spent, .. },
                ) = &mut record.event
                {
                    spent.cost = costs[n % costs.len()];
                }
            }
            all
        },
    )
}

fn report(records: &[Record]) -> Report {
    let mut builder = ReportBuilder::default();
    for record in records {
        builder.take(record);
    }
    builder.finish().expect("a session has begun")
}

/// Whole hundredths of a cent: sums of floats depend on their order.
#[expect(clippy::cast_possible_truncation, reason = "the amounts are small")]
fn exact(cost: f64) -> i64 {
    (cost * 10_000.0).round() as i64
}

fn is_sum(group: &StatsGroup, reports: &[&Report]) {
    let usages = reports.iter().map(|report| report.usage);
    let cost: f64 = usages.clone().filter_map(|usage| usage.cost).sum();
    if let Some(known) = group.cost {
        assert_eq!(exact(known), exact(cost));
    } else {
        assert_eq!((exact(cost), group.cost_unknown > 0), (0, true));
    }
    let tokens: u64 = usages.clone().filter_map(|usage| usage.tokens).sum();
    assert_eq!(group.tokens.unwrap_or(0), tokens);
    assert_eq!(
        group.working_ms.0,
        usages.map(|usage| usage.working_ms.0).sum::<u64>()
    );
    let stages = reports.iter().flat_map(|report| &report.stages);
    assert_eq!(
        group.retries,
        stages.map(|stage| u64::from(stage.retries)).sum::<u64>()
    );
    let mut outcomes = BTreeMap::new();
    for report in reports {
        let outcome = report
            .outcome
            .outcome
            .map_or("open", |outcome| outcome.name());
        *outcomes.entry(outcome).or_default() += 1;
    }
    assert_eq!(
        (group.sessions, &group.outcomes),
        (reports.len(), &outcomes)
    );
    let verified = reports
        .iter()
        .filter(|report| report.outcome.verification == Verification::Verified)
        .count();
    assert_eq!(group.verified, verified);
    let count = f64::from(u32::try_from(verified).expect("few sessions"));
    let per = group.cost.filter(|_| verified > 0).map(|cost| cost / count);
    assert_eq!(group.cost_per_verified.map(exact), per.map(exact));
}

proptest! {
    #![proptest_config(random_cases(CASES))]

    #[test]
    fn every_sum_is_that_of_the_reports(sessions in prop::collection::vec(a_session(), SESSIONS)) {
        let reports: Vec<Report> = sessions.iter().map(|records| report(records)).collect();
        let projects = ["a", "b", "c"];
        let placed: Vec<(&Report, &str)> = reports
            .iter()
            .enumerate()
            .map(|(n, report)| (report, projects[n % projects.len()]))
            .collect();
        let figures: Vec<SessionFigures> = placed
            .iter()
            .map(|(report, project)| SessionFigures::of(report, project))
            .collect();
        let schema: Value = serde_json::from_str(STATS_SCHEMA).expect("JSON");
        let all: Vec<&Report> = reports.iter().collect();
        for key in KEYS {
            let sums = stats(&figures, key, &TimeZone::UTC);
            is_sum(&sums.total, &all);
            let json = serde_json::to_value(&sums).expect("JSON");
            prop_assert_eq!(objections(&schema, &json), [""; 0]);
            let sessions: usize = sums.groups.iter().map(|group| group.sessions).sum();
            prop_assert_eq!(sessions, reports.len());
            let cost = |group: &StatsGroup| exact(group.cost.unwrap_or(0.0));
            prop_assert_eq!(sums.groups.iter().map(cost).sum::<i64>(), cost(&sums.total));
            for check in &sums.checks {
                let known = reports.iter().flat_map(|report| &report.checks);
                let own = known.filter(|known| known.name == check.name && known.kind == check.kind);
                let runs: Vec<_> = own.flat_map(|known| &known.runs).collect();
                prop_assert_eq!(check.runs, runs.len());
                prop_assert_eq!(check.took_ms.0, runs.iter().map(|run| run.took_ms.0).sum::<u64>());
            }
        }
        let by_project = stats(&figures, StatsKey::Project, &TimeZone::UTC);
        for group in &by_project.groups {
            let own = placed.iter().filter(|(_, project)| Some(*project) == group.name.as_deref());
            let own: Vec<&Report> = own.map(|(report, _)| *report).collect();
            is_sum(group, &own);
        }
    }
}

/// A session that sent no prompt costs nothing; one whose agent reports no cost costs an unknown
/// amount.
#[test]
fn what_is_not_known_is_never_zero() {
    let began = |events: &[Value]| {
        let journal = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/journals/0.1.0/retry_gates.jsonl");
        let text = std::fs::read_to_string(journal).expect("a journal");
        let first = Record::from_line(text.lines().next().expect("a line")).expect("a record");
        let mut builder = ReportBuilder::default();
        builder.take(&first);
        for (n, event) in events.iter().enumerate() {
            let mut line = event.clone();
            for (key, value) in [
                ("v", Value::from(1)),
                ("seq", (n + 2).into()),
                ("at", "2026-11-16T18:00:00Z".into()),
                ("session", "s".into()),
                ("iteration", 1.into()),
                ("turn", 1.into()),
            ] {
                line[key] = value;
            }
            builder.take(&Record::from_line(&line.to_string()).expect("a record"));
        }
        SessionFigures::of(&builder.finish().expect("a session"), "p")
    };
    let sent = serde_json::json!({
        "kind": "prompt_sent", "reason": "iteration", "text": "p", "items": [], "conversation": "new"
    });
    let ended = serde_json::json!({ "kind": "turn_ended", "stop_reason": "end_turn" });
    let mut paid = ended.clone();
    paid["cost"] = 0.25.into();
    let sum = |sessions: &[SessionFigures]| {
        let total = stats(sessions, StatsKey::Agent, &TimeZone::UTC).total;
        (total.cost, total.cost_unknown)
    };
    let nothing = began(&[]);
    let unknown = began(&[sent.clone(), ended]);
    let open = began(std::slice::from_ref(&sent));
    let known = began(&[sent, paid]);
    assert_eq!(sum(std::slice::from_ref(&nothing)), (Some(0.0), 0));
    assert_eq!(sum(std::slice::from_ref(&unknown)), (None, 1));
    assert_eq!(sum(&[open.clone(), nothing]), (None, 1));
    assert_eq!(sum(&[unknown, known, open]), (Some(0.25), 2));
}
