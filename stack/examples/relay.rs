//! Bytes that pass through a program without being copied by it: received in the device's buffers,
//! sent from them. Everything is in this process; on a TAP it is the same.
//!
//! ```text
//! cargo run --features tokio --example relay
//! ```

use narrows::buffer::Bytes;
use narrows::config::TcpConfig;
use narrows::device::loopback::Loopback;
use narrows::driver::tokio::{Stack, TcpListener, TcpStream};
use narrows::interface::{Capabilities, InterfaceConfig, Medium};
use narrows::wire::ethernet::MacAddr;
use std::error::Error;
use std::io;

/// What arrives leaves again, chunk by chunk; how many bytes, and how many chunks. A chunk's buffer is
/// the device's again when the peer has acknowledged it.
async fn relay(stream: TcpStream) -> io::Result<(usize, usize)> {
    let (mut bytes, mut chunks) = (0, 0);
    loop {
        let mut chunk = stream.read_chunk(usize::MAX).await?;
        if chunk.is_empty() {
            return Ok((bytes, chunks));
        }
        (bytes, chunks) = (bytes + chunk.len(), chunks + 1);
        while !chunk.is_empty() {
            stream.write_chunk(&mut chunk).await?;
        }
    }
}

fn host(device: Loopback, n: u8) -> Result<Stack, Box<dyn Error>> {
    let address = format!("10.77.0.{n}/24").parse()?;
    let interface = InterfaceConfig::new(MacAddr([2, 0x77, 0, 0, 0, n]), vec![address]);
    Ok(Stack::spawn(device, interface, TcpConfig::default())?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let capabilities = Capabilities::offload(Medium::Ethernet, 1500);
    let (one, two) = Loopback::pair(capabilities, 1 << 20)?;
    let (client, server) = (host(one, 1)?, host(two, 2)?);
    let listener = TcpListener::bind(&server, "10.77.0.2:7").await?;
    let relayed = tokio::spawn(async move { relay(listener.accept().await?.0).await });

    let stream = TcpStream::connect(&client, "10.77.0.2:7").await?;
    let (read, write) = stream.into_split();
    let mut rest = Bytes::from(vec![7; 10_000_000]);
    let writer = tokio::spawn(async move {
        while !rest.is_empty() {
            write.write_chunk(&mut rest).await?;
        }
        // Dropping the half closes it.
        io::Result::Ok(())
    });
    let mut back = 0;
    loop {
        match read.read_chunk(usize::MAX).await?.len() {
            0 => break,
            n => back += n,
        }
    }
    writer.await??;
    let (bytes, chunks) = relayed.await??;
    println!("{bytes} bytes relayed in {chunks} chunks, {back} are back");
    Ok(())
}
