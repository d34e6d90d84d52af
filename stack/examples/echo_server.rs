//! An echo server on a TAP interface, or with AF_XDP on an interface that is there.
//!
//! ```text
//! sudo cargo run --features tokio --example echo_server    # then, elsewhere:
//! sudo ip addr add 10.77.0.9/24 dev narrows0 && nc 10.77.0.1 7
//!
//! sudo ip link add narrows0 type veth peer name narrows1
//! sudo ip link set narrows0 up && sudo ip link set narrows1 up
//! sudo cargo run --features tokio --example echo_server -- --xdp narrows0    # then, elsewhere:
//! sudo ip addr add 10.77.0.9/24 dev narrows1 && nc 10.77.0.1 7
//! ```

use narrows::config::TcpConfig;
use narrows::device::Device;
use narrows::device::tap::{Tap, TapConfig};
use narrows::device::xdp::{Xdp, XdpConfig};
use narrows::driver::tokio::{Stack, TcpListener};
use narrows::interface::InterfaceConfig;
use narrows::wire::ethernet::MacAddr;
use std::error::Error;
use tokio::io::AsyncWriteExt;

/// What the command line asks for.
fn device() -> Result<(String, Box<dyn Device>), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let tap = Tap::open("narrows0", &TapConfig::default())?;
            Ok((tap.name().to_owned(), Box::new(tap)))
        }
        ["--xdp", name] => {
            let xdp = Xdp::open(name, &XdpConfig::default())?;
            Ok((format!("the other end of {name}"), Box::new(xdp)))
        }
        _ => Err("usage: echo_server [--xdp INTERFACE]".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (through, device) = device()?;
    println!("echo on 10.77.0.1 port 7, reached through {through}");
    let mac = MacAddr([2, 0x77, 0, 0, 0, 1]);
    let interface = InterfaceConfig::new(mac, vec!["10.77.0.1/24".parse()?]);
    let stack = Stack::spawn(device, interface, TcpConfig::default())?;

    let listener = TcpListener::bind(&stack, "10.77.0.1:7").await?;
    loop {
        let (mut stream, peer) = listener.accept().await?;
        tokio::spawn(async move {
            let (mut read, mut write) = stream.split();
            let copied = tokio::io::copy(&mut read, &mut write).await;
            let closed = write.shutdown().await;
            println!("{peer}: {copied:?} bytes, {closed:?}");
        });
    }
}
