//! Writes the first inputs of the fuzz targets to `fuzz/seeds/`.

use narrows_tests::bodies::{TARGETS, seeds};
use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for target in TARGETS {
        let folder = root.join("fuzz/seeds").join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (name, bytes) in seeds::of(target.name, &root.join("harness/script/scripts")) {
            std::fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
