// One barrier-synchronised incast in ns-3, to be set beside the same run of narrows.
//
// A client asks all servers for their part of a block at once, waits until every part is there,
// and asks for the next block. Star of point-to-point links, a drop-tail queue in bytes at the
// switch port to the client and no queue disc anywhere, NewReno with SACK, no timestamps, an ACK
// for each packet (or, with --delAck=2, for two of them or after 200 ms). Prints one line:
//   goodput_mbps timeouts blocks simulated_seconds
//
// Build (libns3-dev, and libgsl-dev, which its pkg-config files name):
//   g++ -O2 -std=c++17 incast.cc $(pkg-config --cflags --libs
//     ns3-core ns3-network ns3-internet ns3-point-to-point ns3-traffic-control)

#include <algorithm>
#include <cstdio>
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

uint64_t g_timeouts = 0;

// NewReno that counts retransmission timeouts: the socket tells it of each.
class CountingNewReno : public TcpNewReno {
 public:
  static TypeId GetTypeId() {
    static TypeId tid = TypeId("incast::CountingNewReno")
                            .SetParent<TcpNewReno>()
                            .AddConstructor<CountingNewReno>();
    return tid;
  }
  void CwndEvent(Ptr<TcpSocketState> tcb,
                 const TcpSocketState::TcpCAEvent_t event) override {
    if (event == TcpSocketState::CA_EVENT_LOSS) {
      ++g_timeouts;
    }
    TcpNewReno::CwndEvent(tcb, event);
  }
  Ptr<TcpCongestionOps> Fork() override {
    return CopyObject<CountingNewReno>(this);
  }
};

// Answers each request with so many bytes.
class Server : public Application {
 public:
  Server(uint32_t share, Time jitter) : m_share(share), m_jitter(jitter) {}

 private:
  void StartApplication() override {
    m_listener = Socket::CreateSocket(GetNode(), TcpSocketFactory::GetTypeId());
    m_listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
    m_listener->Listen();
    m_listener->SetAcceptCallback(
        MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
        MakeCallback(&Server::Accepted, this));
  }
  void Accepted(Ptr<Socket> socket, const Address&) {
    m_socket = socket;
    socket->SetRecvCallback(MakeCallback(&Server::Readable, this));
    socket->SetSendCallback(MakeCallback(&Server::Writable, this));
  }
  void Readable(Ptr<Socket> socket) {
    while (Ptr<Packet> packet = socket->Recv()) {
      m_heard += packet->GetSize();
    }
    while (m_heard >= kRequest) {
      m_heard -= kRequest;
      Time late = NanoSeconds(m_random->GetInteger(0, m_jitter.GetNanoSeconds()));
      Simulator::Schedule(late, &Server::Answer, this);
    }
  }
  void Answer() {
    m_waiting += m_share;
    Write();
  }
  void Writable(Ptr<Socket>, uint32_t) { Write(); }
  void Write() {
    while (m_waiting > 0) {
      uint32_t n = std::min(m_waiting, m_socket->GetTxAvailable());
      if (n == 0 || m_socket->Send(Create<Packet>(n)) < 0) {
        return;
      }
      m_waiting -= n;
    }
  }

  uint32_t m_share;
  Time m_jitter;
  uint32_t m_waiting = 0;
  uint32_t m_heard = 0;
  Ptr<Socket> m_listener;
  Ptr<Socket> m_socket;
  Ptr<UniformRandomVariable> m_random = CreateObject<UniformRandomVariable>();
};

// Asks for blocks and waits for them.
class Client : public Application {
 public:
  Client(std::vector<Address> servers, uint32_t share, uint32_t blocks)
      : m_servers(std::move(servers)), m_share(share), m_blocks(blocks) {}

  uint64_t bytes = 0;
  uint32_t done = 0;
  Time began;
  Time ended;

 private:
  void StartApplication() override {
    for (const Address& server : m_servers) {
      Ptr<Socket> socket = Socket::CreateSocket(GetNode(), TcpSocketFactory::GetTypeId());
      socket->SetConnectCallback(MakeCallback(&Client::Connected, this),
                                 MakeNullCallback<void, Ptr<Socket>>());
      socket->SetRecvCallback(MakeCallback(&Client::Readable, this));
      socket->Connect(server);
      m_sockets.push_back(socket);
    }
  }
  void Connected(Ptr<Socket>) {
    if (++m_connected == m_sockets.size()) {
      began = Simulator::Now();
      Ask();
    }
  }
  void Ask() {
    m_unfinished = m_sockets.size();
    std::vector<Ptr<Socket>> order = m_sockets;
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[m_random->GetInteger(0, i - 1)]);
    }
    for (Ptr<Socket> socket : order) {
      m_missing[socket] = m_share;
      socket->Send(Create<Packet>(kRequest));
    }
  }
  void Readable(Ptr<Socket> socket) {
    while (Ptr<Packet> packet = socket->Recv()) {
      bytes += packet->GetSize();
      uint32_t& missing = m_missing[socket];
      missing -= packet->GetSize();
      if (missing > 0 || --m_unfinished > 0) {
        continue;
      }
      if (++done == m_blocks) {
        ended = Simulator::Now();
        Simulator::Stop();
        return;
      }
      Ask();
    }
  }

  std::vector<Address> m_servers;
  uint32_t m_share;
  uint32_t m_blocks;
  size_t m_connected = 0;
  size_t m_unfinished = 0;
  std::vector<Ptr<Socket>> m_sockets;
  std::map<Ptr<Socket>, uint32_t> m_missing;
  Ptr<UniformRandomVariable> m_random = CreateObject<UniformRandomVariable>();
};

}  // namespace

int main(int argc, char* argv[]) {
  uint32_t servers = 8;
  uint32_t blocks = 20;
  uint32_t sru = 256 * 1024;
  uint32_t buffer = 64 * 1024;
  uint32_t seed = 1;
  uint32_t delAck = 1;
  std::string rate = "1Gbps";
  Time delay = MicroSeconds(25);
  Time rtoMin = MilliSeconds(200);
  Time jitter = MicroSeconds(10);
  Time limit = Seconds(600);
  CommandLine cmd;
  cmd.AddValue("servers", "how many servers answer", servers);
  cmd.AddValue("blocks", "how many blocks", blocks);
  cmd.AddValue("sru", "bytes of each server's part of a block", sru);
  cmd.AddValue("buffer", "bytes of the port to the client", buffer);
  cmd.AddValue("seed", "run number", seed);
  cmd.AddValue("delAck", "packets that an ACK waits for, up to 200 ms", delAck);
  cmd.AddValue("rate", "of every link", rate);
  cmd.AddValue("delay", "of every link, one way", delay);
  cmd.AddValue("rtoMin", "least retransmission timeout", rtoMin);
  cmd.AddValue("jitter", "longest wait of a server before it answers", jitter);
  cmd.AddValue("limit", "of simulated time", limit);
  cmd.Parse(argc, argv);

  RngSeedManager::SetSeed(1);
  RngSeedManager::SetRun(seed);
  Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                     TypeIdValue(CountingNewReno::GetTypeId()));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(delAck));
  Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(200)));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
  // Six are the default, and 127 ms of doubled timeouts of a millisecond give a connection up.
  Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000));
  Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(rtoMin));
  Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));

  NodeContainer hosts;
  hosts.Create(servers + 1);
  Ptr<Node> sw = CreateObject<Node>();
  InternetStackHelper stack;
  stack.Install(hosts);
  stack.Install(sw);

  PointToPointHelper link;
  link.SetDeviceAttribute("DataRate", StringValue(rate));
  link.SetChannelAttribute("Delay", TimeValue(delay));
  link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
  Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
  std::vector<Address> to;
  for (uint32_t h = 0; h <= servers; ++h) {
    NetDeviceContainer ends = link.Install(hosts.Get(h), sw);
    if (h == 0) {
      auto queue = CreateObject<DropTailQueue<Packet>>();
      queue->SetMaxSize(QueueSize(QueueSizeUnit::BYTES, buffer));
      DynamicCast<PointToPointNetDevice>(ends.Get(1))->SetQueue(queue);
    }
    Ipv4InterfaceContainer interfaces = addresses.Assign(ends);
    addresses.NewNetwork();
    TrafficControlHelper().Uninstall(ends);
    if (h > 0) {
      to.push_back(InetSocketAddress(interfaces.GetAddress(0), kPort));
      Ptr<Server> server = CreateObject<Server>(sru, jitter);
      hosts.Get(h)->AddApplication(server);
      server->SetStartTime(Seconds(0));
    }
  }
  Ipv4GlobalRoutingHelper::PopulateRoutingTables();
  Ptr<Client> client = CreateObject<Client>(to, sru, blocks);
  hosts.Get(0)->AddApplication(client);
  client->SetStartTime(MilliSeconds(1));

  Simulator::Stop(limit);
  Simulator::Run();
  double seconds = (client->ended - client->began).GetSeconds();
  double mbps = client->done == blocks ? client->bytes * 8.0 / seconds / 1e6 : 0.0;
  std::printf("%.3f %llu %u %.9f\n", mbps, static_cast<unsigned long long>(g_timeouts),
              client->done, seconds);
  Simulator::Destroy();
  return 0;
}
