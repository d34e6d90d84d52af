// A leaf-spine of many hosts in ns-3, to be set beside the same run of narrows: how many packets
// a second of processor time, and how much memory. benches/beside_ns3.py builds and runs it.
//
// The traffic is that of benches/experiments/shuffle-256.toml or fan-out-256.toml:
//   shuffle  each host has --size bytes for each other and sends to --parallel of them at once, in
//            an order drawn for it; the receiver of all of a transfer says so with a byte.
//   fan-out  queries arrive at each host in a Poisson process, so that --load of replies come to
//            it; each is put to --k others, who reply with --size bytes. Stops after --duration.
// A connection from each host to each other, opened when the run starts; traffic begins 1 ms later.
// Drop-tail queues in bytes at all switch ports, no queue discs, NewReno with SACK, no timestamps,
// an ACK for each packet. A leaf chooses the spine by a hash of the flow. The routes are computed
// from the address by a class of this program: global routing would look through a list of all
// networks for each packet, and takes long to set up.
//
// Prints lines of NAME VALUE. CPU seconds are user time: until Simulator::Run, and of that call.
//
// Build (libns3-dev, and libgsl-dev, which its pkg-config files name):
//   g++ -O2 -std=c++17 leaf_spine.cc $(pkg-config --cflags --libs
//     ns3-core ns3-network ns3-internet ns3-point-to-point ns3-traffic-control)

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

constexpr uint16_t kPort = 5001;
constexpr uint32_t kRequest = 64;
// 10.0.0.0, where each link has four addresses; the links of hosts come first, in their order.
constexpr uint32_t kBase = 10u << 24;

uint64_t g_segments = 0;
uint64_t g_timeouts = 0;
uint64_t g_transfers = 0;
uint64_t g_received = 0;

// A segment leaves a socket, retransmissions included.
void Sent(Ptr<const Packet> payload, const TcpHeader&, Ptr<const TcpSocketBase>) {
  g_segments += payload->GetSize() > 0;
}

// NewReno that counts retransmission timeouts: the socket tells it of each.
class CountingNewReno : public TcpNewReno {
 public:
  static TypeId GetTypeId() {
    static TypeId tid = TypeId("leafspine::CountingNewReno")
                            .SetParent<TcpNewReno>()
                            .AddConstructor<CountingNewReno>();
    return tid;
  }
  void CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event) override {
    g_timeouts += event == TcpSocketState::CA_EVENT_LOSS;
    TcpNewReno::CwndEvent(tcb, event);
  }
  Ptr<TcpCongestionOps> Fork() override { return CopyObject<CountingNewReno>(this); }
};

// What all routers know: interface 0 is the loopback, those of a leaf are its hosts and then its
// spines, those of a spine its leaves, and a host has one.
struct Shape {
  uint32_t hosts;
  uint32_t spines;
};
enum class Tier { kHost, kLeaf, kSpine };

class Router : public Ipv4RoutingProtocol {
 public:
  Router(Shape shape, Tier tier, uint32_t number, uint32_t salt)
      : m_shape(shape), m_tier(tier), m_number(number), m_salt(salt) {}

  Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header&, Ptr<NetDevice>,
                             Socket::SocketErrno& error) override {
    error = Socket::ERROR_NOTERROR;
    return m_routes[1];
  }

  bool RouteInput(Ptr<const Packet> packet, const Ipv4Header& header, Ptr<const NetDevice> device,
                  UnicastForwardCallback forward, MulticastForwardCallback,
                  LocalDeliverCallback local, ErrorCallback) override {
    if (m_tier == Tier::kHost) {
      local(packet, header, m_ipv4->GetInterfaceForDevice(device));
      return true;
    }
    uint32_t host = (header.GetDestination().Get() - kBase) / 4;
    uint32_t leaf = host / m_shape.hosts;
    uint32_t out;
    if (m_tier == Tier::kSpine) {
      out = leaf;
    } else if (leaf == m_number) {
      out = host % m_shape.hosts;
    } else {
      uint32_t ports = 0;
      packet->CopyData(reinterpret_cast<uint8_t*>(&ports), sizeof(ports));
      uint64_t hash = (uint64_t{header.GetSource().Get()} << 32 | header.GetDestination().Get()) +
                      (uint64_t{ports} << 16 ^ m_salt) * 0x9e3779b97f4a7c15u;
      hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
      hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
      out = m_shape.hosts + (hash >> 33) % m_shape.spines;
    }
    forward(m_routes[out + 1], packet, header);
    return true;
  }

  void NotifyInterfaceUp(uint32_t) override {}
  void NotifyInterfaceDown(uint32_t) override {}
  void NotifyAddAddress(uint32_t interface, Ipv4InterfaceAddress address) override {
    if (m_routes.size() <= interface) {
      m_routes.resize(interface + 1);
    }
    Ptr<Ipv4Route> route = Create<Ipv4Route>();
    route->SetSource(address.GetLocal());
    route->SetGateway(Ipv4Address::GetZero());
    route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
    m_routes[interface] = route;
  }
  void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
  void SetIpv4(Ptr<Ipv4> ipv4) override { m_ipv4 = ipv4; }
  void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

 private:
  Shape m_shape;
  Tier m_tier;
  uint32_t m_number;
  uint32_t m_salt;
  Ptr<Ipv4> m_ipv4;
  std::vector<Ptr<Ipv4Route>> m_routes;
};

class RouterHelper : public Ipv4RoutingHelper {
 public:
  explicit RouterHelper(Shape shape, Tier tier) : m_shape(shape), m_tier(tier) {}
  RouterHelper* Copy() const override { return new RouterHelper(*this); }
  Ptr<Ipv4RoutingProtocol> Create(Ptr<Node>) const override {
    return ns3::Create<Router>(m_shape, m_tier, m_next++, m_random->GetInteger());
  }

 private:
  Shape m_shape;
  Tier m_tier;
  mutable uint32_t m_next = 0;
  Ptr<UniformRandomVariable> m_random = CreateObject<UniformRandomVariable>();
};

// What traffic there is.
struct Traffic {
  bool shuffle = true;
  uint32_t size = 50000;
  uint32_t parallel = 4;
  uint32_t k = 8;
  Time interval;
  uint64_t unfinished = 0;
};

// A connection of a host, by the socket.
struct Channel {
  Ptr<Socket> socket;
  bool opened = false;
  uint32_t read = 0;
  uint64_t unwritten = 0;
  std::deque<uint64_t> queries;
};

// A host: it sends to each other, or asks and replies.
class Host : public Application {
 public:
  Host(uint32_t number, std::vector<Address>* hosts, Traffic* traffic)
      : m_number(number), m_hosts(hosts), m_traffic(traffic) {}

 private:
  void StartApplication() override {
    m_listener = Socket::CreateSocket(GetNode(), TcpSocketFactory::GetTypeId());
    m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
    m_listener->Listen();
    m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                  MakeCallback(&Host::Accepted, this));
    // After all hosts listen.
    Simulator::ScheduleNow(&Host::Open, this);
    Simulator::Schedule(MilliSeconds(1), &Host::SetUp, this);
  }
  void Open() {
    for (uint32_t peer = 0; peer < m_hosts->size(); ++peer) {
      if (peer == m_number) {
        continue;
      }
      Ptr<Socket> socket = Socket::CreateSocket(GetNode(), TcpSocketFactory::GetTypeId());
      socket->SetConnectCallback(MakeCallback(&Host::Connected, this),
                                 MakeNullCallback<void, Ptr<Socket>>());
      m_opened.push_back(Adopt(socket, true));
      socket->Connect((*m_hosts)[peer]);
    }
  }
  void Accepted(Ptr<Socket> socket, const Address&) { Adopt(socket, false); }
  Channel* Adopt(Ptr<Socket> socket, bool opened) {
    Channel* channel = &m_channels[PeekPointer(socket)];
    channel->socket = socket;
    channel->opened = opened;
    socket->SetRecvCallback(MakeCallback(&Host::Readable, this));
    socket->SetSendCallback(MakeCallback(&Host::Writable, this));
    socket->TraceConnectWithoutContext("Tx", MakeCallback(&Sent));
    return channel;
  }
  void Connected(Ptr<Socket>) {
    ++m_connected;
    Begin();
  }
  void SetUp() {
    m_setUp = true;
    Begin();
  }
  void Begin() {
    if (!m_setUp || m_connected < m_opened.size()) {
      return;
    }
    if (m_traffic->shuffle) {
      m_turns = m_opened;
      Shuffle(m_turns, m_turns.size());
      for (uint32_t n = 0; n < m_traffic->parallel; ++n) {
        SendNext();
      }
    } else {
      WaitForQuery();
    }
  }

  void SendNext() {
    if (!m_turns.empty()) {
      Channel* channel = m_turns.back();
      m_turns.pop_back();
      Send(channel, m_traffic->size);
    }
  }

  void WaitForQuery() {
    Time wait = NanoSeconds(m_exponential->GetValue() * m_traffic->interval.GetNanoSeconds());
    Simulator::Schedule(wait, &Host::Ask, this);
  }
  void Ask() {
    uint64_t query = m_asked++;
    m_missing[query] = m_traffic->k;
    Shuffle(m_opened, m_traffic->k);
    for (uint32_t n = 0; n < m_traffic->k; ++n) {
      m_opened[n]->queries.push_back(query);
      Send(m_opened[n], kRequest);
    }
    WaitForQuery();
  }

  // Draws the first `some`.
  void Shuffle(std::vector<Channel*>& channels, size_t some) {
    for (size_t i = 0; i < some; ++i) {
      std::swap(channels[i], channels[m_random->GetInteger(i, channels.size() - 1)]);
    }
  }

  void Send(Channel* channel, uint32_t bytes) {
    channel->unwritten += bytes;
    Write(channel);
  }
  void Writable(Ptr<Socket> socket, uint32_t) { Write(&m_channels[PeekPointer(socket)]); }
  void Write(Channel* channel) {
    while (channel->unwritten > 0) {
      uint32_t n = std::min<uint64_t>(channel->unwritten, channel->socket->GetTxAvailable());
      if (n == 0 || channel->socket->Send(Create<Packet>(n)) < 0) {
        return;
      }
      channel->unwritten -= n;
    }
  }

  void Readable(Ptr<Socket> socket) {
    Channel* channel = &m_channels[PeekPointer(socket)];
    while (Ptr<Packet> packet = socket->Recv()) {
      channel->read += packet->GetSize();
      if (channel->opened != m_traffic->shuffle) {
        g_received += packet->GetSize();
      }
    }
    if (m_traffic->shuffle) {
      ReadShuffle(channel);
    } else {
      ReadFanOut(channel);
    }
  }
  void ReadShuffle(Channel* channel) {
    if (channel->opened) {
      for (; channel->read > 0; --channel->read) {
        SendNext();
      }
    } else if (channel->read == m_traffic->size) {
      channel->read = 0;
      ++g_transfers;
      Send(channel, 1);
      if (--m_traffic->unfinished == 0) {
        Simulator::Stop();
      }
    }
  }
  void ReadFanOut(Channel* channel) {
    uint32_t whole = channel->opened ? m_traffic->size : kRequest;
    for (; channel->read >= whole; channel->read -= whole) {
      if (!channel->opened) {
        Send(channel, m_traffic->size);
        continue;
      }
      auto query = m_missing.find(channel->queries.front());
      channel->queries.pop_front();
      if (--query->second == 0) {
        ++g_transfers;
        m_missing.erase(query);
      }
    }
  }

  uint32_t m_number;
  std::vector<Address>* m_hosts;
  Traffic* m_traffic;
  Ptr<Socket> m_listener;
  std::map<Socket*, Channel> m_channels;
  std::vector<Channel*> m_opened;
  std::vector<Channel*> m_turns;
  size_t m_connected = 0;
  bool m_setUp = false;
  uint64_t m_asked = 0;
  std::map<uint64_t, uint32_t> m_missing;
  Ptr<UniformRandomVariable> m_random = CreateObject<UniformRandomVariable>();
  Ptr<ExponentialRandomVariable> m_exponential = CreateObject<ExponentialRandomVariable>();
};

double UserSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6;
}

}  // namespace

int main(int argc, char* argv[]) {
  uint32_t leaves = 16;
  uint32_t spines = 4;
  uint32_t perLeaf = 16;
  uint32_t buffer = 256 * 1024;
  uint32_t seed = 1;
  std::string traffic = "shuffle";
  std::string hostRate = "10Gbps";
  std::string trunkRate = "40Gbps";
  DataRate load("8Gbps");
  Time delay = MicroSeconds(1);
  Time rtoMin = MilliSeconds(1);
  Time duration = Seconds(10);
  Traffic what;
  CommandLine cmd;
  cmd.AddValue("traffic", "shuffle or fan-out", traffic);
  cmd.AddValue("leaves", "leaf switches", leaves);
  cmd.AddValue("spines", "spine switches", spines);
  cmd.AddValue("hosts", "hosts on each leaf", perLeaf);
  cmd.AddValue("size", "bytes of a transfer or of a reply", what.size);
  cmd.AddValue("parallel", "of shuffle: to how many a host sends at once", what.parallel);
  cmd.AddValue("k", "of fan-out: servers of a query", what.k);
  cmd.AddValue("load", "of fan-out: rate of replies to each host", load);
  cmd.AddValue("duration", "simulated time at most", duration);
  cmd.AddValue("buffer", "bytes of each switch port", buffer);
  cmd.AddValue("hostRate", "of the links of hosts", hostRate);
  cmd.AddValue("trunkRate", "of the links between switches", trunkRate);
  cmd.AddValue("delay", "of every link, one way", delay);
  cmd.AddValue("rtoMin", "least retransmission timeout", rtoMin);
  cmd.AddValue("seed", "run number", seed);
  cmd.Parse(argc, argv);
  if (traffic != "shuffle" && traffic != "fan-out") {
    std::fprintf(stderr, "there is no traffic %s\n", traffic.c_str());
    return 2;
  }
  uint32_t count = leaves * perLeaf;
  what.shuffle = traffic == "shuffle";
  what.unfinished = uint64_t{count} * (count - 1);
  what.interval = Seconds(what.k * (what.size * 8.0) / load.GetBitRate());

  RngSeedManager::SetSeed(1);
  RngSeedManager::SetRun(seed);
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(CountingNewReno::GetTypeId()));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
  // Six are the default, and 127 ms of doubled timeouts of a millisecond give a connection up.
  Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000));
  Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(rtoMin));
  Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));

  NodeContainer hosts, leaf, spine;
  hosts.Create(count);
  leaf.Create(leaves);
  spine.Create(spines);
  auto install = [&](const NodeContainer& nodes, Tier tier) {
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.SetRoutingHelper(RouterHelper({perLeaf, spines}, tier));
    stack.Install(nodes);
  };
  install(hosts, Tier::kHost);
  install(leaf, Tier::kLeaf);
  install(spine, Tier::kSpine);

  PointToPointHelper link;
  link.SetChannelAttribute("Delay", TimeValue(delay));
  link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize",
                QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, buffer)));
  Ipv4AddressHelper addresses(Ipv4Address(kBase), Ipv4Mask("255.255.255.252"));
  auto connect = [&](Ptr<Node> a, Ptr<Node> b, const std::string& rate) {
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    NetDeviceContainer ends = link.Install(a, b);
    Ipv4InterfaceContainer interfaces = addresses.Assign(ends);
    addresses.NewNetwork();
    TrafficControlHelper().Uninstall(ends);
    return std::make_pair(ends, interfaces.GetAddress(0));
  };
  std::vector<Address> to;
  for (uint32_t h = 0; h < count; ++h) {
    auto [ends, address] = connect(hosts.Get(h), leaf.Get(h / perLeaf), hostRate);
    auto nic = CreateObject<DropTailQueue<Packet>>();
    nic->SetMaxSize(QueueSize("100000p"));
    DynamicCast<PointToPointNetDevice>(ends.Get(0))->SetQueue(nic);
    to.push_back(InetSocketAddress(address, kPort));
    Ptr<Host> host = CreateObject<Host>(h, &to, &what);
    hosts.Get(h)->AddApplication(host);
    host->SetStartTime(Seconds(0));
  }
  for (uint32_t l = 0; l < leaves; ++l) {
    for (uint32_t s = 0; s < spines; ++s) {
      connect(leaf.Get(l), spine.Get(s), trunkRate);
    }
  }

  Simulator::Stop(duration);
  double before = UserSeconds();
  Simulator::Run();
  double after = UserSeconds();
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("packets %llu\n", static_cast<unsigned long long>(g_segments));
  std::printf("transfers %llu\n", static_cast<unsigned long long>(g_transfers));
  std::printf("received %llu\n", static_cast<unsigned long long>(g_received));
  std::printf("timeouts %llu\n", static_cast<unsigned long long>(g_timeouts));
  std::printf("simulated %.9f\n", Simulator::Now().GetSeconds());
  std::printf("events %llu\n", static_cast<unsigned long long>(Simulator::GetEventCount()));
  std::printf("setup_cpu %.3f\n", before);
  std::printf("run_cpu %.3f\n", after - before);
  std::printf("rss_kib %ld\n", usage.ru_maxrss);
  // Not taken apart: the process ends here, and what it took is measured.
  std::fflush(stdout);
  _Exit(0);
}
