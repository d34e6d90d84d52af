//! How large a picture and its text are, and where in it the data is.

/// Width of the picture. In a column of 8.5 cm its text is 7.5 points high.
pub(super) const WIDTH: f64 = 480.0;
pub(super) const FONT: f64 = 15.0;
pub(super) const KEY_FONT: f64 = 14.5;
pub(super) const SMALL: f64 = 13.0;

/// Where the data is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn right(self) -> f64 {
        self.left + self.width
    }
    pub(super) fn bottom(self) -> f64 {
        self.top + self.height
    }
}
