//! `narrows live`: the same TCP against the kernel's.

mod incast;
mod iperf;

use super::catalog::{Catalog, Kind};
use super::output;
use super::words::{Word, one_of};
use super::{App, Console, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Stop, usage, values};
use clap::{Args, Subcommand};
use narrows::ByteCount;
use narrows::config::{Buffers, EcnMode, SendBufferUse, TcpConfig};
use narrows::driver::tokio::StackStats;
use narrows::driver::{RealTime, usual_memory};
use narrows::memory::MemoryLimit;
use narrows_experiment::model::Device;
use narrows_lab::host::{HostConfig, LiveHost};
use narrows_lab::lab::{self, Borrowed, Down, Lab, Plug, Up};
use narrows_lab::serve::{self, Service};
use narrows_lab::transfer::{self, Ending, Source, Text};
use narrows_lab::{LiveError, cancelled, http, runtime};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const HOST: &str = "Host";
const TCP: &str = "TCP";

/// The number of a server that has not been given one; clients take what is free from
/// [`CLIENTS`].
const SERVER: u8 = 1;
const CLIENTS: RangeInclusive<u8> = 101..=*lab::HOSTS.end();

#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    #[command(subcommand)]
    command: LiveCommand,
}

#[derive(Debug, Subcommand)]
enum LiveCommand {
    /// Make the lab: a host of the kernel, 10.77.0.254, at a switch, both in network namespaces of
    /// their own. Does nothing if it is up; what a crash left is made anew.
    Up {
        #[command(flatten)]
        lab: LabName,
        /// MTU of all links [default: 1500].
        #[arg(long, value_name = "BYTES", value_parser = values::whole(576, 65_521))]
        mtu: Option<u32>,
        /// Stay, and remove the lab on Ctrl-C.
        #[arg(long)]
        wait: bool,
    },
    /// Remove the lab, whatever runs in it.
    Down {
        #[command(flatten)]
        lab: LabName,
    },
    /// Say whether the lab is up, and who uses it.
    Status {
        #[command(flatten)]
        lab: LabName,
    },
    /// Run a program on the kernel's host: narrows live exec curl http://10.77.0.1/
    Exec {
        #[command(flatten)]
        lab: LabName,
        /// The program and its arguments.
        #[arg(
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "PROGRAM"
        )]
        command: Vec<OsString>,
    },
    /// Serve on a host of ours, 10.77.0.1, until Ctrl-C. Several services can run at once.
    #[command(group = clap::ArgGroup::new("services").required(true).multiple(true))]
    Serve {
        /// Send back what comes, on port 7.
        #[arg(long, group = "services")]
        echo: bool,
        /// Forget what comes, on port 9.
        #[arg(long, group = "services")]
        discard: bool,
        /// Send characters for ever, on port 19.
        #[arg(long, group = "services")]
        chargen: bool,
        /// Serve the files of a folder over HTTP, on port 80.
        #[arg(long, value_name = "DIR", group = "services")]
        http: Option<PathBuf>,
        /// Another port, for a single service.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,
        #[command(flatten)]
        host: HostArgs,
    },
    /// Fetch a page over HTTP, or what a server sends until it closes.
    Get {
        /// http://10.77.0.254:8000/file, or HOST:PORT.
        #[arg(value_name = "URL")]
        source: Source,
        /// Write it to a file; - is standard output.
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        #[command(flatten)]
        host: HostArgs,
    },
    /// Send a file to a server, and write to standard output what it answers.
    Send {
        /// HOST:PORT.
        #[arg(value_parser = transfer::peer)]
        peer: String,
        /// The file; - is standard input.
        #[arg(default_value = "-")]
        file: PathBuf,
        /// Send so many bytes of a pattern instead.
        #[arg(long, value_name = "SIZE", value_parser = values::size, conflicts_with = "file")]
        bytes: Option<ByteCount>,
        #[command(flatten)]
        host: HostArgs,
    },
    /// Be an iperf3 server or client.
    Iperf3(Box<iperf::IperfArgs>),
    /// Read blocks from many servers at once through one small port of the switch, and see it
    /// collapse; the simulated run with the same settings beside it.
    ///
    /// The servers are hosts of ours, a TAP each, and the client is the kernel's; or the other way
    /// round, with --senders kernel. Uses a lab of its own. LIST is as in `narrows incast`.
    Incast(Box<incast::LiveIncastArgs>),
}

#[derive(Debug, Args)]
struct LabName {
    /// The lab; its namespaces are called NAME and NAME-switch.
    #[arg(long = "lab", value_name = "NAME", default_value = "narrows")]
    name: String,
}

const ECN: &[Word<EcnMode>] = &[
    ("off", "Neither offer nor accept", EcnMode::Off),
    ("accept", "Accept, do not offer", EcnMode::Accept),
    (
        "classic",
        "Offer and accept, as in RFC 3168",
        EcnMode::Classic,
    ),
    (
        "dctcp",
        "Offer and accept, feedback as in RFC 8257",
        EcnMode::Dctcp,
    ),
];

/// What a host of ours is connected with.
const DEVICES: &[Word<Device>] = &[
    ("tap", "A TAP interface", Device::Tap),
    ("xdp", "AF_XDP, at one end of a veth", Device::Xdp),
];

#[derive(Debug, Args)]
struct HostArgs {
    /// The lab, which is made for as long as needed if it is not up.
    #[arg(long = "lab", value_name = "NAME", default_value = "narrows", help_heading = HOST)]
    name: String,
    /// Be 10.77.0.N [default: 1 for servers, one that is free for clients].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=250), help_heading = HOST)]
    host: Option<u8>,
    /// What it is connected with. With xdp every segment is a frame of its own.
    #[arg(long, value_name = "DEVICE", default_value = "tap", value_parser = one_of(DEVICES), help_heading = HOST)]
    device: Device,
    /// No checksum and segmentation offload: every segment is a frame of its own.
    #[arg(long, help_heading = HOST)]
    no_offload: bool,
    /// Capture every frame as pcapng with nanosecond times.
    #[arg(long, value_name = "FILE", help_heading = HOST)]
    pcap: Option<PathBuf>,
    /// Keep the first so many bytes of each frame in the capture [default: all].
    #[arg(long, value_name = "SIZE", value_parser = values::snap_length, requires = "pcap", help_heading = HOST)]
    snaplen: Option<ByteCount>,
    /// Congestion control.
    #[arg(long, value_name = "NAME", default_value = "cubic", help_heading = TCP)]
    cc: String,
    /// RTO policy, or the floor of RFC 6298's.
    #[arg(long, value_name = "NAME", default_value = "linux", help_heading = TCP)]
    rto: String,
    /// Loss detector.
    #[arg(long, value_name = "NAME", default_value = "rack", help_heading = TCP)]
    loss: String,
    /// What a segment means that the device refused.
    #[arg(long, value_name = "NAME", default_value = "requeue", help_heading = TCP)]
    local_drop: String,
    /// Explicit congestion notification.
    #[arg(long, default_value = "accept", value_parser = one_of(ECN), help_heading = TCP)]
    ecn: EcnMode,
    /// Send and receive buffer of a connection.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = values::allowed("1B to 1GiB", values::size), help_heading = TCP)]
    buffer: ByteCount,
    /// Acknowledge every segment at once.
    #[arg(long, help_heading = TCP)]
    no_delayed_ack: bool,
    /// Memory of all connections together; short of it, windows are refused, then connections
    /// [default: an eighth of the machine's].
    #[arg(long, value_name = "SIZE", value_parser = values::allowed("64KiB to 1TiB", values::size), help_heading = TCP)]
    memory: Option<ByteCount>,
    /// Be scheduled in real time, with a priority of 1 to 99 [default: 1]: a flood of packets
    /// waits then for none but us.
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u8).range(1..=99), help_heading = HOST)]
    real_time: Option<u8>,
}

impl From<LiveError> for Stop {
    fn from(e: LiveError) -> Self {
        Self::Failed(e.to_string())
    }
}

pub(super) fn run(
    app: &App,
    args: &LiveArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    narrows::driver::return_large_blocks();
    match &args.command {
        LiveCommand::Up { lab, mtu, wait } => up(&lab.name, *mtu, *wait, console),
        LiveCommand::Down { lab } => {
            let mut text = match Lab::down(&lab.name)? {
                Down::Removed => format!("lab {} is removed\n", lab.name),
                Down::NotThere => format!("there is no lab {}\n", lab.name),
            };
            for name in lab::sweep()? {
                text += &format!("lab {name} is removed: the program that made it is gone\n");
            }
            output::print(console.stdout, &text)?;
            Ok(EXIT_OK)
        }
        LiveCommand::Status { lab } => status(&lab.name, console),
        LiveCommand::Exec { lab, command } => exec(&lab.name, command),
        LiveCommand::Serve {
            echo,
            discard,
            chargen,
            http,
            port,
            host,
        } => {
            let small = [
                (*echo, Service::Echo),
                (*discard, Service::Discard),
                (*chargen, Service::Chargen),
            ];
            let small = small.into_iter().filter_map(|(on, s)| on.then_some(s));
            serve(app, small.collect(), http.as_deref(), *port, host, console)
        }
        LiveCommand::Get {
            source,
            output,
            host,
        } => get(app, source, output, host, console),
        LiveCommand::Send {
            peer,
            file,
            bytes,
            host,
        } => send(app, peer, file, *bytes, host, console),
        LiveCommand::Iperf3(args) => iperf::run(app, args, console),
        LiveCommand::Incast(args) => incast::run(app, args, command, console),
    }
}

fn up(name: &str, mtu: Option<u32>, wait: bool, console: &mut Console<'_>) -> Result<u8, Stop> {
    if !wait {
        let (lab, up) = Lab::up(name, mtu)?;
        output::print(console.stdout, &is_up(&lab, up))?;
        return Ok(EXIT_OK);
    }
    let borrowed = Borrowed::new(name, mtu)?;
    output::print(console.stdout, &is_up(borrowed.lab(), borrowed.up()))?;
    runtime()?.block_on(cancelled(console.cancel));
    if borrowed.up() != Up::Already {
        Lab::down(name)?;
    }
    Ok(EXIT_INTERRUPTED)
}

fn is_up(lab: &Lab, up: Up) -> String {
    let name = lab.name();
    let how = match up {
        Up::Created => "is up",
        Up::Already => "was up already",
        Up::Reclaimed => "is up, in place of what was left of it",
    };
    let [v4, v6] = lab::addresses(lab::KERNEL);
    format!(
        "lab {name} {how}: the kernel is {v4} and {v6}, hosts of ours are 10.77.0.1 and so on\n"
    )
}

fn status(name: &str, console: &mut Console<'_>) -> Result<u8, Stop> {
    let lab = match Lab::find(name) {
        Ok(lab) => lab,
        Err(LiveError::NoLab(_)) => {
            output::print(console.stdout, &format!("lab {name} is down\n"))?;
            return Ok(EXIT_OK);
        }
        Err(e) => return Err(e.into()),
    };
    let status = lab.status()?;
    let mut text = format!("lab {name} is up, MTU {}\n", status.mtu);
    for host in status.hosts {
        let [v4, v6] = lab::addresses(host);
        text += &format!("  host {host}: narrows at {v4} and {v6}\n");
    }
    let [v4, v6] = lab::addresses(lab::KERNEL);
    let pids: Vec<String> = status.processes.iter().map(u32::to_string).collect();
    text += &format!("  the kernel at {v4} and {v6}");
    text += &match pids.is_empty() {
        true => "\n".to_owned(),
        false => format!(", processes {}\n", pids.join(", ")),
    };
    output::print(console.stdout, &text)?;
    Ok(EXIT_OK)
}

fn exec(name: &str, command: &[OsString]) -> Result<u8, Stop> {
    Err(Lab::find(name)?.become_program(command).into())
}

impl HostArgs {
    /// `numbers`: which hosts it may be if it is not said.
    fn config(&self, catalog: &Catalog, numbers: RangeInclusive<u8>) -> Result<HostConfig, Stop> {
        let unknown = |option, kind, name: &str| {
            let why = catalog.check(kind, name).err().unwrap_or_default();
            usage(option, name, &why)
        };
        output::apart(&[output::Wanted::file("pcap", self.pcap.as_deref())])?;
        let usual = TcpConfig::default();
        let buffer = self.buffer.as_usize();
        let mut tcp = TcpConfig {
            congestion: catalog
                .registry
                .congestion
                .get(&self.cc)
                .map_err(|_| unknown("cc", Kind::Congestion, &self.cc))?,
            rto: catalog
                .registry
                .rto
                .get(&self.rto)
                .map_err(|_| unknown("rto", Kind::Rto, &self.rto))?,
            detector: catalog
                .registry
                .detectors
                .get(&self.loss)
                .map_err(|_| unknown("loss", Kind::LossDetector, &self.loss))?,
            local_drop: catalog
                .registry
                .local_drop
                .get(&self.local_drop)
                .map_err(|_| unknown("local-drop", Kind::LocalDrop, &self.local_drop))?,
            ecn: self.ecn,
            buffers: Buffers {
                send: buffer,
                send_use: SendBufferUse::ByFlight,
                recv: buffer,
                ..usual.buffers
            },
            ..usual
        };
        if self.no_delayed_ack {
            tcp.ack = narrows::config::AckPolicy::IMMEDIATE;
        }
        if let Some(memory) = self.memory.filter(|m| *m < ByteCount::new(64 << 10)) {
            let why = "one connection takes a part of that; allowed is 64KiB to 1TiB";
            return Err(usage("memory", &format!("{} bytes", memory.get()), why));
        }
        tcp.validate().map_err(|e| {
            usage(
                "buffer",
                &format!("{} bytes", self.buffer.get()),
                &e.to_string(),
            )
        })?;
        Ok(HostConfig {
            lab: self.name.clone(),
            numbers: self.host.map_or(numbers, |n| n..=n),
            plug: match self.device {
                Device::Tap => Plug::Tap {
                    offload: !self.no_offload,
                },
                Device::Xdp => Plug::Xdp,
            },
            tcp,
            memory: self.memory.map_or_else(usual_memory, MemoryLimit::new),
            real_time: self.real_time.and_then(RealTime::new),
            capture: self.pcap.clone(),
            snap_length: self.snaplen,
        })
    }
}

/// Start a host, run `work` on it until it is done or Ctrl-C, and stop the host. What it needs to
/// say goes to standard output, or to standard error if that is for data.
fn on_host<T>(
    config: HostConfig,
    grace: std::time::Duration,
    console: &mut Console<'_>,
    work: impl AsyncFnOnce(&LiveHost, &mut dyn Write, &mut dyn Write) -> Result<T, LiveError>,
) -> Result<(Option<T>, StackStats), Stop> {
    let runtime = runtime()?;
    let done: Result<_, LiveError> = runtime.block_on(async {
        let host = LiveHost::start(config)?;
        let cancel = console.cancel;
        let done = tokio::select! {
            biased;
            () = cancelled(cancel) => Ok(None),
            done = work(&host, console.stdout, console.stderr) => done.map(Some),
        };
        let stopped = host.stop(grace).await;
        let done = done?;
        Ok((done, stopped?))
    });
    // A thread that waits for a terminal or a disk is not waited for.
    runtime.shutdown_background();
    Ok(done?)
}

fn serve(
    app: &App,
    small: Vec<Service>,
    http: Option<&Path>,
    port: Option<u16>,
    args: &HostArgs,
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    if let (Some(port), true) = (port, small.len() + usize::from(http.is_some()) > 1) {
        let why = "it is for a single service";
        return Err(usage("port", &port.to_string(), why));
    }
    if let Some(folder) = http.filter(|f| !f.is_dir()) {
        let why = "there is no such folder";
        return Err(usage("http", &folder.display().to_string(), why));
    }
    let config = args.config(&app.catalog, SERVER..=SERVER)?;
    let served = Arc::new(AtomicU64::new(0));
    let count = served.clone();
    let work = async move |host: &LiveHost, out: &mut dyn Write, _: &mut dyn Write| {
        let mut running: Vec<serve::Running> = Vec::new();
        let mut text = String::new();
        let [v4, v6] = host.addresses();
        for service in small {
            let port = port.unwrap_or(service.port());
            for listener in serve::listen(host, port).await? {
                running.push(Box::pin(serve::run(service, listener, count.clone())));
            }
            text += &format!("{} on {v4} and {v6}, port {port}\n", service.name());
        }
        if let Some(folder) = http {
            let port = port.unwrap_or(80);
            for listener in serve::listen(host, port).await? {
                let folder = folder.to_owned();
                running.push(Box::pin(http::run(folder, listener, count.clone())));
            }
            text += &match port {
                80 => format!("http://{v4}/ and http://[{v6}]/\n"),
                port => format!("http://{v4}:{port}/ and http://[{v6}]:{port}/\n"),
            };
        }
        say(out, &text)?;
        let ended = serve::first_of(running).await;
        ended.map_err(|e| LiveError::io("go on serving", e))
    };
    let (_, stats) = on_host(config, serve::GRACE, console, work)?;
    let mut text = format!("{} connections served\n", served.load(Ordering::Relaxed));
    text += &refusals(&stats);
    output::print(console.stdout, &text)?;
    Ok(EXIT_INTERRUPTED)
}

/// What was refused, if anything was.
fn refusals(stats: &StackStats) -> String {
    let (memory, strangers) = (&stats.memory, stats.endpoint.strangers_dropped);
    let mut text = String::new();
    let refused = memory.writes_refused + memory.text_dropped + memory.connections_refused;
    if refused > 0 {
        let limit = memory.limit.map_or(ByteCount::ZERO, |l| l.max());
        text += &format!(
            "short of memory ({limit}): {} connections refused, {} writes cut, {} segments dropped\n",
            memory.connections_refused, memory.writes_refused, memory.text_dropped
        );
    }
    if strangers > 0 {
        text += &format!("{strangers} packets of strangers dropped: more than could be answered\n");
    }
    text
}

/// Tell at once; that nobody listens any more is no reason to stop.
fn say(out: &mut dyn Write, text: &str) -> Result<(), LiveError> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(LiveError::io("write to the terminal", e))
        }
        _ => Ok(()),
    }
}

/// How long a client waits for its peer to close.
const GRACE: std::time::Duration = std::time::Duration::from_secs(5);

fn get(
    app: &App,
    source: &Source,
    file: &Path,
    args: &HostArgs,
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let config = args.config(&app.catalog, CLIENTS)?;
    let mut file = match file == Path::new("-") {
        true => None,
        false => Some(output::OutputFile::create("file", file)?),
    };
    let work = async |host: &LiveHost, out: &mut dyn Write, _: &mut dyn Write| {
        let out = match &mut file {
            Some(file) => file,
            None => out,
        };
        transfer::get(host.stack(), source, out).await
    };
    let (Some(transfer), _) = on_host(config, GRACE, console, work)? else {
        return Ok(EXIT_INTERRUPTED);
    };
    let bad = transfer.status.filter(|s| !s.is_success());
    if let Some(status) = bad {
        // An error's page is not what was asked for: the file stays as it was.
        output::print(
            console.stderr,
            &format!("narrows: the server says {status}\n"),
        )?;
        return Ok(EXIT_FAILED);
    }
    if let Some(file) = file {
        file.finish()?;
    }
    console.say_aside(&format!("{}\n", transfer.sentence()))?;
    Ok(EXIT_OK)
}

fn send(
    app: &App,
    peer: &str,
    file: &Path,
    bytes: Option<ByteCount>,
    args: &HostArgs,
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let config = args.config(&app.catalog, CLIENTS)?;
    let text = match bytes {
        Some(bytes) => Text::Pattern(bytes.get()),
        None if file == Path::new("-") => Text::From(Box::new(io::stdin())),
        None => {
            let open = File::open(file);
            let open = open.map_err(|e| usage("file", &file.display().to_string(), &e.to_string()));
            Text::From(Box::new(open?))
        }
    };
    let work = async |host: &LiveHost, out: &mut dyn Write, _: &mut dyn Write| {
        transfer::send(host.stack(), peer, text, Ending::Close, out).await
    };
    let (Some(transfer), _) = on_host(config, GRACE, console, work)? else {
        return Ok(EXIT_INTERRUPTED);
    };
    console.say_aside(&format!("{}\n", transfer.sentence()))?;
    Ok(EXIT_OK)
}
