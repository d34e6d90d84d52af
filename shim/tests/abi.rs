//! The interface as a C compiler sees it: `tests/handshake.c`, compiled with the header that we
//! publish. Without a C compiler there is nothing to see.

#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod common;

use narrows_packetdrill::abi::PacketdrillInterface;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program, compiled; none if there is no compiler.
fn program(name: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(here.join("include"))
        .arg(here.join("tests/handshake.c"))
        .args(["-o".as_ref(), out.as_os_str()])
        .args(["-ldl", "-lpthread"]);
    match cc.output() {
        Ok(done) => {
            assert!(done.status.success(), "{}", shown(&done));
            Some(out)
        }
        Err(e) => {
            println!("no C compiler: {e}");
            None
        }
    }
}

fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn c_and_rust_lay_the_table_out_alike() {
    let Some(program) = program("layout") else {
        return;
    };
    let output = Command::new(program).arg("LAYOUT").output().unwrap();
    // A pointer each, with nothing in between.
    let mut expected = "userdata 0\n".to_owned();
    for (i, name) in PacketdrillInterface::NAMES.iter().enumerate() {
        expected.push_str(&format!("{name} {}\n", (i + 1) * size_of::<usize>()));
    }
    expected.push_str(&format!("end {}\n", size_of::<PacketdrillInterface>()));
    assert_eq!(shown(&output), expected);
    assert_eq!(
        offset_of!(PacketdrillInterface, fcntl),
        17 * size_of::<usize>()
    );
    assert_eq!(
        offset_of!(PacketdrillInterface, splice),
        32 * size_of::<usize>()
    );
}

#[test]
fn a_program_in_c_drives_a_connection() {
    let Some(program) = program("handshake") else {
        return;
    };
    let output = Command::new(program)
        .arg("RUN")
        .arg(common::object())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let said = shown(&output);
    for part in [
        "all is well",
        "--so_flags: no profile 'windows'",
        "packetdrill_interface_init(): no table",
        "no packet leaves, and no timer is armed",
        "no option `TCP_DEFER_ACCEPT`",
        "no socket option 77 of level 77 is known",
        "epoll_create() is not there",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn libc_answers_for_our_sockets_when_the_object_is_preloaded() {
    let Some(program) = program("preloaded") else {
        return;
    };
    let output = Command::new(program)
        .arg("PRELOADED")
        .arg(common::object())
        .env("LD_PRELOAD", common::object())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", shown(&output));
}
