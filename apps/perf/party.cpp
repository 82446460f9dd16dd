#include "party.hpp"

#include "tests.hpp"

#include <cordma/runtime/scope.hpp>

#include <algorithm>

namespace perf {

using cordma::task;

namespace {

// Reads and atomics have separate, shorter queues.
std::uint32_t read_depth(const cordma::Context& context, std::uint32_t depth) {
  for (const cordma::transport::capabilities& c : context.transports()) {
    depth = std::min(depth, c.max_read_depth);
  }
  return depth;
}

}  // namespace

greeting greeting_for(const cordma::Context& context, const plan& p) {
  greeting g;
  g.inline_bytes = p.inline_bytes;
  g.depth = p.depth;
  if (p.depth != as_usual) return g;
  g.depth = std::max(cordma::endpoint_options().send_depth, p.window());
  for (const cordma::transport::capabilities& c : context.transports()) {
    g.depth = std::min({g.depth, c.max_send_depth, c.max_recv_depth});
  }
  return g;
}

cordma::endpoint_options options_for(const cordma::Context& context, const greeting& g) {
  cordma::endpoint_options o;
  if (g.depth != 0) {
    o.send_depth = g.depth;
    o.recv_depth = g.depth;
    o.read_depth = std::max(o.read_depth, read_depth(context, g.depth));
  }
  if (g.inline_bytes != as_usual) o.inline_bytes = g.inline_bytes;
  return o;
}

party::party(cordma::Context& context, cordma::Worker& worker, cordma::Endpoint& control,
             const plan& p)
    : what(p), context_(context), worker_(worker), control_(control) {
  const std::size_t bytes = lane::bytes(p);
  region_ = context.allocate(bytes * p.flows, cordma::transport::all_remote).value();
  for (std::uint32_t i = 0; i < p.flows; ++i) {
    lanes.push_back(std::make_unique<lane>(p, i));
    lane& l = *lanes.back();
    l.use(region_.all().part(i * bytes, bytes));
    l.random.seed(p.seed + i);
    if (p.facts().by_messages()) {
      l.messages = std::make_unique<cordma::Messages>(worker);
      if (p.size <= short_everywhere && !l.thinks()) {
        l.messages->on(the_handler, [&l](const cordma::ShortMessage& m) { handle_short(&l, m); });
      } else {
        l.messages->on(the_handler,
                       [&l](cordma::ActiveMessage m) { return handle(&l, std::move(m)); });
      }
      l.handler.answers = p.facts().latency();
    }
  }
  if (first_own() != 0) lanes.front()->use(control);
}

void party::attach(std::span<const std::byte> blob) {
  const cordma::RemoteMemory memory = cordma::RemoteMemory::import(blob).value();
  const std::size_t bytes = lane::bytes(what);
  for (std::uint32_t i = 0; i < what.flows; ++i) {
    lanes[i]->attach(memory.slice(i * bytes, bytes).value());
  }
}

std::uint32_t party::first_own() const noexcept {
  return what.facts().by_messages() || what.facts().by_stream() ? 0 : 1;
}

cordma::connect_options party::options(lane& l) {
  cordma::connect_options o;
  o.endpoint = options_for(context_, greeting_for(context_, what));
  o.transport = control_.transport();
  o.messages = l.messages.get();
  return o;
}

task<void> party::use(std::uint32_t flow, cordma::Endpoint made) {
  lane& l = *lanes[flow];
  if (what.facts().by_stream()) {
    cordma::stream_options how;
    how.notices = std::min(how.notices, made.actual().recv_depth);
    cordma::Stream stream = co_await cordma::Stream::open(context_, std::move(made), how);
    l.use(std::move(stream));
  } else {
    l.use(std::move(made));
  }
}

std::uint16_t party::listen() {
  if (first_own() == what.flows) return 0;
  cordma::listen_options where;
  where.transport = control_.transport();
  const std::string at = context_.own_host(control_.transport()) + ":0";
  listener_ = worker_.listen(at, where).value();
  return listener_.bound().port;
}

task<void> party::accept() {
  for (std::uint32_t missing = what.flows - first_own(); missing != 0; --missing) {
    cordma::ConnectionRequest request = co_await listener_.next();
    const greeting asked = decode_greeting(request.private_data());
    if (asked.flow < first_own() || asked.flow >= what.flows) {
      cordma::throw_error({cordma::errc::invalid_value, "a connection for no flow of the plan"});
    }
    const cordma::connect_options how = options(*lanes[asked.flow]);
    cordma::Endpoint made = co_await request.accept(how);
    co_await use(asked.flow, std::move(made));
  }
}

task<void> party::connect(std::string server, std::uint16_t port) {
  if (first_own() == what.flows) co_return;
  cordma::transport::address to = cordma::parse_address(server).value();
  to.port = port;
  const std::string text = to.text();
  for (std::uint32_t i = first_own(); i < what.flows; ++i) {
    cordma::connect_options how = options(*lanes[i]);
    greeting mine = greeting_for(context_, what);
    mine.flow = i;
    const auto hello = encode(mine);
    how.private_data = hello;
    cordma::Endpoint made = co_await worker_.connect(text, how);
    co_await use(i, std::move(made));
  }
}

task<void> party::run(part each, std::uint64_t count) {
  if (lanes.size() == 1) {
    co_await each(*lanes.front(), count);
    co_return;
  }
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  for (const std::unique_ptr<lane>& l : lanes) all.spawn(each(*l, count));
  co_await all.join();
}

void party::abort() noexcept {
  control_.abort();
  for (const std::unique_ptr<lane>& l : lanes) l->connection().abort();
}

std::uint64_t party::wrong() const noexcept {
  std::uint64_t sum = 0;
  for (const std::unique_ptr<lane>& l : lanes) sum += l->wrong;
  return sum;
}

}  // namespace perf
