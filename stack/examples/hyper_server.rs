//! A hyper server, unchanged, on our listener.
//!
//! ```text
//! sudo cargo run --features tokio --example hyper_server    # then, elsewhere:
//! sudo ip addr add 10.77.0.9/24 dev narrows0 && curl http://10.77.0.1/hello
//! ```

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use narrows::config::TcpConfig;
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::tokio::{Stack, TcpListener};
use narrows::interface::InterfaceConfig;
use narrows::wire::ethernet::MacAddr;
use std::convert::Infallible;
use std::error::Error;

async fn greet(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = format!("{} over narrows\n", request.uri().path());
    Ok(Response::new(Full::new(Bytes::from(text))))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let tap = Tap::open("narrows0", &TapConfig::default())?;
    println!("http://10.77.0.1/ is reached through {}", tap.name());
    let mac = MacAddr([2, 0x77, 0, 0, 0, 1]);
    let interface = InterfaceConfig::new(mac, vec!["10.77.0.1/24".parse()?]);
    let stack = Stack::spawn(tap, interface, TcpConfig::default())?;

    let listener = TcpListener::bind(&stack, "10.77.0.1:80").await?;
    loop {
        let (stream, peer) = listener.accept().await?;
        tokio::spawn(async move {
            let serving = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(greet))
                .await;
            if let Err(e) = serving {
                eprintln!("{peer}: {e}");
            }
        });
    }
}
