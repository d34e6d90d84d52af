//! What is held against others: checks, their documentation, and another TCP in our network.

mod disciplines;
mod validate;
