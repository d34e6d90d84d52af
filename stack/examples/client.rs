//! A client in twenty lines: fetches a page from an HTTP server of the kernel's, over a TAP
//! interface.
//!
//! ```text
//! sudo cargo run --features tokio --example client &   # waits for the address, so, elsewhere:
//! sudo ip addr add 10.77.0.9/24 dev narrows0 && python3 -m http.server -b 10.77.0.9 8080
//! ```

use narrows::config::TcpConfig;
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::tokio::{Stack, TcpStream};
use narrows::interface::InterfaceConfig;
use narrows::wire::ethernet::MacAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tap = Tap::open("narrows0", &TapConfig::default())?;
    let mac = MacAddr([2, 0x77, 0, 0, 0, 1]);
    let interface = InterfaceConfig::new(mac, vec!["10.77.0.1/24".parse()?]);
    let stack = Stack::spawn(tap, interface, TcpConfig::default())?;

    let mut stream = loop {
        match TcpStream::connect(&stack, "10.77.0.9:8080").await {
            Ok(stream) => break stream,
            Err(e) => eprintln!("{e}; trying again"),
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    };
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    println!("{page}\nRTT {} us", stream.info()?.tcpi_rtt);
    Ok(stack.shutdown(std::time::Duration::from_secs(1)).await?)
}
