//! Measures figures as ratios within one run, and checks their limits.

#![expect(
    clippy::print_stdout,
    reason = "a program whose whole purpose is to print"
)]

use std::{error::Error, process::ExitCode, time::Duration};

pub(crate) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) measure: fn() -> Result<Vec<Finding>>,
}

/// A result in words, and whether it is allowed.
pub(crate) struct Finding {
    pub(crate) text: String,
    pub(crate) verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    Missed,
    /// Has no limit.
    Information,
}

/// Measures the figures that the command line names, or all of them.
pub(crate) fn run(figures: &[Figure]) -> ExitCode {
    // Cargo passes `--bench`.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if let Some(unknown) = wanted
        .iter()
        .find(|name| figures.iter().all(|figure| figure.name != **name))
    {
        let known = figures
            .iter()
            .map(|figure| figure.name)
            .collect::<Vec<_>>()
            .join(", ");
        println!("there is no figure `{unknown}`; there are: {known}");
        return ExitCode::from(2);
    }
    let mut code = ExitCode::SUCCESS;
    for figure in figures
        .iter()
        .filter(|figure| wanted.is_empty() || wanted.iter().any(|name| name == figure.name))
    {
        let findings = (figure.measure)().unwrap_or_else(|error| {
            vec![Finding {
                text: format!("could not be measured: {error}"),
                verdict: Verdict::Missed,
            }]
        });
        for Finding { text, verdict } in findings {
            let said = match verdict {
                Verdict::Ok => "ok",
                Verdict::Missed => "MISSED",
                Verdict::Information => "for information",
            };
            println!("{:<11} {text}  {said}", figure.name);
            if verdict == Verdict::Missed {
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// The medians of two alternating measurements.
pub(crate) struct Compared {
    pub(crate) ours: Duration,
    pub(crate) theirs: Duration,
    /// The median of the rounds' ratios: whatever slows a whole round slows both sides.
    pub(crate) ratio: f64,
    pub(crate) rounds: usize,
}

/// Measures both sides alternately. In each round both come first once, because the second can pay
/// for writes that the first has left.
pub(crate) fn compare(
    rounds: usize,
    ours: impl Fn() -> Result<Duration>,
    theirs: impl Fn() -> Result<Duration>,
) -> Result<Compared> {
    // Warm-up: the first run is not like the others.
    theirs()?;
    ours()?;
    let round = |_| {
        let (their_first, our_second, our_first, their_second) =
            (theirs()?, ours()?, ours()?, theirs()?);
        Ok((
            (their_first + their_second) / 2,
            (our_first + our_second) / 2,
        ))
    };
    let rounds = rounds.div_ceil(2);
    let measured = (0..rounds).map(round).collect::<Result<Vec<_>>>()?;
    let ratio = |(theirs, ours): &(Duration, Duration)| ours.as_secs_f64() / theirs.as_secs_f64();
    Ok(Compared {
        ours: median(measured.iter().map(|pair| pair.1), Duration::cmp),
        theirs: median(measured.iter().map(|pair| pair.0), Duration::cmp),
        ratio: median(measured.iter().map(ratio), f64::total_cmp),
        rounds,
    })
}

pub(crate) fn median<T: Copy>(
    values: impl Iterator<Item = T>,
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_by(order);
    values[values.len() / 2]
}

impl Compared {
    pub(crate) fn finding(&self, ours: &str, theirs: &str, allowed: f64) -> Finding {
        let verdict = if self.ratio <= allowed {
            Verdict::Ok
        } else {
            Verdict::Missed
        };
        Finding {
            text: format!("{}, allowed {allowed:.2}", self.tell(ours, theirs)),
            verdict,
        }
    }

    pub(crate) fn tell(&self, ours: &str, theirs: &str) -> String {
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1_000.0);
        let Self { ratio, rounds, .. } = self;
        let (our_time, their_time) = (ms(self.ours), ms(self.theirs));
        format!("{ours}: {our_time}; {theirs}: {their_time}; ratio {ratio:.2} over {rounds} rounds")
    }
}

pub(crate) fn check(holds: bool, else_say: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(else_say.into()) }
}
