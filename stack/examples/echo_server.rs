//! An echo server on a TAP interface.
//!
//! ```text
//! sudo cargo run --features tokio --example echo_server    # then, elsewhere:
//! sudo ip addr add 10.77.0.9/24 dev narrows0 && nc 10.77.0.1 7
//! ```

use narrows::config::TcpConfig;
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::tokio::{Stack, TcpListener};
use narrows::interface::InterfaceConfig;
use narrows::wire::ethernet::MacAddr;
use std::error::Error;
use tokio::io::AsyncWriteExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let tap = Tap::open("narrows0", &TapConfig::default())?;
    println!("echo on 10.77.0.1 port 7, reached through {}", tap.name());
    let mac = MacAddr([2, 0x77, 0, 0, 0, 1]);
    let interface = InterfaceConfig::new(mac, vec!["10.77.0.1/24".parse()?]);
    let stack = Stack::spawn(tap, interface, TcpConfig::default())?;

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
