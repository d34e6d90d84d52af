//! A host of ours at a TAP that faces the kernel's host across the switch of a lab: where a twin of two
//! hosts of the kernel's ([`pair`](crate::pair)) has ours in place of the one that sends.
//!
//! Ours runs on a thread of its own, so what it does waits for a processor, as a process does.

use crate::lab::{self, Owned, Plug, Plugged, Port};
use crate::pair::End;
use crate::shaper::Shape;
use crate::sockets;
use crate::{LiveError, joined};
use narrows::config::TcpConfig;
use narrows::driver::tokio::{Stack, TcpListener, TcpStream};
use narrows::interface::InterfaceConfig;
use std::future::Future;
use std::io;
use std::net::{self, SocketAddr};
use std::sync::mpsc;
use std::thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

/// The number of ours.
const OURS: u8 = 1;
const PORT: u16 = 5_007;

/// Both hosts.
pub(crate) struct Facing {
    plugged: Plugged,
    /// The kernel's.
    pub(crate) kernel: End,
    lab: Owned,
}

/// Until the kernel's side has ended.
pub(crate) type Stop = oneshot::Receiver<()>;

/// What ours answers a request with.
#[derive(Clone, Debug)]
pub(crate) struct Replies {
    /// Bytes of a request.
    pub(crate) request: usize,
    /// Bytes of each write.
    pub(crate) writes: Vec<usize>,
}

impl Facing {
    /// In a lab of their own. What ours writes crosses in super-frames, which the switch cuts.
    pub(crate) fn new() -> Result<Self, LiveError> {
        let lab = Owned::for_run()?;
        let plugged = lab.lab().plug(OURS..=OURS, Plug::Tap { offload: true })?;
        lab.cut(Port::Kernel)?;
        Ok(Self {
            plugged,
            kernel: End::of(&lab)?,
            lab,
        })
    }

    /// Makes the port to the kernel's host a small one.
    pub(crate) fn shape(&self, shape: &Shape) -> Result<(), LiveError> {
        self.lab.shape(Port::Kernel, shape).map(drop)
    }

    /// Has ours run until it is told to stop, which it is when `kernels` has ended; what both gave. Ours may
    /// fail, so `kernels` waits for nothing of it without a time-out.
    pub(crate) fn run<A: Send, B, F: Future<Output = io::Result<A>>>(
        self,
        tcp: TcpConfig,
        ours: impl FnOnce(Stack, Stop) -> F + Send,
        kernels: impl FnOnce(&End) -> io::Result<B>,
    ) -> io::Result<(A, B)> {
        // The lab goes last.
        let Self {
            plugged: Plugged { device, .. },
            kernel,
            lab: _lab,
        } = self;
        let interface = InterfaceConfig::new(lab::mac(OURS), lab::networks(OURS));
        let runtime = crate::runtime().map_err(io::Error::other)?;
        let (stopping, stop) = oneshot::channel();
        thread::scope(|scope| {
            let ours = scope.spawn(move || {
                runtime.block_on(async {
                    let stack = Stack::spawn(device, interface, tcp)?;
                    ours(stack, stop).await
                })
            });
            let of_kernel = kernels(&kernel);
            drop(stopping);
            let of_ours = joined(ours.join());
            // Where ours failed, the kernel's waited in vain.
            Ok((of_ours?, of_kernel?))
        })
    }

    /// Has ours answer what `client` asks over its socket, which waits for [`CONNECT`](sockets::CONNECT) at most.
    pub(crate) fn answering<R>(
        self,
        tcp: TcpConfig,
        replies: Replies,
        client: impl FnOnce(&End, net::TcpStream) -> io::Result<R>,
    ) -> io::Result<R> {
        let at = SocketAddr::new(lab::addresses(OURS)[0], PORT);
        let (listens, listening) = mpsc::channel();
        let ours = move |stack: Stack, stop: Stop| async move {
            let listener = TcpListener::bind(&stack, at).await?;
            let _ = listens.send(());
            tokio::select! {
                served = serve(&listener, &replies) => served,
                _ = stop => Ok(()),
            }
        };
        let kernels = |kernel: &End| {
            // If it never listens its own error says why.
            let _ = listening.recv();
            let socket = sockets::connect(kernel.namespace(), at, sockets::cubic)?;
            socket.set_read_timeout(Some(sockets::CONNECT))?;
            client(kernel, socket)
        };
        self.run(tcp, ours, kernels).map(|((), asked)| asked)
    }
}

/// One connection, until its peer is gone.
async fn serve(listener: &TcpListener, replies: &Replies) -> io::Result<()> {
    let (mut stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    loop {
        let ended = one(&mut stream, replies).await;
        match ended {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            other => other?,
        }
    }
}

async fn one(stream: &mut TcpStream, replies: &Replies) -> io::Result<()> {
    stream.read_exact(&mut vec![0; replies.request]).await?;
    for size in &replies.writes {
        stream.write_all(&vec![b'!'; *size]).await?;
    }
    Ok(())
}
