//! Small bar charts as SVG, one bar per turn.
//!
//! # Invariants
//! - A number that is unknown is a mark below the line, never a bar of no height.

/// One bar per turn.
pub(super) struct BarChart<'a> {
    pub(super) title: &'a str,
    /// The words of the largest value.
    pub(super) largest: String,
    pub(super) values: Vec<Option<f64>>,
}

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 60.0;
/// The widest bar.
const BAR: f64 = 24.0;
/// More turns share bars.
const MOST: usize = 150;

impl BarChart<'_> {
    /// The chart. Its texts have no characters with a meaning in HTML.
    pub(super) fn svg(&self) -> String {
        let values = self.shared();
        let largest = values.iter().flatten().copied().fold(0.0, f64::max);
        #[expect(clippy::cast_precision_loss, reason = "there are at most a few bars")]
        let step = (WIDTH / values.len().max(1) as f64).min(BAR);
        let (title, most) = (self.title, &self.largest);
        let mut out = format!(
            "<figure><figcaption>{title} <span>most: {most}</span></figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{title} by turn, most: {most}\">\
             <line x1=\"0\" y1=\"{HEIGHT}\" x2=\"{WIDTH}\" y2=\"{HEIGHT}\"/>",
            HEIGHT + 8.0
        );
        let mut x = 0.0;
        for value in &values {
            let wide = (step * 0.8).max(0.5);
            out += &if let Some(value) = value {
                let share = if largest > 0.0 { value / largest } else { 0.0 };
                let high = (share * HEIGHT).max(1.0);
                let top = HEIGHT - high;
                format!(
                    "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\"/>"
                )
            } else {
                let y = HEIGHT + 3.0;
                format!(
                    "<rect class=\"unknown\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"3\"/>"
                )
            };
            x += step;
        }
        out + "</svg></figure>"
    }

    /// Adds up neighbours if there are too many turns. One unknown value makes the sum unknown.
    fn shared(&self) -> Vec<Option<f64>> {
        let together = self.values.len().div_ceil(MOST).max(1);
        let groups = self.values.chunks(together);
        groups.map(|group| group.iter().copied().sum()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_number_has_no_bar() {
        let chart = BarChart {
            title: "Cost",
            largest: "$2.00".to_owned(),
            values: vec![Some(1.0), None, Some(2.0)],
        };
        let svg = chart.svg();
        assert_eq!(svg.matches("<rect x=").count(), 2);
        assert_eq!(svg.matches("class=\"unknown\"").count(), 1);
    }

    #[test]
    fn many_turns_share_bars() {
        let values = vec![Some(1.0); 1_000];
        let chart = BarChart {
            title: "Time",
            largest: String::new(),
            values,
        };
        assert_eq!(chart.shared().len(), 143);
    }
}
