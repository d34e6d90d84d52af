//! The presets of `narrows incast`.

/// Their names, and the experiments that they are.
pub(super) const PRESETS: [(&str, &str); 3] = [
    ("default", "incast"),
    ("fast08", "fast08"),
    ("modern", "modern"),
];
