//! Where names stand in a drawing, so that they cross neither lines nor marks nor each other. `labels.ts` of the page of
//! `corun serve` goes by the same rule.

/// A part of a drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Area {
    pub(crate) fn around((x, y): (f64, f64), reach: f64) -> Self {
        Self { left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }
    }

    fn size(&self) -> f64 {
        (self.right - self.left) * (self.bottom - self.top)
    }

    fn common(&self, other: &Self) -> f64 {
        let wide = self.right.min(other.right) - self.left.max(other.left);
        let high = self.bottom.min(other.bottom) - self.top.max(other.top);
        wide.max(0.0) * high.max(0.0)
    }
}

/// Where a name stands: its base line begins, is centred or ends there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Label {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// As SVG's `text-anchor`.
    pub(crate) anchor: &'static str,
}

/// A wide letter's width and a line's height, where a letter is 14 high: whose fonts draw the page is not known.
const LETTER: f64 = 8.8;
const LINE: f64 = 16.0;

/// From a mark: where a name's base line begins, is centred or ends, the most usual first.
const OFFSETS: [(f64, f64, &str); 12] = [
    (11.0, 5.0, "start"),
    (-11.0, 5.0, "end"),
    (0.0, -12.0, "middle"),
    (0.0, 22.0, "middle"),
    (8.0, -9.0, "start"),
    (8.0, 19.0, "start"),
    (-8.0, -9.0, "end"),
    (-8.0, 19.0, "end"),
    (18.0, -20.0, "start"),
    (18.0, 30.0, "start"),
    (-18.0, -20.0, "end"),
    (-18.0, 30.0, "end"),
];
/// The first of them, at which nobody takes a name for another mark's.
const NEAR: usize = 8;

impl Label {
    fn area(&self, name: &str) -> Area {
        let wide = LETTER * name.chars().count() as f64;
        let left = match self.anchor {
            "start" => self.x,
            "end" => self.x - wide,
            _ => self.x - wide / 2.0,
        };
        Area { left, top: self.y - LINE + 3.0, right: left + wide, bottom: self.y + 3.0 }
    }
}

/// The names of a drawing, placed one after the other.
pub(crate) struct Labels {
    /// What is drawn already, the names before among it.
    taken: Vec<Area>,
    frame: Area,
}

impl Labels {
    /// For a drawing in which that is drawn already.
    pub(crate) fn new(frame: Area, taken: Vec<Area>) -> Self {
        Self { taken, frame }
    }

    /// The place beside a mark at which a name covers least and leaves the frame least.
    pub(crate) fn place(&mut self, name: &str, mark: (f64, f64)) -> Label {
        let (label, _) = self.best(name, mark, &OFFSETS);
        self.taken.push(label.area(name));
        label
    }

    /// A place next to a mark at which a name covers nothing; none where there is none.
    pub(crate) fn place_if_free(&mut self, name: &str, mark: (f64, f64)) -> Option<Label> {
        let (label, hidden) = self.best(name, mark, &OFFSETS[..NEAR]);
        (hidden <= 0.0).then(|| {
            self.taken.push(label.area(name));
            label
        })
    }

    /// The first of the places at which least is hidden, and how much that is.
    fn best(
        &self,
        name: &str,
        (x, y): (f64, f64),
        places: &[(f64, f64, &'static str)],
    ) -> (Label, f64) {
        let at = |&(right, down, anchor): &(f64, f64, &'static str)| {
            let label = Label { x: x + right, y: y + down, anchor };
            let area = label.area(name);
            let outside = (area.size() - area.common(&self.frame)).max(0.0);
            // Rounding leaves a trace of a name that is inside.
            let outside = if outside < 1e-6 { 0.0 } else { 100.0 * outside };
            (label, outside + self.taken.iter().map(|one| area.common(one)).sum::<f64>())
        };
        let first = at(&places[0]);
        places[1..].iter().map(at).fold(first, |best, one| if one.1 < best.1 { one } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Area = Area { left: 0.0, top: 0.0, right: 400.0, bottom: 300.0 };

    #[test]
    fn a_name_keeps_off_marks_and_names_and_stays_inside() {
        let mark = (200.0, 150.0);
        let alone = Labels::new(FRAME, vec![]).place("corun", mark);
        assert_eq!((alone.x, alone.anchor), (211.0, "start"));
        // Another mark where the name would stand.
        let beside = vec![Area::around((220.0, 150.0), 7.0)];
        assert_eq!(Labels::new(FRAME, beside).place("corun", mark).anchor, "end");
        // At the right end.
        assert_eq!(Labels::new(FRAME, vec![]).place("corun", (390.0, 150.0)).anchor, "end");
        // Names of marks at one place.
        let mut all = Labels::new(FRAME, vec![]);
        let two = [all.place("a", mark), all.place("b", mark)];
        assert!(two[0].area("a").common(&two[1].area("b")) <= 0.0, "{two:?}");
    }

    #[test]
    fn a_name_that_may_be_left_out_stands_where_it_hides_nothing() {
        let mark = (200.0, 150.0);
        assert!(Labels::new(FRAME, vec![]).place_if_free("di", mark).is_some());
        assert_eq!(Labels::new(FRAME, vec![FRAME]).place_if_free("di", mark), None);
    }
}
