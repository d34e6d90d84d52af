//! smoltcp doing what [`narrows_benches::exchanges::Exchanges`] does: as many sockets, messages,
//! buffers and frames a batch. It tells of no events: who has got something is asked of each socket.

use crate::smoltcp_host::{Host, cross};
use narrows_benches::exchanges::{BUFFER, MESSAGE, PORT};
use smoltcp::iface::SocketHandle;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::IpAddress;

/// A client and a server with their connections.
pub(crate) struct SmoltcpExchanges {
    now: Instant,
    client: Host,
    server: Host,
    clients: Vec<SocketHandle>,
    servers: Vec<SocketHandle>,
}

impl SmoltcpExchanges {
    /// So many connections, each of which has had an exchange.
    pub(crate) fn connected(connections: u16) -> Self {
        let (a, b) = (IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2));
        let (mut client, mut server) = (Host::new(a), Host::new(b));
        let (mut clients, mut servers) = (Vec::new(), Vec::new());
        for n in 0..connections {
            servers.push(server.add(BUFFER));
            let listening = server.socket(servers[usize::from(n)]).listen(PORT);
            listening.expect("a valid port");
            clients.push(client.add(BUFFER));
            client.connect(clients[usize::from(n)], (b, PORT), 10_000 + n);
        }
        let mut this = Self {
            now: Instant::from_secs(1),
            client,
            server,
            clients,
            servers,
        };
        let is_open = |this: &mut Self| {
            let client = &mut this.client;
            this.clients
                .iter()
                .all(|&tcp| client.socket(tcp).may_send())
        };
        while !is_open(&mut this) {
            this.turn();
        }
        this.round();
        this
    }

    /// An exchange of each connection.
    pub(crate) fn round(&mut self) {
        for &tcp in &self.clients {
            let sent = self.client.socket(tcp).send_slice(&[0x5a; MESSAGE]);
            assert_eq!(sent, Ok(MESSAGE));
        }
        let mut missing = self.clients.len();
        while missing > 0 {
            missing -= self.turn();
        }
    }

    /// A batch each way; how many replies came.
    fn turn(&mut self) -> usize {
        self.now += Duration::from_micros(10);
        let mut message = [0; MESSAGE];
        self.client.send(self.now);
        cross(&mut self.client, &mut self.server);
        self.server.take_in(self.now);
        for &tcp in &self.servers {
            let socket = self.server.socket(tcp);
            if socket.can_recv() {
                assert_eq!(socket.recv_slice(&mut message), Ok(MESSAGE));
                assert_eq!(socket.send_slice(&message), Ok(MESSAGE));
            }
        }
        self.server.send(self.now);
        cross(&mut self.server, &mut self.client);
        self.client.take_in(self.now);
        let mut replies = 0;
        for &tcp in &self.clients {
            let socket = self.client.socket(tcp);
            if socket.can_recv() {
                assert_eq!(socket.recv_slice(&mut message), Ok(MESSAGE));
                replies += 1;
            }
        }
        replies
    }
}
