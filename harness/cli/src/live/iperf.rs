//! `narrows live iperf3`.

use super::{CLIENTS, GRACE, HostArgs, SERVER, on_host, say};
use crate::output;
use crate::{App, Console, EXIT_INTERRUPTED, EXIT_OK, Stop, values};
use clap::Args;
use narrows::{ByteCount, Duration, Rate};
use narrows_lab::LiveError;
use narrows_lab::host::LiveHost;
use narrows_lab::iperf::client::{Direction, Request};
use narrows_lab::iperf::{self, server::Server};
use narrows_lab::serve;
use std::io::Write;

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("role").required(true))]
pub(super) struct IperfArgs {
    /// Be the server, until Ctrl-C: narrows live exec iperf3 -c 10.77.0.1
    #[arg(short, long, group = "role")]
    server: bool,
    /// Be a client of the server at HOST.
    #[arg(short, long, value_name = "HOST", group = "role")]
    client: Option<String>,
    /// The server's port.
    #[arg(short, long, value_name = "N", default_value_t = iperf::PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// End after one test.
    #[arg(short = '1', long, requires = "server")]
    one_off: bool,
    /// How long the client measures.
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = values::whole(1, 86_400), conflicts_with = "server")]
    time: u32,
    /// How many bytes the client moves, in place of --time.
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = values::size, conflicts_with_all = ["server", "time"])]
    bytes: Option<ByteCount>,
    /// The server sends.
    #[arg(short = 'R', long, conflicts_with = "server")]
    reverse: bool,
    /// Both send.
    #[arg(long, conflicts_with_all = ["server", "reverse"])]
    bidir: bool,
    /// Connections at once.
    #[arg(short = 'P', long, value_name = "N", default_value = "1", value_parser = values::whole(1, iperf::MAX_PARALLEL), conflicts_with = "server")]
    parallel: u32,
    /// What is written in one go.
    #[arg(short = 'l', long, value_name = "SIZE", default_value = "128KiB", value_parser = values::size, conflicts_with = "server")]
    length: ByteCount,
    /// Rate of each connection [default: as fast as it goes].
    #[arg(short = 'b', long, value_name = "RATE", value_parser = values::rate, conflicts_with = "server")]
    bitrate: Option<Rate>,
    /// Write the result as JSON.
    #[arg(short = 'J', long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) fn run(app: &App, args: &IperfArgs, console: &mut Console<'_>) -> Result<u8, Stop> {
    let report = |summary: &iperf::Summary| match args.json {
        true => serde_json::to_string(summary).unwrap_or_default() + "\n",
        false => summary.sentence() + "\n",
    };
    let Some(server) = &args.client else {
        let config = args.host.config(&app.catalog, SERVER..=SERVER)?;
        let work = async |host: &LiveHost, out: &mut dyn Write, errors: &mut dyn Write| {
            let listeners = serve::listen(host, args.port).await?;
            let congestion = args.host.cc.clone();
            let mut server = Server::new(host.stack().clone(), listeners, congestion);
            let [v4, v6] = host.addresses();
            let ready = format!("iperf3 on {v4} and {v6}, port {}\n", args.port);
            say(if args.json { &mut *errors } else { &mut *out }, &ready)?;
            loop {
                let test = server.test().await;
                match test.map_err(|e| LiveError::io("go on serving", e))? {
                    Ok(summary) => say(out, &report(&summary))?,
                    Err(e) if args.one_off => return Err(e.into()),
                    Err(e) => say(errors, &format!("narrows: {e}\n"))?,
                }
                if args.one_off {
                    return Ok(());
                }
            }
        };
        let (done, _) = on_host(config, serve::GRACE, console, work)?;
        return Ok(match done {
            Some(_) => EXIT_OK,
            None => EXIT_INTERRUPTED,
        });
    };
    let config = args.host.config(&app.catalog, CLIENTS)?;
    let request = Request {
        server: match server.contains(':') && !server.starts_with('[') {
            true => format!("[{server}]:{}", args.port),
            false => format!("{server}:{}", args.port),
        },
        direction: match (args.reverse, args.bidir) {
            (true, _) => Direction::Reverse,
            (_, true) => Direction::Both,
            _ => Direction::Send,
        },
        time: Duration::from_secs(args.time.into()).into(),
        bytes: args.bytes.map(ByteCount::get),
        parallel: args.parallel,
        block: u32::try_from(args.length.get().clamp(1, 1 << 20)).unwrap_or(1),
        rate: args.bitrate.map(Rate::bits_per_sec),
        congestion: args.host.cc.clone(),
    };
    let work = async |host: &LiveHost, _: &mut dyn Write, _: &mut dyn Write| {
        iperf::client::run(host.stack(), &request).await
    };
    let (Some(summary), _) = on_host(config, GRACE, console, work)? else {
        return Ok(EXIT_INTERRUPTED);
    };
    output::print(console.stdout, &report(&summary))?;
    Ok(EXIT_OK)
}
