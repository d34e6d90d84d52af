//! A soak in virtual time.
