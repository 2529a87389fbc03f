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
        SessionState,
        budget::CostTotal,
        conversation::{TokenKinds, TurnUsage},
        event::{Event, SessionEvent, TurnEvent},
        queue::TaskSpending,
        time::{TimeSpan, UnixTime},
    },
    journal::Record,
    present::{
        describe::{EventContext, describe},
        end_card::EndTally,
        hook_stats::HookTallies,
        session_chip::SessionTimes,
        session_list::ListedSession,
        usage,
    },
    protocol::view::StatusView,
    report::{
        MARKDOWN_LIMIT, MarkdownPart, Report, ReportBuilder, Verification, html, markdown,
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

/// What a turn used: with a reported, an estimated or an unknown cost. Hundredths of a cent, so that
/// rounding would show.
fn a_usage() -> impl Strategy<Value = TurnUsage> {
    let amount = || (0_u32..100_000).prop_map(|cost| f64::from(cost) / 10_000.0);
    let tokens = prop::option::of(0_u64..100_000);
    let kinds = prop::option::of((0_u64..1_000, 0_u64..1_000));
    let cost = prop_oneof![
        2 => Just((None, None)),
        3 => amount().prop_map(|cost| (Some(cost), None)),
        3 => amount().prop_map(|cost| (None, Some(cost))),
    ];
    (tokens, kinds, cost).prop_map(|(tokens, kinds, (cost, cost_estimated))| TurnUsage {
        tokens,
        cost,
        token_kinds: kinds.map(|(input, output)| TokenKinds {
            input,
            output,
            ..TokenKinds::default()
        }),
        cost_estimated,
    })
}

fn a_session() -> impl Strategy<Value = Vec<Record>> {
    let usages = prop::collection::vec(a_usage(), 7);
    let at = 0_u64..40;
    (a_script(), what_happens(), usages, at, any::<bool>()).prop_map(
        |(script, happenings, usages, days, ends)| {
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
                    *spent = usages[n % usages.len()];
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

/// What the records say, added up without creel's own sums.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct RecordedCost {
    known: i64,
    estimated: i64,
    turns: usize,
    unknown: usize,
    tokens: u64,
}

impl RecordedCost {
    fn of(records: &[Record]) -> Self {
        let mut sum = Self::default();
        for record in records {
            let line = serde_json::to_value(record).expect("JSON");
            if line["kind"] != "turn_ended" && line["kind"] != "turn_failed" {
                continue;
            }
            let amount = |key: &str| line[key].as_f64().map(exact);
            let estimated = amount("cost_estimated").unwrap_or(0);
            sum.turns += 1;
            sum.known += amount("cost").unwrap_or(estimated);
            sum.estimated += estimated;
            let is_unknown = line["cost"].is_null() && line["cost_estimated"].is_null();
            sum.unknown += usize::from(is_unknown);
            sum.tokens += line["tokens"].as_u64().unwrap_or(0);
        }
        sum
    }

    fn of_total(total: CostTotal, tokens: u64) -> Self {
        let count = |turns: u32| usize::try_from(turns).expect("few turns");
        Self {
            known: exact(total.known),
            estimated: exact(total.estimated),
            turns: count(total.turns),
            unknown: count(total.unknown_turns),
            tokens,
        }
    }
}

/// Every surface has the cost that the records have.
fn is_shown_everywhere(records: &[Record], report: &Report) {
    let recorded = RecordedCost::of(records);
    let (mut state, mut context, mut tally) = (None, EventContext::default(), EndTally::default());
    let mut last_line = None;
    for record in records {
        match (&mut state, &record.event) {
            (None, Event::Session(SessionEvent::Started(began))) => {
                let began = (**began).clone();
                state = Some(SessionState::new(&record.session, began, record.at));
            }
            (Some(state), event) => state.apply(record.at, event),
            (None, _) => panic!("a journal begins with its session"),
        }
        match &record.event {
            Event::Session(SessionEvent::Ended { .. }) => {
                last_line = describe(&record.event, &context).map(|line| line.text);
            }
            // It was resumed after that end.
            Event::Turn(TurnEvent::Ended { .. } | TurnEvent::Failed { .. }) => last_line = None,
            _ => {}
        }
        context.follow(&record.event);
        tally.take(record.at, &record.event);
    }
    let state = state.expect("a session");
    let used = state.account.used;
    assert_eq!(RecordedCost::of_total(used.cost, used.tokens), recorded);

    // The report, as a whole and by turn.
    let usage = report.usage;
    let known = (recorded.unknown < recorded.turns).then_some(recorded.known);
    assert_eq!(usage.cost.map(exact), known);
    assert_eq!(usage.cost_estimated.map_or(0, exact), recorded.estimated);
    let gaps = (usage.turns, usage.turns_without_cost);
    assert_eq!(gaps, (recorded.turns, recorded.unknown));
    let turns = report.stages.iter().flat_map(|stage| &stage.turns);
    let of_turns: i64 = turns.filter_map(|turn| turn.cost).map(exact).sum();
    assert_eq!(of_turns, recorded.known);

    // Lists, `status`, and the queue.
    let listed = ListedSession::unread("s", "/p", UnixTime(0));
    let listed = listed.with_state(&state, &SessionTimes::default(), false);
    assert_eq!(RecordedCost::of_total(listed.cost, used.tokens), recorded);
    let status = StatusView::of(&state, 1);
    assert_eq!(
        (exact(status.cost), exact(status.cost_estimated)),
        (recorded.known, recorded.estimated)
    );
    let spent = TaskSpending::of(&state);
    assert_eq!(spent.cost.map(exact), known);
    assert_eq!(spent.cost_estimated.map_or(0, exact), recorded.estimated);

    // The words of the end.
    let words = usage::suffix(used);
    if let Some(line) = last_line {
        assert!(line.contains(&words), "{line} has no {words}");
    }
    if let Some(card) = tally.card(&state, &HookTallies::default()) {
        let fact = card.facts.iter().find(|(name, _)| *name == "used");
        let fact = fact.map(|(_, fact)| format!(" · {fact}"));
        assert_eq!(fact.unwrap_or_default(), words);
    }
    if recorded.known >= 100 {
        let dollars = usage::money(used.cost.known);
        assert!(words.contains(&dollars), "{words} has no {dollars}");
        assert_eq!(words.contains('≈'), recorded.estimated > 0, "{words}");
        assert_eq!(words.contains('≥'), recorded.unknown > 0, "{words}");
    }
}

/// Both forms of a report have the cost. They are long, so not every session needs them.
fn is_in_the_report(report: &Report) {
    let Some(cost) = report.usage.cost.filter(|cost| *cost >= 0.01) else {
        return;
    };
    let dollars = usage::money(cost);
    let mut text = markdown(report, MarkdownPart::Whole, MARKDOWN_LIMIT);
    for (entity, sign) in [("&#8288;", ""), ("&#36;", "$"), ("&#46;", ".")] {
        text = text.replace(entity, sign);
    }
    assert!(text.contains(&dollars), "{text}");
    assert!(html(report).contains(&dollars));
}

fn is_sum(group: &StatsGroup, reports: &[&Report]) {
    let usages = reports.iter().map(|report| report.usage);
    let cost: f64 = usages.clone().filter_map(|usage| usage.cost).sum();
    if let Some(known) = group.cost {
        assert_eq!(exact(known), exact(cost));
    } else {
        assert_eq!((exact(cost), group.cost_unknown > 0), (0, true));
    }
    let estimated = usages.clone().filter_map(|usage| usage.cost_estimated);
    let estimated: Option<f64> = estimated.fold(None, |sum, cost| Some(sum.unwrap_or(0.0) + cost));
    assert_eq!(group.cost_estimated.map(exact), estimated.map(exact));
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
        for (records, report) in sessions.iter().zip(&reports) {
            is_shown_everywhere(records, report);
        }
        is_in_the_report(&reports[0]);
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
