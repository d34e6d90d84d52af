//! What is drawn: a chart as data.

/// What is drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Read out to who cannot see it; not drawn.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Lines and points, first ones below.
    pub series: Vec<Series>,
    /// Straight lines that mark a value: a threshold, the link rate.
    pub rules: Vec<Rule>,
    /// Shaded stretches of the horizontal axis.
    pub bands: Vec<Band>,
    /// What is said below.
    pub key: Key,
    /// What else is to be said there: what the chart leaves out.
    pub notes: Vec<String>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit: `Goodput (Mb/s)`.
    pub label: String,
    /// How values are spaced.
    pub scale: Scale,
    /// From where to where; found from the data where `None`.
    pub range: Option<(f64, f64)>,
    /// Words at 0, 1, 2 and so on, where values are no numbers: from the left, and from below.
    pub words: Vec<String>,
}

/// How values are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By doubling, labelled at the values that occur: numbers of servers.
    Log2,
    /// By decades.
    Log10,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub draw: Draw,
    /// Whose it is.
    pub role: Role,
    /// From where it has its look.
    pub style: Style,
    /// Series of one group have one colour: ours and the reference for the same setting.
    pub group: usize,
    /// x and y.
    pub points: Vec<(f64, f64)>,
    /// Least and greatest y of each point; empty, or as long as `points`.
    pub spread: Vec<(f64, f64)>,
}

/// What the key below a chart says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// The name of each series.
    #[default]
    Names,
    /// What colours, and dashes with markers, stand for; [`Variants`](super::Variants) makes these.
    Rows(Vec<KeyRow>),
}

/// A row of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// What the values are of: `congestion control`.
    pub title: String,
    /// The values, and what stands for each.
    pub keys: Vec<(String, Stands)>,
}

/// What stands for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// A colour.
    Colour(usize),
    /// Dash and marker.
    Line(usize),
    /// Both, as the series with this number has them.
    Series(usize),
}

/// From where a series has its look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Colour and marker from its group, dash from its role and name.
    #[default]
    Group,
    /// As a variant among others: any two that differ in colour or line look different, and colours
    /// with the same values stand beside each other.
    Variant {
        /// Number of the colour.
        colour: usize,
        /// Number of dash and marker.
        line: usize,
    },
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// Line and markers.
    #[default]
    LineMarkers,
    /// Line only: many points.
    Line,
    /// Markers only.
    Markers,
    /// Small dots: a time-sequence plot's packets.
    Dots,
    /// Steps: a queue's length, a distribution.
    Steps,
    /// Broad lines: when something went on. As in a line, a value that no scale can show parts one from
    /// the next.
    Bars,
}

/// Whose values they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Ours: filled, full lines.
    #[default]
    Ours,
    /// The reference's: hollow, broken lines.
    Reference,
}

/// A shaded stretch of the horizontal axis, with its name above.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What it is; may be empty.
    pub label: String,
    /// Bands of one group have one colour, that of series of the group.
    pub group: usize,
}

/// A marked value.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Across the chart at this y, or up it at this x.
    pub at: RuleAt,
    /// What it is.
    pub label: String,
}

/// Where a rule is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RuleAt {
    /// A vertical line.
    X(f64),
    /// A horizontal line.
    Y(f64),
}
