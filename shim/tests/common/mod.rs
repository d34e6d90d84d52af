//! Where cargo has put the shared object.

use std::path::PathBuf;

/// `libnarrows_packetdrill.so`, built with this test.
pub(crate) fn object() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its file");
    let deps = test.parent().expect("a test lies in a folder");
    let name = "libnarrows_packetdrill.so";
    let found = [deps.join(name), deps.join("..").join(name)]
        .into_iter()
        .find(|p| p.exists());
    found.unwrap_or_else(|| panic!("no {name} in {} or above", deps.display()))
}
