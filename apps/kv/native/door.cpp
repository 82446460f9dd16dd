#include "door.hpp"

#include "carriage.hpp"
#include "execute.hpp"
#include "scan.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <openssl/crypto.h>

namespace kv::native {
namespace {

using cordma::task;

constexpr cordma::request_options request_settings{.window = window, .inline_max = inline_bytes};

// Bytes of keys: suffices even if one bucket has many of the longest.
constexpr std::size_t longest_page = std::size_t{16} << 20;

bool is_token(std::string_view given, std::string_view wanted) noexcept {
  return given.size() == wanted.size() &&
         ::CRYPTO_memcmp(given.data(), wanted.data(), wanted.size()) == 0;
}

}  // namespace

// A client and the memory it may hold. Lives until its last request has ended.
struct door::visitor : std::enable_shared_from_this<visitor> {
  visitor(door& of, std::shared_ptr<const void> seat)
      : place(std::move(seat)),
        requests(of.requests_in_.new_share()),
        responses(of.responses_.new_share()) {}
  std::shared_ptr<const void> place;
  bool admitted = false;
  lending::share requests;
  lending::share responses;
};

// Disconnects a client that is not admitted in time.
struct door::patience final : cordma::timer {
  patience(door& of, const visitor& whom, cordma::Endpoint& by)
      : timer([](timer& t) noexcept { static_cast<patience&>(t).end(); }),
        counters(of.counters_),
        who(whom),
        endpoint(by) {
    const cordma::duration most = of.options_.patience ? of.options_.patience() : usual_patience;
    of.loop_.add(*this, of.loop_.now() + most);
  }
  void end() noexcept {
    if (who.admitted) return;
    counters.timed_out.add();
    endpoint.abort();
  }
  door_counters& counters;
  const visitor& who;
  cordma::Endpoint& endpoint;
};

door::door(cordma::Context& context, cordma::Worker& worker, keyspace& keys, door_options options,
           door_hooks hooks)
    : loop_(worker.loop()),
      keys_(keys),
      options_(std::move(options)),
      hooks_(std::move(hooks)),
      longer_(context, cordma::access::local_write, most_kept_bytes),
      requests_in_(context, longer_, counters_.lent),
      responses_(context, longer_, counters_.lent),
      messages_(worker, message_settings),
      requests_(messages_, request_settings) {
  const auto serve_by = [this](method m, task<void> (door::*how)(cordma::Request)) {
    requests_.serve(static_cast<std::uint16_t>(m),
                    [this, how](cordma::Request r) { return (this->*how)(std::move(r)); });
  };
  serve_by(method::hello, &door::hello);
  serve_by(method::map, &door::map);
  serve_by(method::batch, &door::batch);
  serve_by(method::info, &door::info);
  serve_by(method::scan, &door::scan);
}

door::~door() = default;

task<void> door::serve(cordma::ConnectionRequest request, std::shared_ptr<const void> place) {
  const auto who = std::make_shared<visitor>(*this, std::move(place));
  cordma::connect_options options;
  options.messages = &messages_;
  cordma::Endpoint client = co_await request.accept(options);
  client.set_user_data(who.get());
  counters_.opened.add();
  const patience until_admitted(*this, *who, client);
  while (client.state() != cordma::endpoint_state::closed) co_await client.state_changed();
  counters_.closed.add();
  if (who->admitted && options_.one_sided) keys_.reader_left();
}

std::shared_ptr<door::visitor> door::from(const cordma::Request& request) noexcept {
  const cordma::Endpoint* const by = request.from();
  visitor* const v = by == nullptr ? nullptr : by->user_data<visitor>();
  return v == nullptr ? nullptr : v->weak_from_this().lock();
}

std::shared_ptr<door::visitor> door::admitted(const cordma::Request& request) noexcept {
  std::shared_ptr<visitor> v = from(request);
  return v && v->admitted ? v : nullptr;
}

task<void> door::hello(cordma::Request request) {
  const std::optional<kv::native::hello> said = take_hello(request.data());
  const std::shared_ptr<visitor> who = from(request);
  if (!who || !said) co_return;  // rejected, without a response
  const hello_response answer = greet(*said, *who);
  const lending::loan buffer = co_await room(who.get(), sizeof answer);
  writer to(buffer.all().bytes());
  to.put(answer);
  const cordma::Slice response = buffer.all().first(to.written());
  co_await request.respond(response);
}

hello_response door::greet(const kv::native::hello& said, visitor& who) {
  hello_response answer{.version = protocol_version};
  if (said.head.version != protocol_version) return answer;
  const bool welcome = options_.admits
                           ? options_.admits(said.token)
                           : options_.token.empty() || is_token(said.token, options_.token);
  if (!welcome) {
    counters_.refused.add();
    return answer;
  }
  if (!std::exchange(who.admitted, true) && options_.one_sided) keys_.reader_came();
  answer.admitted = 1;
  answer.one_sided = options_.one_sided ? 1 : 0;
  answer.shards = keys_.shards();
  answer.hash_seed = keys_.hash_seed();
  return answer;
}

// Lends memory for a response.
task<lending::loan> door::room(visitor* who, std::size_t bytes) {
  return responses_.lend(&who->responses, bytes);
}

task<void> door::map(cordma::Request request) {
  const std::shared_ptr<visitor> who = admitted(request);
  std::span<const std::byte> said = request.data();
  const std::optional<map_request> m = take<map_request>(said);
  if (!who || !options_.one_sided || !m || m->shard >= keys_.shards()) co_return;
  const lending::loan buffer = co_await room(who.get(), buffer_bytes);
  const std::span<std::byte> into = buffer.all().bytes();
  const std::size_t bytes =
      write_map(*m, into.first(std::min<std::size_t>(into.size(), request.room())));
  const cordma::Slice response = buffer.all().first(bytes);
  co_await request.respond(response);
}

std::size_t door::write_map(const map_request& m, std::span<std::byte> into) {
  std::vector<cordma::MemoryRegion> regions;
  {
    const keyspace::hold held(keys_, std::uint64_t{1} << m.shard);
    // Shards of a server with a native door use this memory: see the class.
    regions = dynamic_cast<shared_memory&>(keys_.memory(m.shard)).regions();
  }
  if (into.size() < sizeof(map_response)) return 0;
  const std::size_t room = (into.size() - sizeof(map_response)) / blob_bytes;
  const std::size_t first = std::min<std::size_t>(m.first, regions.size());
  const std::size_t given = std::min(room, regions.size() - first);
  writer to(into);
  to.put(map_response{.regions = static_cast<std::uint32_t>(regions.size()),
                      .given = static_cast<std::uint32_t>(given)});
  for (std::size_t i = 0; i < given; ++i) {
    const std::vector<std::byte> blob = regions[first + i].export_blob().value();
    std::array<std::byte, blob_bytes> bytes;
    std::ranges::copy(blob, bytes.begin());
    to.put(bytes);
  }
  return to.written();
}

task<void> door::batch(cordma::Request request) {
  const std::shared_ptr<visitor> who = admitted(request);
  if (!who) co_return;
  counters_.batches.add();
  if (request.data().size() == request.size()) {
    co_await respond(who.get(), &request, request.data());
    co_return;
  }
  if (request.size() > longest_batch) co_return;
  const lending::loan said = co_await requests_in_.lend(&who->requests, request.size());
  const cordma::Slice into = said.all().first(request.size());
  co_await request.read(into);
  co_await respond(who.get(), &request, into.bytes());
}

// Responds once the data of the response is on disk, if that is required.
task<void> door::respond(visitor* who, cordma::Request* request, std::span<const std::byte> batch) {
  if (is_full() && changes_anything(batch)) co_await hooks_.until_room();
  const std::size_t needed = request->room() > buffer_bytes ? long_answer(batch) : buffer_bytes;
  const std::size_t bytes = std::min<std::size_t>(std::max(needed, buffer_bytes), request->room());
  lending::loan to = responses_.lend_now(bytes);
  if (!to) {
    lending::loan waited_for = co_await room(who, bytes);
    to = std::move(waited_for);
  }
  // It may be full by now. There is no wait between this check and the batch.
  while (is_full() && changes_anything(batch)) co_await hooks_.until_room();
  const unix_ms when = now();
  const writes allowed =
      !hooks_.may_write || hooks_.may_write() ? writes::allowed : writes::refused;
  const expired_items expired =
      hooks_.is_still && hooks_.is_still() ? expired_items::kept : expired_items::erased;
  const executed done = execute(keys_, batch, to.all().bytes().first(bytes),
                                {.now = when, .allowed = allowed, .expired = expired});
  counters_.operations.add(done.operations);
  // Refusals alone report no data that could be lost.
  if (hooks_.until_safe && done.refused < done.operations) co_await hooks_.until_safe();
  const cordma::Slice response = to.all().first(done.bytes);
  co_await request->respond(response);
}

task<void> door::info(cordma::Request request) {
  const std::shared_ptr<visitor> who = admitted(request);
  const std::optional<info_question> what = take_info(request.data());
  if (!who || !what || request.room() < sizeof(info_response)) co_return;
  const std::string text = hooks_.information ? hooks_.information(what->section) : std::string();
  const std::size_t bytes =
      std::min<std::size_t>(sizeof(info_response) + text.size(), request.room());
  const lending::loan buffer = co_await room(who.get(), bytes);
  writer to(buffer.all().bytes());
  to.put(info_response{.bytes = static_cast<std::uint32_t>(text.size())},
         std::string_view(text).substr(0, bytes - sizeof(info_response)));
  const cordma::Slice response = buffer.all().first(to.written());
  co_await request.respond(response);
}

task<void> door::scan(cordma::Request request) {
  const std::shared_ptr<visitor> who = admitted(request);
  const std::optional<scan_question> what = take_scan(request.data());
  if (!who || !what || request.room() < sizeof(scan_response)) co_return;
  const std::size_t bytes = std::min<std::size_t>(request.room(), longest_page);
  const lending::loan buffer = co_await room(who.get(), bytes);
  const std::size_t written =
      kv::native::scan(keys_, *what, buffer.all().bytes().first(bytes), now());
  if (hooks_.until_safe) co_await hooks_.until_safe();
  const cordma::Slice response = buffer.all().first(written);
  co_await request.respond(response);
}

// Returns the bytes of the response, with the values of all gets.
std::size_t door::long_answer(std::span<const std::byte> batch) noexcept {
  std::size_t bytes = 0;
  for (std::uint32_t n = 0; n < most_operations && !batch.empty(); ++n) {
    const std::optional<operation> next = take_operation(batch);
    if (!next) break;
    bytes += sizeof(result_head);
    if (next->head.what != op::get) continue;
    const hashed_key k = keys_.key(next->key);
    const keyspace::hold held(keys_, keys_.mask_of(k));
    const found f = keys_.of(k).peek(k);
    if (f && f.is_string()) bytes += f.value.size();
  }
  return bytes;
}

}  // namespace kv::native
