// Settings of operators apply to connections, can be read back, and are refused if they are not
// available.
#include "property.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/transport/verbs/device.hpp>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

context_options with(transport::verbs_options o) {
  context_options c;
  c.transports = {transport::kind::verbs};
  c.verbs = std::move(o);
  return c;
}

// Two Contexts on one reactor.
struct pair_of_hosts {
  pair_of_hosts(transport::verbs_options for_client, transport::verbs_options for_server)
      : client_context(with(std::move(for_client))),
        server_context(with(std::move(for_server))),
        client(client_context, loop),
        server(server_context, loop) {}
  reactor loop;
  Context client_context;
  Context server_context;
  Worker client;
  Worker server;
};

task<wire> join(pair_of_hosts* h, endpoint_options of_client, endpoint_options of_server) {
  Listener listener = h->server.listen(own_host() + ":0").value();
  connect_options to;
  to.endpoint = of_client;
  connect_options from;
  from.endpoint = of_server;
  const std::string where = own_host() + ":" + std::to_string(listener.bound().port);
  co_return co_await connect(h->client, listener, where, to, from);
}

void refuses(transport::verbs_options o, errc code, std::string_view saying) {
  const result<std::shared_ptr<transport::domain>> r = transport::make_verbs(o);
  REQUIRE_FALSE(r.ok());
  CHECK(r.code() == code);
  CAPTURE(r.why().message());
  CHECK(r.why().message().find(saying) != std::string::npos);
}

}  // namespace

namespace {

void check_settings(const wire& w) {
  for (const Endpoint* e : {&w.client, &w.server}) {
    CHECK(property_of(*e, "device") == "rxe0");
    CHECK(property_of(*e, "port") == "1");
    CHECK(property_of(*e, "gid_index") == "1");
    CHECK(property_of(*e, "path_mtu") == "512");
    CHECK(property_of(*e, "service_level") == "3");
    CHECK(property_of(*e, "traffic_class") == "96");
    CHECK(property_of(*e, "timeout") == "15");
    CHECK(property_of(*e, "retry_count") == "5");
    CHECK(property_of(*e, "rnr_timer") == "12");
    CHECK(property_of(*e, "relaxed_ordering") == "true");
    CHECK(property_of(*e, "pkey") == "0xffff");  // the full member that matches the limited one
    CHECK(e->actual().send_depth >= 300);
    CHECK(e->actual().recv_depth >= 200);
    CHECK(e->inline_limit() == 48);
  }
  CHECK(property_of(w.client, "pair") == property_of(w.server, "peer_pair"));
}

}  // namespace

TEST_CASE("I1: settings reach the queue pair and can be read back, whichever way it connects") {
  transport::verbs_options o;
  o.device = "rxe0:1";
  o.gid_index = 1;
  o.mtu = 512;
  o.pkey = 0x7fff;
  o.service_level = 3;
  o.traffic_class = 96;
  o.timeout = 15;
  o.retry_count = 5;
  o.rnr_timer = 12;
  o.send_depth = 300;
  o.recv_depth = 200;
  o.max_inline = 48;
  o.relaxed_ordering = true;
  pair_of_hosts h(o, o);
  check_settings(cordma::run(h.loop, join(&h, {}, {})));
  wire w = cordma::run(h.loop, connect_by_descriptors(h.client, h.server));
  check_settings(w);
  const std::array<std::byte, 49> bytes{};
  const send_operation fits = w.client.send_inline(std::span(bytes).first(48)).start();
  CHECK_FALSE(fits.done());
  send_operation beyond = w.client.send_inline(bytes).start();
  REQUIRE(beyond.done());
  CHECK(beyond.take_result().code() == errc::invalid_value);
}

namespace {

std::string own_v6_host() {
  const char* const named = std::getenv("RDMA_HOST_SELF_V6");
  REQUIRE(named != nullptr);
  return named;
}

int gid_index_of(const std::string& host) {
  const auto devices = transport::verbs::open_devices({}).value();
  for (const ibv_gid_entry& e : devices.front().gids) {
    if (transport::verbs::to_text(e.gid) == host) return static_cast<int>(e.gid_index);
  }
  FAIL("the device has the GID of each of its addresses");
  return -1;
}

// "[fe80::1%wire0]": the link-local address of the interface that RDMA_NETDEV names.
std::string own_link_local_host() {
  const auto devices = transport::verbs::open_devices({}).value();
  for (const ibv_gid_entry& e : devices.front().gids) {
    const std::string text = transport::verbs::to_text(e.gid);
    if (text.starts_with("fe80:")) return "[" + text + "%" + std::getenv("RDMA_NETDEV") + "]";
  }
  FAIL("every interface has a link-local address");
  return {};
}

task<> meet_on_the_link(pair_of_hosts* h) {
  const std::string host = own_link_local_host();
  Listener listener = h->server.listen(host + ":0").value();
  const std::string where = host + ":" + std::to_string(listener.bound().port);
  const wire w = co_await connect(h->client, listener, where);
  CHECK(w.client.peer_address() == where);
  CHECK(w.client.local_address().starts_with(host));
}

task<> meet_by_gid(pair_of_hosts* h, int demanded) {
  Listener listener = h->server.listen("[" + own_v6_host() + "]:0").value();
  const std::string where = "[" + own_v6_host() + "]:" + std::to_string(listener.bound().port);
  connect_operation connecting = h->client.connect(where).start();
  ConnectionRequest request = co_await listener.next();
  const result<Endpoint> server = co_await request.accept().result();
  const result<Endpoint> client = co_await connecting.result();
  if (demanded == gid_index_of(own_v6_host())) {
    REQUIRE(server.ok());
    CHECK(property_of(*server, "gid_index") == std::to_string(demanded));
    co_return;
  }
  REQUIRE_FALSE(server.ok());
  CHECK(server.code() == errc::unreachable);
  CAPTURE(server.why().message());
  CHECK(server.why().message().find("verbs.gid_index demands " + std::to_string(demanded)) !=
        std::string::npos);
  CHECK(client.code() == errc::rejected);
}

}  // namespace

TEST_CASE("I1: a connection leads through link-local addresses, with the GID demanded or any") {
  const std::string host = own_link_local_host();
  const int index = gid_index_of(host.substr(1, host.find('%') - 1));
  for (const int demanded : {-1, index}) {
    CAPTURE(demanded);
    transport::verbs_options o;
    o.gid_index = demanded;
    pair_of_hosts h(o, o);
    cordma::run(h.loop, meet_on_the_link(&h));
  }
}

TEST_CASE("I1: whoever accepts a client does so from the GID demanded, or turns it away") {
  const int right = gid_index_of(own_v6_host());
  const int wrong = gid_index_of(own_host());
  REQUIRE(right != wrong);
  for (const int demanded : {right, wrong}) {
    CAPTURE(demanded);
    transport::verbs_options o;
    o.gid_index = demanded;
    pair_of_hosts h({}, o);
    cordma::run(h.loop, meet_by_gid(&h, demanded));
  }
}

TEST_CASE("I1: whoever connects does so from the GID demanded, or not at all") {
  const std::string to = "[" + own_v6_host() + "]";
  for (const bool right : {true, false}) {
    CAPTURE(right);
    transport::verbs_options o;
    o.gid_index = gid_index_of(right ? own_v6_host() : own_host());
    pair_of_hosts h(o, {});
    cordma::run(h.loop, [](pair_of_hosts* on, std::string host, int demanded) -> task<> {
      Listener listener = on->server.listen(host + ":0").value();
      connect_operation connecting =
          on->client.connect(host + ":" + std::to_string(listener.bound().port)).start();
      if (demanded != gid_index_of(own_v6_host())) {
        const result<Endpoint> refused = co_await connecting.result();
        REQUIRE(refused.code() == errc::unreachable);
        CAPTURE(refused.why().message());
        CHECK(refused.why().message().find("verbs.gid_index") != std::string::npos);
        co_return;
      }
      ConnectionRequest request = co_await listener.next();
      Endpoint server = co_await request.accept();
      Endpoint client = co_await connecting;
      CHECK(property_of(client, "gid_index") == std::to_string(demanded));
    }(&h, to, o.gid_index));
  }
}

TEST_CASE("I1: path MTUs that differ are negotiated to the smaller one, and data passes") {
  transport::verbs_options small;
  small.mtu = 256;
  transport::verbs_options large;
  large.mtu = 2048;
  for (const bool client_is_small : {true, false}) {
    CAPTURE(client_is_small);
    pair_of_hosts h(client_is_small ? small : large, client_is_small ? large : small);
    wire w = cordma::run(h.loop, join(&h, {}, {}));
    CHECK(property_of(w.client, "path_mtu") == "256");
    CHECK(property_of(w.server, "path_mtu") == "256");
    MemoryRegion out = h.client_context.allocate(5000).value();
    MemoryRegion in = h.server_context.allocate(5000).value();
    fill(out.bytes(), 4);
    cordma::run(h.loop, [](wire* ends, Slice from, Slice to) -> task<> {
      recv_operation receiving = ends->server.recv(to).start();
      co_await ends->client.send(from);
      co_await receiving;
      recv_operation back = ends->client.recv(from).start();
      co_await ends->server.send(to);
      co_await back;
    }(&w, out.all(), in.all()));
    CHECK(filled(in.bytes(), 4));
  }
}

TEST_CASE("I1: read depths that differ are negotiated to the smaller one") {
  pair_of_hosts h({}, {});
  endpoint_options few;
  few.read_depth = 2;
  endpoint_options more;
  more.read_depth = 5;
  for (const bool client_has_few : {true, false}) {
    CAPTURE(client_has_few);
    const wire w =
        cordma::run(h.loop, join(&h, client_has_few ? few : more, client_has_few ? more : few));
    CHECK(w.client.actual().read_depth == 2);
    CHECK(w.server.actual().read_depth == 2);
  }
}

TEST_CASE(
    "I1: a GID, partition, port or device that is not there is not_found, and what is there is "
    "said") {
  transport::verbs_options o;
  o.gid_index = 200;
  refuses(o, errc::not_found, "it has 0 (");
  o = {};
  o.pkey = 0x1234;
  refuses(o, errc::not_found, "verbs.pkey 0x1234");
  // Keys of an empty entry of the table.
  o.pkey = 0;
  refuses(o, errc::not_found, "verbs.pkey 0x0000");
  o.pkey = 0x8000;
  refuses(o, errc::not_found, "verbs.pkey 0x8000");
  o = {};
  o.device = "mlx5_7";
  refuses(o, errc::not_found, "this machine has rxe0");
  o = {};
  o.device = "rxe0:7";
  refuses(o, errc::not_found, "\"rxe0:7\": the last port of rxe0 is 1");
  o = {};
  o.device = "rxe0:x";
  refuses(o, errc::invalid_value, "device:port");
  o.device = ":1";
  refuses(o, errc::invalid_value, "device:port");
  o = {};
  o.mtu = 1500;
  refuses(o, errc::invalid_value, "no RDMA MTU");
}

namespace {

// A file under /dev/infiniband that this process may not open during the lifetime of this object.
class closed_file {
 public:
  explicit closed_file(const std::string& name) : path_("/dev/infiniband/" + name) {
    REQUIRE(::chmod(path_.c_str(), 0600) == 0);
    REQUIRE(::seteuid(65534) == 0);
  }
  closed_file(const closed_file&) = delete;
  closed_file& operator=(const closed_file&) = delete;
  ~closed_file() { static_cast<void>(::seteuid(0) == 0 && ::chmod(path_.c_str(), 0666) == 0); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

std::string file_of_device() {
  const auto devices = transport::verbs::open_devices({}).value();
  return devices.front().context->device->dev_name;
}

}  // namespace

TEST_CASE(
    "I1, B2: where a file of the device's is closed, that is said, and its transport left out") {
  for (const std::string& name : {file_of_device(), std::string("rdma_cm")}) {
    CAPTURE(name);
    const closed_file here(name);
    refuses({}, errc::not_permitted, here.path());
    const Context without_asking;
    CHECK(without_asking.find(transport::kind::verbs) == nullptr);
    CHECK(without_asking.find(transport::kind::tcp) != nullptr);
    reactor loop;
    Context left = without_asking;
    const Worker goes_on(left, loop);
  }
}

TEST_CASE("B4: a device that is closed to the user is listed with the reason") {
  const closed_file here(file_of_device());
  const std::vector<device_attributes> all = query_devices().value();
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "rxe0");
  CHECK(all[0].ports.empty());
  REQUIRE(all[0].failed);
  CHECK(all[0].failed->code() == errc::not_permitted);
  CHECK(all[0].failed->message().find("is closed to this user") != std::string::npos);
}

TEST_CASE("C1: memory that the device refuses is not_permitted where its mapping is the reason") {
  Context context(with({}));
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const at =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(at != MAP_FAILED);
  const std::span<std::byte> all(static_cast<std::byte*>(at), 2 * page);
  REQUIRE(::mprotect(at, page, PROT_READ) == 0);
  const result<MemoryRegion> read_only = context.register_memory(all, access::local_write);
  CHECK(read_only.code() == errc::not_permitted);
  CHECK(read_only.why().message().find("at offset 0 it may not be written") != std::string::npos);
  for (const cordma::access implied : {access::remote_write, access::remote_atomic}) {
    const result<MemoryRegion> refused = context.register_memory(all, implied);
    CHECK(refused.code() == errc::not_permitted);
    CHECK(refused.why().message().find("at offset 0 it may not be written") != std::string::npos);
  }
  CHECK(context.register_memory(all.subspan(page), access::local_write).ok());
  REQUIRE(::munmap(at, 2 * page) == 0);
  CHECK(context.register_memory(all, access::local_write).code() == errc::not_permitted);
  CHECK(context.register_memory({}, access::local_write).code() == errc::invalid_value);
}

TEST_CASE("C1: a file that is mapped shared and read-only is refused where the kernel does so") {
  Context context;
  const unique_fd file(::open("/etc/passwd", O_RDONLY | O_CLOEXEC));
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const at = ::mmap(nullptr, page, PROT_READ, MAP_SHARED, file.get(), 0);
  REQUIRE(at != MAP_FAILED);
  const std::span<std::byte> all(static_cast<std::byte*>(at), page);
  const result<MemoryRegion> shared = context.register_memory(all, access::local_read);
  if (!shared) {
    CHECK(shared.code() == errc::not_permitted);
    CHECK(shared.why().message().find("mapped shared and read-only") != std::string::npos);
  }
  context_options without;
  without.transports = {transport::kind::shm, transport::kind::tcp};
  CHECK(Context(without).register_memory(all, access::local_read).ok());
  REQUIRE(::munmap(at, page) == 0);
}
